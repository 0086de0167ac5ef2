// SPDX-License-Identifier: Apache-2.0
#include "backend/host/session.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "backend/host/blas.hpp"
#include "backend/host/case.hpp"
#include "base/error.hpp"

namespace ovl::host {
namespace {

constexpr int most_ranks = 64;
constexpr int most_threads = 1024;
// Jobs under a millisecond scatter by 20 to 40 % on a shared machine, and handing the caches from one kind of work to
// the other costs most of one; a window of 25 ms makes both small.
constexpr Seconds window = milliseconds(25);
// A change of the cores' distance by more than this is another placement of the cores, not scatter: near and far are a
// factor of four apart.
constexpr double distance_change = 1.6;
// A core that loses more than a fifth of its rate while another works shares something with it.
constexpr double slowdown_limit = 1.25;

bool runs(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

std::string dtype_reason(DType dtype) {
  return "the host backend computes in f32 and f64, not in " + std::string(name(dtype));
}

// MPI's calls count in int.
constexpr std::int64_t most_elements = std::numeric_limits<int>::max();
std::string too_many(std::int64_t count) {
  return std::to_string(count) + " elements: MPI counts up to " + std::to_string(most_elements);
}

bool same_start(const Slice& a, const Slice& b) { return a.buffer == b.buffer && a.offset == b.offset; }

// Why an operation of the body cannot run here; empty: it can.
struct OpReason {
  const Operation& op;
  bool messages = false;  // passes messages
  std::size_t cores = 0;  // that the process has

  [[nodiscard]] std::string held_reason(std::string_view what, int wanted) const {
    if (static_cast<std::size_t>(wanted) <= cores) return {};
    return std::string(what) + " " + std::to_string(wanted) + ": this process has " + std::to_string(cores) +
           (cores == 1 ? " core" : " cores") + " to hold: ask for " + std::to_string(cores) + " or less";
  }

  std::string operator()(const Gemm& g) const {
    if (!runs(g.dtype)) return dtype_reason(g.dtype);
    if (g.sm_target != 0) return "a GEMM on the host runs on its lane's core and cannot be given a number of SMs";
    if (std::max({g.m, g.n, g.k}) > std::numeric_limits<int>::max()) {
      return "OpenBLAS takes GEMM sizes below 2^31";
    }
    return {};
  }
  std::string operator()(const Collective& c) const {
    if (!runs(c.dtype)) return dtype_reason(c.dtype);
    if (c.kind == CollectiveKind::all_to_all && !op.reads.empty() && !op.writes.empty() &&
        same_start(op.reads[0], op.writes[0])) {
      return "all_to_all cannot work in place: give it an output buffer of its own";
    }
    if (!messages) return {};
    if (c.count > most_elements) return too_many(c.count);
    if (c.kind == CollectiveKind::reduce_scatter && op.reads[0].buffer == op.writes[0].buffer &&
        op.reads[0].count != op.writes[0].count) {
      return "MPI's reduce_scatter leaves its result at the beginning of the array: give it an output buffer of its "
             "own";
    }
    return {};
  }
  std::string operator()(const Exchange& e) const {
    if (!runs(e.dtype)) return dtype_reason(e.dtype);
    for (const auto* slices : {&op.reads, &op.writes}) {
      for (const Slice& slice : *slices) {
        if (messages && slice.count > most_elements) return too_many(slice.count);
      }
    }
    return {};
  }
  std::string operator()(const Occupy& o) const { return held_reason("occupy", o.count); }
  std::string operator()(const Stream& s) const { return held_reason("stream workers", s.workers); }
  std::string operator()(const Fill&) const { return "fill belongs in the prologue"; }
  std::string operator()(const Verify&) const { return "verify belongs in the epilogue"; }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }
};

}  // namespace

Session::Session(std::vector<int> cores, int default_ranks, std::unique_ptr<Neighbours> neighbours)
    : cores_(std::move(cores)),
      default_ranks_(default_ranks),
      neighbours_(std::move(neighbours)),
      cpu_times_(read_cpu_times(cores_)) {
  if (neighbours_ == nullptr) return;
  message_groups_.emplace(neighbours_->library());
  cpu_times_.own = neighbours_->cpu_time(cpu_times_.own);
}

Session::~Session() = default;

std::string Session::transport() const { return neighbours_ == nullptr ? "shm" : neighbours_->transport(); }

Carriers Session::carriers() { return {groups_, message_groups_ ? &*message_groups_ : nullptr}; }

void Session::together_with_neighbours(const std::function<void()>& body) {
  if (neighbours_ == nullptr) return body();
  together(neighbours_->world(), body);
}

// What was posted may stay under way for ever, so MPI cannot be ended in good order.
void Session::abort() noexcept {
  stop_.raise();
  if (neighbours_ != nullptr) neighbours_->library().break_off();
}

Description Session::describe() const {
  Description d;
  d.backend = "host";
  d.device = topology_.cpu_model() + ", " + std::to_string(cores_.size()) + (cores_.size() == 1 ? " core" : " cores");
  d.device_shared = true;
  d.transports = {transport()};
  d.dtypes = {DType::f32, DType::f64};
  d.default_ranks = default_ranks_;
  d.most_ranks = neighbours_ == nullptr ? most_ranks : neighbours_->ranks();
  d.units = static_cast<int>(cores_.size());
  d.last_level_cache = topology_.last_level_cache(cores_);
  d.memory = available_memory();
  if (neighbours_ != nullptr) d.memory = Bytes(d.memory.value() / neighbours_->on_machine());
  d.window = window;
  std::string core_list;
  for (const int core : cores_) core_list += (core_list.empty() ? "" : " ") + std::to_string(core);
  d.facts = {{"cpu_model", topology_.cpu_model()},
             {"cores", core_list},
             {"l2_bytes", std::to_string(topology_.cache(2).value())},
             {"l3_bytes", std::to_string(topology_.cache(3).value())},
             {"hwloc_version", Topology::hwloc_version()}};
  for (Fact& fact : blas_facts()) d.facts.push_back(std::move(fact));
  // Not of the run's identity: rows name the library, and a directory may hold those of several.
  if (neighbours_ != nullptr) {
    d.at_open = {{"mpi_library", neighbours_->library().version()},
                 {"mpi_threads", std::string(name(neighbours_->library().threads()))},
                 {"process_clock_error_ns", std::to_string(neighbours_->clock_error())}};
  }
  return d;
}

// Readings: core_distance (s, one way), busy_core_ratio (rate of a core while another works / alone; 1 is good) and its
// inverse busy_core_slowdown, which carries the limit; steal_share and foreign_cpu_share since the last reading that
// was long enough ago; frequency (Hz). Of the processes that share their cores one probes them, and all count as own.
Conditions Session::conditions() {
  Conditions c;
  probe_cores(c);
  CpuTimes times = read_cpu_times(cores_);
  if (neighbours_ != nullptr) times.own = neighbours_->cpu_time(times.own);
  for (Reading& share : cpu_shares(cpu_times_, times, cores_.size())) c.readings.push_back(std::move(share));
  if (times.at - cpu_times_.at >= shortest_cpu_interval) cpu_times_ = times;
  c.readings.push_back({.name = "frequency", .unit = "Hz", .value = read_frequency(cores_)});
  return c;
}

void Session::probe_cores(Conditions& conditions) {
  Reading distance{.name = "core_distance", .unit = "s", .change = distance_change};
  Reading ratio{.name = "busy_core_ratio", .unit = "1"};
  Reading slowdown{.name = "busy_core_slowdown", .unit = "1", .limit = slowdown_limit};
  if (cores_.size() > 1 && (neighbours_ == nullptr || neighbours_->place() == 0)) {
    PingPong ping_pong;
    double alone = 0;
    double together = 0;
    run_on({{{0, 0, 0}, cores_[0], [&] { alone = work_rate(); }}});
    // The ping-pong has both threads there at once, so the second work runs side by side.
    run_on({{{0, 0, 0},
             cores_[0],
             [&] {
               distance.value = ping_pong.play(true).value();
               together = work_rate();
             }},
            {{1, 0, 0}, cores_[1], [&] {
               ping_pong.play(false);
               work_rate();
             }}});
    ratio.value = together / alone;
    slowdown.value = alone / together;
  }
  conditions.readings = {distance, ratio, slowdown};
}

std::string Session::reason_for(const Program& program, const Communicator& comm) const {
  if (comm.transport == "copy")
    return "host has no copy engine: its transport is " + transport() + ", which uses cores";
  if (comm.transport != transport()) {
    return "the host backend has no transport \"" + comm.transport + "\" in this run; it has " + transport();
  }
  if (neighbours_ == nullptr) {
    if (comm.progress.mode == ProgressMode::automatic) return {};
    return "shm moves its bytes on its own lanes and has no progress mode \"" + progress_name(comm.progress) +
           "\"; mpi has";
  }
  if (comm.channels > 1) return "MPI has no channels to choose: type --channels 0";
  if (!(comm.progress == program.communicators.front().progress)) {
    return "one rank has one way to move messages on: give all communicators the same progress mode";
  }
  const bool thread = progress_of(program).mode == ProgressMode::thread;
  const ThreadSupport needed = thread ? ThreadSupport::multiple : ThreadSupport::serialized;
  const ThreadSupport has = neighbours_->library().threads();
  if (has < needed) {
    return "progress " + progress_name(progress_of(program)) + " needs MPI with threads \"" +
           std::string(name(needed)) + "\", and this one has \"" + std::string(name(has)) + "\" (" +
           neighbours_->library().version() + ")";
  }
  return {};
}

std::vector<int> Session::siblings() const {
  std::vector<int> siblings;
  for (const int core : cores_) siblings.push_back(topology_.sibling(core));
  return siblings;
}

Support Session::supports(const Program& program) const {
  if (program.graph) return {"the host backend has no graphs to capture a replay in"};
  if (neighbours_ != nullptr && program.ranks != neighbours_->ranks()) {
    return {std::to_string(program.ranks) + " ranks: over MPI each is a process, and this run has " +
            std::to_string(neighbours_->ranks())};
  }
  if (program.ranks < 1 || program.ranks > most_ranks) {
    return {std::to_string(program.ranks) + " ranks: the host backend places 1 to " + std::to_string(most_ranks)};
  }
  if (program.lanes.empty()) return {"the program has no lane"};
  if (neighbours_ != nullptr && submitted_over_time(program) && progress_of(program).mode != ProgressMode::thread) {
    return {"progress " + progress_name(progress_of(program)) +
            ": what is submitted over time needs a lane that looks at the clock: type --progress thread"};
  }
  for (const Lane& lane : program.lanes) {
    if (lane.priority != Priority::normal) return {"host threads of one process share one priority"};
    if (lane.partition == Partition::siblings) {
      const std::vector<int> threads = siblings();
      const auto lone = std::find(threads.begin(), threads.end(), -1);
      if (lone != threads.end()) {
        return {"core " + std::to_string(cores_[static_cast<std::size_t>(lone - threads.begin())]) +
                " has no second hardware thread that this process may use: type --placement shared_core for one thread "
                "that both share"};
      }
    }
    if (neighbours_ != nullptr && lane.waiting == Waiting::block) {
      return {"MPI has no call that sleeps until a message is there: type --waiting yield or spin"};
    }
  }
  for (const Communicator& comm : program.communicators) {
    if (std::string reason = reason_for(program, comm); !reason.empty()) return {reason};
  }
  int threads = 0;
  for (const int helpers : helpers_by_lane(program)) threads += 1 + helpers;
  if (threads * program.ranks > most_threads) {
    return {std::to_string(threads * program.ranks) + " threads for all ranks' lanes and channels: the host backend " +
            "starts at most " + std::to_string(most_threads)};
  }
  for (const Buffer& buffer : program.buffers) {
    if (!runs(buffer.dtype)) return {dtype_reason(buffer.dtype)};
    if (buffer.memory != Memory::plain) {
      return {"host memory is plain: there is no network card or device to know \"" + std::string(name(buffer.memory)) +
              "\" buffers"};
    }
  }
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.prologue) {
      if (!std::holds_alternative<Fill>(op.work)) return {"the prologue may only fill"};
    }
    for (const Operation& op : c.body) {
      if (std::string reason = std::visit(OpReason{op, neighbours_ != nullptr, cores_.size()}, op.work);
          !reason.empty())
        return {reason};
    }
  }
  const int here = neighbours_ == nullptr ? program.ranks : neighbours_->on_machine();
  const Bytes needed = memory_per_rank(program) * here;
  const Bytes available = available_memory();
  if (needed > available) {
    return {std::to_string(here) + " ranks need " + format_bytes(needed) + " and " + format_bytes(available) +
            " are free"};
  }
  return {};
}

