// SPDX-License-Identifier: Apache-2.0
//
// JSON of a file that somebody else may have written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace ovl {

// Discarded (is_discarded()) where the text is no JSON, or is nested deeper than anything of ours: what walks such a
// document, or takes it apart, would run out of stack.
nlohmann::json parse_json(std::string_view text);

}  // namespace ovl
