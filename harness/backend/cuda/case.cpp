// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/float_formats.hpp"
#include "base/random.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::cuda {
namespace {

std::uint64_t seed_of(std::uint64_t seed, BufferId buffer, Rank rank, int copy) {
  std::uint64_t mixed = seed;
  for (const int part : {buffer.value, rank.value, copy}) mixed = mix64(mixed ^ static_cast<std::uint64_t>(part));
  return mixed;
}

std::string asked_ctas(const Program& program) {
  std::set<int> asked;
  for (const Communicator& comm : program.communicators) asked.insert(comm.channels);
  std::string text;
  for (const int channels : asked) {
    text += (text.empty() ? "" : "+") + (channels == 0 ? std::string("auto") : std::to_string(channels));
  }
  return text;
}

}  // namespace

Case::Case(Session& session, std::vector<Program> arms, Data data, std::uint64_t seed)
    : session_(session), arms_(std::move(arms)), data_(data), seed_(seed) {
  require(!arms_.empty(), "a case has an arm");
  try {
    session_.locally([this] { allocate(); });
    connect();
    warm_up();
    reset();
  } catch (...) {
    release();
    throw;
  }
}

Case::~Case() { release(); }

void Case::allocate() {
  if (session_.stopped()) {
    throw failure("the cuda backend is stopped", "a replay was aborted or failed before", "start a new process");
  }
  const Program& first = arms_.front();
  for (const Program& arm : arms_) {
    require(arm.lanes.size() == first.lanes.size(), "the arms of a case share their lanes");
    if (const Support support = session_.supports(arm); !support.ok()) {
      throw impossible_error("the cuda backend cannot run \"" + arm.name + "\"", support.reason, {});
    }
  }
  local_ranks_ = static_cast<std::size_t>(session_.local_ranks(first.ranks));
  comm_sms_ = partition_comm_sms(first);
  comms_ = comm_configs(arms_);
  const std::vector<LaneNeeds> needs = lane_needs(arms_);
  ranks_.resize(local_ranks_);
  session_.on_workers(local_ranks_, [&](std::size_t r) {
    ranks_[r] = std::make_unique<RankCase>(session_.rank(r), first, needs, comm_sms_);
  });
  const int compute_sms = comm_sms_ == 0 ? 0 : session_.rank(0).partitions.at(comm_sms_)->sms(Role::compute);
  for (const Program& arm : arms_) {
    plans_.push_back(make_plan(arm, comms_, session_.first(), static_cast<int>(local_ranks_), compute_sms));
    live_ = live_ || plans_.back().live;
  }
  // One mode for all arms of a case.
  for (Plan& plan : plans_) plan.live = live_;
  session_.on_workers(local_ranks_, [&](std::size_t r) { ranks_[r]->make_events(plans_, r); });
}

void Case::connect() {
  std::set<GemmShape> shapes;
  for (const Plan& plan : plans_) shapes.insert(plan.shapes.begin(), plan.shapes.end());
  std::map<GemmShape, Algorithm> algorithms;
  for (const GemmShape& shape : shapes) algorithms[shape] = session_.algorithm(shape);
  session_.locally([&] {
    session_.on_workers(local_ranks_, [&](std::size_t r) {
      for (const auto& [shape, algorithm] : algorithms) {
        ranks_[r]->gemms[shape] = std::make_unique<GemmPlan>(session_.rank(r).blas, shape, algorithm);
      }
    });
  });

  const auto group = [&](const GroupKey& key) {
    const Group* made = nullptr;
    session_.collectively([&] { made = &session_.communicators().get(key.members, key.config); });
    return made;
  };
  if (const auto align = align_group(arms_.front(), comms_)) align_ = group(*align);
  const std::vector<GroupKey>& keys = plans_.front().groups;
  for (const GroupKey& key : keys) groups_.push_back(group(key));
  session_.collectively([&] { register_buffers(keys); });
}

