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

// The arm with the most lanes decides where lanes run, so that a lane has the same core in every arm.
std::size_t widest(const std::vector<Program>& arms) {
  const auto most = std::max_element(
      arms.begin(), arms.end(), [](const Program& a, const Program& b) { return a.lanes.size() < b.lanes.size(); });
  return static_cast<std::size_t>(most - arms.begin());
}

std::vector<LaneWish> wishes(const Program& program) {
  const std::vector<int> helpers = helpers_by_lane(program);
  std::vector<LaneWish> all;
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    const Lane& lane = program.lanes[l];
    all.push_back({lane.name, lane.role, lane.partition, helpers[l]});
  }
  return all;
}

// The lane of `wide` that a lane of another arm stands in for: the one of its name, else the first of its role.
std::size_t counterpart(const Program& wide, const Lane& lane) {
  for (std::size_t l = 0; l < wide.lanes.size(); ++l) {
    if (wide.lanes[l].name == lane.name) return l;
  }
  for (std::size_t l = 0; l < wide.lanes.size(); ++l) {
    if (wide.lanes[l].role == lane.role) return l;
  }
  return 0;
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
  for (const Program& arm : arms_) {
    const Support support = session_.supports(arm);
    if (!support.ok()) throw impossible_error("the host backend cannot run \"" + arm.name + "\"", support.reason, {});
  }
  const Program& wide = arms_[widest(arms_)];
  for (int r = 0; r < wide.ranks; ++r) arenas_.emplace_back(wide.buffers);

  // Helpers by name of the lane: an arm whose lanes stand in for others may need some where the widest has none.
  std::vector<LaneWish> wanted = wishes(wide);
  for (const Program& arm : arms_) {
    const std::vector<int> helpers = helpers_by_lane(arm);
    for (std::size_t l = 0; l < arm.lanes.size(); ++l) {
      int& most = wanted[counterpart(wide, arm.lanes[l])].helpers;
      most = std::max(most, helpers[l]);
    }
  }
  const Layout layout = make_layout(session_.cores(), wide.ranks, wanted);
  shared_cores_ = layout.shared;
  for (const Program& arm : arms_) {
    std::vector<std::vector<int>> cores(arenas_.size());
    std::vector<std::vector<std::vector<int>>> helper_cores(arenas_.size());
    for (std::size_t r = 0; r < arenas_.size(); ++r) {
      for (const Lane& lane : arm.lanes) {
        const std::size_t l = counterpart(wide, lane);
        cores[r].push_back(layout.lanes[r][l]);
        helper_cores[r].push_back(layout.helpers[r][l]);
      }
    }
    plans_.push_back(make_plan(arm, cores, helper_cores, arenas_, session_.groups()));
  }
  for (std::size_t r = 0; r < arenas_.size(); ++r) {
    fill_jobs_.push_back({{static_cast<int>(r), 0, 0}, layout.lanes[r][0], [this, r] { fill(Rank(r)); }});
  }
  observed_ = {{"layout", layout.text},
               {"oversubscribed", layout.oversubscribed ? "1" : "0"},
               {"channels", std::to_string(most_channels(wide))},
               {"waiting", waiting_of(wide)}};
  reset();
}

void Case::reset() { session_.run_on(fill_jobs_); }

void Case::fill(Rank rank) {
  const Program& program = arms_.front();
  const Arena& arena = arenas_[rank.index()];
  const auto nothing = [](std::int64_t) { return std::numeric_limits<double>::quiet_NaN(); };
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    for (int copy = 0; copy < buffer.copies; ++copy) {
      fill_range(buffer.dtype, arena.copy(BufferId(b), copy), 0, buffer.count, nothing);
    }
  }
  for (const Operation& op : program.class_of(rank).prologue) {
    for (const Slice& slice : op.writes) {
      const Buffer& buffer = program.buffers[slice.buffer.index()];
      for (int copy = 0; copy < buffer.copies; ++copy) {
        const std::uint64_t seed = seed_of(seed_, slice.buffer, rank, copy);
        std::byte* memory = arena.copy(slice.buffer, copy);
        if (data_ == Data::exact) {
          fill_range(buffer.dtype, memory, slice.offset, slice.count,
                     [seed](std::int64_t i) { return exact_element(seed, i); });
        } else {
          fill_range(buffer.dtype, memory, slice.offset, slice.count,
                     [seed](std::int64_t i) { return random_element(seed, i); });
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
  const std::byte* memory = arenas_.at(rank.index()).copy(id, copy);
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
  const std::byte* memory = arenas_.at(rank.index()).copy(id, copy);
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
