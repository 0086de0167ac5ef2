// SPDX-License-Identifier: Apache-2.0
//
// What a replay costs beyond the work itself: operations of no duration on two lanes of two ranks, by kind, in ns an
// operation; and a whole replay of nothing. Median of many replays.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "backend/host/host.hpp"
#include "program/builder.hpp"

namespace ovl {
namespace {

constexpr int operations = 2000;
constexpr int replays = 101;

template <class AddOperation>
void measure(Backend& host, const char* what, Recording recording, AddOperation add) {
  ProgramBuilder p("cost", 2);
  const LaneId compute = p.lane({.name = "compute", .waiting = Waiting::spin});
  ClassBuilder all = p.all_ranks();
  for (int i = 0; i < operations; ++i) add(p, all, compute, std::to_string(i));
  std::vector<Program> arms;
  arms.push_back(std::move(p).finish());
  const auto prepared = host.prepare(std::move(arms), Data::exact, 1);
  std::vector<double> steps;
  for (int i = 0; i < replays; ++i) steps.push_back(prepared->run(0, {.recording = recording}).step().value());
  std::nth_element(steps.begin(), steps.begin() + replays / 2, steps.end());
  std::printf("%-44s %7.1f ns\n", what, steps[replays / 2] / operations * 1e9);
}

void run() {
  const auto world = make_solo_world();
  const auto host = open_host(*world, {.ranks = 2}, {});
  const auto busy = [](ProgramBuilder&, ClassBuilder& all, LaneId lane, const std::string&) {
    all.body(lane, Busy{Seconds(0)});
  };
  measure(*host, "busy(0), spans", Recording::spans, busy);
  measure(*host, "busy(0), operations recorded", Recording::operations, busy);
  measure(*host, "record", Recording::spans,
          [](ProgramBuilder& p, ClassBuilder& all, LaneId lane, const std::string& name) {
            all.body(lane, Record{p.event(name)});
          });
  measure(*host, "empty elementwise", Recording::spans,
          [](ProgramBuilder& p, ClassBuilder& all, LaneId lane, const std::string& name) {
            const BufferId b = p.buffer({.name = name, .count = 1});
            all.body(lane, Elementwise{}, {}, {p.whole(b)});
          });
}

}  // namespace
}  // namespace ovl

int main() { ovl::run(); }
