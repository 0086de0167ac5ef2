// SPDX-License-Identifier: Apache-2.0
//
// Who moves messages on while a rank computes, where the library that carries them does so only inside of its calls:
// MPI. A transport that moves its bytes by itself has no such choice.
#pragma once

#include <string>
#include <string_view>

#include "base/enum_names.hpp"
#include "base/units.hpp"

namespace ovl {

// none: nobody, until the rank has nothing to compute. poll: the compute lanes, which ask the library for news between
// two pieces of work. thread: the communication lane, which asks all the time. automatic: the transport's own way.
enum class ProgressMode { automatic, none, poll, thread };
template <>
struct EnumNames<ProgressMode> {
  static constexpr std::string_view axis = "progress";
  static constexpr std::pair<ProgressMode, std::string_view> table[] = {{ProgressMode::automatic, "auto"},
                                                                        {ProgressMode::none, "none"},
                                                                        {ProgressMode::poll, "poll"},
                                                                        {ProgressMode::thread, "thread"}};
};

struct MessageProgress {
  ProgressMode mode = ProgressMode::automatic;
  Seconds interval;  // poll: at least this long between two looks

  friend bool operator==(const MessageProgress&, const MessageProgress&) = default;
};

// "auto", "none", "thread", "poll:100us", "poll:1ms". Throws Error(usage).
MessageProgress parse_progress(std::string_view text);

// What parse_progress() reads back: the interval in microseconds.
std::string progress_name(const MessageProgress& progress);

}  // namespace ovl
