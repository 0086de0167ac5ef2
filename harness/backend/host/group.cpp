// SPDX-License-Identifier: Apache-2.0
#include "backend/host/group.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "kernels/host/reduce.hpp"

namespace ovl::host {
namespace {

// A piece and its two or three streams fit the second-level cache; a window is what hides a peer's answer.
constexpr std::int64_t piece_bytes = 128 << 10;
constexpr std::int64_t window_pieces = 4;
// Threads write whole cache lines, in pairs: no line is shared.
constexpr std::int64_t grain_bytes = 128;

}  // namespace

Range part_of(std::int64_t count, int parts, int index, std::int64_t grain) {
  const std::int64_t each = (count + parts - 1) / parts;
  const std::int64_t size = (each + grain - 1) / grain * grain;
  const std::int64_t begin = std::min(count, size * index);
  return {begin, std::min(size, count - begin)};
}

// One channel's part in one call.
template <class T>
class Part {
 public:
  Part(Group& group, int member, int channel, const CollectiveCall& call, Waiter waiter)
      : group_(group),
        me_(member),
        channel_(channel),
        call_(call),
        waiter_(waiter),
        state_(group.channel(member, channel)),
        number_(++state_.calls),
        last_stores_(stores_for(call)) {}

  void run() {
    if (channel_ == 0) publish();
    const bool ring = call_.kind == CollectiveKind::all_reduce || call_.kind == CollectiveKind::all_gather ||
                      call_.kind == CollectiveKind::broadcast;
    // Its own member too: a further channel may be here before the first has published.
    const auto await_entry = [this](int member) { group_.members_[index(member)].entered.wait(number_, waiter_); };
    await_entry(me_);
    meet(ring, await_entry);
    switch (call_.kind) {
      case CollectiveKind::all_reduce: all_reduce(); break;
      case CollectiveKind::all_gather: all_gather(); break;
      case CollectiveKind::reduce_scatter: reduce_scatter(); break;
      case CollectiveKind::broadcast: broadcast(); break;
      case CollectiveKind::all_to_all: all_to_all(); break;
    }
    const std::uint64_t all = state_.base + finished_;
    meet(ring, [&](int peer) { group_.channel(peer, channel_).pieces.wait(all, waiter_); });
    state_.base = all;
  }

 private:
  static constexpr std::int64_t grain = grain_bytes / static_cast<std::int64_t>(sizeof(T));
  static constexpr std::int64_t piece = piece_bytes / static_cast<std::int64_t>(sizeof(T));
  static std::size_t index(int member) { return static_cast<std::size_t>(member); }

  [[nodiscard]] int around(int steps) const { return ((me_ + steps) % group_.size_ + group_.size_) % group_.size_; }
  [[nodiscard]] const T* input(int member) const {
    return reinterpret_cast<const T*>(group_.members_[index(member)].input);
  }
  [[nodiscard]] T* output(int member) const { return reinterpret_cast<T*>(group_.members_[index(member)].output); }

  // How to store what nobody reads again in this call.
  [[nodiscard]] kernels::Stores stores_for(const CollectiveCall& call) const {
    const std::int64_t touched = std::int64_t{2} * group_.size_ * call.count * static_cast<std::int64_t>(sizeof(T));
    const bool large = group_.cache_ > Bytes(0) && Bytes(touched) > group_.cache_;
    return large ? kernels::Stores::streaming : kernels::Stores::cached;
  }
  [[nodiscard]] kernels::Stores stores(bool last) const { return last ? last_stores_ : kernels::Stores::cached; }

  void publish() {
    Group::Member& self = group_.members_[index(me_)];
    self.input = call_.input;
    self.output = call_.output;
    self.entered.set(number_);
  }

  template <class Meet>
  void meet(bool ring, Meet meet_peer) {
    if (ring) {
      meet_peer(around(-1));
      meet_peer(around(1));
    } else {
      for (int step = 1; step < group_.size_; ++step) meet_peer(around(step));
    }
  }

  // This channel's share of a range of elements, and a piece of that share.
  [[nodiscard]] Range share(Range whole) const {
    const Range part = part_of(whole.count, group_.channels_, channel_, grain);
    return {whole.begin + part.begin, part.count};
  }
  [[nodiscard]] static Range piece_of(Range share, std::int64_t first) {
    const std::int64_t begin = std::min(first, share.count);
    return {share.begin + begin, std::min(piece, share.count - begin)};
  }

