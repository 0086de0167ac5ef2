// SPDX-License-Identifier: Apache-2.0
//
// One backend out of those of several processes: each replays its own ranks, and everyone is told what all of them saw.
// So whoever drives it runs unchanged on every process, in step, and every process comes to the same rows.
//
// A step that fails on one process fails on all, with one text that names it (SharedError): a replay at once, since the
// others may be waiting in theirs; what all come to the end of, when they have. The processes hand each other no
// pointers and share no memory; what they say goes through World.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "backend/world.hpp"
#include "base/ids.hpp"

namespace ovl {

// The ranks of a process: a block of neighbours, as even as possible, the first processes' blocks the longer ones.
struct RankBlock {
  int first = 0;
  int count = 0;
  friend bool operator==(const RankBlock&, const RankBlock&) = default;
};
RankBlock rank_block(int process, int size, int ranks);
int owner_of(Rank rank, int size, int ranks);

// A replay that did not come to its end on some process. On process 0 its text is told_by_all().
class HangError : public SharedError {
  using SharedError::SharedError;
};

// Whether a world was aborted because a replay does not end.
bool is_hang(std::string_view reason);

// On process 0, after such an abort: where the lanes of every process stood, or that it did not answer. Waits a second
// for those that do not.
std::string told_by_all(World& world);

// The reason of an abort after an error that this process has: names it.
std::string failure_text(const World& world, std::string_view what);

// ---- how the parts become one: pure functions, by process ----------------------------------------------------------

// Transports and dtypes that all have, the least memory, the largest cache (buffers must outgrow every one) and window.
// Facts that are not the same everywhere name the processes: "process 0: GPU-a; process 1: GPU-b". Throws Error(usage)
// when they are not the same backend or count ranks differently.
Description merged(const std::vector<Description>& parts);

// Of each reading its worst: the largest value where there is a limit, else the smallest (a clock that one process lost
// is what the collective waits for). Unknown only where all are.
Conditions merged(const std::vector<Conditions>& parts);

// On one clock: each part's times move by the difference of the epochs, so that zero is the latest origin of all. With
// several parts each must have an epoch. Ranks in the order of the parts.
Timings merged(const std::vector<Timings>& parts);

// Facts by name, in the order in which they first appear; values that differ name the processes.
std::vector<Fact> merged(const std::vector<std::vector<Fact>>& parts);

// `world` outlives the backend. `interrupted`: when it is set on one process, the replay or preparation under way ends
// as Error(interrupted) on all. Makes World operations, as do all functions but progress() and abort().
std::unique_ptr<Backend> distribute(std::unique_ptr<Backend> local, World& world, const std::atomic<bool>& interrupted);

}  // namespace ovl