void Case::register_buffers(const std::vector<GroupKey>& keys) {
  for (const auto& [index, buffer] : registrations(arms_, comms_, keys)) {
    std::vector<std::pair<Rank, const DeviceMemory*>> memory;
    for (std::size_t r = 0; r < local_ranks_; ++r) {
      const Rank rank = session_.rank(r).rank;
      const std::vector<Rank>& members = keys[index].members;
      if (std::find(members.begin(), members.end(), rank) == members.end()) continue;
      memory.emplace_back(rank, &ranks_[r]->arena.memory(buffer));
    }
    if (memory.empty()) continue;
    const Memory kind = arms_.front().buffers[buffer.index()].memory;
    for (Registration& made : register_all(*groups_[index], memory, kind)) registrations_.push_back(std::move(made));
  }
}

// Plans, kernels and connections come to be when they are first used, which must not happen behind a closed gate. With
// an event for each operation, so that they exist, and so that a program that hangs says here where it stands.
void Case::warm_up() {
  for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
    replay(arm, {.launch = Launch::live, .recording = Recording::operations}, true);
  }
  // What lasts until an event passed then. Whether it has the SMs that it was asked to hold is seen here.
  for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
    const auto stays = [](const RankPlan& rank) { return rank.words > 0; };
    if (std::none_of(plans_[arm].ranks.begin(), plans_[arm].ranks.end(), stays)) continue;
    const Observed seen = replayed(arm, {.launch = Launch::live}, false).observed;
    session_.locally([&] {
      if (seen.shared.empty()) return;
      throw impossible_error("the cuda backend cannot run \"" + arms_[arm].name + "\"", seen.shared,
                             "end what else holds the GPU (nvidia-smi lists it)");
    });
  }
}

void Case::release() noexcept {
  session_.forget();
  registrations_.clear();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    try {
      session_.on_worker(r, [this, r] { ranks_[r].reset(); });
    } catch (...) {  // destructors tell what they cannot release
    }
  }
}

void Case::reset() {
  session_.on_workers(local_ranks_, [this](std::size_t r) { fill(*ranks_[r]); });
}

void Case::fill(RankCase& on) const {
  const Program& program = arms_.front();
  const Rank rank = on.rank.rank;
  cudaStream_t stream = on.rank.root.get();
  const auto put = [&](BufferId id, int copy, std::int64_t begin, std::int64_t count, kernels::Pattern pattern) {
    const kernels::FillArgs args{.out = on.arena.copy(id, copy),
                                 .begin = begin,
                                 .count = count,
                                 .seed = seed_of(seed_, id, rank, copy),
                                 .dtype = program.buffers[id.index()].dtype,
                                 .pattern = pattern};
    if (count > 0) launched(kernels::launch_fill(args, stream), "cudaLaunchKernelExC (fill)");
  };
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    for (int copy = 0; copy < buffer.copies; ++copy) {
      put(BufferId(b), copy, 0, buffer.count, kernels::Pattern::nothing);
    }
  }
  const auto pattern = data_ == Data::exact ? kernels::Pattern::exact : kernels::Pattern::random;
  for (const Operation& op : program.class_of(rank).prologue) {
    for (const Slice& slice : op.writes) {
      for (int copy = 0; copy < program.buffers[slice.buffer.index()].copies; ++copy) {
        put(slice.buffer, copy, slice.offset, slice.count, pattern);
      }
    }
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize (fill)");
}

Timings Case::run(std::size_t arm, const ReplayOptions& options) {
  if (arms_.at(arm).graph && options.launch == Launch::live) {
    throw impossible_error("a graph cannot be launched live", "it is handed over as one, so no launch is on the clock",
                           "leave out --include-launch or placement graph");
  }
  return replay(arm, options, false);
}

Session::Recorded Case::replayed(std::size_t arm, const ReplayOptions& options, bool warm_up) {
  std::vector<RankCase*> on;
  for (const auto& rank : ranks_) on.push_back(rank.get());
  return session_.replay(plans_[arm], arm, on, groups_, align_, options, warm_up);
}

Timings Case::replay(std::size_t arm, const ReplayOptions& options, bool warm_up) {
  Session::Recorded recorded = replayed(arm, options, warm_up);
  partial_ = partial_ || recorded.timings.partial;
  seen_.ctas = std::max(seen_.ctas, recorded.observed.ctas);
  if (!recorded.observed.sms.empty()) seen_.sms = recorded.observed.sms;
  if (!recorded.observed.path.empty()) seen_.path = recorded.observed.path;
  return std::move(recorded.timings);
}

