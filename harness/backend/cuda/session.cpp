// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "backend/cuda/case.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/proxy.hpp"
#include "backend/distributed.hpp"
#include "base/error.hpp"

namespace ovl::cuda {
namespace {

// Launches of 3 to 5 us and events of half a microsecond scatter by a part of themselves: a window a hundred times as
// long makes that small.
constexpr Seconds window = milliseconds(2);
constexpr int opening_clock_rounds = 20;
constexpr int barrier_rounds = 31;

Error stopped_error() {
  return failure("the cuda backend is stopped", "a replay was aborted or failed before", "start a new process");
}

std::vector<DType> common_dtypes(const std::vector<Device>& devices) {
  std::vector<DType> common = dtypes_of(devices.front());
  for (const Device& device : devices) {
    const std::vector<DType> has = dtypes_of(device);
    std::erase_if(common, [&](DType d) { return std::find(has.begin(), has.end(), d) == has.end(); });
  }
  return common;
}

// Words of 16 hexadecimal digits.
std::string algorithm_words(const Algorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

Algorithm parse_algorithm(const std::string& text) {
  constexpr std::size_t digits = 16;
  Algorithm algorithm{};
  require(text.size() == digits * algorithm.size(), "an algorithm arrives whole");
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    algorithm[i] = std::stoull(text.substr(i * digits, digits), nullptr, digits);
  }
  return algorithm;
}

// Readings of several devices as one: the worst says what limits the whole.
void merge(std::vector<Reading>& all, const std::vector<Reading>& device) {
  const auto low_is_bad = [](const std::string& name) { return name.find("clock") != std::string::npos; };
  for (const Reading& reading : device) {
    const auto same = [&](const Reading& r) { return r.name == reading.name; };
    const auto kept = std::find_if(all.begin(), all.end(), same);
    if (kept == all.end()) {
      all.push_back(reading);
    } else if (reading.name == "energy") {
      kept->value += reading.value;
    } else {
      kept->value =
          low_is_bad(reading.name) ? std::fmin(kept->value, reading.value) : std::fmax(kept->value, reading.value);
    }
  }
}

// The most ranks that one device has. Two processes that see one device each may see the same.
int require_places(const std::string& device_list) {
  std::istringstream words(device_list);
  std::map<std::string, std::vector<std::string>> ranks_of;
  int most = 0;
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    std::vector<std::string>& ranks = ranks_of[word.substr(colon + 1)];
    ranks.push_back(word.substr(0, colon));
    most = std::max(most, static_cast<int>(ranks.size()));
    if (most > ranks_of_a_gpu()) {
      throw impossible_error(
          fmt::format("ranks {} have the same GPU {}", fmt::join(ranks, " and "), word.substr(colon + 1)),
          sharing_reason(), "make a GPU visible to each process with CUDA_VISIBLE_DEVICES, or start fewer processes");
    }
  }
  return most;
}

// What was asked may name more than the transport: the rate of the proxy's link.
std::vector<std::string> transports_of(int ranks, bool shared, const std::string& asked) {
  if (shared) return {std::string(shared_transport)};
  // NCCL does nothing for one rank but copy.
  std::vector<std::string> all =
      ranks == 1 ? std::vector<std::string>{"copy", "nccl"} : std::vector<std::string>{"nccl", "copy"};
  all.emplace_back("proxy");
  if (asked != all.back() && parse_proxy(asked)) all.push_back(asked);
  return all;
}

}  // namespace

Session::Session(World& world, const Placing& placing, int ranks, const std::string& transport)
    : world_(world), first_(placing.first), all_ranks_(ranks), ranks_(placing.devices.size()) {
  try {
    locally([&] { open(placing); });
    relate_processes();
    gather_devices();
    transports_ = transports_of(ranks, shares_devices(), transport);
  } catch (...) {
    close();
    throw;
  }
}

Session::~Session() { close(); }

void Session::open(const Placing& placing) {
  for (const int index : placing.devices) devices_.push_back(read_device(index));
  dtypes_ = common_dtypes(devices_);
  for (std::size_t r = 0; r < devices_.size(); ++r) {
    workers_.push_back(
        std::make_unique<Worker>(Rank(first_.value + static_cast<int>(r)), [this, r] { make_current(devices_[r]); }));
  }
  on_workers(devices_.size(), [this](std::size_t r) {
    ranks_[r] = std::make_unique<RankDevice>(workers_[r]->rank(), devices_[r]);
    ranks_[r]->clock.measure(ranks_[r]->root.get(), opening_clock_rounds, stop_);
  });
  make_current(devices_.front());
  communicators_ = std::make_unique<Communicators>(world_, first_, devices_);
}

void Session::close() noexcept {
  communicators_.reset();
  for (std::size_t r = 0; r < workers_.size(); ++r) {
    try {
      workers_[r]->run([this, r] { ranks_[r].reset(); });
    } catch (...) {  // destructors tell what they cannot release
    }
  }
}

