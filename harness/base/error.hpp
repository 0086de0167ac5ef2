// SPDX-License-Identifier: Apache-2.0
//
// One exception type. Its kind decides the exit code; its text says what was wrong, why, and what to type instead.
// Expected outcomes (skipped, unsupported, failed verification) are values in a row, not exceptions.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ovl {

enum class ErrorKind {
  failure = 1,       // something broke while running: a full disk, a hang
  usage = 2,         // the user typed something that cannot be meant
  impossible = 3,    // asked for rightly, but not possible on this machine
  interrupted = 130  // Ctrl-C; what was finished is kept
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  [[nodiscard]] ErrorKind kind() const { return kind_; }
  [[nodiscard]] int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// "<problem>: <why>; <instead>". `why` and `instead` may be empty.
Error usage_error(std::string_view problem, std::string_view why, std::string_view instead);
Error impossible_error(std::string_view problem, std::string_view why, std::string_view instead);
Error failure(std::string_view problem, std::string_view why, std::string_view instead = {});

// A broken invariant of ours, never of the user's. Always checked, in Release too.
void require(bool condition, std::string_view invariant);

// The entries of `known` nearest to `text` by edit distance, nearest first, at most `most`.
std::vector<std::string> nearest(std::string_view text, const std::vector<std::string>& known, std::size_t most = 3);

// The error for a value that is none of `known`: names the axis, the value, the nearest names, and all names if few.
Error unknown_value(std::string_view axis, std::string_view text, const std::vector<std::string>& known);

}  // namespace ovl
