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

  // A pair's footprint over all ranks decides how many different ones it takes; as many as fit in one window are
  // slices, the rest are copies.
  const Bytes footprint = size_of(spec.dtype) * ((a + b + c + in + out) * spec.ranks);
  const std::int64_t different = std::max<std::int64_t>(1, divide_up(spec.rotate_over.value(), footprint.value()));
  const std::int64_t slices = std::min(spec.repeats, different);
  const auto copies = static_cast<int>(divide_up(different, slices));

  ProgramBuilder p("pair", spec.ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication, .waiting = spec.waiting});
  const CommId world = p.world("world", spec.transport, spec.channels);
  const auto buffer = [&](const char* name, std::int64_t count) {
    return p.buffer(
        {.name = name, .dtype = spec.dtype, .count = count * slices, .memory = spec.memory, .copies = copies});
  };
  const BufferId left = buffer("a", a);
  const BufferId right = buffer("b", b);
  const BufferId product = buffer("c", c);
  const BufferId send = buffer("send", in);
  const BufferId receive = buffer("receive", out);

  ClassBuilder all = p.all_ranks();
  all.prologue(compute, Fill{}, {}, {p.whole(left), p.whole(right)});
  all.prologue(comm, Fill{}, {}, {p.whole(send)});
  std::vector<OpId> last_writers;
  for (std::int64_t i = 0; i < spec.repeats; ++i) {
    const std::int64_t s = i % slices;
    const OpId gemm = all.body(compute, Gemm{spec.m, spec.n, spec.k, spec.dtype, spec.gemm_repeat},
                               {{left, s * a, a}, {right, s * b, b}}, {{product, s * c, c}});
    const OpId collective = all.body(comm, Collective{spec.collective, world, spec.dtype, whole}, {{send, s * in, in}},
                                     {{receive, s * out, out}});
    if (i >= spec.repeats - slices) last_writers.insert(last_writers.end(), {gemm, collective});
  }
  for (const OpId writer : last_writers) all.epilogue(compute, Verify{writer});
  return std::move(p).finish();
}

}  // namespace ovl
