// SPDX-License-Identifier: Apache-2.0
#include "schedule/pair.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "schedule/gemms.hpp"

namespace ovl {

std::int64_t collective_count(const PairSpec& spec) {
  if (spec.bytes.value() > most_bytes) {
    throw usage_error(fmt::format("a collective of {} is too large", format_bytes(spec.bytes)),
                      "it has at most 2^60 bytes", "use smaller sizes");
  }
  const std::int64_t elements = divide_up(spec.bytes.value(), size_of(spec.dtype).value());
  const bool divides = spec.collective != CollectiveKind::all_reduce && spec.collective != CollectiveKind::broadcast;
  return divides ? divide_up(elements, spec.ranks) * spec.ranks : elements;
}

Program pair_program(const PairSpec& spec) {
  require(spec.ranks > 0 && spec.repeats > 0 && spec.gemm_repeat > 0, "a pair has ranks and repeats");
  const std::int64_t whole = collective_count(spec);
  const std::int64_t part = whole / spec.ranks;
  const std::int64_t in = spec.collective == CollectiveKind::all_gather ? part : whole;
  const std::int64_t out = spec.collective == CollectiveKind::reduce_scatter ? part : whole;
  const GemmShape shape{spec.m, spec.n, spec.k};
  const Bytes element = size_of(spec.dtype);
  const double arrays = static_cast<double>(in) + static_cast<double>(out);
  const double needed = spec.ranks * (gemm_bytes(shape, spec.dtype) + static_cast<double>(element.value()) * arrays);
  if (needed > static_cast<double>(most_bytes)) {
    throw usage_error(fmt::format("gemm {}x{}x{} beside {} on {} ranks is too large", spec.m, spec.n, spec.k,
                                  format_bytes(spec.bytes), spec.ranks),
                      "all arrays together have at most 2^60 bytes", "use smaller sizes");
  }

  // The GEMMs of one collective, as few operations as most_gemms allows.
  const std::int64_t gemms = std::min(spec.gemm_repeat, std::max<std::int64_t>(1, most_gemms / spec.repeats));
  const Rotation comm_rotation = rotate(spec.rotate_over, element * (in + out) * spec.ranks, spec.repeats);

  ProgramBuilder p("pair", spec.ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication, .waiting = spec.waiting});
  const CommId world = p.world("world", spec.transport, spec.channels, spec.progress);
  const GemmRow compute_row(p, shape, spec.dtype, gemms * spec.repeats, spec.ranks, spec.rotate_over, spec.memory);
  const auto buffer = [&](const char* name, std::int64_t count) {
    return p.buffer({.name = name,
                     .dtype = spec.dtype,
                     .count = count * comm_rotation.slices,
                     .memory = spec.memory,
                     .copies = comm_rotation.copies});
  };
  const BufferId send = buffer("send", in);
  const BufferId receive = buffer("receive", out);

  ClassBuilder all = p.all_ranks();
  compute_row.fill(p, all, compute);
  all.prologue(comm, Fill{}, {}, {p.whole(send)});
  const std::vector<OpId> gemm_writers = compute_row.issue(all, compute, spec.repeats, spec.gemm_repeat);
  std::vector<OpId> comm_writers(static_cast<std::size_t>(comm_rotation.slices));
  for (std::int64_t i = 0; i < spec.repeats; ++i) {
    const std::int64_t s = i % comm_rotation.slices;
    comm_writers[static_cast<std::size_t>(s)] = all.body(comm, Collective{spec.collective, world, spec.dtype, whole},
                                                         {{send, s * in, in}}, {{receive, s * out, out}});
  }
  for (const std::vector<OpId>* writers : {&gemm_writers, &std::as_const(comm_writers)}) {
    for (const OpId writer : *writers) all.epilogue(compute, Verify{writer});
  }
  return std::move(p).finish();
}

}  // namespace ovl
