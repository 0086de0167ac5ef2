// SPDX-License-Identifier: Apache-2.0
#include "backend/distributed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "backend/progress.hpp"
#include "backend/wire.hpp"
#include "base/error.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

constexpr std::string_view hang_mark = "a replay does not end on process ";

std::string hang_text(int process) { return fmt::format("{}{}", hang_mark, process); }

// ---- merging --------------------------------------------------------------------------------------------------------

// The one text of all processes, or each with those that say it: "process 0, 2: a; process 1: b".
std::string combined(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> by_text;
  for (std::size_t p = 0; p < texts.size(); ++p) {
    auto found =
        std::find_if(by_text.begin(), by_text.end(), [&](const auto& entry) { return entry.first == texts[p]; });
    if (found == by_text.end()) found = by_text.insert(by_text.end(), {texts[p], {}});
    found->second.push_back(p);
  }
  if (by_text.size() == 1) return by_text.front().first;
  std::string all;
  for (const auto& [text, processes] : by_text) {
    if (text.empty()) continue;
    all += fmt::format("{}process {}: {}", all.empty() ? "" : "; ", fmt::join(processes, ", "), text);
  }
  return all;
}

template <class T>
std::vector<T> in_all(const std::vector<Description>& parts, std::vector<T> Description::*member) {
  std::vector<T> common = parts.front().*member;
  std::erase_if(common, [&](const T& value) {
    return !std::all_of(parts.begin(), parts.end(), [&](const Description& part) {
      const std::vector<T>& has = part.*member;
      return std::find(has.begin(), has.end(), value) != has.end();
    });
  });
  return common;
}

// What the processes must agree on, or the text that names them.
std::string same_or(const std::vector<std::string>& texts, const std::string& otherwise) {
  const bool same = std::all_of(texts.begin(), texts.end(), [&](const auto& t) { return t == texts.front(); });
  return same ? texts.front() : otherwise;
}

// ---- over the wire --------------------------------------------------------------------------------------------------

void put(WireWriter& w, const Fact& fact) {
  w.put(fact.name);
  w.put(fact.value);
}
Fact get_fact(WireReader& r) {
  Fact fact;
  fact.name = r.text();
  fact.value = r.text();
  return fact;
}

std::string packed(const std::vector<Fact>& facts) {
  WireWriter w;
  w.put_all(facts, [](WireWriter& writer, const Fact& fact) { put(writer, fact); });
  return std::move(w).take();
}
std::vector<Fact> facts_of(const std::string& text) {
  WireReader r(text);
  return r.all(get_fact);
}

std::string packed(const Description& d) {
  WireWriter w;
  w.put(d.backend);
  w.put(d.device);
  w.put(d.source);
  w.put(d.device_shared);
  w.put_all(d.transports, [](WireWriter& writer, const std::string& t) { writer.put(t); });
  w.put_all(d.dtypes, [](WireWriter& writer, DType t) { writer.put(static_cast<int>(t)); });
  w.put(d.default_ranks);
  w.put(d.most_ranks);
  w.put(d.units);
  w.put(d.queue_depth);
  w.put(d.last_level_cache.value());
  w.put(d.memory.value());
  w.put(d.window);
  w.put_all(d.facts, [](WireWriter& writer, const Fact& fact) { put(writer, fact); });
  w.put_all(d.at_open, [](WireWriter& writer, const Fact& fact) { put(writer, fact); });
  return std::move(w).take();
}
Description description_of(const std::string& text) {
  WireReader r(text);
  Description d;
  d.backend = r.text();
  d.device = r.text();
  d.source = r.text();
  d.device_shared = r.truth();
  d.transports = r.all([](WireReader& reader) { return reader.text(); });
  d.dtypes = r.all([](WireReader& reader) { return static_cast<DType>(reader.integer()); });
  d.default_ranks = r.integer();
  d.most_ranks = r.integer();
  d.units = r.integer();
  d.queue_depth = r.integer();
  d.last_level_cache = Bytes(r.number());
  d.memory = Bytes(r.number());
  d.window = r.seconds();
  d.facts = r.all(get_fact);
  d.at_open = r.all(get_fact);
  return d;
}

