// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/stamps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace ovl::cuda {
namespace {

constexpr unsigned rank_shift = 32;
constexpr std::uint64_t marker_step = 0xffffffffU;

bool known(Seconds time) { return !std::isnan(time.value()); }

Seconds from_nanoseconds(std::int64_t ns) { return nanoseconds(static_cast<double>(ns)); }

// In issue order, so that what a step waits for has been seen before it.
void append_operations(const RankPlan& rank, const RankStamps& stamps, std::int64_t zero,
                       std::vector<OperationTiming>& out) {
  const Seconds origin = from_nanoseconds(stamps.origin - zero);
  std::map<LaneId, Seconds> lane_ready;  // when everything so far on the lane had finished
  for (const LaneSpan& lane : rank.lanes) lane_ready[lane.lane] = origin;
  std::vector<Seconds> fired(rank.steps.size(), unknown_time);  // when a step's completion, or else its start, was
  std::vector<Seconds> began(rank.steps.size(), unknown_time);
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    const Step& step = rank.steps[i];
    const StepStamps& seen = stamps.steps[i];
    Seconds ready = lane_ready[step.lane];
    if (step.source)
      ready = std::max(ready, step.source_moment == Moment::start ? began[*step.source] : fired[*step.source]);
    if (std::holds_alternative<SyncStep>(step.action)) {
      for (const auto& [lane, time] : lane_ready) ready = std::max(ready, time);
      for (auto& [lane, time] : lane_ready) time = ready;
    }
    const bool works = step.works();
    // Ordering ends when it is ready: it takes no time of its own.
    const Seconds end = works ? origin + seen.end : ready;
    const Seconds start = works ? origin + seen.start : ready;
    // A start that nobody saw is where it may have been: an event before an operation fires when it is ready.
    began[i] = known(start) ? start : ready;
    fired[i] = end;
    lane_ready[step.lane] = end;
    out.push_back({.rank = rank.rank,
                   .op = step.op,
                   .lane = step.lane,
                   .enqueued = from_nanoseconds(seen.enqueued - zero),
                   .ready = ready,
                   .start = start,
                   .end = end,
                   .host_return = from_nanoseconds(seen.host_return - zero)});
  }
}

std::string order_of(const Plan& plan, const std::vector<RankStamps>& stamps) {
  std::map<Role, Seconds> first;
  for (std::size_t r = 0; r < stamps.size(); ++r) {
    const RankPlan& rank = plan.ranks[r];
    for (std::size_t i = 0; i < stamps[r].steps.size(); ++i) {
      if (!rank.steps[i].works()) continue;
      const Seconds start = from_nanoseconds(stamps[r].origin - stamps.front().origin) + stamps[r].steps[i].start;
      // One unseen start may have been the first.
      if (!known(start)) return "unverified";
      Seconds& earliest = first.try_emplace(plan.lane_roles[rank.steps[i].lane.index()], start).first->second;
      earliest = std::min(earliest, start);
    }
  }
  if (first.size() < 2) return "unverified";
  return first[Role::communication] < first[Role::compute] ? "comm_first" : "compute_first";
}

}  // namespace

std::uint64_t tag_of(Rank rank, std::size_t step) {
  return (static_cast<std::uint64_t>(rank.value) << rank_shift) + static_cast<std::uint64_t>(step) + 1;
}

std::uint64_t marker_tag(Rank rank) { return (static_cast<std::uint64_t>(rank.value) << rank_shift) + marker_step; }

void set_starts(Rank rank, const std::vector<KernelRecord>& records, std::vector<StepStamps>& steps) {
  if (records.empty()) return;
  const std::uint64_t zero = records.front().start_ns;  // of CUPTI's clock here: doubles hold a replay, not an epoch
  const auto on_cupti = [&](std::uint64_t ns) { return from_nanoseconds(static_cast<std::int64_t>(ns - zero)); };
  struct Kernels {
    Seconds start = unknown_time;
    Seconds end = unknown_time;
  };
  std::vector<Kernels> kernels(steps.size());
  Seconds relation = unknown_time;  // what CUPTI's times need to be the events'
  const auto relate = [&](Seconds difference) {
    if (known(difference)) relation = known(relation) ? std::min(relation, difference) : difference;
  };
  const std::uint64_t first = tag_of(rank, 0);
  for (const KernelRecord& record : records) {
    if (record.tag == marker_tag(rank)) relate(-on_cupti(record.end_ns));
    if (record.tag < first || record.tag - first >= steps.size()) continue;
    auto& [start, end] = kernels[record.tag - first];
    start = known(start) ? std::min(start, on_cupti(record.start_ns)) : on_cupti(record.start_ns);
    end = known(end) ? std::max(end, on_cupti(record.end_ns)) : on_cupti(record.end_ns);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) relate(steps[i].end - kernels[i].end);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].start = kernels[i].start + relation;
}

