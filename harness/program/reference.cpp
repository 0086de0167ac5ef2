// SPDX-License-Identifier: Apache-2.0
#include "program/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "base/error.hpp"
#include "program/order.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

class Interpreter {
 public:
  Interpreter(const Program& program, Contents start) : program_(program), contents_(std::move(start)) {
    for (const RankClass& c : program.classes) orders_.emplace(&c, HappensBefore(c.body, program.lanes.size()));
    for (int r = 0; r < program.ranks; ++r) {
      const RankClass& c = program.class_of(Rank(r));
      states_.push_back({Rank(r), &c, std::vector<bool>(c.body.size()), std::vector<bool>(c.body.size()), {}, {}});
    }
  }

  Reference run() {
    bool all = false;
    for (bool moved = true; moved && !all;) {
      moved = false;
      all = true;
      for (State& rank : states_) {
        for (std::size_t i = 0; i < rank.done.size(); ++i) {
          if (!rank.done[i] && ready(rank, i) && step(rank, i)) rank.done[i] = moved = true;
          all = all && rank.done[i];
        }
      }
    }
    require(all, "the ranks of a program meet");
    return {std::move(contents_), inexact_};
  }

 private:
  struct State {
    Rank rank;
    const RankClass* rank_class;
    std::vector<bool> done;
    std::vector<bool> arrived;  // at a meeting that others have still to reach
    std::map<CommId, int> collectives;
    std::map<std::tuple<CommId, Direction, int>, int> transfers;
  };
  struct Meeting {
    std::map<int, std::vector<double>> inputs;  // of each rank that has arrived
  };
  using Key = std::array<int, 4>;

  // In issue order among the operations that meet, so that each finds its place in its sequence.
  bool ready(const State& rank, std::size_t position) const {
    const auto& predecessors = orders_.at(rank.rank_class).predecessors(position);
    if (!std::all_of(predecessors.begin(), predecessors.end(), [&](std::size_t p) { return rank.done[p]; }))
      return false;
    const std::optional<CommId> comm = comm_of(rank.rank_class->body[position]);
    if (!comm) return true;
    for (std::size_t i = 0; i < position; ++i) {
      if (!rank.done[i] && comm_of(rank.rank_class->body[i]) == comm) return false;
    }
    return true;
  }

  static std::optional<CommId> comm_of(const Operation& op) {
    if (const auto* c = std::get_if<Collective>(&op.work)) return c->comm;
    if (const auto* e = std::get_if<Exchange>(&op.work)) return e->comm;
    return std::nullopt;
  }