std::string packed(const Conditions& conditions) {
  WireWriter w;
  w.put_all(conditions.readings, [](WireWriter& writer, const Reading& reading) {
    writer.put(reading.name);
    writer.put(reading.unit);
    for (const double number : {reading.value, reading.limit, reading.change}) writer.put(number);
  });
  return std::move(w).take();
}
Conditions conditions_of(const std::string& text) {
  WireReader r(text);
  return {r.all([](WireReader& reader) {
    Reading reading;
    reading.name = reader.text();
    reading.unit = reader.text();
    for (double* number : {&reading.value, &reading.limit, &reading.change}) *number = reader.real();
    return reading;
  })};
}

std::string packed(const Timings& t) {
  WireWriter w;
  w.put_all(t.ranks, [](WireWriter& writer, const RankTiming& rank) {
    writer.put(int{rank.rank.value});
    writer.put(rank.origin);
    writer.put(rank.end);
    writer.put_all(rank.lanes, [](WireWriter& inner, const LaneTiming& lane) {
      inner.put(int{lane.lane.value});
      inner.put(lane.start);
      inner.put(lane.end);
      inner.put(lane.moved.has_value());
      inner.put(lane.moved.value_or(Bytes(0)).value());
    });
  });
  w.put_all(t.operations, [](WireWriter& writer, const OperationTiming& op) {
    for (const std::int32_t id : {op.rank.value, op.op.value, op.lane.value}) writer.put(int{id});
    for (const Seconds time : {op.enqueued, op.ready, op.start, op.end, op.host_return}) writer.put(time);
  });
  w.put(t.start_source);
  w.put(t.launch_order);
  w.put(t.partial);
  w.put(t.epoch);
  return std::move(w).take();
}
Timings timings_of(WireReader& r) {
  Timings t;
  t.ranks = r.all([](WireReader& reader) {
    RankTiming rank;
    rank.rank = Rank(reader.integer());
    rank.origin = reader.seconds();
    rank.end = reader.seconds();
    rank.lanes = reader.all([](WireReader& inner) {
      LaneTiming lane;
      lane.lane = LaneId(inner.integer());
      lane.start = inner.seconds();
      lane.end = inner.seconds();
      const bool counted = inner.truth();
      const Bytes moved(inner.number());
      if (counted) lane.moved = moved;
      return lane;
    });
    return rank;
  });
  t.operations = r.all([](WireReader& reader) {
    OperationTiming op;
    op.rank = Rank(reader.integer());
    op.op = OpId(reader.integer());
    op.lane = LaneId(reader.integer());
    for (Seconds* time : {&op.enqueued, &op.ready, &op.start, &op.end, &op.host_return}) *time = reader.seconds();
    return op;
  });
  t.start_source = r.text();
  t.launch_order = r.text();
  t.partial = r.truth();
  t.epoch = r.seconds();
  return t;
}

// Every process's part, from what each says.
template <class Part>
std::vector<Part> exchange(World& world, const Part& mine, Part (*parse)(const std::string&)) {
  std::vector<Part> parts;
  for (const std::string& text : all_gather(world, packed(mine))) parts.push_back(parse(text));
  return parts;
}

// ---- the session ----------------------------------------------------------------------------------------------------

// As one that is stopped does not answer at all, and one that lives does at once.
constexpr Seconds report_patience(1);

// What `body` makes of a world that was aborted because a replay hangs: a hang on every process.
template <class Body>
auto telling_hangs(World& world, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (!is_hang(error.what())) throw;
    throw HangError(ErrorKind::failure, world.decides() ? told_by_all(world) : error.what());
  }
}

class DistributedBackend final : public Backend {
 public:
  DistributedBackend(std::unique_ptr<Backend> local, World& world, const std::atomic<bool>& interrupted)
      : local_(std::move(local)), world_(world), interrupted_(interrupted) {
    Description mine;
    together(world, [&] { mine = local_->describe(); });
    description_ = merged(exchange<Description>(world, mine, description_of));
    // Who waits in the local backend for a process that is no more waits for ever.
    world_.when_aborted([this](const std::string& /*reason*/) {
      report_progress();
      local_->abort();
    });
  }
  ~DistributedBackend() override { world_.when_aborted({}); }

