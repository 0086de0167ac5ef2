// SPDX-License-Identifier: Apache-2.0
#include "support/scripted.hpp"

#include <algorithm>
#include <map>

#include "backend/distributed.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "program/order.hpp"
#include "program/reference.hpp"

namespace ovl::test {
namespace {

// The arm that a program is, from the name that project() gives it.
Arm arm_of(const Program& program) {
  const std::size_t colon = program.name.rfind(':');
  return colon == std::string::npos ? Arm::overlapped : parse_enum<Arm>(program.name.substr(colon + 1));
}

}  // namespace

Script constant(Seconds compute, Seconds comm, Seconds overlapped_compute, Seconds overlapped_comm) {
  return {.duration = [=](Arm arm, const Operation& op, int /*replay*/) {
    if (arm == Arm::empty) return Seconds(0);
    if (const auto* gemm = std::get_if<Gemm>(&op.work)) {
      return (arm == Arm::overlapped ? overlapped_compute : compute) * static_cast<double>(gemm->repeat);
    }
    return arm == Arm::overlapped ? overlapped_comm : comm;
  }};
}

// Computes on doubles what the programs say, for the verification to find right or wrong.
class ScriptedPrepared final : public Prepared {
 public:
  ScriptedPrepared(ScriptedBackend& backend, std::vector<Program> arms, Data data, std::uint64_t seed)
      : backend_(backend), arms_(std::move(arms)), data_(data), seed_(seed), counts_(arms_.size()) {
    backend_.most_prepared_ = std::max(backend_.most_prepared_, ++backend_.prepared_);
  }
  ~ScriptedPrepared() override { --backend_.prepared_; }

  void reset() override {
    ++backend_.resets_;
    ran_ = false;
  }

  Timings run(std::size_t index, const ReplayOptions& options) override {
    const Program& program = arms_.at(index);
    const Arm arm = arm_of(program);
    backend_.script_.on_replay(arm);
    backend_.replayed_.push_back(arm);
    backend_.slots_.push_back(options.slot);
    if (arm == Arm::overlapped && backend_.overlapped_replays_++ == backend_.script_.hanging_replay) backend_.hang();
    const int replay = counts_[index]++;
    ran_ = true;

    Timings timings;
    const bool each = options.recording == Recording::operations;
    timings.launch_order = arm != Arm::overlapped ? "unverified"
                           : each                 ? "compute_first"
                                                  : backend_.script_.order_in_spans;
    timings.start_source = "script";
    Seconds step(0);
    for (int r = 0; r < program.ranks; ++r) {
      const RankClass& c = program.class_of(Rank(r));
      RankTiming rank{Rank(r), Seconds(0), Seconds(0), {}};
      std::map<LaneId, LaneTiming> lanes;
      const HappensBefore order(c.body, program.lanes.size());
      std::vector<Seconds> finish(c.body.size());
      for (std::size_t i = 0; i < c.body.size(); ++i) {
        const Operation& op = c.body[i];
        Seconds start(0);
        for (const std::size_t p : order.predecessors(i)) start = std::max(start, finish[p]);
        finish[i] = start;
        if (is_ordering(op.work)) continue;
        finish[i] += backend_.script_.duration(arm, op, replay);
        lanes.try_emplace(op.lane, LaneTiming{op.lane, start, start}).first->second.end = finish[i];
        if (options.recording == Recording::operations) {
          timings.operations.push_back({Rank(r), op.id, op.lane, Seconds(0), start, start, finish[i], unknown_time});
        }
      }
      for (const auto& [id, lane] : lanes) {
        rank.lanes.push_back(lane);
        rank.end = std::max(rank.end, lane.end);
      }
      step = std::max(step, rank.end);
      timings.ranks.push_back(std::move(rank));
    }
    backend_.clock_.advance(step);
    return timings;
  }

  [[nodiscard]] std::vector<double> contents(BufferId buffer, Rank rank, int /*copy*/) const override {
    const Program& program = arms_.back();
    std::vector<double> values = ran_ ? right(program, buffer, rank) : filled(program, buffer, rank);
    backend_.script_.corrupt(program.buffers[buffer.index()], rank, values);
    return values;
  }

  [[nodiscard]] std::uint64_t fingerprint(BufferId buffer, Rank rank, int /*copy*/) const override {
    const bool overlapped = backend_.replayed_.back() == Arm::overlapped;
    return mix64(buffer.index() * 64 + rank.index()) + (overlapped && !backend_.script_.same_bits ? 1U : 0U);
  }

  [[nodiscard]] std::vector<Fact> observed() const override {
    return {{"layout", "scripted"}, {"oversubscribed", "0"}, {"channels", "1"}};
  }

 private:
  [[nodiscard]] std::vector<double> filled(const Program& program, BufferId buffer, Rank rank) const {
    std::vector<double> values(static_cast<std::size_t>(program.buffers[buffer.index()].count));
    const std::uint64_t seed = mix64(seed_ + buffer.index() * 1024 + rank.index());
    const DType dtype = program.buffers[buffer.index()].dtype;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      values[i] = data_ == Data::exact ? exact_element(seed, at, dtype) : random_element(seed, at, dtype);
    }
    return values;
  }

