// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/nccl_transport.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

namespace ovl::emulation::nccl {
namespace {

constexpr std::uint64_t slots_per_mailbox = 2;
constexpr std::size_t page = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// Few ranks move large chunks; many would need a segment that grows with their square: 2 MiB for 4 or 8 ranks.
constexpr std::size_t chunk_bytes_of(int ranks) { return ranks <= 4 ? 64 * 1024 : 16 * 1024; }

// Yields at first, then sleeps: waiting ranks must leave the core to those that they wait for.
class Patience {
 public:
  void wait() {
    if (++rounds_ <= 32) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 * (rounds_ - 32), 500)));
    }
  }
  void renew() { rounds_ = 0; }

 private:
  int rounds_ = 0;
};

enum class Kind : std::uint64_t { all_reduce = 1, all_gather, reduce_scatter, broadcast, all_to_all, exchange };

// Equal on two ranks exactly when they are in the same operation (FNV-1a).
std::uint64_t signature_of(Kind kind, Element element, std::size_t count, int root = 0) {
  std::uint64_t hash = 14695981039346656037U;
  for (const std::uint64_t part : std::array{static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(element),
                                             static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(root)}) {
    hash = (hash ^ part) * 1099511628211U;
  }
  return hash;
}
std::uint64_t signature_of_bytes(std::size_t bytes) { return signature_of(Kind::exchange, Element::u8, bytes); }

struct Send {
  int peer;
  const std::byte* data;
  std::size_t bytes;
  std::uint64_t signature;
  std::size_t posted = 0;
};
struct Receive {
  int peer;
  std::byte* data;
  std::size_t bytes;
  std::uint64_t signature;
  std::size_t taken = 0;
};

// The sum over ranks, in rank order, of a block of which this rank has its own part: in double, rounded once.
struct Reduction {
  Element element;
  const std::byte* own;
  std::byte* out;
  std::size_t bytes;
  std::uint64_t signature;
  std::size_t done = 0;  // bytes
  int next = 0;          // rank whose chunk comes next
  std::vector<double> sums{};
};

// All that one operation has under way on one rank. Every transfer advances whenever it can, so no order of chunks can
// make two ranks wait for each other.
class Traffic {
 public:
  explicit Traffic(const Party& party) : party_(party) {}