  [[nodiscard]] Description describe() const override { return description_; }

  [[nodiscard]] Conditions conditions() override {
    Conditions mine;
    step([&] { mine = local_->conditions(); });
    return merged(exchange<Conditions>(world_, mine, conditions_of));
  }

  [[nodiscard]] Support supports(const Program& program) const override {
    std::string reason;
    step([&] { reason = local_->supports(program).reason; });
    return {combined(all_gather(world_, reason))};
  }

  [[nodiscard]] std::unique_ptr<Prepared> prepare(std::vector<Program> arms, Data data, std::uint64_t seed) override;

  [[nodiscard]] std::vector<LaneProgress> progress() const override { return local_->progress(); }

  // Called for a replay that hangs, here or because of another process.
  void abort() noexcept override {
    report_progress();  // before the end of the replay changes it
    try {
      world_.abort(hang_text(world_.process()));
    } catch (...) {  // without words then
      world_.abort({});
    }
    local_->abort();
  }

 private:
  friend class DistributedPrepared;

  // While it lives, `program` is what this process is in.
  class Running {
   public:
    Running(DistributedBackend& backend, const Program& program) : backend_(backend) { set(&program); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { set(nullptr); }

   private:
    void set(const Program* program) {
      const std::lock_guard lock(backend_.mutex_);
      backend_.running_ = program;
    }
    DistributedBackend& backend_;
  };

  void report_progress() noexcept {
    try {
      const std::lock_guard lock(mutex_);
      if (running_ == nullptr) return world_.report("in no replay, it waits for the others");
      const std::string text = progress_text(*running_, local_->progress());
      world_.report(text.empty() ? "no lane had begun" : text);
    } catch (...) {  // no memory for the words: then it has not reported
    }
  }

  // A part that all do: fails on all when it fails on one, or when one is interrupted.
  void step(const std::function<void()>& body) const {
    telling_hangs(world_, [&] {
      together(world_, [&] {
        if (interrupted_.load(std::memory_order_relaxed)) {
          // In a step with World operations of its own the others wait for this process: it takes part.
          body();
          throw Error(ErrorKind::interrupted, "interrupted: the case under way is given up");
        }
        body();
      });
    });
  }

  std::unique_ptr<Backend> local_;
  World& world_;
  const std::atomic<bool>& interrupted_;
  Description description_;
  std::mutex mutex_;
  const Program* running_ = nullptr;
};

class DistributedPrepared final : public Prepared {
 public:
  DistributedPrepared(DistributedBackend& backend, std::unique_ptr<Prepared> local, std::vector<Program> arms)
      : backend_(backend), world_(backend.world_), local_(std::move(local)), arms_(std::move(arms)) {}

  void reset() override {
    backend_.step([&] { local_->reset(); });
  }

  // One exchange for all: the times, and whether the replay failed or someone wants to stop. A failure does not wait
  // for it: the others may wait in their replay for this process.
  Timings run(std::size_t arm, const ReplayOptions& options) override {
    return telling_hangs(world_, [&] {
      Timings mine;
      std::optional<Error> error;
      try {
        const DistributedBackend::Running running(backend_, arms_.at(arm));
        mine = local_->run(arm, options);
        if (backend_.interrupted_.load(std::memory_order_relaxed)) {
          error = Error(ErrorKind::interrupted, "interrupted: the case under way is given up");
        }
      } catch (const Error& thrown) {
        error = thrown;
        if (error->kind() == ErrorKind::failure) world_.abort(failure_text(world_, error->what()));
      }
      const std::vector<std::string> parts = all_gather(world_, error ? "" : packed(mine));
      const bool failed = std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
      if (failed) {
        together(world_, [&] {
          if (error) throw Error(*error);
        });
      }
      std::vector<Timings> timings;
      for (const std::string& part : parts) {
        WireReader reader(part);
        timings.push_back(timings_of(reader));
      }
      return merged(timings);
    });
  }

