// SPDX-License-Identifier: Apache-2.0
#include "backend/model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "backend/model/machine_rates.hpp"
#include "backend/model/plan.hpp"
#include "base/error.hpp"

namespace ovl {
namespace {

// What is told of every rank takes its moment, though equal ones are played as one: with more a case takes minutes.
constexpr int most_ranks = 1 << 16;
// Names that the measuring backends use, so that a prediction has the key of what it predicts. What a transport costs
// is the machine's; but copy engines leave the units alone.
constexpr std::array<std::string_view, 4> transports{"nccl", "shm", "mpi", "copy"};

// Nodes, racks ... of other sizes than the machine describes. Without a machine nothing depends on them.
void ask_for_units(model::Rates& rates, const std::vector<int>& units) {
  const std::size_t described = std::max<std::size_t>(1, rates.beyond.size());
  if (units.size() > described && !rates.name.empty()) {
    throw usage_error(fmt::format("--ranks asks for {} levels and machine {} describes {}", units.size() + 1,
                                  rates.name, described + 1),
                      "every level has a bandwidth and a latency of its own",
                      "describe them in its `levels`, or type one number for each that it has");
  }
  rates.node_ranks = units.front();
  for (std::size_t i = 1; i < units.size() && i <= rates.beyond.size(); ++i) rates.beyond[i - 1].ranks = units[i];
  int below = rates.node_ranks;
  for (const model::FabricLevel& level : rates.beyond) {
    if (level.ranks == 0) break;
    if (level.ranks % below != 0) {
      throw usage_error(fmt::format("units of {} ranks do not divide by units of {}", level.ranks, below),
                        fmt::format("machine {} has them on levels of its fabric", rates.name),
                        "type the size of every level, such as --ranks 8x16x8");
    }
    below = level.ranks;
  }
}

Error no_data() { return failure("the model moves no data", "it predicts times only", "verify on another backend"); }

class ModelPrepared final : public Prepared {
 public:
  ModelPrepared(std::vector<Program> arms, const model::Rates& rates) : arms_(std::move(arms)), rates_(rates) {
    live_ = std::any_of(arms_.begin(), arms_.end(), submitted_over_time);
    for (const Program& arm : arms_) plan(arm, mode(Launch::gated));
  }

  void reset() override {}
  Timings run(std::size_t arm, const ReplayOptions& options) override {
    return plan(arms_.at(arm), mode(options.launch)).play(options.recording);
  }
  [[nodiscard]] std::vector<double> contents(BufferId, Rank, int) const override { throw no_data(); }
  [[nodiscard]] std::uint64_t fingerprint(BufferId, Rank, int) const override { throw no_data(); }
  [[nodiscard]] std::vector<Fact> observed() const override {
    const model::Plan& last = plans_.at({&arms_.back(), mode(Launch::gated)});
    return {{"layout", fmt::format("virtual: {} of {} ranks played{}", last.players(), arms_.back().ranks, left_out())},
            {"oversubscribed", "0"},
            {"channels", last.comm_units() > 0 ? std::to_string(last.comm_units()) : ""},
            {"path", last.how()},
            {"launch_mode", live_ ? "live" : ""}};
  }

 private:
  // One for all arms of a case: what is submitted over time is so by a host that is part of it.
  [[nodiscard]] Launch mode(Launch asked) const { return live_ ? Launch::live : asked; }

  // What could slow both sides and is not known, so that the prediction is that much too good.
  [[nodiscard]] std::string left_out() const {
    if (rates_.name.empty()) return {};
    std::string text;
    if (rates_.units == 0) text += ", units";
    const bool contention = rates_.compute_slowdown > 1 || rates_.comm_slowdown > 1;
    if (std::isnan(rates_.memory.value()) && !contention) text += ", memory";
    return text.empty() ? text : "; not known: " + text.substr(2);
  }

  model::Plan& plan(const Program& arm, Launch launch) {
    const std::pair key(&arm, launch);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    return plans_.emplace(key, model::Plan(arm, rates_, launch == Launch::live)).first->second;
  }

  std::vector<Program> arms_;
  model::Rates rates_;
  bool live_ = false;
  std::map<std::pair<const Program*, Launch>, model::Plan> plans_;
};

class ModelBackend final : public Backend {
 public:
  ModelBackend(model::Rates rates, int ranks) : rates_(std::move(rates)), ranks_(ranks) {}

