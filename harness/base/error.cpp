// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <algorithm>
#include <numeric>

namespace ovl {
namespace {

std::string sentence(std::string_view problem, std::string_view why, std::string_view instead) {
  std::string text(problem);
  if (!why.empty()) text.append(": ").append(why);
  if (!instead.empty()) text.append("; ").append(instead);
  return text;
}

// Levenshtein distance, two rows.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row.back();
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

}  // namespace

Error usage_error(std::string_view problem, std::string_view why, std::string_view instead) {
  return {ErrorKind::usage, sentence(problem, why, instead)};
}
Error impossible_error(std::string_view problem, std::string_view why, std::string_view instead) {
  return {ErrorKind::impossible, sentence(problem, why, instead)};
}
Error failure(std::string_view problem, std::string_view why, std::string_view instead) {
  return {ErrorKind::failure, sentence(problem, why, instead)};
}

void require(bool condition, std::string_view invariant) {
  if (!condition) throw std::logic_error("broken invariant: " + std::string(invariant));
}

std::vector<std::string> nearest(std::string_view text, const std::vector<std::string>& known, std::size_t most) {
  std::vector<std::string> order = known;
  std::stable_sort(order.begin(), order.end(),
                   [&](const std::string& a, const std::string& b) { return distance(text, a) < distance(text, b); });
  if (order.size() > most) order.resize(most);
  return order;
}

Error unknown_value(std::string_view axis, std::string_view text, const std::vector<std::string>& known) {
  const std::string problem = std::string(axis) + " \"" + std::string(text) + "\" is unknown";
  constexpr std::size_t few = 16;
  if (known.size() <= few) {
    const auto close = nearest(text, known, 1);
    return usage_error(problem, "known are " + listed(known), close.empty() ? "" : "did you mean " + close[0] + "?");
  }
  return usage_error(problem, "", "did you mean " + listed(nearest(text, known)) + "?");
}

}  // namespace ovl
