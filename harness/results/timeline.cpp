// SPDX-License-Identifier: Apache-2.0
#include "results/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "metrics/periods.hpp"

namespace ovl {
namespace {

using nlohmann::json;

// ---- what is drawn -------------------------------------------------------------------------------------------------

struct Slot {
  const Operation* operation = nullptr;
  Period time;
  bool from_ready = false;  // its start is not known
};

struct Arrow {
  const Slot* from = nullptr;
  const Slot* to = nullptr;
  EventId event;
  Moment moment = Moment::completion;
};

struct RankDrawing {
  Rank rank;
  std::vector<Slot> slots;      // in issue order
  std::vector<Arrow> arrows;    // between the slots, which from here on stay where they are
  std::vector<LaneId> threads;  // lanes with a slot, compute first
  PeriodSet exposed;
  int undrawn = 0;  // operations whose times are unknown
};

bool known(Seconds time) { return !std::isnan(time.value()); }

void add_slots(RankDrawing& drawing, const std::vector<Operation>& body, const Timings& timings) {
  std::map<OpId, const OperationTiming*> timing_of;
  for (const OperationTiming& t : timings.operations) {
    if (t.rank == drawing.rank) timing_of[t.op] = &t;
  }
  for (const Operation& op : body) {
    if (is_ordering(op.work)) continue;
    const auto found = timing_of.find(op.id);
    const bool started = found != timing_of.end() && known(found->second->start);
    const bool ready = found != timing_of.end() && known(found->second->ready);
    if ((!started && !ready) || !known(found->second->end)) {
      ++drawing.undrawn;
      continue;
    }
    const OperationTiming& t = *found->second;
    drawing.slots.push_back({&op, {started ? t.start : t.ready, t.end}, !started});
  }
}

// An arrow starts at the last work before the record, or for a start event at the first behind it.
void add_arrows(RankDrawing& drawing, const std::vector<Operation>& body) {
  std::map<OpId, const Slot*> slot_of;
  for (const Slot& slot : drawing.slots) slot_of[slot.operation->id] = &slot;
  // The slot of the nearest work on the same lane, from `position` on in steps of `step`.
  const auto nearest_work = [&](std::size_t position, std::ptrdiff_t step) -> const Slot* {
    const auto size = static_cast<std::ptrdiff_t>(body.size());
    for (auto i = static_cast<std::ptrdiff_t>(position); i >= 0 && i < size; i += step) {
      const Operation& op = body[static_cast<std::size_t>(i)];
      if (op.lane != body[position].lane || is_ordering(op.work)) continue;
      const auto found = slot_of.find(op.id);
      return found == slot_of.end() ? nullptr : found->second;
    }
    return nullptr;
  };
  struct Source {
    const Slot* slot;
    Moment moment;
  };
  std::map<EventId, Source> sources;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (const auto* record = std::get_if<Record>(&body[i].work)) {
      sources[record->event] = {nearest_work(i, record->moment == Moment::start ? 1 : -1), record->moment};
    }
    if (const auto* wait = std::get_if<Wait>(&body[i].work)) {
      const auto source = sources.find(wait->event);
      const Slot* to = nearest_work(i, 1);
      if (source == sources.end() || source->second.slot == nullptr || to == nullptr) continue;
      if (source->second.slot->operation->lane == to->operation->lane) continue;  // the lane's order says it already
      drawing.arrows.push_back({source->second.slot, to, wait->event, source->second.moment});
    }
  }
}

// Behind `until` a lane may have worked without a record of it, so that nothing is known to stand alone.
void add_exposed(RankDrawing& drawing, Seconds until) {
  std::vector<Period> compute;
  std::vector<Period> comm;
  for (const Slot& slot : drawing.slots) {
    Period time = slot.time;
    if (known(until)) time.end = std::min(time.end, until);
    (slot.operation->role == Role::compute ? compute : comm).push_back(time);
  }
  drawing.exposed = subtract(PeriodSet(std::move(comm)), PeriodSet(std::move(compute)));
}

void add_threads(RankDrawing& drawing, const Program& program) {
  for (std::size_t i = 0; i < program.lanes.size(); ++i) {
    const LaneId lane(i);
    const auto runs_here = [&](const Slot& slot) { return slot.operation->lane == lane; };
    if (std::any_of(drawing.slots.begin(), drawing.slots.end(), runs_here)) drawing.threads.push_back(lane);
  }
  std::stable_partition(drawing.threads.begin(), drawing.threads.end(),
                        [&](LaneId lane) { return program.lanes[lane.index()].role == Role::compute; });
}

RankDrawing draw(const Program& program, const Timings& timings, Rank rank) {
  const std::vector<Operation>& body = program.class_of(rank).body;
  RankDrawing drawing{.rank = rank};
  add_slots(drawing, body, timings);
  add_arrows(drawing, body);
  add_exposed(drawing, timings.kept_until);
  add_threads(drawing, program);
  return drawing;
}

// ---- texts ---------------------------------------------------------------------------------------------------------

Bytes bytes_of(const Program& program, const std::vector<Slice>& slices) {
  Bytes total;
  for (const Slice& s : slices) total += size_of(program.buffers.at(s.buffer.index()).dtype) * s.count;
  return total;
}

// {"shape": "64x64x64"} for a GEMM, {"bytes": ...} for what moves bytes.
json size_args(const Program& program, const Operation& op) {
  if (const auto* gemm = std::get_if<Gemm>(&op.work)) {
    return {{"shape", fmt::format("{}x{}x{}", gemm->m, gemm->n, gemm->k)}, {"repeat", gemm->repeat}};
  }
  if (const auto* collective = std::get_if<Collective>(&op.work)) {
    return {{"bytes", (size_of(collective->dtype) * collective->count).value()}};
  }
  if (const auto* busy = std::get_if<Busy>(&op.work)) return {{"duration_s", busy->duration.value()}};
  if (const auto* occupy = std::get_if<Occupy>(&op.work)) return {{"units", occupy->count}};
  return {{"bytes", bytes_of(program, op.reads.empty() ? op.writes : op.reads).value()}};
}

// "all_reduce 25MiB", "gemm 64x64x64 x3", "busy 10 us".
std::string title(const Operation& op, const json& size) {
  std::string text(kind_name(op.work));
  if (size.contains("shape")) {
    text += " " + size.at("shape").get<std::string>();
    if (size.at("repeat") != 1) text += fmt::format(" x{}", size.at("repeat").get<std::int64_t>());
  } else if (size.contains("bytes")) {
    text += " " + format_bytes(Bytes(size.at("bytes").get<std::int64_t>()));
  } else if (size.contains("units")) {
    text += fmt::format(" {}", size.at("units").get<int>());
  } else {
    text += " " + format_seconds(Seconds(size.at("duration_s").get<double>()));
  }
  return text;
}

json slices_of(const Program& program, const std::vector<Slice>& slices) {
  json texts = json::array();
  for (const Slice& s : slices) {
    const std::string& buffer = program.buffers.at(s.buffer.index()).name;
    texts.push_back(fmt::format("{}[{}:{}]", buffer, s.offset, s.offset + s.count));
  }
  return texts;
}

// ---- events --------------------------------------------------------------------------------------------------------

// Viewers keep nanoseconds as integers: rounding ends the same way keeps what touches from overlapping.
class Clock {
 public:
  explicit Clock(Seconds zero) : zero_(zero) {}
  [[nodiscard]] std::int64_t nanoseconds(Seconds time) const { return std::llround((time - zero_).value() * 1e9); }