  // What the buffer must hold after the body.
  [[nodiscard]] const std::vector<double>& right(const Program& program, BufferId buffer, Rank rank) const {
    if (right_.empty()) {
      Contents start;
      for (int r = 0; r < program.ranks; ++r) {
        auto& of_rank = start.emplace_back();
        for (std::size_t b = 0; b < program.buffers.size(); ++b) {
          of_rank.push_back(filled(program, BufferId(b), Rank(r)));
        }
      }
      right_ = run_serially(program, std::move(start)).contents;
    }
    return right_.at(rank.index()).at(buffer.index());
  }

  ScriptedBackend& backend_;
  std::vector<Program> arms_;
  Data data_;
  std::uint64_t seed_;
  std::vector<int> counts_;
  bool ran_ = false;        // since its data were last restored
  mutable Contents right_;  // of the last arm, once asked for
};

Description ScriptedBackend::describe() const {
  return {.backend = "scripted",
          .device = "a script",
          .transports = {"shm"},
          .dtypes = {DType::f32, DType::f64},
          .default_ranks = 2,
          .most_ranks = 8,
          .last_level_cache = Bytes(0),
          .memory = mebibytes(1024),
          .window = microseconds(200),
          .facts = {}};
}

std::unique_ptr<Prepared> ScriptedBackend::prepare(std::vector<Program> arms, Data data, std::uint64_t seed) {
  script_.on_prepare();
  return std::make_unique<ScriptedPrepared>(*this, std::move(arms), data, seed);
}

std::vector<LaneProgress> ScriptedBackend::progress() const { return {{Rank(0), LaneId(1), OpId(3), OpId()}}; }

void ScriptedBackend::abort() noexcept {
  {
    const std::lock_guard lock(mutex_);
    abort_ = true;
  }
  aborted_.notify_all();
}

void ScriptedBackend::hang() {
  std::unique_lock lock(mutex_);
  aborted_.wait(lock, [this] { return abort_; });
  if (!script_.comes_back) throw failure("the replay was aborted", "", "");
}

namespace {

class PartPrepared final : public Prepared {
 public:
  PartPrepared(std::unique_ptr<Prepared> whole, int process, int size, int ranks, Seconds epoch)
      : whole_(std::move(whole)), process_(process), size_(size), ranks_(ranks), epoch_(epoch) {}

  void reset() override { whole_->reset(); }
  Timings run(std::size_t arm, const ReplayOptions& options) override {
    Timings timings = whole_->run(arm, options);
    std::erase_if(timings.ranks, [&](const RankTiming& t) { return !mine(t.rank); });
    std::erase_if(timings.operations, [&](const OperationTiming& t) { return !mine(t.rank); });
    timings.epoch = epoch_;
    return timings;
  }
  [[nodiscard]] std::vector<double> contents(BufferId buffer, Rank rank, int copy) const override {
    require(mine(rank), "a process is asked for its own ranks");
    return whole_->contents(buffer, rank, copy);
  }
  [[nodiscard]] std::uint64_t fingerprint(BufferId buffer, Rank rank, int copy) const override {
    require(mine(rank), "a process is asked for its own ranks");
    return whole_->fingerprint(buffer, rank, copy);
  }
  [[nodiscard]] std::vector<Fact> observed() const override { return whole_->observed(); }

 private:
  [[nodiscard]] bool mine(Rank rank) const { return owner_of(rank, size_, ranks_) == process_; }

  std::unique_ptr<Prepared> whole_;
  int process_;
  int size_;
  int ranks_;
  Seconds epoch_;
};

class PartBackend final : public Backend {
 public:
  PartBackend(std::unique_ptr<Backend> whole, int process, int size, Seconds epoch)
      : whole_(std::move(whole)), process_(process), size_(size), epoch_(epoch) {}

  [[nodiscard]] Description describe() const override { return whole_->describe(); }
  [[nodiscard]] Conditions conditions() override { return whole_->conditions(); }
  [[nodiscard]] Support supports(const Program& program) const override { return whole_->supports(program); }
  [[nodiscard]] std::unique_ptr<Prepared> prepare(std::vector<Program> arms, Data data, std::uint64_t seed) override {
    const int ranks = arms.front().ranks;
    return std::make_unique<PartPrepared>(whole_->prepare(std::move(arms), data, seed), process_, size_, ranks, epoch_);
  }
  [[nodiscard]] std::vector<LaneProgress> progress() const override { return whole_->progress(); }
  void abort() noexcept override { whole_->abort(); }

 private:
  std::unique_ptr<Backend> whole_;
  int process_;
  int size_;
  Seconds epoch_;
};

}  // namespace

std::unique_ptr<Backend> part_of(std::unique_ptr<Backend> whole, int process, int size, Seconds epoch) {
  return std::make_unique<PartBackend>(std::move(whole), process, size, epoch);
}

}  // namespace ovl::test
