// SPDX-License-Identifier: Apache-2.0
#include "app/config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <string_view>

#include "base/error.hpp"

namespace ovl {
namespace {

class Toml {
 public:
  Toml(const std::string& file, std::string_view text, const std::function<bool(const std::string&)>& takes_list)
      : file_(file), rest_(text), takes_list_(takes_list) {}

  void check() {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (rest_.starts_with(byte_order_mark)) rest_.remove_prefix(byte_order_mark.size());
    for (skip(true); !rest_.empty(); skip(true)) {
      if (rest_.front() == '[') {
        skip_line();
        continue;
      }
      entry();
    }
  }

 private:
  [[noreturn]] void refuse(std::size_t line, const std::string& what, const std::string& why,
                           const std::string& instead) const {
    throw usage_error(fmt::format("the configuration file {} {}", file_, what),
                      why.empty() ? fmt::format("in line {}", line) : fmt::format("in line {} {}", line, why), instead);
  }

  void take() {
    if (rest_.front() == '\n') ++line_;
    rest_.remove_prefix(1);
  }
  void skip_line() {
    while (!rest_.empty() && rest_.front() != '\n') take();
  }
  // Blanks and remarks; `lines`: and ends of lines.
  void skip(bool lines) {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '#') {
        skip_line();
      } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
        take();
      } else {
        return;
      }
    }
  }

  void entry() {
    const std::size_t line = line_;
    const auto in_key = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
    std::string key;
    while (!rest_.empty() && in_key(static_cast<unsigned char>(rest_.front()))) {
      key += rest_.front();
      take();
    }
    skip(false);
    if (key.empty() || rest_.empty() || rest_.front() != '=') {
      refuse(line, "is not TOML", "there is no key = value", "write for example ranks = 2");
    }
    take();
    skip(false);
    if (const auto [at, is_new] = lines_.try_emplace(key, line); !is_new) {
      refuse(line, "has the key " + key + " twice", fmt::format("and in line {}", at->second), "keep one of them");
    }
    const bool list = !rest_.empty() && rest_.front() == '[';
    if (list && !takes_list_(key)) {
      refuse(line, "has a list for " + key, "and it takes one value", fmt::format("write {} = VALUE", key));
    }
    list ? array(key, line) : scalar(key, line);
    skip(false);
    if (!rest_.empty() && rest_.front() != '\n') {
      refuse(line, "is not TOML", "something follows the value of " + key,
             "write texts in quotes, lists in [ ], and one key a line");
    }
  }

  void array(const std::string& key, std::size_t line) {
    const auto open = [&] { refuse(line, "is not TOML", "the list of " + key + " has no end", "write ] behind it"); };
    take();
    for (skip(true); !rest_.empty() && rest_.front() != ']'; skip(true)) {
      scalar(key, line);
      skip(true);
      if (rest_.empty() || (rest_.front() != ',' && rest_.front() != ']')) open();
      if (rest_.front() == ',') take();
    }
    if (rest_.empty()) open();
    take();
  }

  void scalar(const std::string& key, std::size_t line) {
    const char quote = rest_.empty() ? '\n' : rest_.front();
    if (quote == '"' || quote == '\'') {
      take();
      while (!rest_.empty() && rest_.front() != quote && rest_.front() != '\n') {
        if (quote == '"' && rest_.front() == '\\' && rest_.size() > 1) take();
        take();
      }
      if (rest_.empty() || rest_.front() != quote) {
        refuse(line, "is not TOML", "a text of " + key + " has no end", fmt::format("write {} behind it", quote));
      }
      take();
      return;
    }
    const auto bare = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '+' || c == ':';
    };
    if (!bare(static_cast<unsigned char>(quote))) {
      refuse(line, "is not TOML", key + " has no value", fmt::format("write {} = \"VALUE\", or a number", key));
    }
    while (!rest_.empty() && bare(static_cast<unsigned char>(rest_.front()))) take();
  }

  const std::string& file_;
  std::string_view rest_;
  const std::function<bool(const std::string&)>& takes_list_;
  std::size_t line_ = 1;
  std::map<std::string, std::size_t> lines_;
};

}  // namespace

void require_toml(const std::string& file, const std::string& text,
                  const std::function<bool(const std::string& key)>& takes_list) {
  Toml(file, text, takes_list).check();
}

}  // namespace ovl