  void finish_piece() { state_.pieces.set(state_.base + ++finished_); }
  // The rank before has finished its piece that lies `behind` pieces before our next one.
  void await_previous(std::int64_t behind) {
    const std::uint64_t target = state_.base + finished_ + 1 - static_cast<std::uint64_t>(behind);
    group_.channel(around(-1), channel_).pieces.wait(target, waiter_);
  }

  // work(first element) for every piece of `longest` elements.
  template <class Work>
  void in_pieces(std::int64_t longest, Work work) {
    for (std::int64_t first = 0; first < longest; first += piece) {
      work(first);
      finish_piece();
    }
  }

  // work(step, first element) for `steps` steps around the ring over `longest` elements: all steps of one window of
  // pieces, then the next window. From the second step on a piece needs what the rank before did with it.
  template <class Work>
  void in_windows(std::int64_t longest, int steps, Work work) {
    for (std::int64_t begin = 0; begin < longest; begin += window_pieces * piece) {
      const std::int64_t pieces = std::min(window_pieces, (longest - begin + piece - 1) / piece);
      for (int step = 1; step <= steps; ++step) {
        for (std::int64_t p = 0; p < pieces; ++p) {
          if (step > 1) await_previous(pieces);
          work(step, begin + p * piece);
          finish_piece();
        }
      }
    }
  }

  // Chunk c starts at rank c, collects a contribution a step, is complete at rank c - 1, and goes on around until all
  // have it. In step s rank r handles chunk r - s: n - 1 reducing steps, the last of which also gives the sum to the
  // next rank, then n - 2 that pass on what came. In place is safe: a chunk is overwritten only by its sum, which
  // depends on everyone having read the input.
  void all_reduce() {
    const int n = group_.size_;
    if (n == 1) return copy_own(call_.count);
    const int next = around(1);
    const int previous = around(-1);
    const std::int64_t longest = share(part_of(call_.count, n, 0, grain)).count;
    in_windows(longest, 2 * n - 3, [&](int step, std::int64_t first) {
      const Range r = piece_of(share(part_of(call_.count, n, around(-step), grain)), first);
      const T* so_far = (step == 1 ? input(previous) : output(previous)) + r.begin;
      if (step < n - 1) {
        kernels::add(output(me_) + r.begin, so_far, input(me_) + r.begin, r.count, stores(false));
      } else if (step == n - 1) {
        kernels::add_twice(output(me_) + r.begin, output(next) + r.begin, so_far, input(me_) + r.begin, r.count,
                           stores(n == 2));
      } else {
        kernels::copy(output(next) + r.begin, output(me_) + r.begin, r.count, stores(step == 2 * n - 3));
      }
    });
  }

  // A rank gives its own block to the next, then passes on what came.
  void all_gather() {
    const int n = group_.size_;
    if (n == 1) return copy_own(call_.count);
    const int next = around(1);
    const std::int64_t block = call_.count / n;
    in_windows(share({0, block}).count, n - 1, [&](int step, std::int64_t first) {
      const Range r = piece_of(share({0, block}), first);
      const std::int64_t at = block * around(1 - step) + r.begin;
      const T* from = step == 1 ? input(me_) + r.begin : output(me_) + at;
      kernels::copy(output(next) + at, from, r.count, stores(step == n - 1));
      if (step == 1) kernels::copy(output(me_) + at, from, r.count, stores(true));
    });
  }

  // Own contribution first: in place it lies where the sum goes.
  void reduce_scatter() {
    const int n = group_.size_;
    if (n == 1) return copy_own(call_.count);
    const std::int64_t block = call_.count / n;
    in_pieces(share({0, block}).count, [&](std::int64_t first) {
      const Range r = piece_of(share({0, block}), first);
      const std::int64_t at = block * me_ + r.begin;
      T* out = output(me_) + r.begin;
      kernels::add(out, input(me_) + at, input(around(1)) + at, r.count, stores(n == 2));
      for (int step = 2; step < n; ++step) {
        kernels::add(out, out, input(around(step)) + at, r.count, stores(step == n - 1));
      }
    });
  }