  void send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t signature) {
    if (bytes > 0) {
      sends_.push_back({peer, data, bytes, signature});
    }
  }
  void receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t signature) {
    if (bytes > 0) {
      receives_.push_back({peer, data, bytes, signature});
    }
  }
  void reduce(Reduction reduction) {
    if (reduction.bytes > 0) {
      reductions_.push_back(std::move(reduction));
    }
  }

  // Until everything has come and everything sent was taken.
  bool run() {
    Patience patience;
    while (true) {
      const bool moved = step();
      if (finished()) {
        return true;
      }
      if (moved) {
        patience.renew();
        continue;
      }
      if (party_.stop()) {
        return false;
      }
      patience.wait();
    }
  }

 private:
  bool step() {
    bool moved = false;
    const auto ranks = static_cast<std::size_t>(party_.segment.ranks());
    std::vector<bool> busy(ranks, false);  // with an earlier transfer of the same peer
    for (Send& send : sends_) {
      const auto peer = static_cast<std::size_t>(send.peer);
      if (send.posted < send.bytes && !busy[peer]) {
        moved |= advance(send);
        busy[peer] = send.posted < send.bytes;
      }
    }
    busy.assign(ranks, false);
    for (Receive& receive : receives_) {
      const auto peer = static_cast<std::size_t>(receive.peer);
      if (receive.taken < receive.bytes && !busy[peer]) {
        moved |= advance(receive);
        busy[peer] = receive.taken < receive.bytes;
      }
    }
    for (Reduction& reduction : reductions_) {
      moved |= advance(reduction);
    }
    return moved;
  }

  bool advance(Send& send) {
    bool moved = false;
    while (send.posted < send.bytes && party_.segment.has_room(party_.rank, send.peer)) {
      const std::size_t bytes = std::min(party_.segment.chunk_bytes(), send.bytes - send.posted);
      party_.segment.post(party_.rank, send.peer, send.data + send.posted, bytes, send.signature);
      send.posted += bytes;
      moved = true;
    }
    return moved;
  }

  bool advance(Receive& receive) {
    bool moved = false;
    while (receive.taken < receive.bytes) {
      const Segment::Chunk chunk = party_.segment.front(receive.peer, party_.rank);
      if (chunk.data == nullptr || chunk.signature != receive.signature) {
        break;
      }
      std::memcpy(receive.data + receive.taken, chunk.data, chunk.bytes);
      receive.taken += chunk.bytes;
      party_.segment.take(receive.peer, party_.rank);
      moved = true;
    }
    return moved;
  }

  bool advance(Reduction& reduction) {
    bool moved = false;
    while (reduction.done < reduction.bytes) {
      const std::size_t bytes = std::min(party_.segment.chunk_bytes(), reduction.bytes - reduction.done);
      const std::size_t count = bytes / size_of(reduction.element);
      if (reduction.next == 0) {
        reduction.sums.assign(count, 0.0);
      }
      const std::byte* data = reduction.own + reduction.done;
      const bool own = reduction.next == party_.rank;
      if (!own) {
        const Segment::Chunk chunk = party_.segment.front(reduction.next, party_.rank);
        if (chunk.data == nullptr || chunk.signature != reduction.signature) {
          break;
        }
        data = chunk.data;
      }
      for (std::size_t i = 0; i < count; ++i) {
        reduction.sums[i] += load(reduction.element, data, i);
      }
      if (!own) {
        party_.segment.take(reduction.next, party_.rank);
      }
      moved = true;
      if (++reduction.next == party_.segment.ranks()) {
        for (std::size_t i = 0; i < count; ++i) {
          store(reduction.element, reduction.out + reduction.done, i, reduction.sums[i]);
        }
        reduction.done += bytes;
        reduction.next = 0;
      }
    }
    return moved;
  }

  [[nodiscard]] bool finished() const {
    return std::all_of(receives_.begin(), receives_.end(), [](const Receive& r) { return r.taken == r.bytes; }) &&
           std::all_of(reductions_.begin(), reductions_.end(), [](const Reduction& r) { return r.done == r.bytes; }) &&
           std::all_of(sends_.begin(), sends_.end(), [this](const Send& s) {
             return s.posted == s.bytes && party_.segment.all_taken(party_.rank, s.peer);
           });
  }

  const Party& party_;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
  std::vector<Reduction> reductions_;
};

// Where block `index` of `count` elements begins when `ranks` share them.
constexpr std::size_t block_begin(std::size_t count, int index, int ranks) {
  return count * static_cast<std::size_t>(index) / static_cast<std::size_t>(ranks);
}

void copy_unless_same(std::byte* out, const std::byte* in, std::size_t bytes) {
  if (out != in) {
    std::memcpy(out, in, bytes);
  }
}

}  // namespace

bool wait_until(const std::function<bool()>& done, const Stop& stop) {
  Patience patience;
  while (!done()) {
    if (stop()) {
      return false;
    }
    patience.wait();
  }
  return true;
}

// ---- the segment ---------------------------------------------------------------------------------------------------
// Zeroed memory is a valid state of it, so whoever comes first need not be known.

struct Segment::Header {
  std::atomic<int> ranks;
  std::atomic<std::uint64_t> arrivals;
};
struct Segment::Place {
  std::atomic<int> taken;
  int version;
  std::array<char, 56> device;
};
struct Segment::Mailbox {
  alignas(64) std::atomic<std::uint64_t> posted;
  alignas(64) std::atomic<std::uint64_t> taken;
  struct Label {
    std::uint64_t signature;
    std::uint64_t bytes;
  };
  std::array<Label, slots_per_mailbox> labels;
};