 private:
  Seconds zero_;
};

double microseconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

class Writer {
 public:
  Writer(const Program& program, const Timings& timings, const TimelineLabels& labels, Clock clock)
      : program_(program), timings_(timings), labels_(labels), clock_(clock) {}

  void write(const RankDrawing& drawing) {
    name_threads(drawing);
    for (const Slot& slot : drawing.slots) write_slot(drawing, slot);
    for (const Arrow& arrow : drawing.arrows) write_arrow(drawing, arrow);
    write_exposed(drawing);
  }

  // Names first, then by time. At one moment an arrow ends after its slice began and starts before its slice ended.
  [[nodiscard]] json finish() {
    std::stable_sort(timed_.begin(), timed_.end(), [](const Timed& a, const Timed& b) { return a.at < b.at; });
    for (Timed& t : timed_) names_.push_back(std::move(t.event));
    return std::move(names_);
  }

 private:
  struct Timed {
    std::int64_t at;
    json event;
  };

  // Viewers give 0 a meaning of its own, and want thread ids that no two processes share.
  static int process_id(Rank rank) { return rank.value + 1; }
  [[nodiscard]] int thread_id(Rank rank, std::size_t index) const {
    const int threads_a_rank = static_cast<int>(program_.lanes.size()) + 1;
    return program_.ranks + 1 + rank.value * threads_a_rank + static_cast<int>(index);
  }
  [[nodiscard]] int lane_thread(Rank rank, LaneId lane) const { return thread_id(rank, lane.index()); }
  [[nodiscard]] int exposed_thread(Rank rank) const { return thread_id(rank, program_.lanes.size()); }

