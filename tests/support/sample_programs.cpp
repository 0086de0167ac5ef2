// SPDX-License-Identifier: Apache-2.0
#include "support/sample_programs.hpp"

#include <string>
#include <utility>

#include "program/builder.hpp"

namespace ovl::sample {
namespace {

constexpr Gemm tiny{.m = 4, .n = 4, .k = 4};
constexpr std::int64_t size = 16;  // elements of a 4 × 4 matrix

Collective reduce(CommId comm) { return {.kind = CollectiveKind::all_reduce, .comm = comm, .count = size}; }

}  // namespace

Program pair() {
  ProgramBuilder p("pair", 2);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId a = p.buffer({.name = "a", .count = size});
  const BufferId b = p.buffer({.name = "b", .count = size});
  const BufferId c = p.buffer({.name = "c", .count = size});
  const BufferId sent = p.buffer({.name = "sent", .count = size});
  const BufferId reduced = p.buffer({.name = "reduced", .count = size});
  ClassBuilder all = p.all_ranks();
  all.prologue(compute, Fill{}, {}, {p.whole(a), p.whole(b), p.whole(sent)});
  const OpId gemm = all.body(compute, tiny, {p.whole(a), p.whole(b)}, {p.whole(c)});
  const OpId reduction = all.body(comm, reduce(world), {p.whole(sent)}, {p.whole(reduced)});
  all.epilogue(compute, Verify{gemm});
  all.epilogue(comm, Verify{reduction});
  return std::move(p).finish();
}

Program ddp() {
  constexpr int layers = 3;
  ProgramBuilder p("ddp", 2);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId a = p.buffer({.name = "a", .count = size});
  const BufferId b = p.buffer({.name = "b", .count = size});
  const BufferId gradients = p.buffer({.name = "gradients", .count = layers * size});
  const BufferId reduced = p.buffer({.name = "reduced", .count = layers * size});
  const BufferId weights = p.buffer({.name = "weights", .count = layers * size});
  ClassBuilder all = p.all_ranks();
  all.prologue(compute, Fill{}, {}, {p.whole(a), p.whole(b), p.whole(weights)});
  OpId last;
  for (int layer = 0; layer < layers; ++layer) {
    const Slice gradient{gradients, layer * size, size};
    all.body(compute, tiny, {p.whole(a), p.whole(b)}, {gradient});
    all.order(compute, comm);
    last = all.body(comm, reduce(world), {gradient}, {{reduced, layer * size, size}});
  }
  all.order(comm, compute);
  const OpId step = all.body(compute, Elementwise{}, {p.whole(reduced)}, {p.whole(weights)});
  all.epilogue(comm, Verify{last});
  all.epilogue(compute, Verify{step});
  return std::move(p).finish();
}

Program pipeline() {
  ProgramBuilder p("pipeline", 2);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId a = p.buffer({.name = "a", .count = size});
  const BufferId b = p.buffer({.name = "b", .count = size});
  const BufferId activation = p.buffer({.name = "activation", .count = size});
  const BufferId gradient = p.buffer({.name = "gradient", .count = size});
  const BufferId result = p.buffer({.name = "result", .count = size});

  ClassBuilder first = p.ranks("first", {Rank(0)});
  first.prologue(compute, Fill{}, {}, {p.whole(a), p.whole(b)});
  first.body(compute, tiny, {p.whole(a), p.whole(b)}, {p.whole(activation)});
  first.order(compute, comm);
  first.body(comm, Exchange{.comm = world, .transfers = {{Direction::send, 1}}}, {p.whole(activation)});
  first.body(comm, Exchange{.comm = world, .transfers = {{Direction::receive, 1}}}, {}, {p.whole(gradient)});
  first.order(comm, compute);
  first.body(compute, tiny, {p.whole(gradient), p.whole(b)}, {p.whole(result)});

  ClassBuilder last = p.ranks("last", {Rank(1)});
  last.prologue(compute, Fill{}, {}, {p.whole(b)});
  last.body(comm, Exchange{.comm = world, .transfers = {{Direction::receive, 0}}}, {}, {p.whole(activation)});
  last.order(comm, compute);
  last.body(compute, tiny, {p.whole(activation), p.whole(b)}, {p.whole(gradient)});
  last.order(compute, comm);
  last.body(comm, Exchange{.comm = world, .transfers = {{Direction::send, 0}}}, {p.whole(gradient)});
  return std::move(p).finish();
}

Program mesh() {
  ProgramBuilder p("mesh", 4);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId across = p.lane({.name = "across", .role = Role::communication});
  const LaneId down = p.lane({.name = "down", .role = Role::communication});
  const CommId rows = p.communicator({"rows", {{Rank(0), Rank(1)}, {Rank(2), Rank(3)}}, "shm", 1});
  const CommId columns = p.communicator({"columns", {{Rank(0), Rank(2)}, {Rank(1), Rank(3)}}, "shm", 1});
  const BufferId a = p.buffer({.name = "a", .count = size});
  const BufferId b = p.buffer({.name = "b", .count = size});
  const BufferId c = p.buffer({.name = "c", .count = size});
  const BufferId reduced = p.buffer({.name = "reduced", .count = size});
  const BufferId gathered = p.buffer({.name = "gathered", .count = 2 * size});
  ClassBuilder all = p.all_ranks();
  all.prologue(compute, Fill{}, {}, {p.whole(a), p.whole(b)});
  all.body(compute, tiny, {p.whole(a), p.whole(b)}, {p.whole(c)});
  all.order(compute, across);
  all.body(across, reduce(rows), {p.whole(c)}, {p.whole(reduced)});
  all.order(across, down);
  all.body(down, Collective{.kind = CollectiveKind::all_gather, .comm = columns, .count = 2 * size}, {p.whole(reduced)},
           {p.whole(gathered)});
  return std::move(p).finish();
}

Program contended(const Work& aggressor, const Work& victim) {
  ProgramBuilder p("contended", 1);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId other = p.lane({.name = "aggressor", .role = Role::communication});
  const EventId there = p.event("there");
  const EventId end = p.event("end");
  const BufferId from = p.buffer({.name = "from", .count = size});
  const BufferId to = p.buffer({.name = "to", .count = size});
  ClassBuilder all = p.all_ranks();
  all.prologue(compute, Fill{}, {}, {p.whole(from)});
  all.body(other, Record{there, Moment::start});
  if (std::holds_alternative<Stream>(aggressor)) {
    all.body(other, aggressor, {p.whole(from)}, {p.whole(to)});
  } else {
    all.body(other, aggressor);
  }
  all.body(compute, Wait{there});
  all.body(compute, victim);
  all.body(compute, Record{end});
  return std::move(p).finish();
}

std::vector<Program> all() { return {pair(), ddp(), pipeline(), mesh()}; }

std::int64_t count_of(const Program& program, std::string_view buffer) {
  for (const Buffer& b : program.buffers) {
    if (b.name == buffer) return b.count;
  }
  return -1;
}

}  // namespace ovl::sample
