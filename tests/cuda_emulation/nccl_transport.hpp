// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one emulated communicator reach each other: a segment of shared memory with a mailbox for every pair
// of ranks, the same for ranks that are threads and ranks that are processes. Every collective is written on top of the
// mailboxes. A chunk carries the signature of the operation that it belongs to; a rank that is in another operation
// never takes it, so a mismatch hangs both until they are told to stop, as it does with NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda_emulation/elements.hpp"

namespace ovl::emulation::nccl {

// Polled while nothing moves: true ends the wait.
using Stop = std::function<bool()>;

// What a rank says of itself when it joins.
struct Identity {
  std::string device;  // unique on this machine
  int version = 0;
};

class Segment {
 public:
  // Creates what is called `name` or attaches to it. Throws std::system_error.
  Segment(const std::string& name, int ranks);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  // Takes a rank's place. False: it is taken, or the others count another number of ranks.
  bool join(int rank, const Identity& identity);
  [[nodiscard]] Identity identity(int rank) const;
  // No name any more: whoever is attached stays so. Once all have joined.
  void unlink();

  // Host-side meetings of all ranks (joining, windows, leaving), in the same order on each: arriving returns the count
  // of arrivals that completes the meeting.
  std::uint64_t arrive();
  [[nodiscard]] bool all_arrived(std::uint64_t count) const;

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] std::size_t chunk_bytes() const;

  // The mailbox from one rank to another: chunks in order. `front` is empty where nothing has come.
  struct Chunk {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::uint64_t signature = 0;
  };
  [[nodiscard]] bool has_room(int from, int to) const;
  void post(int from, int to, const std::byte* data, std::size_t bytes, std::uint64_t signature);
  [[nodiscard]] Chunk front(int from, int to) const;
  void take(int from, int to);
  [[nodiscard]] bool all_taken(int from, int to) const;

 private:
  struct Header;
  struct Place;
  struct Mailbox;
  [[nodiscard]] Header& header() const;
  [[nodiscard]] Place& place(int rank) const;
  [[nodiscard]] Mailbox& mailbox(int from, int to) const;
  [[nodiscard]] std::byte* slot(int from, int to, std::uint64_t sequence) const;

  std::string name_;
  int ranks_;
  std::uint64_t meetings_ = 0;  // of this rank
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// One rank within an operation. Operations return false when they were stopped. `in` and `out` may be the same memory
// where NCCL allows it. Counts are elements, by NCCL's convention of each call.
struct Party {
  Segment& segment;
  int rank;
  const Stop& stop;
};

bool all_reduce(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t count);
bool reduce_scatter(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t out_count);
bool all_gather(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t in_count);
// `in` matters at the root alone, where `out` may be nullptr.
bool broadcast(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t count, int root);
bool all_to_all(const Party& party, Element element, const std::byte* in, std::byte* out, std::size_t count_per_rank);

// Sends and receives that proceed together; several with one peer match in order, by their bytes.
struct Outgoing {
  int peer;
  const std::byte* data;
  std::size_t bytes;
};
struct Incoming {
  int peer;
  std::byte* data;
  std::size_t bytes;
};
bool exchange(const Party& party, const std::vector<Outgoing>& sends, const std::vector<Incoming>& receives);

// Waits until `done`, giving the core away meanwhile. False: stopped.
bool wait_until(const std::function<bool()>& done, const Stop& stop);

}  // namespace ovl::emulation::nccl