  // A pipeline from the root: each reads the rank before it, as soon as a piece is there.
  void broadcast() {
    const int previous = around(-1);
    const bool is_root = me_ == call_.root;
    const bool after_root = previous == call_.root;
    const T* from = is_root ? input(me_) : after_root ? input(previous) : output(previous);
    in_pieces(share({0, call_.count}).count, [&](std::int64_t first) {
      const Range r = piece_of(share({0, call_.count}), first);
      if (!is_root && !after_root) await_previous(0);
      kernels::copy(output(me_) + r.begin, from + r.begin, r.count, stores(is_root || around(1) == call_.root));
    });
  }

  void all_to_all() {
    const int n = group_.size_;
    const std::int64_t block = call_.count / n;
    for (int step = 0; step < n; ++step) {
      const int peer = around(step);
      in_pieces(share({0, block}).count, [&](std::int64_t first) {
        const Range r = piece_of(share({0, block}), first);
        kernels::copy(output(me_) + block * peer + r.begin, input(peer) + block * me_ + r.begin, r.count, stores(true));
      });
    }
  }

  void copy_own(std::int64_t count) {
    const Range r = share({0, count});
    kernels::copy(output(me_) + r.begin, input(me_) + r.begin, r.count, stores(true));
  }

  Group& group_;
  int me_;
  int channel_;
  const CollectiveCall& call_;
  Waiter waiter_;
  Group::Channel& state_;
  std::uint64_t number_;
  kernels::Stores last_stores_;
  std::uint64_t finished_ = 0;
};

Group::Group(int members, int channels, Bytes cache)
    : size_(members),
      channels_(channels),
      cache_(cache),
      members_(std::make_unique<Member[]>(static_cast<std::size_t>(members))),
      channels_state_(std::make_unique<Channel[]>(table_index(members, channels, 0))),
      mailboxes_(std::make_unique<Mailbox[]>(table_index(members, members, 0))) {}

void Group::collective(int member, int channel, const CollectiveCall& call, Waiter waiter) {
  if (call.dtype == DType::f64) {
    Part<double>(*this, member, channel, call, waiter).run();
  } else {
    Part<float>(*this, member, channel, call, waiter).run();
  }
}

void Group::exchange(int member, std::vector<Message>& messages, Waiter waiter) {
  for (int peer = 0; peer < size_; ++peer) {
    Mailbox& box = mailbox(member, peer);
    box.first = box.posted.load();
    box.messages.clear();
    for (Message& m : messages) {
      m.done = false;
      if (m.direction == Direction::send && m.peer == peer) box.messages.push_back(&m);
    }
    if (box.messages.empty()) continue;
    box.posted.set(box.first + box.messages.size());
    members_[static_cast<std::size_t>(peer)].bell.add(1);
  }

  Signal& bell = members_[static_cast<std::size_t>(member)].bell;
  for (;;) {
    const std::uint64_t rung = bell.load();
    bool all_done = receive_what_is_there(member, messages);
    for (int peer = 0; peer < size_; ++peer) {
      Mailbox& box = mailbox(member, peer);
      all_done = all_done && box.taken.load() == box.posted.load();
    }
    if (all_done) return;
    bell.wait(rung + 1, waiter);
  }
}

bool Group::receive_what_is_there(int member, std::vector<Message>& messages) {
  int stalled = -1;  // a peer whose next message is not there: its later ones must not be taken for it
  bool all_done = true;
  for (Message& m : messages) {
    if (m.direction == Direction::send || m.done) continue;
    Mailbox& box = mailbox(m.peer, member);
    const std::uint64_t number = box.taken.load();
    if (m.peer == stalled || box.posted.load() == number) {
      stalled = m.peer;
      all_done = false;
      continue;
    }
    const Message& sent = *box.messages[number - box.first];
    if (sent.bytes != m.bytes) {
      throw failure("an exchange does not match",
                    "member " + std::to_string(m.peer) + " sends " + std::to_string(sent.bytes) +
                        " bytes where member " + std::to_string(member) + " receives " + std::to_string(m.bytes),
                    "give both transfers the same count");
    }
    if (m.memory != sent.memory) std::memcpy(m.memory, sent.memory, static_cast<std::size_t>(m.bytes));
    m.done = true;
    box.taken.set(number + 1);
    members_[static_cast<std::size_t>(m.peer)].bell.add(1);
  }
  return all_done;
}

}  // namespace ovl::host