std::size_t Case::local(Rank rank) const {
  const int index = rank.value - session_.first().value;
  require(index >= 0 && index < static_cast<int>(local_ranks_), "contents are asked of the process that has the rank");
  return static_cast<std::size_t>(index);
}

std::vector<double> Case::contents(BufferId id, Rank rank, int copy) const {
  const Buffer& buffer = arms_.front().buffers.at(id.index());
  const auto size = static_cast<std::size_t>((size_of(buffer.dtype) * buffer.count).value());
  std::vector<std::byte> bytes(size);
  const std::size_t r = local(rank);
  session_.on_worker(r, [&] {
    if (size == 0) return;
    cudaStream_t stream = session_.rank(r).root.get();
    check(cudaMemcpyAsync(bytes.data(), ranks_[r]->arena.copy(id, copy), size, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync (contents)");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize (contents)");
  });
  std::vector<double> elements(static_cast<std::size_t>(buffer.count));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = load_element(bytes.data(), static_cast<std::int64_t>(i), buffer.dtype);
  }
  return elements;
}

std::uint64_t Case::fingerprint(BufferId id, Rank rank, int copy) const {
  const Buffer& buffer = arms_.front().buffers.at(id.index());
  const std::size_t r = local(rank);
  std::uint64_t hash = 0;
  session_.on_worker(r, [&] {
    RankDevice& device = session_.rank(r);
    cudaStream_t stream = device.root.get();
    // The word that ranks align on is idle between replays.
    auto* word = reinterpret_cast<std::uint64_t*>(device.align.get()) + 1;
    check(cudaMemsetAsync(word, 0, sizeof hash, stream), "cudaMemsetAsync (fingerprint)");
    const kernels::FingerprintArgs args{
        .data = ranks_[r]->arena.copy(id, copy), .bytes = (size_of(buffer.dtype) * buffer.count).value(), .hash = word};
    launched(kernels::launch_fingerprint(args, stream), "cudaLaunchKernelExC (fingerprint)");
    check(cudaMemcpyAsync(&hash, word, sizeof hash, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync (fingerprint)");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize (fingerprint)");
  });
  return hash;
}

std::vector<Fact> Case::observed() const {
  std::set<std::string> chosen;  // operands that lie otherwise are another shape, often with the same algorithm
  Bytes workspace;
  std::string partition;
  if (!ranks_.empty()) {
    for (const auto& [shape, gemm] : ranks_.front()->gemms) {
      chosen.insert(algorithm_text(session_.algorithm(shape)));
      workspace = std::max(workspace, gemm->workspace());
    }
    if (comm_sms_ > 0) partition = session_.rank(0).partitions.at(comm_sms_)->text();
  }
  std::string devices;
  bool emulated = false;
  for (std::size_t r = 0; r < local_ranks_; ++r) {
    const Device& device = session_.rank(r).device;
    devices += fmt::format("{}{}", r == 0 ? "" : " ", device.index);
    emulated = emulated || device.emulated;
  }
  std::string layout = partition.empty() ? "devices " + devices : partition;
  if (session_.shares_devices()) layout += ", two ranks on a GPU (experimental)";
  if (!seen_.sms.empty()) layout += ", kernels that contend on SMs " + text_of(seen_.sms);
  std::vector<Fact> facts = {{"layout", layout},
                             {"devices", devices},
                             {"emulated", emulated ? "1" : "0"},
                             {"gate", live_ ? "live" : std::string(name(session_.rank(0).gate.kind()))},
                             {"launch_mode", live_ ? "live" : ""},
                             {"partial", partial_ ? "1" : "0"},
                             {"algorithm", fmt::format("{}", fmt::join(chosen, "; "))},
                             {"workspace_bytes", std::to_string(workspace.value())},
                             {"partition", partition},
                             {"ctas_asked", asked_ctas(arms_.front())},
                             {"waiting", "device"}};
  // What nobody saw stays away.
  if (seen_.ctas > 0) {
    facts.push_back({"channels", std::to_string(seen_.ctas)});
    facts.push_back({"ctas_observed", std::to_string(seen_.ctas)});
  }
  if (!seen_.path.empty()) facts.push_back({"path", seen_.path});
  return facts;
}

}  // namespace ovl::cuda
