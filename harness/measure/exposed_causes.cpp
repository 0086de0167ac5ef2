// SPDX-License-Identifier: Apache-2.0
#include "measure/exposed_causes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace ovl {
namespace {

// What rounding may leave of sums of so many times, as a part of the step.
constexpr double rounding_of_sums = 1e-9;

std::string named_operation(const Program& program, Rank rank, OpId op) {
  if (!op.valid()) return {};
  const std::vector<Operation>& body = program.class_of(rank).body;
  const auto found = std::find_if(body.begin(), body.end(), [&](const Operation& o) { return o.id == op; });
  if (found == body.end()) return {};
  return fmt::format("{}@{}", kind_name(found->work), program.lanes.at(found->lane.index()).name);
}

}  // namespace

std::optional<std::vector<ExposedLine>> exposed_lines(const Program& program, const ExposedTime& exposed,
                                                      Seconds t_exposed, Seconds t_step, double repeats) {
  std::map<std::pair<Rank, OpId>, std::string> names;
  const auto name_of = [&](Rank rank, OpId op) -> const std::string& {
    const auto [found, fresh] = names.try_emplace({rank, op});
    if (fresh) found->second = named_operation(program, rank, op);
    return found->second;
  };
  std::map<std::tuple<std::string, ExposedCause, std::string>, double> sums;
  double sum = 0;
  for (const ExposedPart& part : exposed.parts) {
    const double time = part.time.value() / repeats;
    sums[{name_of(part.rank, part.op), part.cause, name_of(part.rank, part.beside)}] += time;
    sum += time;
  }
  std::vector<ExposedLine> lines;
  for (const auto& [key, time] : sums) {
    lines.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), Seconds(time)});
  }
  const double rest = t_exposed.value() - sum;
  if (!(std::fabs(rest) <= rounding_of_sums * t_step.value())) {
    const auto launch = std::find_if(lines.begin(), lines.end(),
                                     [](const ExposedLine& line) { return line.cause == ExposedCause::launch; });
    if (launch == lines.end() || std::isnan(rest)) return std::nullopt;
    lines.push_back({"compute alone", ExposedCause::launch, "", Seconds(rest)});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  return lines;
}

std::string text_of(const std::vector<ExposedLine>& lines) {
  std::string text;
  for (const ExposedLine& line : lines) {
    text += fmt::format("{}{}:{}{}={}", text.empty() ? "" : ";", line.operation, name(line.cause),
                        line.beside.empty() ? "" : "(" + line.beside + ")", line.time.value());
  }
  return text;
}

std::vector<std::pair<std::string, Value>> exposed_cause_values(const std::vector<ExposedLine>& lines) {
  std::vector<std::pair<std::string, Value>> values;
  for (const auto& [cause, text] : EnumNames<ExposedCause>::table) {
    double sum = 0;
    for (const ExposedLine& line : lines) sum += line.cause == cause ? line.time.value() : 0;
    values.emplace_back("exposed_" + std::string(text), sum);
  }
  values.emplace_back("exposed_by", text_of(lines));
  return values;
}

}  // namespace ovl
