// SPDX-License-Identifier: Apache-2.0
#include "backend/host/case.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "backend/host/layout.hpp"
#include "base/error.hpp"
#include "base/random.hpp"

namespace ovl::host {
namespace {

// The lanes that some arm gives work to: only they need a core.
std::vector<std::size_t> lanes_in_use(const std::vector<Program>& arms) {
  std::set<std::size_t> used;
  for (const Program& arm : arms) {
    for (const RankClass& c : arm.classes) {
      for (const Operation& op : c.body) used.insert(op.lane.index());
    }
  }
  if (used.empty()) used.insert(0);
  return {used.begin(), used.end()};
}

std::string waiting_of(const Program& program) {
  std::set<std::string> all;
  for (const Lane& lane : program.lanes) all.emplace(name(lane.waiting));
  std::string text;
  for (const std::string& w : all) text += (text.empty() ? "" : "+") + w;
  return text;
}

int most_channels(const Program& program) {
  int most = 0;
  for (const Communicator& c : program.communicators) most = std::max(most, channels_of(c));
  return most;
}

// "Open MPI v4.1.4, package: ..." -> "Open MPI v4.1.4"
std::string short_version(const std::string& version) { return version.substr(0, version.find_first_of(",;")); }

template <class T, class Element>
void fill_elements(std::byte* memory, std::int64_t begin, std::int64_t count, Element element) {
  T* out = reinterpret_cast<T*>(memory);
  for (std::int64_t i = begin; i < begin + count; ++i) out[i] = static_cast<T>(element(i));
}

template <class Element>
void fill_range(DType dtype, std::byte* memory, std::int64_t begin, std::int64_t count, Element element) {
  if (dtype == DType::f64) {
    fill_elements<double>(memory, begin, count, element);
  } else {
    fill_elements<float>(memory, begin, count, element);
  }
}

std::uint64_t seed_of(std::uint64_t seed, BufferId buffer, Rank rank, int copy) {
  std::uint64_t mixed = seed;
  for (const int part : {buffer.value, rank.value, copy}) mixed = mix64(mixed ^ static_cast<std::uint64_t>(part));
  return mixed;
}

}  // namespace

Case::Case(Session& session, std::vector<Program> arms, Data data, std::uint64_t seed)
    : session_(session), arms_(std::move(arms)), data_(data), seed_(seed) {
  require(!arms_.empty(), "a case has an arm");
  const Program& first = arms_.front();
  for (const Program& arm : arms_)
    require(arm.lanes.size() == first.lanes.size(), "the arms of a case share their lanes");
  const Neighbours* const neighbours = session_.neighbours();
  const int own = neighbours == nullptr ? first.ranks : 1;
  first_ = neighbours == nullptr ? Rank(0) : neighbours->rank();
  session_.together_with_neighbours([&] {
    for (const Program& arm : arms_) {
      const Support support = session_.supports(arm);
      if (!support.ok()) throw impossible_error("the host backend cannot run \"" + arm.name + "\"", support.reason, {});
    }
    for (int r = 0; r < own; ++r) arenas_.emplace_back(first.buffers);
  });

  // One layout for all arms, so that a lane has the same core in each.
  const MessageProgress progress = progress_of(first);
  const bool takes_turns = neighbours != nullptr && progress.mode != ProgressMode::thread;
  const std::vector<std::size_t> used = lanes_in_use(arms_);
  std::vector<LaneWish> wishes;
  for (const std::size_t l : used) {
    const Lane& lane = first.lanes[l];
    wishes.push_back({lane.name, lane.role, lane.partition, 0, false});
    // Lanes of which one works at a time stand for one thread of a program, on one core.
    if (takes_turns && lane.partition == Partition::automatic) wishes.back().partition = Partition::by_rank;
    for (const Program& arm : arms_) {
      wishes.back().helpers = std::max(wishes.back().helpers, helpers_by_lane(arm)[l]);
      wishes.back().apart = wishes.back().apart || holds_cores(arm)[l];
    }
  }
  const int sharing = neighbours == nullptr ? first.ranks : neighbours->on_cores();
  const std::size_t place = neighbours == nullptr ? 0 : static_cast<std::size_t>(neighbours->place());
  const Layout layout = make_layout(session_.cores(), sharing, wishes, session_.siblings());
  shared_cores_ = layout.shared;
  std::vector<std::vector<int>> cores;  // by rank and lane; lanes without work stay where nobody looks
  std::vector<std::vector<std::vector<int>>> helper_cores;
  for (std::size_t r = 0; r < arenas_.size(); ++r) {
    cores.emplace_back(first.lanes.size(), layout.lanes[place + r][0]);
    helper_cores.emplace_back(first.lanes.size());
    for (std::size_t i = 0; i < used.size(); ++i) {
      cores[r][used[i]] = layout.lanes[place + r][i];
      helper_cores[r][used[i]] = layout.helpers[place + r][i];
    }
  }
  const Carriers carriers = session_.carriers();
  for (const Program& arm : arms_) plans_.push_back(make_plan(arm, first_, cores, helper_cores, arenas_, carriers));
  // One mode for all arms of a case.
  const bool live = std::any_of(arms_.begin(), arms_.end(), submitted_over_time);
  for (const auto& plan : plans_) plan->live = live;
  for (std::size_t r = 0; r < arenas_.size(); ++r) {
    const Rank rank(first_.index() + r);
    fill_jobs_.push_back({{rank.value, 0, 0}, cores[r][used[0]], [this, rank] { fill(rank); }});
  }
  const bool crowded =
      takes_turns ? session_.cores().size() < static_cast<std::size_t>(sharing) : layout.oversubscribed;
  observed_ = {{"layout", layout.text}, {"oversubscribed", crowded ? "1" : "0"}, {"waiting", waiting_of(first)}};
  if (live || neighbours != nullptr) observed_.push_back({"launch_mode", "live"});
  if (neighbours == nullptr) {
    observed_.push_back({"channels", std::to_string(most_channels(first))});
  } else {
    observed_.push_back({"path", short_version(neighbours->library().version())});
    observed_.push_back({"progress", progress_name(progress)});
  }
  reset();
}

void Case::reset() { session_.run_on(fill_jobs_); }

void Case::fill(Rank rank) {
  const Program& program = arms_.front();
  const Arena& memory_of_rank = arena(rank);
  const auto nothing = [](std::int64_t) { return std::numeric_limits<double>::quiet_NaN(); };
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    for (int copy = 0; copy < buffer.copies; ++copy) {
      fill_range(buffer.dtype, memory_of_rank.copy(BufferId(b), copy), 0, buffer.count, nothing);
    }
  }
  for (const Operation& op : program.class_of(rank).prologue) {
    for (const Slice& slice : op.writes) {
      const Buffer& buffer = program.buffers[slice.buffer.index()];
      for (int copy = 0; copy < buffer.copies; ++copy) {
        const std::uint64_t seed = seed_of(seed_, slice.buffer, rank, copy);
        std::byte* memory = memory_of_rank.copy(slice.buffer, copy);
        if (data_ == Data::exact) {
          fill_range(buffer.dtype, memory, slice.offset, slice.count,
                     [seed, type = buffer.dtype](std::int64_t i) { return exact_element(seed, i, type); });
        } else {
          fill_range(buffer.dtype, memory, slice.offset, slice.count,
                     [seed, type = buffer.dtype](std::int64_t i) { return random_element(seed, i, type); });
        }
      }
    }
  }
}

Timings Case::run(std::size_t arm, const ReplayOptions& options) {
  return session_.replay(plans_.at(arm), shared_cores_, options);
}

std::vector<double> Case::contents(BufferId id, Rank rank, int copy) const {
  const Buffer& buffer = arms_.front().buffers.at(id.index());
  const std::byte* memory = arena(rank).copy(id, copy);
  const auto count = static_cast<std::size_t>(buffer.count);
  if (buffer.dtype == DType::f64) {
    const auto* first = reinterpret_cast<const double*>(memory);
    return {first, first + count};
  }
  const auto* first = reinterpret_cast<const float*>(memory);
  return {first, first + count};
}

std::uint64_t Case::fingerprint(BufferId id, Rank rank, int copy) const {
  const Buffer& buffer = arms_.front().buffers.at(id.index());
  const std::byte* memory = arena(rank).copy(id, copy);
  const auto size = static_cast<std::size_t>(buffer.count * size_of(buffer.dtype).value());
  std::uint64_t hash = mix64(size);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + at, std::min(sizeof word, size - at));
    hash = mix64(hash ^ word);
  }
  return hash;
}

}  // namespace ovl::host
