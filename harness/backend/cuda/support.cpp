// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/cuda/communicator.hpp"
#include "backend/cuda/cuda.hpp"
#include "backend/cuda/plan.hpp"
#include "backend/cuda/proxy.hpp"

namespace ovl::cuda {
namespace {

constexpr int least_partition_sms = 8;
// CTAs of a collective whose number is NCCL's choice, at most.
constexpr int nccl_own_most = 32;

std::string text(int n) { return std::to_string(n); }

bool same_start(const Slice& a, const Slice& b) { return a.buffer == b.buffer && a.offset == b.offset; }

// Why an operation of the body cannot run here; empty: it can.
struct OpReason {
  const Program& program;
  const Capabilities& here;
  const Operation& op;

  [[nodiscard]] std::string dtype(DType wanted) const {
    if (std::find(here.dtypes.begin(), here.dtypes.end(), wanted) != here.dtypes.end()) return {};
    std::string has;
    for (const DType d : here.dtypes) has += (has.empty() ? "" : ", ") + std::string(name(d));
    return "this device does not compute in " + std::string(name(wanted)) + "; it has " + has;
  }
  std::string operator()(const Gemm& g) const { return dtype(g.dtype); }
  std::string operator()(const Collective& c) const {
    if (std::string reason = dtype(c.dtype); !reason.empty()) return reason;
    if (c.kind == CollectiveKind::all_to_all && !op.reads.empty() && !op.writes.empty() &&
        same_start(op.reads[0], op.writes[0])) {
      return "all_to_all cannot work in place: give it an output buffer of its own";
    }
    return {};
  }
  std::string operator()(const Exchange& e) const {
    const std::string& transport = program.communicators.at(e.comm.index()).transport;
    if (transport == "copy") return "the copy engines of NCCL take no sends and receives: use transport nccl";
    if (parse_proxy(transport)) return "the proxy has collectives and no sends and receives: use transport nccl";
    return dtype(e.dtype);
  }
  std::string operator()(const Occupy& o) const {
    if (!here.residents.occupy.reason.empty()) return here.residents.occupy.reason;
    return stay("occupy", o.count, o.until);
  }
  std::string operator()(const ovl::Stream& s) const {
    if (!here.residents.stream.reason.empty()) return here.residents.stream.reason;
    return stay("stream workers", s.workers, s.until);
  }
  // One that lasts until an event needs that event to come: from a stream that the driver lets write a word, by work
  // that has SMs beside it.
  [[nodiscard]] std::string stay(const std::string& what, int sms, EventId until) const {
    for (const Device& device : here.devices) {
      if (sms > device.sms) {
        return what + " " + text(sms) + ": the device has " + text(device.sms) + " SMs: ask for " + text(device.sms) +
               " or less";
      }
    }
    if (!until.valid()) return {};
    for (const RankClass& c : program.classes) {
      for (const Operation& other : c.body) {
        const auto* r = std::get_if<Record>(&other.work);
        if (r == nullptr || r->event != until || r->moment == Moment::completion) continue;
        return what + " until work starts: on a device only a completion can end it";
      }
    }
    if (!here.words) return what + " until an event: this driver has no cuStreamWriteValue32 to end it with";
    if (program.graph) return what + " until an event has no place in a graph, whose branches may run one by one";
    if (here.shared_devices) return what + " until an event: the other rank on this GPU may need the SMs that it holds";
    return {};
  }
  std::string operator()(const Fill&) const { return "fill belongs in the prologue"; }
  std::string operator()(const Verify&) const { return "verify belongs in the epilogue"; }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }
};

std::string proxy_reason(const Communicator& comm, const Capabilities& here) {
  const bool alone =
      std::all_of(comm.groups.begin(), comm.groups.end(), [](const auto& members) { return members.size() == 1; });
  if (!alone) return "the proxy stands for the peers of a rank that has none: type --ranks 1, or --transport nccl";
  if (comm.channels == 0) return "the proxy needs a number of CTAs: type for example --channels 8";
  if (!here.residents.proxy.reason.empty()) return here.residents.proxy.reason;
  for (const Device& device : here.devices) {
    if (comm.channels > device.sms) {
      return text(comm.channels) + " channels: each takes an SM, and the device has " + text(device.sms) +
             ": type --channels " + text(device.sms) + " or less";
    }
  }
  return {};
}

std::string communicator_reason(const Program& program, CommId id, const Capabilities& here) {
  const Communicator& comm = program.communicators.at(id.index());
  const bool shared = comm.transport == shared_transport;
  if (comm.transport != "nccl" && comm.transport != "copy" && !shared && !parse_proxy(comm.transport)) {
    return "the cuda backend has no transport \"" + comm.transport + "\"; it has nccl, copy and proxy";
  }
  if (comm.progress != MessageProgress{}) {
    return "a device moves its own bytes: there is no progress mode \"" + progress_name(comm.progress) + "\" on cuda";
  }
  if (comm.channels < 0) return text(comm.channels) + " channels: type 1 or more, or 0 for NCCL's choice";
  if (parse_proxy(comm.transport)) return proxy_reason(comm, here);
  if (shared && comm.channels == 0) {
    return "two ranks on one GPU need a number of channels, since all CTAs of both must be on it at once: type "
           "--channels 4";
  }
  for (const Device& device : here.devices) {
    if (shared && 2 * comm.channels > device.sms) {
      return text(comm.channels) + " channels of two ranks on one GPU of " + text(device.sms) +
             " SMs would wait for each other for ever: type --channels " + text(device.sms / 2) + " or less";
    }
  }
  const bool all_staged = std::all_of(comm.groups.begin(), comm.groups.end(),
                                      [&](const std::vector<Rank>& members) { return staged(comm, members.size()); });
  if (all_staged) return {};
  for (const std::string& setting : overrides_of(comm.channels)) {
    return setting + " would silently override what the case asks of NCCL: unset it";
  }
  for (const Device& device : here.devices) {
    if (std::string reason = cannot_communicate(program, id, device); !reason.empty()) return reason;
  }
  return {};
}

bool alone(const Communicator& comm) {
  return std::all_of(comm.groups.begin(), comm.groups.end(), [](const auto& members) { return members.size() == 1; });
}

// Lanes are streams: what a user asks of the threads that a lane is elsewhere would change nothing here.
std::string lane_reason(const Program& program) {
  for (const Lane& lane : program.lanes) {
    if (lane.partition == Partition::by_rank) {
      return "shared_core has no meaning on a device: a rank's lanes share its SMs anyway";
    }
    if (lane.partition == Partition::siblings) {
      return "smt_siblings has no meaning on a device: its SMs have no hardware threads to place lanes on";
    }
    if (lane.waiting != Lane{}.waiting) {
      return "waiting " + std::string(name(lane.waiting)) +
             " has no meaning on a device, whose lanes do not wait on the host: leave --waiting out";
    }
  }
  return {};
}

std::string registration_reason(const Program& program) {
  const std::vector<Communicator>& comms = program.communicators;
  if (comms.empty() || !std::all_of(comms.begin(), comms.end(), alone)) return {};
  for (const Buffer& buffer : program.buffers) {
    if (buffer.memory == Memory::plain) continue;
    return std::string(name(buffer.memory)) +
           " buffers are known to a communicator, and one rank communicates with nobody: type --buffers plain, or more "
           "--ranks";
  }
  return {};
}

// SMs of what lasts on lanes of a role, the most of each lane: it may all be there at once.
int stays_on(const Program& program, Role role, bool only_until_events = false) {
  std::map<LaneId, int> most;
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      if (program.lanes.at(op.lane.index()).role != role) continue;
      int& sms = most[op.lane];
      if (const auto* o = std::get_if<Occupy>(&op.work)) {
        if (o->until.valid() || !only_until_events) sms = std::max(sms, o->count);
      }
      if (const auto* s = std::get_if<ovl::Stream>(&op.work)) {
        if (!only_until_events) sms = std::max(sms, s->workers);  // they share SMs with others
      }
    }
  }
  int all = 0;
  for (const auto& [lane, sms] : most) all += sms;
  return all;
}

