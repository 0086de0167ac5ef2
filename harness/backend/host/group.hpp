// SPDX-License-Identifier: Apache-2.0
//
// The shm transport: collectives and exchanges among ranks that are threads of one process, so that a rank reads and
// writes its peers' buffers directly and nothing is staged. Every rank moves and reduces its own share of real bytes.
//
// all_reduce, all_gather and broadcast are rings: a rank works with the ranks before and after it only, in pieces, a
// window of pieces at a time, so that the answer to one piece is there when the previous ones are done. reduce_scatter
// and all_to_all take their n - 1 steps around the ring too, but read each peer's input where it lies. Sums are taken
// in an order that depends only on the element's place, so results are the same in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/host/signal.hpp"
#include "program/program.hpp"

namespace ovl::host {

// One rank's part of a collective. Counts are in elements; see ovl::Collective for what input and output hold.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  DType dtype = DType::f32;  // f32 or f64
  std::int64_t count = 0;
  int root = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

// One message of an exchange; `memory` is read by a send and written by a receive.
struct Message {
  Direction direction = Direction::send;
  int peer = 0;
  std::byte* memory = nullptr;
  std::int64_t bytes = 0;
  bool done = false;
};

class Group {
 public:
  // Calls that touch more than `cache` on all members together store their results past the caches. 0: unknown, none
  // do.
  Group(int members, int channels, Bytes cache);

  [[nodiscard]] int channels() const { return channels_; }

  // Takes part as `member` on one channel; all channels of all members must. Returns when this member's output is
  // complete and no peer needs its input any more. Calls of one member are in the same order on all its channels.
  void collective(int member, int channel, const CollectiveCall& call, Waiter waiter);

  // All messages proceed together, in whatever order the peers come. The i-th send from a to b meets the i-th receive
  // of b from a. `messages` are sorted by peer. Throws Error(failure) where their sizes differ.
  void exchange(int member, std::vector<Message>& messages, Waiter waiter);

 private:
  template <class T>
  friend class Part;

  // What one thread of a member shows the others: how many pieces it has finished, over all calls.
  struct Channel {
    Signal pieces;
    alignas(128) std::uint64_t base = 0;  // pieces of the calls before this one: the same on all members
    std::uint64_t calls = 0;
  };
  struct Member {
    Signal entered;  // how many calls it has entered: from then on input and output are those of the call
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    Signal bell;  // rung when a peer has posted a message for this member, or taken one from it
  };
  // Messages from one member to another. The posted ones stay in place until all have been taken.
  struct Mailbox {
    Signal posted;
    Signal taken;
    std::vector<Message*> messages;
    std::uint64_t first = 0;  // number of messages[0]
  };

  static std::size_t table_index(int row, int columns, int column) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
  }
  Channel& channel(int member, int c) { return channels_state_[table_index(member, channels_, c)]; }
  Mailbox& mailbox(int from, int to) { return mailboxes_[table_index(from, size_, to)]; }

  // Whether all receives are done now.
  bool receive_what_is_there(int member, std::vector<Message>& messages);

  int size_;
  int channels_;
  Bytes cache_;
  std::unique_ptr<Member[]> members_;
  std::unique_ptr<Channel[]> channels_state_;
  std::unique_ptr<Mailbox[]> mailboxes_;
};

// [begin, begin + count) of a whole.
struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
// The index-th of `parts` nearly equal parts of [0, count): the first ones are the largest, bounds are multiples of
// `grain`, the last ones may be empty.
Range part_of(std::int64_t count, int parts, int index, std::int64_t grain);

}  // namespace ovl::host