Segment::Header& Segment::header() const { return *reinterpret_cast<Header*>(memory_); }
Segment::Place& Segment::place(int rank) const { return reinterpret_cast<Place*>(memory_ + page)[rank]; }
Segment::Mailbox& Segment::mailbox(int from, int to) const {
  const std::size_t places = round_up(sizeof(Place) * static_cast<std::size_t>(ranks_), page);
  return reinterpret_cast<Mailbox*>(memory_ + page + places)[from * ranks_ + to];
}
std::byte* Segment::slot(int from, int to, std::uint64_t sequence) const {
  const auto pairs = static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ranks_);
  const auto pair = static_cast<std::size_t>(from * ranks_ + to);
  std::byte* first = reinterpret_cast<std::byte*>(&mailbox(0, 0)) + round_up(pairs * sizeof(Mailbox), page);
  return first + (pair * slots_per_mailbox + sequence % slots_per_mailbox) * chunk_bytes();
}
std::size_t Segment::chunk_bytes() const { return chunk_bytes_of(ranks_); }

Segment::Segment(const std::string& name, int ranks) : name_(name), ranks_(ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t pairs = count * count;
  bytes_ = page + round_up(sizeof(Place) * count, page) + round_up(sizeof(Mailbox) * pairs, page) +
           pairs * slots_per_mailbox * chunk_bytes();
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    throw std::system_error(errno, std::generic_category(), "shm_open " + name);
  }
  // Only ever grows it: ranks that count differently must not cut the memory of others off.
  const int failed = posix_fallocate(file, 0, static_cast<off_t>(bytes_));
  void* memory = failed != 0 ? MAP_FAILED : mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int why = failed != 0 ? failed : errno;
  close(file);
  if (memory == MAP_FAILED) {
    throw std::system_error(why, std::generic_category(), "shared memory of " + std::to_string(bytes_) + " bytes");
  }
  memory_ = static_cast<std::byte*>(memory);
}

// Whoever leaves before all have joined takes the name along: nothing stays behind, and those who come later wait in
// vain.
Segment::~Segment() {
  unlink();
  munmap(memory_, bytes_);
}

bool Segment::join(int rank, const Identity& identity) {
  int expected = 0;
  header().ranks.compare_exchange_strong(expected, ranks_);
  if (header().ranks.load() != ranks_) {
    return false;
  }
  Place& mine = place(rank);
  int free = 0;
  if (!mine.taken.compare_exchange_strong(free, 1)) {
    return false;
  }
  mine.version = identity.version;
  const std::size_t length = std::min(identity.device.size(), mine.device.size() - 1);
  std::memcpy(mine.device.data(), identity.device.data(), length);
  return true;
}

Identity Segment::identity(int rank) const {
  const Place& other = place(rank);
  return {.device = other.device.data(), .version = other.version};
}

void Segment::unlink() {
  if (!name_.empty()) {
    shm_unlink(name_.c_str());
    name_.clear();
  }
}

std::uint64_t Segment::arrive() {
  header().arrivals.fetch_add(1);
  return ++meetings_ * static_cast<std::uint64_t>(ranks_);
}
bool Segment::all_arrived(std::uint64_t count) const { return header().arrivals.load() >= count; }

bool Segment::has_room(int from, int to) const {
  const Mailbox& box = mailbox(from, to);
  return box.posted.load(std::memory_order_relaxed) - box.taken.load(std::memory_order_acquire) < slots_per_mailbox;
}

void Segment::post(int from, int to, const std::byte* data, std::size_t bytes, std::uint64_t signature) {
  Mailbox& box = mailbox(from, to);
  const std::uint64_t sequence = box.posted.load(std::memory_order_relaxed);
  std::memcpy(slot(from, to, sequence), data, bytes);
  box.labels[sequence % slots_per_mailbox] = {.signature = signature, .bytes = bytes};
  box.posted.store(sequence + 1, std::memory_order_release);
}

Segment::Chunk Segment::front(int from, int to) const {
  const Mailbox& box = mailbox(from, to);
  const std::uint64_t sequence = box.taken.load(std::memory_order_relaxed);
  if (box.posted.load(std::memory_order_acquire) == sequence) {
    return {};
  }
  const Mailbox::Label& label = box.labels[sequence % slots_per_mailbox];
  return {.data = slot(from, to, sequence), .bytes = label.bytes, .signature = label.signature};
}