std::string partition_reason(const Program& program, const Capabilities& here) {
  const int comm_sms = partition_comm_sms(program);
  if (comm_sms == 0) return {};
  const auto copies = [](const Communicator& comm) {
    return comm.transport == "copy" || (alone(comm) && !parse_proxy(comm.transport));
  };
  if (!program.communicators.empty() &&
      std::all_of(program.communicators.begin(), program.communicators.end(), copies)) {
    return "partitioned would confine nothing of this communication, which copy engines do, not SMs: use transport "
           "nccl "
           "with several ranks, or another placement";
  }
  if (here.shared_devices) return "partitioned: two ranks that share a GPU cannot each split its SMs";
  if (!here.green_contexts) return "this driver has no green contexts to partition SMs with (CUDA 12.4 or newer has)";
  for (const Communicator& comm : program.communicators) {
    if (comm.channels == 0) {
      return "partitioned needs a number of channels: NCCL's own choice may not fit the SMs of its partition";
    }
  }
  for (const Device& device : here.devices) {
    const int most = device.sms - least_partition_sms;
    if (comm_sms > most) {
      return text(comm_sms) + " of " + text(device.sms) + " SMs for communication leave too few for compute: " +
             (most < least_partition_sms ? "use another placement" : "type --channels " + text(most) + " or less");
    }
    // Blocks that find no SM in their part would start when others end, and some never.
    const int compute = device.sms - comm_sms;
    if (const int wanted = stays_on(program, Role::compute); wanted > compute) {
      return text(wanted) + " SMs to hold or stream on in a partition of " + text(compute) +
             ": they would wait for each other for ever; ask for " + text(compute) + " or less";
    }
  }
  return {};
}

