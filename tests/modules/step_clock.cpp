// SPDX-License-Identifier: Apache-2.0
//
// Preloaded, it makes the time of day step an hour back or forth each time that somebody asks for it, as a clock does
// that is set right. The steady clock stays what it is.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

long step() {
  static int times = 0;
  constexpr long hour = 3600;
  return ++times % 2 == 0 ? hour : -hour;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long code = syscall(SYS_clock_gettime, clock, time);
  if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += step();
  return static_cast<int>(code);
}

extern "C" int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}