  void label(int pid, int tid, const char* what, json args) {
    names_.push_back({{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"ts", 0}, {"args", std::move(args)}});
  }

  void name_threads(const RankDrawing& drawing) {
    const int pid = process_id(drawing.rank);
    label(pid, 0, "process_name", {{"name", fmt::format("rank {}", drawing.rank.value)}});
    label(pid, 0, "process_labels", {{"labels", labels_.source}});
    label(pid, 0, "process_sort_index", {{"sort_index", drawing.rank.value}});
    int place = 0;
    const auto thread = [&](int tid, const std::string& text) {
      label(pid, tid, "thread_name", {{"name", text}});
      label(pid, tid, "thread_sort_index", {{"sort_index", place++}});
    };
    for (const LaneId lane : drawing.threads) {
      thread(lane_thread(drawing.rank, lane), program_.lanes[lane.index()].name);
    }
    thread(exposed_thread(drawing.rank), "exposed");
  }

  void add(std::int64_t at, json event) {
    event["ts"] = microseconds_of(at);
    timed_.push_back({at, std::move(event)});
  }

  void slice(Rank rank, int tid, const Period& time, const std::string& title, std::string_view category, json args) {
    const std::int64_t begin = clock_.nanoseconds(time.begin);
    const std::int64_t end = clock_.nanoseconds(time.end);
    args["source"] = labels_.source;
    add(begin, {{"ph", "X"},
                {"name", title},
                {"cat", category},
                {"pid", process_id(rank)},
                {"tid", tid},
                {"dur", microseconds_of(end - begin)},
                {"args", std::move(args)}});
  }

  void write_slot(const RankDrawing& drawing, const Slot& slot) {
    const Operation& op = *slot.operation;
    json args = size_args(program_, op);
    const std::string text = title(op, args);
    args["id"] = op.id.value;
    args["role"] = name(op.role);
    args["reads"] = slices_of(program_, op.reads);
    args["writes"] = slices_of(program_, op.writes);
    args["start_source"] = slot.from_ready ? "ready" : timings_.start_source;
    slice(drawing.rank, lane_thread(drawing.rank, op.lane), slot.time, text, name(op.role), std::move(args));
  }