// Processes of one machine share its steady clock.
void Session::relate_processes() {
  if (world_.local_size() == world_.size()) return;
  std::vector<std::int64_t> mine;
  for (int i = 0; i < barrier_rounds; ++i) {
    world_.barrier();
    mine.push_back(host_now());
  }
  std::istringstream of_process_0(world_.broadcast(fmt::format("{}", fmt::join(mine, " "))));
  std::vector<std::int64_t> theirs;
  for (std::int64_t stamp = 0; of_process_0 >> stamp;) theirs.push_back(stamp);
  process_clock_ = relate_barriers(mine, theirs);
}

void Session::gather_devices() {
  std::string mine;
  for (std::size_t r = 0; r < devices_.size(); ++r) {
    mine += fmt::format("{}{}:{}", r == 0 ? "" : " ", first_.value + static_cast<int>(r), devices_[r].uuid);
  }
  device_list_ = world_.size() == 1 ? mine : world_.broadcast(fmt::format("{}", fmt::join(world_.gather(mine), " ")));
  most_ranks_of_device_ = require_places(device_list_);
}

bool Session::shares_devices() const { return most_ranks_of_device_ > 1; }

Description Session::describe() const {
  Description d;
  d.backend = "cuda";
  // Begins with the name: that of a test double says what it is.
  d.device = devices_.front().name;
  if (devices_.front().emulated) d.source = "emulated";
  if (devices_.size() > 1) d.device += fmt::format(", {} devices", devices_.size());
  d.transports = transports_;
  d.dtypes = dtypes_;
  d.default_ranks = all_ranks_;
  d.most_ranks = all_ranks_;
  d.units = devices_.front().sms;
  d.queue_depth = collectives_in_queue;
  d.window = window;
  for (const Device& device : devices_) {
    d.last_level_cache = std::max(d.last_level_cache, device.l2);
    d.memory += free_memory(device) / most_ranks_of_device_;
  }
  std::string indices;
  for (const Device& device : devices_) indices += (indices.empty() ? "" : " ") + std::to_string(device.index);
  const Device& first = devices_.front();
  d.facts = {{"gpu", first.name},
             {"gpu_uuids", device_list_},
             {"gpu_indices", indices},
             {"emulated", first.emulated ? "1" : "0"},
             {"compute_capability", fmt::format("{}.{}", first.major, first.minor)},
             {"sms", std::to_string(first.sms)},
             {"l2_bytes", std::to_string(first.l2.value())},
             {"gpu_memory_bytes", std::to_string(first.memory.value())},
             {"copy_engines", std::to_string(first.copy_engines)},
             {"priorities", fmt::format("{} to {}", first.least_priority, first.greatest_priority)},
             {"gate", std::string(name(ranks_.front()->gate.kind()))},
             {"launch_completion_events", ranks_.front()->launch_completion ? "1" : "0"},
             {"kernel_occupy", ranks_.front()->residents.occupy.text},
             {"kernel_stream", ranks_.front()->residents.stream.text},
             {"kernel_ring_proxy", ranks_.front()->residents.proxy.text},
             {"nvml", nvml_.status()},
             {"cupti", trace_.status()}};
  d.at_open = {{"device_clock_error_ns", std::to_string(ranks_.front()->clock.relation().error)},
               {"process_clock_error_ns", std::to_string(process_clock_.error)}};
  for (Fact& fact : library_facts()) d.facts.push_back(std::move(fact));
  for (const auto& [shape, algorithm] : algorithms_) {
    d.facts.push_back(
        {fmt::format("gemm_{}x{}x{}_{}", shape.m, shape.n, shape.k, name(shape.dtype)), algorithm_text(algorithm)});
  }
  return d;
}

Conditions Session::conditions() {
  Conditions conditions;
  for (const Device& device : devices_) merge(conditions.readings, nvml_.readings(device));
  return conditions;
}

Support Session::supports(const Program& program) const {
  Capabilities here{.ranks = all_ranks_,
                    .several_processes = world_.size() > 1,
                    .dtypes = dtypes_,
                    .devices = devices_,
                    .free = {},
                    .green_contexts = driver().has_green_contexts(),
                    .words = driver().write_value != nullptr,
                    .shared_devices = shares_devices(),
                    .residents = ranks_.front()->residents,
                    .workspace = workspace_of(devices_.front())};
  for (const Device& device : devices_) here.free.push_back(free_memory(device) / most_ranks_of_device_);
  return {unsupported_reason(program, here)};
}

std::unique_ptr<Prepared> Session::prepare(std::vector<Program> arms, Data data, std::uint64_t seed) {
  return std::make_unique<Case>(*this, std::move(arms), data, seed);
}

std::vector<LaneProgress> Session::progress() const {
  const std::lock_guard lock(mutex_);
  std::vector<LaneProgress> all;
  for (const RankCase* rank : current_) {
    for (const auto& lane : rank->lanes) {
      if (lane == nullptr) continue;
      all.push_back({rank->rank.rank, lane->lane, OpId(lane->enqueued.load(std::memory_order_relaxed)),
                     OpId(lane->completed.load(std::memory_order_relaxed))});
    }
  }
  return all;
}

void Session::locally(const std::function<void()>& body) { together(world_, body); }