// What is held until an event leaves this to the work that the event comes after. Collectives need an SM a CTA, or
// their peers wait for ever; all else needs one.
std::string residency_reason(const Program& program, const Capabilities& here) {
  const int held = stays_on(program, Role::compute, true) + stays_on(program, Role::communication, true);
  if (held == 0) return {};
  int needed = 1;
  for (const Communicator& comm : program.communicators) {
    if (comm.transport == "copy") continue;
    needed = std::max(needed, comm.channels == 0 && !alone(comm) ? nccl_own_most : comm.channels);
  }
  for (const Device& device : here.devices) {
    if (held + needed > device.sms) {
      return text(held) + " of " + text(device.sms) + " SMs held until an event leave too few for the " + text(needed) +
             " that it needs to come: hold " + text(device.sms - needed) + " or less";
    }
  }
  return {};
}

double tenths(Bytes bytes) { return 10 * (bytes / mebibytes(1)); }  // of a MiB

std::string memory_reason(const Program& program, const Capabilities& here) {
  Bytes needed = memory_per_rank(program);
  for (const LaneNeeds& lane : lane_needs({program})) {
    if (lane.gemm) needed += here.workspace;
    needed += lane.fifo;
  }
  for (const Bytes free : here.free) {
    if (needed > free) {
      return fmt::format(
          "a rank needs {:.1f} MiB and {:.1f} MiB are free on its device: use smaller --gemm or --bytes, or end what "
          "else "
          "holds the GPU (nvidia-smi lists it)",
          std::ceil(tenths(needed)) / 10, std::floor(tenths(free)) / 10);
    }
  }
  return {};
}

}  // namespace

int partition_comm_sms(const Program& program) {
  const bool partitioned = std::any_of(program.lanes.begin(), program.lanes.end(),
                                       [](const Lane& l) { return l.partition == Partition::by_role; });
  if (!partitioned) return 0;
  int channels = 0;
  for (const Communicator& comm : program.communicators) channels = std::max(channels, comm.channels);
  return std::max(least_partition_sms, channels + stays_on(program, Role::communication));
}

std::string unsupported_reason(const Program& program, const Capabilities& here) {
  if (program.ranks < 1 || program.ranks > here.ranks) {
    return text(program.ranks) + " ranks: the cuda backend places 1 to " + text(here.ranks) +
           ", since NCCL refuses two ranks on one GPU";
  }
  if (here.several_processes && program.ranks != here.ranks) {
    return text(program.ranks) + " ranks in a job of " + text(here.ranks) + " processes: each has one rank";
  }
  if (program.lanes.empty()) return "the program has no lane";
  if (std::string reason = lane_reason(program); !reason.empty()) return reason;
  if (std::string reason = registration_reason(program); !reason.empty()) return reason;
  for (std::size_t c = 0; c < program.communicators.size(); ++c) {
    if (std::string reason = communicator_reason(program, CommId(c), here); !reason.empty()) return reason;
  }
  bool host_syncs = false;
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.prologue) {
      if (!std::holds_alternative<Fill>(op.work)) return "the prologue may only fill";
    }
    for (const Operation& op : c.body) {
      if (std::string reason = std::visit(OpReason{program, here, op}, op.work); !reason.empty()) return reason;
      host_syncs = host_syncs || std::holds_alternative<HostSync>(op.work);
    }
  }
  if (program.graph && host_syncs)
    return "the host cannot take part in a graph: global_sync and graph exclude each other";
  if (program.graph && submitted_over_time(program)) {
    return "a graph is handed over as one: what is submitted over time and graph exclude each other";
  }
  if (std::string reason = order_reason(program); !reason.empty()) return reason;
  if (std::string reason = partition_reason(program, here); !reason.empty()) return reason;
  if (std::string reason = residency_reason(program, here); !reason.empty()) return reason;
  return memory_reason(program, here);
}

}  // namespace ovl::cuda
