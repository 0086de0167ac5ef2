// SPDX-License-Identifier: Apache-2.0
#include "backend/host/neighbours.hpp"

#include <algorithm>
#include <array>
#include <fstream>

#include "backend/wire.hpp"
#include "base/error.hpp"

namespace ovl::host {
namespace {

constexpr int clock_looks = 64;

// Of this boot of this machine: containers on it have the same, and the same clock.
std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string text_of(const std::vector<int>& cores) {
  std::string text;
  for (const int core : cores) text += std::to_string(core) + " ";
  return text;
}

void finish(MessageOperation& operation) {
  for (int look = 0; !operation.test(); ++look) look_again(Waiting::yield, look);
}

// Sends a stamp to a peer, or receives one.
class StampWire {
 public:
  StampWire(MessageGroup& group, int peer)
      : send_(group.exchange(DType::f64, {{Direction::send, peer}}, {1})),
        receive_(group.exchange(DType::f64, {{Direction::receive, peer}}, {1})) {}

  void send(Stamp stamp) {
    value_ = stamp;
    transfer(*send_);
  }
  Stamp receive() {
    transfer(*receive_);
    return value_;
  }

 private:
  // A double's eight bytes on the wire: MPI between equal machines does not look into them.
  void transfer(MessageOperation& operation) {
    const std::array<std::byte*, 1> memory{reinterpret_cast<std::byte*>(&value_)};
    operation.post(memory);
    finish(operation);
  }

  std::unique_ptr<MessageOperation> send_;
  std::unique_ptr<MessageOperation> receive_;
  Stamp value_ = 0;
};

}  // namespace

ClockOffset clock_offset(const std::vector<ClockLook>& looks) {
  require(!looks.empty(), "a clock was looked at");
  const auto length = [](const ClockLook& look) { return look.received - look.sent; };
  const ClockLook best = *std::min_element(
      looks.begin(), looks.end(), [&](const ClockLook& a, const ClockLook& b) { return length(a) < length(b); });
  return {best.theirs - (best.sent + length(best) / 2), length(best) / 2};
}

Neighbours::Neighbours(World& world, MessagePassing& library, std::string transport, std::vector<int> cores)
    : world_(world), library_(library), transport_(std::move(transport)) {
  together(world, [&] {
    if (library.size() == world.size() && library.process() == world.process()) return;
    throw failure("MPI counts this process as " + std::to_string(library.process()) + " of " +
                      std::to_string(library.size()) + ", its launcher as " + std::to_string(world.process()) + " of " +
                      std::to_string(world.size()),
                  "the library and the launcher do not belong together (" + library.version() + ")",
                  "start it with the mpirun of this library, or type --transport mpi-openmpi or mpi-mpich");
  });
  WireWriter mine;
  mine.put(machine_id());
  mine.put(text_of(cores));
  std::vector<std::string> machines;
  std::vector<std::string> core_lists;
  for (const std::string& text : all_gather(world, std::move(mine).take())) {
    WireReader reader(text);
    machines.push_back(reader.text());
    core_lists.push_back(reader.text());
  }
  const auto self = static_cast<std::size_t>(world.process());
  for (std::size_t p = 0; p < machines.size(); ++p) {
    if (machines[p] != machines[self]) continue;
    ++on_machine_;
    if (core_lists[p] != core_lists[self]) continue;
    if (p == self) place_ = static_cast<int>(on_cores_.size());
    on_cores_.push_back(p);
  }
  barrier_ = library.barrier();
  relate_clocks(machines);
}

// Process 0 answers the processes of other machines, one after the other; on its own the clock is the same.
void Neighbours::relate_clocks(const std::vector<std::string>& machines) {
  if (std::all_of(machines.begin(), machines.end(), [&](const auto& m) { return m == machines.front(); })) return;
  std::vector<std::vector<int>> everybody(1);
  for (int p = 0; p < library_.size(); ++p) everybody.front().push_back(p);
  const std::unique_ptr<MessageGroup> group = library_.group(everybody);
  std::vector<ClockLook> looks;
  for (std::size_t p = 1; p < machines.size(); ++p) {
    if (machines[p] == machines.front()) continue;
    const bool asks = library_.process() == static_cast<int>(p);
    if (!asks && library_.process() != 0) continue;
    StampWire wire(*group, asks ? 0 : static_cast<int>(p));
    for (int look = 0; look < clock_looks; ++look) {
      if (asks) {
        ClockLook& seen = looks.emplace_back(ClockLook{.sent = now()});
        wire.send(seen.sent);
        seen.theirs = wire.receive();
        seen.received = now();
      } else {
        wire.receive();
        wire.send(now());
      }
    }
  }
  if (looks.empty()) return;
  const ClockOffset known = host::clock_offset(looks);
  clock_offset_ = known.offset;
  clock_error_ = known.error;
}

double Neighbours::cpu_time(double own) const {
  WireWriter mine;
  mine.put(own);
  const std::vector<std::string> all = all_gather(world_, std::move(mine).take());
  double sum = 0;
  for (const std::size_t p : on_cores_) sum += WireReader(all[p]).real();
  return sum;
}

void Neighbours::meet(const StopFlag& stop) {
  barrier_->post({});
  for (int look = 0; !barrier_->test(); ++look) {
    if (stop.raised()) throw Stopped{};
    look_again(Waiting::yield, look);
  }
}

}  // namespace ovl::host