void Segment::take(int from, int to) {
  Mailbox& box = mailbox(from, to);
  box.taken.store(box.taken.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool Segment::all_taken(int from, int to) const {
  const Mailbox& box = mailbox(from, to);
  return box.taken.load(std::memory_order_acquire) == box.posted.load(std::memory_order_relaxed);
}

// ---- the operations ------------------------------------------------------------------------------------------------

bool reduce_scatter(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t out_count) {
  const std::size_t bytes = out_count * size_of(element);
  const std::uint64_t signature = signature_of(Kind::reduce_scatter, element, out_count);
  const auto part = [&](int rank) { return in + static_cast<std::size_t>(rank) * bytes; };
  Traffic traffic(party);
  for (int peer = 0; peer < party.segment.ranks(); ++peer) {
    if (peer != party.rank) {
      traffic.send(peer, part(peer), bytes, signature);
    }
  }
  traffic.reduce({.element = element, .own = part(party.rank), .out = out, .bytes = bytes, .signature = signature});
  return traffic.run();
}

// Every rank sums one block for all. All that it sends of its input is taken before results come in, so both may be the
// same memory.
bool all_reduce(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t count) {
  const int ranks = party.segment.ranks();
  const std::uint64_t signature = signature_of(Kind::all_reduce, element, count);
  const auto offset = [&](int rank) { return block_begin(count, rank, ranks) * size_of(element); };
  const auto bytes = [&](int rank) { return offset(rank + 1) - offset(rank); };

  Traffic inputs(party);
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != party.rank) {
      inputs.send(peer, in + offset(peer), bytes(peer), signature);
    }
  }
  inputs.reduce({.element = element,
                 .own = in + offset(party.rank),
                 .out = out + offset(party.rank),
                 .bytes = bytes(party.rank),
                 .signature = signature});
  if (!inputs.run()) {
    return false;
  }
  Traffic results(party);
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != party.rank) {
      results.send(peer, out + offset(party.rank), bytes(party.rank), signature + 1);
      results.receive(peer, out + offset(peer), bytes(peer), signature + 1);
    }
  }
  return results.run();
}

bool all_gather(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t in_count) {
  const std::size_t bytes = in_count * size_of(element);
  const std::uint64_t signature = signature_of(Kind::all_gather, element, in_count);
  const auto part = [&](int rank) { return out + static_cast<std::size_t>(rank) * bytes; };
  Traffic traffic(party);
  for (int peer = 0; peer < party.segment.ranks(); ++peer) {
    if (peer != party.rank) {
      traffic.send(peer, in, bytes, signature);
      traffic.receive(peer, part(peer), bytes, signature);
    }
  }
  copy_unless_same(part(party.rank), in, bytes);
  return traffic.run();
}

bool broadcast(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t count, int root) {
  const std::size_t bytes = count * size_of(element);
  const std::uint64_t signature = signature_of(Kind::broadcast, element, count, root);
  Traffic traffic(party);
  if (party.rank != root) {
    traffic.receive(root, out, bytes, signature);
    return traffic.run();
  }
  for (int peer = 0; peer < party.segment.ranks(); ++peer) {
    if (peer != party.rank) {
      traffic.send(peer, in, bytes, signature);
    }
  }
  if (out != nullptr) {
    copy_unless_same(out, in, bytes);
  }
  return traffic.run();
}

bool all_to_all(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t count_per_rank) {
  const std::size_t bytes = count_per_rank * size_of(element);
  const std::uint64_t signature = signature_of(Kind::all_to_all, element, count_per_rank);
  Traffic traffic(party);
  for (int peer = 0; peer < party.segment.ranks(); ++peer) {
    const std::size_t at = static_cast<std::size_t>(peer) * bytes;
    if (peer == party.rank) {
      std::memcpy(out + at, in + at, bytes);
    } else {
      traffic.send(peer, in + at, bytes, signature);
      traffic.receive(peer, out + at, bytes, signature);
    }
  }
  return traffic.run();
}

bool exchange(const Party& party, const std::vector<Outgoing>& sends, const std::vector<Incoming>& receives) {
  Traffic traffic(party);
  for (const Outgoing& send : sends) {
    traffic.send(send.peer, send.data, send.bytes, signature_of_bytes(send.bytes));
  }
  for (const Incoming& receive : receives) {
    traffic.receive(receive.peer, receive.data, receive.bytes, signature_of_bytes(receive.bytes));
  }
  return traffic.run();
}

}  // namespace ovl::emulation::nccl
