// SPDX-License-Identifier: Apache-2.0
#include "backend/host/probes.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string>

namespace ovl::host {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint32_t batches = 9;
constexpr std::uint32_t rounds_a_batch = 200;
constexpr Stamp work_time = 1'000'000;

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

}  // namespace

Seconds PingPong::play(bool first) {
  // The ball counts: the first thread answers even values, the second odd ones. A thread whose peer is late (its core
  // is taken) gives its own core away rather than starving it.
  std::array<Seconds, batches> one_way{};
  std::uint32_t next = first ? 0 : 1;
  for (Seconds& batch : one_way) {
    const Stamp begin = now();
    for (std::uint32_t r = 0; r < rounds_a_batch; ++r, next += 2) {
      for (int look = 0; ball_.load(std::memory_order_acquire) != next; ++look) {
        if (look > 100'000) sched_yield();
      }
      ball_.store(next + 1, std::memory_order_release);
    }
    batch = between(begin, now()) / (2.0 * rounds_a_batch);
  }
  std::nth_element(one_way.begin(), one_way.begin() + batches / 2, one_way.end());
  return first ? one_way[batches / 2] : unknown_time;
}

double work_rate() {
  // Eight independent chains keep the multiply-add units busy; the result is looked at so that the work is done.
  std::array<double, 8> chains{1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};
  const Stamp begin = now();
  Stamp end = begin;
  double steps = 0;
  while (end - begin < work_time) {
    for (int i = 0; i < 2000; ++i) {
      for (double& c : chains) c = c * 0.999999 + 1e-6;
    }
    steps += 2000;
    end = now();
  }
  double sum = 0;
  for (const double c : chains) sum += c;
  return sum > 0 ? steps * static_cast<double>(chains.size()) / between(begin, end).value() : unknown;
}

CpuTimes read_cpu_times(const std::vector<int>& cores) {
  CpuTimes times{now(), unknown, unknown, unknown};
  rusage self{};
  getrusage(RUSAGE_SELF, &self);
  times.own = seconds(self.ru_utime) + seconds(self.ru_stime);

  const double tick_length = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream stat("/proc/stat");
  std::size_t found = 0;
  double busy = 0;
  double stolen = 0;
  for (std::string name; stat >> name;) {
    // user nice system idle iowait irq softirq steal, proc(5)
    std::array<double, 8> t{};
    const bool wanted =
        std::any_of(cores.begin(), cores.end(), [&](int core) { return name == "cpu" + std::to_string(core); });
    if (wanted) {
      for (double& value : t) stat >> value;
      busy += (t[0] + t[1] + t[2] + t[5] + t[6]) * tick_length;
      stolen += t[7] * tick_length;
      ++found;
    }
    stat.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (found == cores.size()) {
    times.busy = busy;
    times.stolen = stolen;
  }
  return times;
}

std::vector<Reading> cpu_shares(const CpuTimes& before, const CpuTimes& after, std::size_t cores) {
  Reading steal{.name = "steal_share", .unit = "1", .limit = 0.01};
  Reading foreign{.name = "foreign_cpu_share", .unit = "1", .limit = 0.02};
  if (after.at - before.at >= shortest_cpu_interval) {
    const double elapsed = between(before.at, after.at).value() * static_cast<double>(cores);
    steal.value = (after.stolen - before.stolen) / elapsed;
    foreign.value = ((after.busy - before.busy) - (after.own - before.own)) / elapsed;
  }
  return {steal, foreign};
}

double read_frequency(const std::vector<int>& cores) {
  double sum = 0;
  for (const int core : cores) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cpufreq/scaling_cur_freq");
    double khz = 0;
    if (!(file >> khz)) return unknown;
    sum += khz * 1e3;
  }
  return sum / static_cast<double>(cores.size());
}

}  // namespace ovl::host
