// SPDX-License-Identifier: Apache-2.0
//
// What a configuration file may hold: lines of key = value, where a value is a text in quotes, a number, true or false,
// or a list of these. That is a part of TOML; the parser that reads it afterwards takes almost anything.
#pragma once

#include <functional>
#include <string>

namespace ovl {

// Throws Error(usage) with the file, the line and the key for a line that is none of these, a text or a list that is
// not closed, a key that stands twice, and a list where `takes_list` says that the option takes one value. Sections are
// left to the parser, which tells of them.
void require_toml(const std::string& file, const std::string& text,
                  const std::function<bool(const std::string& key)>& takes_list);

}  // namespace ovl
