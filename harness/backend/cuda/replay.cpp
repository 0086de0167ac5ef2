// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/replay.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::cuda {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
// Round trips that relate a device's clock to the host's before a replay: clocks drift by microseconds within one
// block.
constexpr int clock_rounds = 4;
// Between two looks for asynchronous errors of NCCL.
constexpr int polls_between_looks = 256;
constexpr auto no_limit = std::numeric_limits<std::uint64_t>::max();

Error aborted() { return failure("the replay was aborted", "it was told to stop before all lanes had finished"); }

// Not ready is no error.
bool complete(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

bool complete(cudaStream_t stream) {
  const cudaError_t status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaStreamQuery");
  return true;
}

void record(const Event& event, cudaStream_t stream, const char* call) {
  check(cudaEventRecord(event.get(), stream), call);
}

// A rank's worker in one replay.
class Player {
 public:
  Player(Replay& replay, std::size_t local_rank, RankCase& on, RankStamps& stamps)
      : replay_(replay),
        plan_(replay.plan.ranks[local_rank]),
        on_(on),
        rank_(on.rank),
        stamps_(stamps),
        each_(replay.options.recording == Recording::operations) {}

  // Everything up to the joined event.
  void enqueue() {
    for (const auto& lane : on_.lanes) {
      if (lane != nullptr) lane->enqueued = lane->completed = -1;
    }
    pending_.assign(on_.lanes.size(), 0);
    ++on_.word_value;
    const Graph* graph = prepare();
    if (replay_.gated) {
      rank_.gate.close(root());
      if (replay_.stop.raised()) rank_.gate.open();  // abort() may have opened the gate before this one
    }
    align();
    if (!replay_.gated) wait_for([&] { return complete(root()); });
    tag(marker_tag(plan_.rank), [&] {
      launched(kernels::launch_marker({reinterpret_cast<kernels::Stamp*>(rank_.marker.device())}, root()),
               "cudaLaunchKernelExC (marker)");
    });
    record(rank_.origin, root(), "cudaEventRecord (origin)");
    if (plan_.timed && !replay_.warm_up) await_origin();
    if (graph != nullptr) {
      in_graph_ = true;
      const std::int64_t handed_over = host_now();
      graph->launch(root());
      for (StepStamps& s : stamps_.steps) s = {.enqueued = handed_over, .host_return = host_now()};
      for (const Step& step : plan_.steps) on_.lane(step.lane).enqueued = step.op.value;
      handed_over_ = plan_.steps.size();
    } else {
      for (const LaneSpan& lane : plan_.lanes) wait_on(stream(lane.lane), rank_.origin);
      body();
      join();
    }
    record(rank_.joined, root(), "cudaEventRecord (joined)");
  }

  // It was at the queue limit, and the gate opened for it.
  [[nodiscard]] bool paused() const { return free_; }

  // Until the joined event has fired.
  void finish() {
    wait_for([&] {
      note_progress();
      return complete(rank_.joined.get());
    });
    for (const Step& step : plan_.steps) on_.lane(step.lane).completed = step.op.value;
    if (rank_.gate.timed_out()) {
      throw failure("the gate was not opened within " + format_seconds(gate_timeout), "its kernel gave up waiting",
                    "start a new process");
    }
    if (rank_.halt.expired()) {
      throw failure("an operation that lasts until an event was not ended within " + format_seconds(stay_timeout),
                    "what it waits for did not finish beside it", "give it fewer SMs; start a new process");
    }
    read();
  }

 private:
  [[nodiscard]] cudaStream_t root() const { return rank_.root.get(); }
  [[nodiscard]] cudaStream_t stream(LaneId lane) const { return on_.lane(lane).stream.get(); }
  [[nodiscard]] std::int64_t slot() const { return replay_.options.slot; }
  [[nodiscard]] std::byte* at(const Slice& slice) const { return on_.arena.at(slice, slot()); }
  [[nodiscard]] std::size_t bytes(const Slice& slice) const {
    return static_cast<std::size_t>((size_of(on_.arena.buffer(slice.buffer).dtype) * slice.count).value());
  }

  // What must not happen behind a closed gate: allocations, captures, and what waits for the device.
  const Graph* prepare() {
    if (each_) {
      on_.make_step_events(plan_.steps.size());
      stamps_.steps.assign(plan_.steps.size(), {});
    }
    const Graph* graph = replay_.plan.graph && !replay_.warm_up ? captured() : nullptr;
    if (replay_.plan.ranks.size() > 1 || replay_.align != nullptr || each_ || plan_.timed) {
      rank_.clock.measure(root(), clock_rounds, replay_.stop);
    }
    if (replay_.options.evict) {
      check(cudaMemsetAsync(rank_.scratch.get(), 0, static_cast<std::size_t>(rank_.scratch.size().value()), root()),
            "cudaMemsetAsync (evict)");
    }
    return graph;
  }

  const Graph* captured() {
    std::vector<std::int64_t> copies;
    for (std::size_t b = 0; b < on_.buffer_copies.size(); ++b) copies.push_back(slot() % on_.buffer_copies[b]);
    GraphKey key{replay_.arm, each_, std::move(copies)};
    std::unique_ptr<Graph>& graph = on_.graphs[key];
    if (graph == nullptr) {
      capturing_ = true;
      graph = std::make_unique<Graph>(root(), [&] {
        record(on_.fork, root(), "cudaEventRecord (fork)");
        for (const LaneSpan& lane : plan_.lanes) wait_on(stream(lane.lane), on_.fork);
        body();
        join();
      });
      capturing_ = false;
      on_.graph_order.push_back(std::move(key));
    }
    const Graph* chosen = graph.get();
    if (on_.graph_order.size() > most_graphs) {
      on_.graphs.erase(on_.graph_order.front());
      on_.graph_order.pop_front();
    }
    return chosen;
  }

  // One element that all ranks sum: nobody leaves before the last has come.
  void align() {
    if (replay_.align == nullptr) return;
    const Collective meet{.kind = CollectiveKind::all_reduce, .comm = {}, .dtype = DType::f32, .count = 1, .root = 0};
    enqueue_collective(*replay_.align, plan_.rank, meet, rank_.align.get(), rank_.align.get(), root());
  }

  void body() {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      const LaneSpan& span =
          *std::find_if(plan_.lanes.begin(), plan_.lanes.end(), [&](const LaneSpan& s) { return s.lane == step.lane; });
      LaneState& lane = on_.lane(step.lane);
      if (replay_.stop.raised()) throw aborted();
      if (step.not_before && !replay_.warm_up) await(*step.not_before);
      if (!capturing_) lane.enqueued.store(step.op.value, std::memory_order_relaxed);
      if (span.first_work == i) stamp(lane.start, step.lane);
      if (each_ && !capturing_) stamps_.steps[i].enqueued = host_now();
      tag(tag_of(plan_.rank, i), [&] { std::visit([&](const auto& action) { put(step, action); }, step.action); });
      if (each_ && !capturing_) stamps_.steps[i].host_return = host_now();
      if (each_ && step.works()) stamp(on_.step_events[i], step.lane);
      if (span.last_work == i) stamp(lane.end, step.lane);
      if (!capturing_) handed_over_ = i + 1;
    }
  }

  // All lanes come together on the root.
  void join() {
    for (const LaneSpan& lane : plan_.lanes) {
      record(on_.lane(lane.lane).finished, stream(lane.lane), "cudaEventRecord (finished)");
      wait_on(root(), on_.lane(lane.lane).finished);
    }
  }

  // An event that is timed: within a graph it must be named as one that the outside reads.
  void stamp(const Event& event, LaneId lane) {
    reserve(lane, 1);
    if (capturing_) {
      check(cudaEventRecordWithFlags(event.get(), stream(lane), cudaEventRecordExternal),
            "cudaEventRecordWithFlags (time)");
    } else {
      record(event, stream(lane), "cudaEventRecord (time)");
    }
  }

  static void wait_on(cudaStream_t stream, const Event& event) {
    check(cudaStreamWaitEvent(stream, event.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
  }

  // How many of `wanted` more operations the lane's stream takes without blocking, at least one: where it is full
  // behind a closed gate, the gate opens first.
  std::int64_t reserve(LaneId lane, std::int64_t wanted) {
    if (capturing_ || !replay_.gated || free_) return wanted;
    std::int64_t& pending = pending_[lane.index()];
    if (pending + 1 > queue_limit) {
      free_ = true;
      replay_.meeting.pause();
      if (replay_.stop.raised()) throw aborted();
      return wanted;
    }
    const std::int64_t granted = std::min(wanted, queue_limit - pending);
    pending += granted;
    return granted;
  }

  // The event that the work itself records when it starts; null: nobody asked, or the work cannot tell and an event
  // before it stands in for its start.
  cudaEvent_t start_event(const Step& step, bool work_tells) {
    if (!step.began) return nullptr;
    const Event& event = on_.events[*step.began];
    if (work_tells && !capturing_) return event.get();
    record(event, stream(step.lane), "cudaEventRecord (before work)");
    return nullptr;
  }
  void mark_start(const Step& step) { static_cast<void>(start_event(step, false)); }

  void put(const Step& step, const GemmStep& s) {
    mark_start(step);
    const GemmPlan& gemm = *on_.gemms.at(replay_.plan.shapes[s.shape]);
    for (std::int64_t left = s.repeat; left > 0;) {
      const std::int64_t now = reserve(step.lane, left);
      gemm.enqueue(stream(step.lane), at(s.a), at(s.b), at(s.c), on_.lane(step.lane).workspace, now);
      left -= now;
    }
  }
  void put(const Step& step, const CollectiveStep& s) {
    reserve(step.lane, queued_by(step));
    if (s.collective.count == 0) return mark_start(step);  // nothing, on all ranks alike
    const bool tells = replay_.plan.starts_agree && has_launch_completion();
    enqueue_collective(*replay_.groups[s.group], plan_.rank, s.collective, at(s.in), at(s.out), stream(step.lane),
                       start_event(step, tells));
  }
  void put(const Step& step, const StagedStep& s) {
    reserve(step.lane, queued_by(step));
    mark_start(step);
    std::byte* host = on_.lane(step.lane).staging.host();
    if (s.from.count == 0) return;
    check(cudaMemcpyAsync(host, at(s.from), bytes(s.from), cudaMemcpyDeviceToHost, stream(step.lane)),
          "cudaMemcpyAsync (device to host)");
    check(cudaMemcpyAsync(at(s.to), host, bytes(s.from), cudaMemcpyHostToDevice, stream(step.lane)),
          "cudaMemcpyAsync (host to device)");
  }
  void put(const Step& step, const ExchangeStep& s) {
    reserve(step.lane, queued_by(step));
    mark_start(step);
    std::vector<void*> memory;
    std::vector<std::int64_t> counts;
    for (const Slice& slice : s.slices) {
      memory.push_back(at(slice));
      counts.push_back(slice.count);
    }
    enqueue_exchange(*replay_.groups[s.group], plan_.rank, s.exchange, memory, counts, stream(step.lane));
  }
  void put(const Step& step, const CopyStep& s) {
    reserve(step.lane, queued_by(step));
    mark_start(step);
    if (s.from.count == 0) return;
    check(cudaMemcpyAsync(at(s.to), at(s.from), bytes(s.from), cudaMemcpyDeviceToDevice, stream(step.lane)),
          "cudaMemcpyAsync (copy)");
  }
  void put(const Step& step, const BusyStep& s) {
    reserve(step.lane, queued_by(step));
    launched(kernels::launch_busy({s.nanoseconds}, stream(step.lane), start_event(step, rank_.launch_completion)),
             "cudaLaunchKernelExC (busy)");
  }
  // An event ends it, or its own limit; nothing waits in a warm-up.
  [[nodiscard]] kernels::Until until(const Stay& stay, std::uint64_t limit_ns) const {
    if (replay_.warm_up) return rank_.halt.until(nullptr, 0, 0);
    if (!stay.word) return rank_.halt.until(nullptr, 0, limit_ns);
    return rank_.halt.until(on_.words->at(*stay.word), on_.word_value,
                            static_cast<std::uint64_t>(stay_timeout.value() * 1e9));
  }
  void put(const Step& step, const OccupyStep& s) {
    reserve(step.lane, queued_by(step));
    const kernels::OccupyArgs args{.blocks = s.stay.blocks,
                                   .until = until(s.stay, s.nanoseconds),
                                   .reports = on_.reports[s.stay.report].reports()};
    launched(kernels::launch_occupy(args, occupy_shared_bytes(rank_.device), stream(step.lane),
                                    start_event(step, rank_.launch_completion)),
             "cudaFuncSetAttribute or cudaLaunchKernelExC (occupy)");
  }
  void put(const Step& step, const StreamStep& s) {
    reserve(step.lane, queued_by(step));
    const ReportMemory& report = on_.reports[s.stay.report];
    const kernels::StreamArgs args{.from = at(s.from),
                                   .to = at(s.to),
                                   .size = static_cast<std::int64_t>(bytes(s.from)),
                                   .bytes = s.stay.word ? 0 : s.bytes,
                                   .ns_per_byte = s.ns_per_byte,
                                   .blocks = s.stay.blocks,
                                   .until = until(s.stay, no_limit),
                                   .reports = report.reports(),
                                   .moved = report.moved()};
    launched(kernels::launch_stream(args, stream(step.lane), start_event(step, rank_.launch_completion)),
             "cudaLaunchKernelExC (stream)");
  }
  void put(const Step& step, const ProxyStep& s) {
    reserve(step.lane, queued_by(step));
    const ReportMemory& report = on_.reports[s.stay.report];
    const kernels::RingProxyArgs args{.in = at(s.in),
                                      .out = at(s.out),
                                      .fifo = on_.lane(step.lane).fifo.get(),
                                      .count = s.in.count,
                                      .ns_per_byte = s.ns_per_byte,
                                      .dtype = s.dtype,
                                      .steps = s.steps,
                                      .blocks = s.stay.blocks,
                                      .until = rank_.halt.until(nullptr, 0, no_limit),
                                      .reports = report.reports(),
                                      .moved = report.moved()};
    launched(kernels::launch_ring_proxy(args, proxy_shared_bytes(rank_.device), stream(step.lane),
                                        start_event(step, rank_.launch_completion)),
             "cudaFuncSetAttribute or cudaLaunchKernelExC (ring_proxy)");
  }
  void put(const Step& step, const AddStep& s) {
    reserve(step.lane, queued_by(step));
    cudaEvent_t began = start_event(step, rank_.launch_completion);
    constexpr std::size_t most = kernels::ElementwiseArgs::most_inputs;
    for (std::size_t first = 0; first < s.from.size(); first += most) {
      kernels::ElementwiseArgs args{
          .out = at(s.to), .in = {}, .inputs = 0, .dtype = on_.arena.buffer(s.to.buffer).dtype, .count = s.to.count};
      for (std::size_t i = first; i < std::min(first + most, s.from.size()); ++i)
        args.in[args.inputs++] = at(s.from[i]);
      launched(kernels::launch_elementwise(args, stream(step.lane), std::exchange(began, nullptr)),
               "cudaLaunchKernelExC (elementwise)");
    }
  }
  void put(const Step& step, const RecordStep& s) {
    if (s.moment == Moment::start) return;  // the work that follows does it
    reserve(step.lane, queued_by(step));
    if (s.word) on_.words->write(*s.word, on_.word_value, stream(step.lane));
    record(on_.events[s.event], stream(step.lane), "cudaEventRecord");
  }
  void put(const Step& step, const WaitStep& s) {
    reserve(step.lane, 1);
    wait_on(stream(step.lane), on_.events[s.event]);
  }
  void put(const Step&, const SyncStep&) {
    for (const LaneSpan& lane : plan_.lanes) {
      wait_for([&] {
        note_progress();
        return complete(stream(lane.lane));
      });
    }
  }

  // Tags what is enqueued, where somebody listens. In a graph no tag reaches the kernels.
  template <class Enqueue>
  void tag(std::uint64_t number, Enqueue enqueue) {
    const Trace* trace = capturing_ ? nullptr : replay_.trace;
    if (trace != nullptr) trace->push(number);
    try {
      enqueue();
    } catch (...) {
      if (trace != nullptr) trace->pop();
      throw;
    }
    if (trace != nullptr) trace->pop();
  }

  // Never for ever: an abort, a failed peer or an error of NCCL ends it.
  template <class Done>
  void wait_for(Done done) {
    for (int polls = 1;; ++polls) {
      if (replay_.stop.raised()) throw aborted();
      if (done()) return;
      if (polls % polls_between_looks == 0) {
        if (const std::string error = replay_.communicators.asynchronous_error(); !error.empty()) {
          throw failure("NCCL failed while the lanes were running", error, "set NCCL_DEBUG=INFO; start a new process");
        }
      }
      std::this_thread::yield();
    }
  }

  // Submissions count from the origin, not from when it was handed over.
  void await_origin() {
    wait_for([&] { return complete(rank_.origin.get()); });
    began_ = marked();
  }
  // The origin on the host's clock, once it is over.
  [[nodiscard]] std::int64_t marked() const {
    auto* marker = reinterpret_cast<kernels::Stamp*>(rank_.marker.host());
    const std::atomic_ref<std::uint64_t> stamp(marker->nanoseconds);
    return rank_.clock.relation().to_host(stamp.load(std::memory_order_acquire));
  }

  // By the clock alone: looking at events meanwhile would disturb what they measure.
  void await(Seconds after_origin) {
    const std::int64_t due = began_ + std::llround(after_origin.value() * 1e9);
    wait_for([&] { return host_now() >= due; });
  }

  // Which operations are known to have finished, by the events that are there anyway. Those of steps that this replay
  // has not handed over would tell of an earlier one, and so would those in a graph that has not got to them.
  void note_progress() {
    if (in_graph_) return;
    for (const LaneSpan& span : plan_.lanes) {
      LaneState& lane = on_.lane(span.lane);
      std::size_t& next = noted_[span.lane];
      for (std::size_t i = next; i < handed_over_; ++i) {
        if (plan_.steps[i].lane != span.lane) continue;
        const Event* event = witness(span, lane, i);
        if (event == nullptr) continue;
        if (!complete(event->get())) break;
        lane.completed.store(plan_.steps[i].op.value, std::memory_order_relaxed);
        next = i + 1;
      }
    }
  }

  // The event that tells that this step has finished; null: none does.
  [[nodiscard]] const Event* witness(const LaneSpan& span, const LaneState& lane, std::size_t i) const {
    const Step& step = plan_.steps[i];
    if (each_ && step.works()) return &on_.step_events[i];
    if (span.last_work == i) return &lane.end;
    const auto* record = std::get_if<RecordStep>(&step.action);
    return record != nullptr && record->moment == Moment::completion ? &on_.events[record->event] : nullptr;
  }

  void read() {
    stamps_.origin = marked();
    stamps_.joined = between(rank_.origin, rank_.joined);
    for (const LaneSpan& span : plan_.lanes) {
      if (!span.first_work) continue;
      const LaneState& lane = on_.lane(span.lane);
      stamps_.lanes.push_back(
          {span.lane, between(rank_.origin, lane.start), between(rank_.origin, lane.end), std::nullopt});
    }
    for (const Step& step : plan_.steps) {
      const Stay* stay = step.stay();
      if (stay == nullptr) continue;
      using Kind = StayStamps::Kind;
      const Kind kind = std::holds_alternative<OccupyStep>(step.action)   ? Kind::occupy
                        : std::holds_alternative<StreamStep>(step.action) ? Kind::stream
                                                                          : Kind::proxy;
      stamps_.stays.push_back({step.lane, kind, on_.reports[stay->report].take(stay->blocks)});
    }
    note_moved(stamps_);
    if (!each_) return;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      if (plan_.steps[i].works()) stamps_.steps[i].end = between(rank_.origin, on_.step_events[i]);
    }
  }

  Replay& replay_;
  const RankPlan& plan_;
  RankCase& on_;
  RankDevice& rank_;
  RankStamps& stamps_;
  bool each_;
  bool capturing_ = false;
  bool in_graph_ = false;
  std::int64_t began_ = 0;               // the origin on the host's clock, where steps have times
  bool free_ = false;                    // the gate is open: CUDA's queues drain
  std::vector<std::int64_t> pending_;    // by lane, behind the gate
  std::size_t handed_over_ = 0;          // steps of this replay
  std::map<LaneId, std::size_t> noted_;  // next step to look at
};

}  // namespace