  [[nodiscard]] std::vector<double> contents(BufferId buffer, Rank rank, int copy) const override {
    const std::string text = from_owner(rank, [&](WireWriter& w) {
      w.put_all(local_->contents(buffer, rank, copy), [](WireWriter& writer, double v) { writer.put(v); });
    });
    WireReader r(text);
    return r.all([](WireReader& reader) { return reader.real(); });
  }

  [[nodiscard]] std::uint64_t fingerprint(BufferId buffer, Rank rank, int copy) const override {
    const std::string text = from_owner(rank, [&](WireWriter& w) { w.put(local_->fingerprint(buffer, rank, copy)); });
    return WireReader(text).unsigned_number();
  }

  [[nodiscard]] std::vector<Fact> observed() const override {
    std::vector<Fact> mine;
    backend_.step([&] { mine = local_->observed(); });
    return merged(exchange<std::vector<Fact>>(world_, mine, facts_of));
  }

 private:
  // What the process of a rank writes, on every process. What it throws instead, all throw.
  [[nodiscard]] std::string from_owner(Rank rank, const std::function<void(WireWriter&)>& write) const {
    const int owner = owner_of(rank, world_.size(), arms_.front().ranks);
    WireWriter w;
    std::optional<Error> error;
    if (world_.process() == owner) {
      WireWriter content;
      try {
        write(content);
      } catch (const Error& thrown) {
        error = thrown;
      }
      w.put(error ? static_cast<int>(error->kind()) : 0);
      w.put(error ? std::string(error->what()) : std::move(content).take());
    }
    const std::string text = world_.broadcast(std::move(w).take(), owner);
    WireReader r(text);
    const int kind = r.integer();
    std::string said = r.text();
    if (kind != 0) throw SharedError(static_cast<ErrorKind>(kind), fmt::format("process {}: {}", owner, said));
    return said;
  }

  DistributedBackend& backend_;
  World& world_;
  std::unique_ptr<Prepared> local_;
  std::vector<Program> arms_;
};

std::unique_ptr<Prepared> DistributedBackend::prepare(std::vector<Program> arms, Data data, std::uint64_t seed) {
  std::string plan = fmt::format("{} data, seed {}\n", data == Data::exact ? "exact" : "random", seed);
  for (const Program& arm : arms) plan += print(arm);
  require_equal(world_, "the program", plan, ErrorKind::failure);  // of one plan: one of them broke
  std::unique_ptr<Prepared> local;
  step([&] {
    const Running running(*this, arms.front());
    local = local_->prepare(arms, data, seed);
  });
  return std::make_unique<DistributedPrepared>(*this, std::move(local), std::move(arms));
}

}  // namespace

std::string failure_text(const World& world, std::string_view what) {
  return fmt::format("process {}: {}", world.process(), what);
}

bool is_hang(std::string_view reason) { return reason.starts_with(hang_mark); }

std::string told_by_all(World& world) {
  std::string text;
  const std::vector<std::optional<std::string>> reports = world.reports(report_patience);
  for (std::size_t p = 0; p < reports.size(); ++p) {
    text += fmt::format(
        "{}process {}{}", p == 0 ? "" : "; ", p,
        reports[p] ? ": " + *reports[p] : " did not answer: what its ranks had enqueued and completed is unknown");
  }
  return text;
}

RankBlock rank_block(int process, int size, int ranks) {
  require(size > 0 && process >= 0 && process < size && ranks >= 0, "ranks are dealt out to the processes of a world");
  const int each = ranks / size;
  const int longer = ranks % size;
  return {process * each + std::min(process, longer), each + (process < longer ? 1 : 0)};
}

int owner_of(Rank rank, int size, int ranks) {
  for (int process = 0; process < size; ++process) {
    const RankBlock block = rank_block(process, size, ranks);
    if (rank.value >= block.first && rank.value < block.first + block.count) return process;
  }
  throw std::logic_error("broken invariant: every rank has a process");
}