  [[nodiscard]] Description describe() const override {
    Description d;
    d.backend = "model";
    d.device = rates_.name.empty() ? "no machine: given durations only" : rates_.name;
    d.source = "model";
    d.transports.assign(transports.begin(), transports.end());
    d.dtypes.reserve(std::size(EnumNames<DType>::table));
    for (const auto& [dtype, text] : EnumNames<DType>::table) d.dtypes.push_back(dtype);
    d.default_ranks = ranks_;
    d.most_ranks = most_ranks;
    d.units = rates_.units;
    d.memory = Bytes(std::numeric_limits<std::int64_t>::max());
    d.facts = {{"machine", rates_.name.empty() ? "none" : rates_.name}};
    if (rates_.node_ranks > 0) d.facts.push_back({"node_ranks", std::to_string(rates_.node_ranks)});
    for (std::size_t i = 0; i + 1 < rates_.beyond.size(); ++i) {
      d.facts.push_back({fmt::format("level_{}_ranks", i + 1), std::to_string(rates_.beyond[i].ranks)});
    }
    if (rates_.skew > 0) d.facts.push_back({"skew", fmt::format("{:g} of seed {}", rates_.skew, rates_.seed)});
    return d;
  }

  [[nodiscard]] Conditions conditions() override { return {}; }

  [[nodiscard]] Support supports(const Program& program) const override {
    if (std::string reason = reason_against(program); !reason.empty()) return {std::move(reason)};
    try {
      const model::Plan plan(program, rates_, false);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::impossible) throw;
      return {error.what()};
    }
    return {};
  }

  [[nodiscard]] std::unique_ptr<Prepared> prepare(std::vector<Program> arms, Data, std::uint64_t) override {
    require(!arms.empty(), "a case has an arm");
    for (const Program& arm : arms) {
      if (const std::string reason = reason_against(arm); !reason.empty()) {
        throw impossible_error("the model cannot play \"" + arm.name + "\"", reason, {});
      }
    }
    return std::make_unique<ModelPrepared>(std::move(arms), rates_);
  }

  // Nothing hangs: virtual time passes, or a replay throws at once.
  [[nodiscard]] std::vector<LaneProgress> progress() const override { return {}; }
  void abort() noexcept override {}

 private:
  static bool reduces(CollectiveKind kind) {
    return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
  }

  // What can be seen without planning; empty: nothing.
  static std::string reason_against(const Program& program) {
    if (program.ranks < 1 || program.ranks > most_ranks) {
      return fmt::format("{} ranks: the model plays 1 to {}", program.ranks, most_ranks);
    }
    if (std::any_of(program.lanes.begin(), program.lanes.end(),
                    [](const Lane& lane) { return lane.partition == Partition::siblings; })) {
      return "the model does not know what the hardware threads of a core share";
    }
    for (const Communicator& comm : program.communicators) {
      if (std::find(transports.begin(), transports.end(), comm.transport) == transports.end()) {
        return fmt::format("the model has no transport \"{}\"; it has {}", comm.transport, fmt::join(transports, ", "));
      }
    }
    for (const RankClass& c : program.classes) {
      for (const Operation& op : c.body) {
        const auto* collective = std::get_if<Collective>(&op.work);
        if (collective != nullptr && reduces(collective->kind) &&
            program.communicators[collective->comm.index()].transport == "copy") {
          return fmt::format("{} over copy engines: they move bytes and cannot add them up", name(collective->kind));
        }
      }
    }
    return {};
  }

  model::Rates rates_;
  int ranks_;
};

}  // namespace

std::unique_ptr<Backend> open_model(model::Rates rates, int ranks) {
  // As many as it was measured with, so that nothing has to be scaled.
  const int default_ranks = rates.collectives.empty() ? 2 : std::max(2, rates.collectives.front().ranks);
  if (ranks < 0 || ranks > most_ranks) {
    throw usage_error(fmt::format("ranks {}", ranks), fmt::format("the model plays 1 to {}", most_ranks),
                      "type a number in this range");
  }
  return std::make_unique<ModelBackend>(std::move(rates), ranks == 0 ? default_ranks : ranks);
}

std::unique_ptr<Backend> open_model(World& world, const SessionOptions& options) {
  if (world.size() > 1) {
    throw impossible_error(fmt::format("the model does not span {} processes", world.size()),
                           "all of its ranks are virtual", "start one process, with --ranks for as many as you like");
  }
  model::Rates rates;
  if (!options.machine.empty()) rates = model::rates_of(read_machine(options.machine));
  if (!options.units.empty()) ask_for_units(rates, options.units);
  rates.skew = options.skew;
  rates.seed = options.seed;
  return open_model(std::move(rates), options.ranks);
}

BackendEntry model_entry() {
  return {"model", 0, [] { return std::string(); },
          [](World& world, const SessionOptions& options) { return open_model(world, options); }};
}

}  // namespace ovl