void Session::collectively(const std::function<void()>& body) {
  together(world_, [&] {
    try {
      body();
    } catch (const SharedError&) {
      throw;  // nobody waits
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::failure) give_up(std::current_exception());
      throw;
    }
  });
}

void Session::abort() noexcept {
  stop_.raise();
  for (const auto& rank : ranks_) {
    rank->gate.open();
    rank->halt.raise();
  }
  communicators_->abort();
}

int Session::local_ranks(int ranks) const {
  return std::clamp(ranks - first_.value, 0, static_cast<int>(devices_.size()));
}

void Session::on_workers(std::size_t ranks, const std::function<void(std::size_t local)>& work) const {
  for (std::size_t r = 0; r < ranks; ++r) workers_[r]->start([&work, r] { work(r); });
  std::exception_ptr error;
  for (std::size_t r = 0; r < ranks; ++r) {
    try {
      workers_[r]->wait();
    } catch (...) {
      if (error == nullptr) error = std::current_exception();
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
}

const Algorithm& Session::algorithm(const GemmShape& shape) {
  const auto [known, fresh] = algorithms_.try_emplace(shape);
  if (!fresh) return known->second;
  std::string words;
  try {
    decided(world_, [&] {
      workers_.front()->run([&] { known->second = choose_algorithm(ranks_.front()->blas, devices_.front(), shape); });
      words = algorithm_words(known->second);
    });
    words = world_.broadcast(words);
  } catch (...) {
    algorithms_.erase(known);
    throw;
  }
  known->second = parse_algorithm(words);
  return known->second;
}

Session::Recorded Session::replay(const Plan& plan, std::size_t arm, const std::vector<RankCase*>& on,
                                  const std::vector<const Group*>& groups, const Group* align,
                                  const ReplayOptions& options, bool warm_up) {
  if (stop_.raised()) throw stopped_error();
  const bool gated = options.launch == Launch::gated && !plan.live && !warm_up;
  const bool traced = options.recording == Recording::operations && trace_.available() && !plan.graph && !warm_up;
  Replay replay{.plan = plan,
                .arm = arm,
                .options = options,
                .gated = gated,
                .warm_up = warm_up,
                .groups = groups,
                .align = align,
                .trace = traced ? &trace_ : nullptr,
                .communicators = *communicators_,
                .stop = stop_,
                .meeting = Meeting(on.size(), gated)};
  {
    const std::lock_guard lock(mutex_);
    current_ = on;
  }
  std::vector<RankStamps> stamps(on.size());
  Meeting& meeting = replay.meeting;
  try {
    if (traced) trace_.start();
  } catch (...) {
    meeting.fail(std::current_exception());
    stop_.raise();
  }
  for (std::size_t r = 0; r < on.size(); ++r) {
    workers_[r]->start([&, r] { play(replay, r, *on[r], stamps[r]); });
  }
  if (!meeting.wait(gated ? gate_timeout : unknown_time)) {
    meeting.fail(std::make_exception_ptr(failure(
        "the gate was opened after " + format_seconds(gate_timeout), "a rank had not handed over its work until then",
        "start a new process; report it with the program that --dry-run prints")));
  }
  // Only when every process has come this far may a gate open. One that failed ends the others at once: they may wait
  // for it on their devices, where no vote reaches them.
  if (meeting.error() == nullptr && world_.size() > 1) {
    try {
      world_.barrier();
    } catch (...) {
      meeting.fail(std::current_exception());
    }
  }
  const bool together_so_far = meeting.error() == nullptr;
  if (!together_so_far) give_up(meeting.error());
  for (RankCase* rank : on) rank->rank.gate.open();
  meeting.open();
  for (std::size_t r = 0; r < on.size(); ++r) workers_[r]->wait();
  if (together_so_far && meeting.error() != nullptr) give_up(meeting.error());

  std::vector<KernelRecord> records;
  if (traced) {
    try {
      records = trace_.stop();
    } catch (...) {
      meeting.fail(std::current_exception());
      stop_.raise();
    }
  }
  if (meeting.error() != nullptr) std::rethrow_exception(meeting.error());
  for (std::size_t r = 0; r < on.size(); ++r) set_starts(plan.ranks[r].rank, records, stamps[r].steps);
  Recorded recorded{timings_of(plan, stamps), observed_in(plan, records, stamps)};
  recorded.timings.partial = meeting.partial();
  if (world_.size() > 1 && !stamps.empty()) {
    recorded.timings.epoch = nanoseconds(static_cast<double>(latest_origin(stamps) + process_clock_.offset));
  }
  return recorded;
}

void Session::give_up(const std::exception_ptr& error) noexcept {
  stop_.raise();
  for (const auto& rank : ranks_) {
    if (rank != nullptr) rank->halt.raise();
  }
  // The others before the communicators: who sees these end shall know why.
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    world_.abort(failure_text(world_, thrown.what()));
  }
  communicators_->abort();
}

void Session::forget() {
  const std::lock_guard lock(mutex_);
  current_.clear();
}

}  // namespace ovl::cuda