  void write_arrow(const RankDrawing& drawing, const Arrow& arrow) {
    const std::int64_t begin = clock_.nanoseconds(arrow.from->time.begin);
    const std::int64_t end = clock_.nanoseconds(arrow.from->time.end);
    // A viewer binds an end of an arrow to the slice around it, so that it must lie inside.
    const std::int64_t departure = arrow.moment == Moment::start ? begin : std::max(begin, end - 1);
    const json common{{"name", program_.events.at(arrow.event.index()).name},
                      {"cat", "dependency"},
                      {"id", next_arrow_++},
                      {"pid", process_id(drawing.rank)}};
    json start = common;
    start.update({{"ph", "s"}, {"tid", lane_thread(drawing.rank, arrow.from->operation->lane)}});
    add(departure, std::move(start));
    json finish = common;
    finish.update({{"ph", "f"}, {"bp", "e"}, {"tid", lane_thread(drawing.rank, arrow.to->operation->lane)}});
    add(clock_.nanoseconds(arrow.to->time.begin), std::move(finish));
  }

  void count_exposed(Rank rank, std::int64_t at, int value) {
    add(at, {{"ph", "C"},
             {"name", "exposed communication"},
             {"pid", process_id(rank)},
             {"tid", exposed_thread(rank)},
             {"args", {{"exposed", value}}}});
  }

  void write_exposed(const RankDrawing& drawing) {
    count_exposed(drawing.rank, 0, 0);
    for (const Period& time : drawing.exposed.periods()) {
      slice(drawing.rank, exposed_thread(drawing.rank), time, "exposed", "exposed", json::object());
      count_exposed(drawing.rank, clock_.nanoseconds(time.begin), 1);
      count_exposed(drawing.rank, clock_.nanoseconds(time.end), 0);
    }
  }

  const Program& program_;
  const Timings& timings_;
  const TimelineLabels& labels_;
  Clock clock_;
  json names_ = json::array();
  std::vector<Timed> timed_;
  int next_arrow_ = 1;
};

}  // namespace

json timeline(const Program& program, const Timings& timings, const TimelineLabels& labels) {
  std::vector<RankDrawing> drawings;
  for (const RankTiming& r : timings.ranks) drawings.push_back(draw(program, timings, r.rank));

  Seconds zero(std::numeric_limits<double>::infinity());
  int undrawn = 0;
  for (const RankDrawing& drawing : drawings) {
    for (const Slot& slot : drawing.slots) zero = std::min(zero, slot.time.begin);
    undrawn += drawing.undrawn;
  }
  if (std::isinf(zero.value())) zero = Seconds(0);

  Writer writer(program, timings, labels, Clock(zero));
  json exposed = json::object();
  for (const RankDrawing& drawing : drawings) {
    writer.write(drawing);
    exposed[fmt::format("rank {}", drawing.rank.value)] = drawing.exposed.length().value();
  }
  return {
      {"traceEvents", writer.finish()},
      {"displayTimeUnit", labels.display_unit},
      {"otherData",
       {{"case", labels.key},
        {"arm", labels.arm},
        {"source", labels.source},
        {"program", program.name},
        {"start_source", timings.start_source},
        {"origin_us", microseconds_of(Clock(zero).nanoseconds(Seconds(0)))},
        {"kept_until_us", known(timings.kept_until) ? json(microseconds_of(Clock(zero).nanoseconds(timings.kept_until)))
                                                    : json(nullptr)},
        {"exposed_s", exposed},
        {"undrawn_operations", undrawn}}}};
}

std::filesystem::path timeline_path(const std::string& key) {
  constexpr std::size_t longest = 100;
  std::string values;
  std::istringstream words(key);
  for (std::string word; words >> word;) values += (values.empty() ? "" : "-") + word.substr(word.find('=') + 1);
  std::string file;
  for (const char c : values.substr(0, longest)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_-+=,").find(c) != std::string_view::npos;
    file += plain ? c : '_';
  }
  return std::filesystem::path("timeline") / fmt::format("{}-{:016x}.json", file, hash64(key));
}

}  // namespace ovl