void note_moved(RankStamps& stamps) {
  for (const StayStamps& stay : stamps.stays) {
    if (stay.kind != StayStamps::Kind::stream) continue;
    for (LaneStamps& lane : stamps.lanes) {
      if (lane.lane == stay.lane) lane.moved = lane.moved.value_or(Bytes(0)) + Bytes(2 * stay.report.moved);
    }
  }
}

Observed observed_in(const Plan& plan, const std::vector<KernelRecord>& records,
                     const std::vector<RankStamps>& stamps) {
  Observed seen;
  std::set<std::string> paths;
  for (const RankStamps& rank : stamps) {
    for (const StayStamps& stay : rank.stays) {
      if (stay.kind == StayStamps::Kind::proxy) {
        seen.ctas = std::max(seen.ctas, stay.report.blocks);
        paths.insert("proxy");
        continue;
      }
      seen.sms.insert(stay.report.sms.begin(), stay.report.sms.end());
      if (stay.kind == StayStamps::Kind::occupy && std::ssize(stay.report.sms) != stay.report.blocks) {
        seen.shared = "occupy: " + std::to_string(stay.report.blocks) + " blocks that hold an SM each ran on " +
                      std::to_string(stay.report.sms.size());
      }
    }
  }
  for (const RankPlan& rank : plan.ranks) {
    const std::uint64_t first = tag_of(rank.rank, 0);
    for (const KernelRecord& record : records) {
      if (record.tag < first || record.tag - first >= rank.steps.size()) continue;
      const Step& step = rank.steps[record.tag - first];
      const bool communicates = std::holds_alternative<CollectiveStep>(step.action) ||
                                std::holds_alternative<ExchangeStep>(step.action) ||
                                std::holds_alternative<StagedStep>(step.action);
      if (!communicates || record.name == "memset") continue;
      seen.ctas = std::max(seen.ctas, record.blocks);
      if (record.name == "memcpy") {
        paths.insert("copy_engine");
      } else {
        paths.insert(record.name.find("ncclSymk") != std::string::npos ? "symmetric" : "kernel");
      }
    }
  }
  for (const std::string& path : paths) seen.path += (seen.path.empty() ? "" : "+") + path;
  return seen;
}

std::int64_t latest_origin(const std::vector<RankStamps>& stamps) {
  std::int64_t latest = std::numeric_limits<std::int64_t>::min();
  for (const RankStamps& s : stamps) latest = std::max(latest, s.origin);
  return latest;
}

Timings timings_of(const Plan& plan, const std::vector<RankStamps>& stamps) {
  Timings timings;
  timings.launch_order = "unverified";
  if (stamps.empty()) return timings;
  const std::int64_t zero = latest_origin(stamps);
  bool traced = false;
  for (std::size_t r = 0; r < stamps.size(); ++r) {
    const RankStamps& seen = stamps[r];
    const Seconds origin = from_nanoseconds(seen.origin - zero);
    RankTiming rank{.rank = plan.ranks[r].rank, .origin = origin, .end = origin + seen.joined, .lanes = {}};
    // What joins the lanes is not part of what they did.
    if (!seen.lanes.empty()) rank.end = origin;
    for (const LaneStamps& lane : seen.lanes) {
      rank.lanes.push_back({lane.lane, origin + lane.start, origin + lane.end, lane.moved});
      rank.end = std::max(rank.end, rank.lanes.back().end);
    }
    timings.ranks.push_back(std::move(rank));
    for (const StepStamps& step : seen.steps) traced = traced || known(step.start);
    if (!seen.steps.empty()) append_operations(plan.ranks[r], seen, zero, timings.operations);
  }
  if (traced) {
    timings.start_source = "cupti";
    timings.launch_order = order_of(plan, stamps);
  }
  return timings;
}

}  // namespace ovl::cuda
