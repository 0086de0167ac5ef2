// SPDX-License-Identifier: Apache-2.0
#include "results/json_text.hpp"

#include <nlohmann/json.hpp>

namespace ovl {
namespace {

// Looked at before parsing, which keeps a place for every level. Of a text that is no JSON the answer does not matter.
bool deeper_than(std::string_view text, int most) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  constexpr int deepest = 32;  // run.json has 6 levels
  if (deeper_than(text, deepest)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace ovl
