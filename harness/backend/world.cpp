// SPDX-License-Identifier: Apache-2.0
#include "backend/world.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/error.hpp"

namespace ovl {
namespace {

class SoloWorld final : public World {
 public:
  [[nodiscard]] int process() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void barrier() override {}
  std::string broadcast(const std::string& text) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  double minimum(double value) override { return value; }
  double maximum(double value) override { return value; }
  void abort(const std::string& /*reason*/) noexcept override {}
};

// The first line in which two texts differ, as "line N: <a> | <b>".
std::string first_difference(std::string_view a, std::string_view b) {
  for (std::size_t line = 1;; ++line) {
    const std::string_view la = a.substr(0, a.find('\n'));
    const std::string_view lb = b.substr(0, b.find('\n'));
    if (la != lb || a.empty() || b.empty()) {
      return "line " + std::to_string(line) + ": \"" + std::string(la) + "\" and \"" + std::string(lb) + "\"";
    }
    a.remove_prefix(std::min(a.size(), la.size() + 1));
    b.remove_prefix(std::min(b.size(), lb.size() + 1));
  }
}

}  // namespace

std::unique_ptr<World> make_solo_world() { return std::make_unique<SoloWorld>(); }

void require_equal(World& world, const std::string& what, const std::string& text) {
  std::string verdict;
  const std::vector<std::string> all = world.gather(text);
  for (std::size_t p = 1; p < all.size() && verdict.empty(); ++p) {
    if (all[p] != all[0]) {
      verdict = what + " differs between process 0 and process " + std::to_string(p) + ": " +
                first_difference(all[0], all[p]);
    }
  }
  verdict = world.broadcast(verdict);
  if (!verdict.empty()) {
    throw failure(verdict, "every process must build the same plan", "start all with the same options and environment");
  }
}

}  // namespace ovl
