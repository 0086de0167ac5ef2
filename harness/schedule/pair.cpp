// SPDX-License-Identifier: Apache-2.0
#include "schedule/pair.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "program/builder.hpp"

namespace ovl {
namespace {

// No sum of sizes below may overflow.
constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

// Of numbers that are not negative, up to the largest.
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

// A window has at most about this many GEMM operations; where more are wanted, each repeats on its own data.
constexpr std::int64_t most_gemms = 256;

// Each copy has pages of its own: that many different ones are beyond any cache, however small they are.
constexpr std::int64_t most_sets = 4096;

// How the operations of one kind rotate through memory: as many different sets of operands as fit in one window are
// slices of the buffers, the rest are copies for the following replays.
struct Rotation {
  std::int64_t slices = 1;
  int copies = 1;
};

Rotation rotate(Bytes over, Bytes footprint, std::int64_t operations) {
  const std::int64_t wanted = divide_up(over.value(), std::max<std::int64_t>(1, footprint.value()));
  const std::int64_t sets = std::clamp<std::int64_t>(wanted, 1, most_sets);
  const std::int64_t slices = std::min(operations, sets);
  return {slices, static_cast<int>(divide_up(sets, slices))};
}

}  // namespace

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
  const std::int64_t a = spec.m * spec.k;
  const std::int64_t b = spec.k * spec.n;
  const std::int64_t c = spec.m * spec.n;

  const double needed = static_cast<double>(size_of(spec.dtype).value()) * spec.ranks *
                        (static_cast<double>(a) + static_cast<double>(b) + static_cast<double>(c) +
                         static_cast<double>(in) + static_cast<double>(out));
  if (needed > static_cast<double>(most_bytes)) {
    throw usage_error(fmt::format("gemm {}x{}x{} beside {} on {} ranks is too large", spec.m, spec.n, spec.k,
                                  format_bytes(spec.bytes), spec.ranks),
                      "all arrays together have at most 2^60 bytes", "use smaller sizes");
  }

  // The GEMMs of one collective, as few operations as most_gemms allows.
  const std::int64_t gemms = std::min(spec.gemm_repeat, std::max<std::int64_t>(1, most_gemms / spec.repeats));
  const auto over_ranks = [&](std::int64_t elements) { return size_of(spec.dtype) * (elements * spec.ranks); };
  const Rotation gemm_rotation = rotate(spec.rotate_over, over_ranks(a + b + c), gemms * spec.repeats);
  const Rotation comm_rotation = rotate(spec.rotate_over, over_ranks(in + out), spec.repeats);

  ProgramBuilder p("pair", spec.ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication, .waiting = spec.waiting});
  const CommId world = p.world("world", spec.transport, spec.channels);
  const auto buffer = [&](const char* name, std::int64_t count, const Rotation& rotation) {
    return p.buffer({.name = name,
                     .dtype = spec.dtype,
                     .count = count * rotation.slices,
                     .memory = spec.memory,
                     .copies = rotation.copies});
  };
  const BufferId left = buffer("a", a, gemm_rotation);
  const BufferId right = buffer("b", b, gemm_rotation);
  const BufferId product = buffer("c", c, gemm_rotation);
  const BufferId send = buffer("send", in, comm_rotation);
  const BufferId receive = buffer("receive", out, comm_rotation);

  ClassBuilder all = p.all_ranks();
  all.prologue(compute, Fill{}, {}, {p.whole(left), p.whole(right)});
  all.prologue(comm, Fill{}, {}, {p.whole(send)});
  std::vector<OpId> gemm_writers(static_cast<std::size_t>(gemm_rotation.slices));  // the last one of each slice
  for (std::int64_t i = 0; i < gemms * spec.repeats; ++i) {
    const std::int64_t s = i % gemm_rotation.slices;
    // Repeats that do not divide evenly go to the first ones of each pair.
    const std::int64_t repeat = spec.gemm_repeat / gemms + (i % gemms < spec.gemm_repeat % gemms ? 1 : 0);
    gemm_writers[static_cast<std::size_t>(s)] = all.body(compute, Gemm{spec.m, spec.n, spec.k, spec.dtype, repeat},
                                                         {{left, s * a, a}, {right, s * b, b}}, {{product, s * c, c}});
  }
  std::vector<OpId> comm_writers(static_cast<std::size_t>(comm_rotation.slices));
  for (std::int64_t i = 0; i < spec.repeats; ++i) {
    const std::int64_t s = i % comm_rotation.slices;
    comm_writers[static_cast<std::size_t>(s)] = all.body(comm, Collective{spec.collective, world, spec.dtype, whole},
                                                         {{send, s * in, in}}, {{receive, s * out, out}});
  }
  for (const auto* writers : {&gemm_writers, &comm_writers}) {
    for (const OpId writer : *writers) all.epilogue(compute, Verify{writer});
  }
  return std::move(p).finish();
}

}  // namespace ovl
