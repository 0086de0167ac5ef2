// SPDX-License-Identifier: Apache-2.0
#include "backend/world.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string_view>
#include <utility>

#include "backend/wire.hpp"
#include "base/error.hpp"
#include "base/random.hpp"

namespace ovl {
namespace {

class SoloWorld final : public World {
 public:
  [[nodiscard]] int process() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void barrier() override {}
  std::string broadcast(const std::string& text, int /*from*/) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  double minimum(double value) override { return value; }
  double maximum(double value) override { return value; }
  void abort(const std::string& /*reason*/) noexcept override {}
};

// The first field in which two lines of "field=value" words differ; empty: they are no such lines, or have other
// fields.
std::string differing_field(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view wa = a.substr(0, a.find(' '));
    const std::string_view wb = b.substr(0, b.find(' '));
    const std::size_t equals = wa.find('=');
    if (wa != wb) {
      const bool same_field =
          equals != std::string_view::npos && equals == wb.find('=') && wa.substr(0, equals) == wb.substr(0, equals);
      return same_field ? std::string(wa.substr(0, equals)) : "";
    }
    a.remove_prefix(std::min(a.size(), wa.size() + 1));
    b.remove_prefix(std::min(b.size(), wb.size() + 1));
  }
  return {};
}

bool has_line(std::string_view text, std::string_view line) {
  while (!text.empty()) {
    const std::string_view first = text.substr(0, text.find('\n'));
    if (first == line) return true;
    text.remove_prefix(std::min(text.size(), first.size() + 1));
  }
  return false;
}

// The first line in which the texts of process 0 and process `other` differ. One that the other text lacks is told
// alone: what stands in its place there has nothing to do with it.
std::string first_difference(std::string_view a, std::string_view b, std::size_t other) {
  for (std::size_t line = 1;; ++line) {
    const std::string_view la = a.substr(0, a.find('\n'));
    const std::string_view lb = b.substr(0, b.find('\n'));
    if (la == lb && !a.empty() && !b.empty()) {
      a.remove_prefix(std::min(a.size(), la.size() + 1));
      b.remove_prefix(std::min(b.size(), lb.size() + 1));
      continue;
    }
    const std::string field = differing_field(la, lb);
    const std::string at = "line " + std::to_string(line) + (field.empty() ? "" : ", " + field) + ": ";
    const auto only = [&](const std::string& process, std::string_view text) {
      return at + "\"" + std::string(text) + "\", which only process " + process + " has";
    };
    if (!a.empty() && (b.empty() || has_line(a, lb))) return only("0", la);
    if (!b.empty() && (a.empty() || has_line(b, la))) return only(std::to_string(other), lb);
    return at + "\"" + std::string(la) + "\" and \"" + std::string(lb) + "\"";
  }
}

// How a body ended on one process, for the others.
struct Outcome {
  ErrorKind kind = ErrorKind::failure;
  std::string text;  // empty: well

  [[nodiscard]] bool good() const { return text.empty(); }
  [[nodiscard]] int weight() const {
    switch (kind) {
      case ErrorKind::interrupted: return 0;
      case ErrorKind::failure: return 1;
      case ErrorKind::impossible: return 2;
      case ErrorKind::usage: return 3;
    }
    return 1;
  }
  [[nodiscard]] std::string packed() const {
    if (good()) return {};
    WireWriter writer;
    writer.put(static_cast<int>(kind));
    writer.put(text);
    return std::move(writer).take();
  }
  static Outcome unpacked(const std::string& packed) {
    if (packed.empty()) return {};
    WireReader reader(packed);
    const auto kind = static_cast<ErrorKind>(reader.integer());
    return {kind, reader.text()};
  }
};

// What is no Error is a defect; its owner tells of it like of a failure.
Outcome outcome_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  } catch (const std::exception& error) {
    return {ErrorKind::failure, std::string(error.what()) + "; this is a defect of overlapbench, please report it"};
  }
}

}  // namespace

std::unique_ptr<World> make_solo_world() { return std::make_unique<SoloWorld>(); }

std::vector<std::string> all_gather(World& world, const std::string& text) {
  if (world.size() == 1) return {text};
  WireWriter writer;
  writer.put_all(world.gather(text), [](WireWriter& w, const std::string& each) { w.put(each); });
  const std::string all = world.broadcast(std::move(writer).take());
  WireReader reader(all);
  return reader.all([](WireReader& r) { return r.text(); });
}

namespace {

// What else failed: one process's error is often the consequence of another's, and which is the cause, none can know.
std::string others_text(const std::vector<std::pair<std::size_t, Outcome>>& failed, std::size_t told) {
  constexpr std::size_t most = 3;
  std::string text;
  std::size_t listed = 0;
  for (const auto& [process, outcome] : failed) {
    if (process == told) continue;
    if (++listed > most) continue;
    text += "; process " + std::to_string(process) + ": " + outcome.text;
  }
  if (listed > most) text += " (and " + std::to_string(listed - most) + " more)";
  return text;
}

}  // namespace

void together(World& world, const std::function<void()>& body) {
  if (world.size() == 1) return body();
  const Outcome mine = outcome_of(body);
  std::vector<std::pair<std::size_t, Outcome>> failed;  // with the process
  const std::vector<std::string> all = all_gather(world, mine.packed());
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (Outcome outcome = Outcome::unpacked(all[p]); !outcome.good()) failed.emplace_back(p, std::move(outcome));
  }
  if (failed.empty()) return;
  // What broke counts more than what is not possible, and that more than what was asked wrongly.
  const auto& [process, worst] = *std::min_element(
      failed.begin(), failed.end(), [](const auto& a, const auto& b) { return a.second.weight() < b.second.weight(); });
  const bool everywhere = failed.size() == all.size() && std::all_of(failed.begin(), failed.end(), [&](const auto& f) {
                            return f.second.text == failed.front().second.text;
                          });
  std::string text = everywhere ? worst.text : "process " + std::to_string(process) + ": " + worst.text;
  if (!everywhere) text += others_text(failed, process);
  throw SharedError(worst.kind, text);
}

void decided(World& world, const std::function<void()>& body) {
  if (world.size() == 1) return body();
  const Outcome outcome = Outcome::unpacked(world.broadcast(world.decides() ? outcome_of(body).packed() : ""));
  if (!outcome.good()) throw SharedError(outcome.kind, outcome.text);
}

void require_equal(World& world, const std::string& what, const std::string& text, ErrorKind kind) {
  const std::vector<std::string> prints = world.gather(std::to_string(hash64(text)));
  const bool equal = std::all_of(prints.begin(), prints.end(), [&](const auto& p) { return p == prints.front(); });
  if (world.broadcast(equal ? "equal" : "") == "equal") return;

  std::string verdict;
  const std::vector<std::string> all = world.gather(text);
  for (std::size_t p = 1; p < all.size() && verdict.empty(); ++p) {
    if (all[p] != all[0]) {
      verdict = what + " differs between process 0 and process " + std::to_string(p) + ": " +
                first_difference(all[0], all[p], p);
    }
  }
  verdict = world.broadcast(verdict);
  throw SharedError(kind, usage_error(verdict, "every process must build the same plan",
                                      "start all with the same options and environment")
                              .what());
}

}  // namespace ovl