  std::span<double> data(Rank rank, const Slice& s) {
    return std::span<double>(contents_.at(rank.index()).at(s.buffer.index()))
        .subspan(static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.count));
  }

  // Whether the operation is finished.
  bool step(State& rank, std::size_t position) {
    const Operation& op = rank.rank_class->body[position];
    if (const auto* c = std::get_if<Collective>(&op.work)) return meet(rank, position, op, *c);
    if (const auto* e = std::get_if<Exchange>(&op.work)) return meet(rank, position, op, *e);
    if (const auto* g = std::get_if<Gemm>(&op.work)) multiply(rank.rank, op, *g);
    // A stream that lasts until an event may not have come to its end: nothing reads what it writes.
    if (std::holds_alternative<Copy>(op.work) || std::holds_alternative<Stream>(op.work)) {
      const auto from = data(rank.rank, op.reads[0]);
      std::copy(from.begin(), from.end(), data(rank.rank, op.writes[0]).begin());
    }
    if (std::holds_alternative<Elementwise>(op.work)) add(rank.rank, op);
    return true;
  }

  void multiply(Rank rank, const Operation& op, const Gemm& g) {
    const auto a = data(rank, op.reads[0]);
    const auto b = data(rank, op.reads[1]);
    const auto c = data(rank, op.writes[0]);
    const auto [m, n, k] =
        std::tuple(static_cast<std::size_t>(g.m), static_cast<std::size_t>(g.n), static_cast<std::size_t>(g.k));
    const bool transposed = g.dtype == DType::f8e4m3;
    // A row of b at a time: integers add up to the same in any order, and this one runs through memory.
    std::vector<double> sums(n);
    std::vector<double> magnitudes(n);
    for (std::size_t i = 0; i < m; ++i) {
      std::fill(sums.begin(), sums.end(), 0.0);
      std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
      for (std::size_t x = 0; x < k; ++x) {
        const double factor = a[i * k + x];
        for (std::size_t j = 0; j < n; ++j) {
          const double product = factor * b[transposed ? j * k + x : x * n + j];
          sums[j] += product;
          magnitudes[j] += std::fabs(product);
        }
      }
      for (std::size_t j = 0; j < n; ++j) {
        c[i * n + j] = sums[j];
        // Partial sums are held in f32 at least, the result as stored.
        note(rank, op, magnitudes[j], std::max(24, significand_bits(g.dtype)));
        note(rank, op, std::fabs(sums[j]), significand_bits(gemm_output(g.dtype)));
      }
    }
  }

  void add(Rank rank, const Operation& op) {
    const auto to = data(rank, op.writes[0]);
    const int bits = significand_bits(program_.buffers[op.writes[0].buffer.index()].dtype);
    for (std::size_t i = 0; i < to.size(); ++i) {
      double magnitude = std::fabs(to[i]);
      for (const Slice& read : op.reads) {
        const double term = data(rank, read)[i];
        to[i] += term;
        magnitude += std::fabs(term);
      }
      note(rank, op, magnitude, bits);
    }
  }

  bool meet(State& rank, std::size_t position, const Operation& op, const Collective& c) {
    const std::vector<Rank>& group = group_of(c.comm, rank.rank);
    const Key key{c.comm.value, group.front().value, -1, rank.collectives[c.comm]};
    Meeting& meeting = meetings_[key];
    if (!rank.arrived[position]) {
      const auto input = data(rank.rank, op.reads[0]);
      meeting.inputs[rank.rank.value].assign(input.begin(), input.end());
      rank.arrived[position] = true;
    }
    if (meeting.inputs.size() < group.size()) return false;
    ++rank.collectives[c.comm];
    std::vector<const std::vector<double>*> inputs;
    for (const Rank peer : group) inputs.push_back(&meeting.inputs.at(peer.value));
    const auto self = static_cast<std::size_t>(std::find(group.begin(), group.end(), rank.rank) - group.begin());
    const auto output = data(rank.rank, op.writes[0]);
    const std::size_t part = static_cast<std::size_t>(c.count) / group.size();
    for (std::size_t i = 0; i < output.size(); ++i) {
      const auto sum = [&](std::size_t at) {
        double total = 0;
        double magnitude = 0;
        for (const auto* input : inputs) {
          total += input->at(at);
          magnitude += std::fabs(input->at(at));
        }
        note(rank.rank, op, magnitude, significand_bits(c.dtype));
        return total;
      };
      switch (c.kind) {
        case CollectiveKind::all_reduce: output[i] = sum(i); break;
        case CollectiveKind::reduce_scatter: output[i] = sum(self * part + i); break;
        case CollectiveKind::all_gather: output[i] = inputs[i / part]->at(i % part); break;
        case CollectiveKind::broadcast: output[i] = inputs[static_cast<std::size_t>(c.root)]->at(i); break;
        case CollectiveKind::all_to_all: output[i] = inputs[i / part]->at(self * part + i % part); break;
      }
    }
    return true;
  }

  // Sends are buffered: what a receive gets is the same whenever it comes.
  bool meet(State& rank, std::size_t position, const Operation& op, const Exchange& e) {
    const std::vector<Rank>& group = group_of(e.comm, rank.rank);
    const auto key = [&](const Transfer& t, int place) {
      const int self = rank.rank.value;
      const int peer = group.at(static_cast<std::size_t>(t.peer)).value;
      return t.direction == Direction::send ? Key{e.comm.value, self, peer, place}
                                            : Key{e.comm.value, peer, self, place};
    };
    if (!rank.arrived[position]) {
      auto read = op.reads.begin();
      for (const Transfer& t : e.transfers) {
        if (t.direction != Direction::send) continue;
        const auto input = data(rank.rank, *read++);
        meetings_[key(t, rank.transfers[{e.comm, t.direction, t.peer}]++)].inputs[0].assign(input.begin(), input.end());
      }
      rank.arrived[position] = true;
    }
    auto places = rank.transfers;
    std::vector<const std::vector<double>*> messages;
    for (const Transfer& t : e.transfers) {
      if (t.direction == Direction::send) continue;
      const auto found = meetings_.find(key(t, places[{e.comm, t.direction, t.peer}]++));
      if (found == meetings_.end()) return false;
      messages.push_back(&found->second.inputs.at(0));
    }
    rank.transfers = std::move(places);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      std::copy(messages[i]->begin(), messages[i]->end(), data(rank.rank, op.writes[i]).begin());
    }
    return true;
  }

  [[nodiscard]] const std::vector<Rank>& group_of(CommId comm, Rank rank) const {
    for (const auto& group : program_.communicators.at(comm.index()).groups) {
      if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
    }
    throw std::logic_error("broken invariant: a rank is in a group of the communicator that it uses");
  }

  void note(Rank rank, const Operation& op, double magnitude, int bits) {
    if (magnitude <= std::ldexp(1, bits) || !inexact_.empty()) return;
    inexact_ = fmt::format("%{} {} on rank {}: terms of {} together, and integers up to 2^{} are exact", op.id.value,
                           describe(op), rank.value, magnitude, bits);
  }

  const Program& program_;
  Contents contents_;
  std::map<const RankClass*, HappensBefore> orders_;
  std::vector<State> states_;
  std::map<Key, Meeting> meetings_;
  std::string inexact_;
};

}  // namespace

Reference run_serially(const Program& program, Contents start) { return Interpreter(program, std::move(start)).run(); }

Difference compare(const Program& program, const Contents& got, const Contents& expected,
                   const std::vector<std::string>& buffers) {
  Difference difference;
  for (std::size_t r = 0; r < expected.size(); ++r) {
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      const std::string& name = program.buffers[b].name;
      if (std::find(buffers.begin(), buffers.end(), name) == buffers.end()) continue;
      for (std::size_t i = 0; i < expected[r][b].size(); ++i) {
        const double x = got[r][b].at(i);
        const double y = expected[r][b][i];
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        if (difference.elements++ == 0) {
          difference.first = fmt::format("{}[{}] on rank {} is {}, expected {}", name, i, r, x, y);
        }
      }
    }
  }
  return difference;
}

}  // namespace ovl