void Meeting::arrive() {
  {
    const std::lock_guard lock(mutex_);
    --missing_;
  }
  changed_.notify_all();
}

void Meeting::pause() {
  std::unique_lock lock(mutex_);
  --missing_;
  partial_ = partial_ || !open_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return open_; });
}

void Meeting::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
}

bool Meeting::wait(Seconds limit) {
  std::unique_lock lock(mutex_);
  const auto all_here = [this] { return missing_ == 0; };
  if (std::isnan(limit.value())) {
    changed_.wait(lock, all_here);
    return true;
  }
  return changed_.wait_for(lock, std::chrono::duration<double>(limit.value()), all_here);
}

void Meeting::open() {
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }
  changed_.notify_all();
}

bool Meeting::partial() const {
  const std::lock_guard lock(mutex_);
  return partial_;
}

std::exception_ptr Meeting::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void play(Replay& replay, std::size_t local_rank, RankCase& on, RankStamps& stamps) noexcept {
  const auto keep = [&] {
    replay.meeting.fail(std::current_exception());
    replay.stop.raise();
    on.rank.halt.raise();
  };
  Player player(replay, local_rank, on, stamps);
  bool enqueued = false;
  try {
    player.enqueue();
    enqueued = true;
  } catch (...) {
    keep();
  }
  if (!player.paused()) replay.meeting.arrive();
  if (!enqueued) return;
  try {
    player.finish();
  } catch (...) {
    keep();
  }
}

}  // namespace ovl::cuda