std::unique_ptr<Prepared> Session::prepare(std::vector<Program> arms, Data data, std::uint64_t seed) {
  return std::make_unique<Case>(*this, std::move(arms), data, seed);
}

std::vector<LaneProgress> Session::progress() const {
  const std::lock_guard lock(mutex_);
  std::vector<LaneProgress> all;
  if (current_ == nullptr) return all;
  for (const Track& t : current_->tracks) {
    if (t.worker.helper != 0) continue;
    all.push_back({Rank(t.worker.rank), LaneId(t.worker.lane), OpId(t.begun.load(std::memory_order_relaxed)),
                   OpId(t.completed.load(std::memory_order_relaxed))});
  }
  return all;
}

Timings Session::replay(const std::shared_ptr<Plan>& plan, bool shared_cores, const ReplayOptions& options) {
  if (stop_.raised()) {
    throw failure("the host backend is stopped", "a replay was aborted or failed before", "start a new process");
  }
  ReplayOptions how = options;
  // Over MPI the library is called within the window.
  if (neighbours_ != nullptr || plan->live) how.launch = Launch::live;
  Replay replay(how, ++replays_, plan->tracks.size(), stop_);
  replay.shared_cores = shared_cores;
  if (plan->progress) {
    plan->progress->restart();
    replay.progress = &*plan->progress;
    replay.clock_offset = neighbours_->clock_offset();
  }
  std::vector<Job> jobs;
  for (Track& track : plan->tracks) {
    jobs.push_back({track.worker, track.core, [&track, &replay] { play(track, replay); }});
  }
  {
    const std::lock_guard lock(mutex_);
    current_ = plan;
  }
  if (options.evict) {
    if (!evictor_) evictor_.emplace(cores_, topology_.last_level_cache(cores_));
    run_on(evictor_->jobs());
  }
  workers_.place(jobs);
  try {
    if (neighbours_ != nullptr) neighbours_->meet(stop_);
    if (how.launch == Launch::live) replay.opened = now();
    workers_.run(jobs);
  } catch (const Stopped&) {  // told below
  }
  if (stop_.raised()) abort();
  if (replay.error != nullptr) std::rethrow_exception(replay.error);
  if (stop_.raised()) throw failure("the replay was aborted", "it was told to stop before all lanes had finished");
  return timings_of(*plan, replay);
}

void Session::run_on(const std::vector<Job>& jobs) {
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<Job> guarded;
  for (const Job& job : jobs) {
    guarded.push_back({job.worker, job.core, [&] {
                         try {
                           job.work();
                         } catch (...) {
                           const std::lock_guard lock(mutex);
                           error = std::current_exception();
                         }
                       }});
  }
  workers_.place(guarded);
  workers_.run(guarded);
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace ovl::host