std::vector<Fact> merged(const std::vector<std::vector<Fact>>& parts) {
  std::vector<Fact> all;
  for (const auto& part : parts) {
    for (const Fact& fact : part) {
      const bool known =
          std::any_of(all.begin(), all.end(), [&](const Fact& other) { return other.name == fact.name; });
      if (known) continue;
      std::vector<std::string> values;
      for (const auto& other : parts) {
        const auto found = std::find_if(other.begin(), other.end(),
                                        [&](const Fact& candidate) { return candidate.name == fact.name; });
        values.push_back(found == other.end() ? "" : found->value);
      }
      all.push_back({fact.name, combined(values)});
    }
  }
  return all;
}

Description merged(const std::vector<Description>& parts) {
  Description all = parts.front();
  std::vector<std::string> devices;
  std::vector<std::vector<Fact>> facts;
  std::vector<std::vector<Fact>> at_open;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Description& part = parts[p];
    if (part.backend != all.backend || part.default_ranks != all.default_ranks) {
      throw usage_error(fmt::format("process {} runs {} with {} ranks, process 0 {} with {}", p, part.backend,
                                    part.default_ranks, all.backend, all.default_ranks),
                        "all must run the same backend", "type --backend and --ranks, the same on all");
    }
    devices.push_back(part.device);
    facts.push_back(part.facts);
    at_open.push_back(part.at_open);
    all.most_ranks = std::min(all.most_ranks, part.most_ranks);
    all.units = std::min(all.units, part.units);
    all.queue_depth = std::min(all.queue_depth, part.queue_depth);
    all.last_level_cache = std::max(all.last_level_cache, part.last_level_cache);
    all.memory = std::min(all.memory, part.memory);
    all.window = std::max(all.window, part.window);
  }
  all.transports = in_all(parts, &Description::transports);
  all.dtypes = in_all(parts, &Description::dtypes);
  const std::string device = combined(devices);
  const bool one_each = parts.size() > 1 && device == devices.front() && !all.device_shared;
  all.device = one_each ? fmt::format("{} x {}", parts.size(), device) : device;
  all.facts = merged(facts);
  all.at_open = merged(at_open);
  return all;
}

Conditions merged(const std::vector<Conditions>& parts) {
  Conditions all;
  for (const Conditions& part : parts) {
    for (const Reading& reading : part.readings) {
      const auto found = std::find_if(all.readings.begin(), all.readings.end(),
                                      [&](const Reading& other) { return other.name == reading.name; });
      if (found == all.readings.end()) {
        all.readings.push_back(reading);
      } else if (std::isnan(reading.limit)) {
        found->value = std::fmin(found->value, reading.value);
      } else {
        found->value = std::fmax(found->value, reading.value);
      }
    }
  }
  return all;
}

Timings merged(const std::vector<Timings>& parts) {
  if (parts.size() == 1) return parts.front();
  Seconds latest(-std::numeric_limits<double>::infinity());
  for (const Timings& part : parts) {
    require(!std::isnan(part.epoch.value()), "the times of several processes are on a clock that they share");
    for (const RankTiming& rank : part.ranks) latest = std::max(latest, part.epoch + rank.origin);
  }
  Timings all;
  all.epoch = latest;
  std::vector<std::string> sources;
  std::vector<std::string> orders;
  for (Timings part : parts) {
    const Seconds shift = part.epoch - latest;
    for (RankTiming& rank : part.ranks) {
      rank.origin += shift;
      rank.end += shift;
      for (LaneTiming& lane : rank.lanes) {
        lane.start += shift;
        lane.end += shift;
      }
      all.ranks.push_back(std::move(rank));
    }
    for (OperationTiming& op : part.operations) {
      for (Seconds* time : {&op.enqueued, &op.ready, &op.start, &op.end, &op.host_return}) *time += shift;
      all.operations.push_back(op);
    }
    sources.push_back(part.start_source);
    orders.push_back(part.launch_order);
    all.partial = all.partial || part.partial;
  }
  all.start_source = same_or(sources, "");
  all.launch_order = same_or(orders, "unverified");
  return all;
}

std::unique_ptr<Backend> distribute(std::unique_ptr<Backend> local, World& world,
                                    const std::atomic<bool>& interrupted) {
  return std::make_unique<DistributedBackend>(std::move(local), world, interrupted);
}

}  // namespace ovl
