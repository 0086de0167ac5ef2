// SPDX-License-Identifier: Apache-2.0
#include "schedule/queue.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "program/builder.hpp"
#include "schedule/rotation.hpp"

namespace ovl {
namespace {

// One beyond what a program may hold tells as well as all would that there are too many.
bool enough(const std::vector<Seconds>& arrivals) { return std::ssize(arrivals) > most_queued; }

void require_checkable(const QueueSpec& spec) {
  const std::int64_t operations = spec.backlog + std::ssize(spec.arrivals);
  if (operations <= most_queued) return;
  throw impossible_error(fmt::format("{} operations or more are too many for one replay", operations),
                         fmt::format("{} are checked and recorded in reasonable time", most_queued),
                         "type a shorter --duration, a smaller --backlog, or a lower --load or --arrival-rate");
}

// What one lane works on: an array to read and one to write for each slice of the rotation.
struct Arrays {
  BufferId send;
  BufferId receive;
};

struct ArraySizes {
  std::int64_t whole = 0;  // elements, as nccl-tests counts
  std::int64_t in = 0;
  std::int64_t out = 0;
};

ArraySizes sizes_of(const QueueSpec& spec) {
  const std::int64_t elements = divide_up(spec.bytes.value(), size_of(spec.dtype).value());
  const bool divides = spec.kind != CollectiveKind::all_reduce && spec.kind != CollectiveKind::broadcast;
  const std::int64_t whole = divides ? divide_up(elements, spec.ranks) * spec.ranks : elements;
  return {whole, spec.kind == CollectiveKind::all_gather ? whole / spec.ranks : whole,
          spec.kind == CollectiveKind::reduce_scatter ? whole / spec.ranks : whole};
}

void require_addressable(const QueueSpec& spec, const ArraySizes& sizes) {
  const double needed = static_cast<double>(sizes.in + sizes.out) * static_cast<double>(size_of(spec.dtype).value()) *
                        spec.ranks * spec.lanes;
  if (spec.bytes.value() <= most_bytes && needed <= static_cast<double>(most_bytes)) return;
  throw usage_error(fmt::format("a queue of {} of {} on {} ranks is too large", name(spec.kind),
                                format_bytes(spec.bytes), spec.ranks),
                    "all arrays together have at most 2^60 bytes", "use smaller sizes");
}

}  // namespace

std::vector<Seconds> constant_arrivals(Seconds apart, Seconds duration) {
  require(apart > Seconds(0), "arrivals are apart");
  std::vector<Seconds> arrivals;
  for (int k = 1; apart * k <= duration && !enough(arrivals); ++k) arrivals.push_back(apart * k);
  return arrivals;
}

std::vector<Seconds> poisson_arrivals(Seconds apart, Seconds duration, std::uint64_t seed) {
  require(apart > Seconds(0), "arrivals are apart");
  Random random(seed);
  const auto gap = [&] { return apart * -std::log1p(-random.uniform()); };
  std::vector<Seconds> arrivals;
  for (Seconds at = gap(); at <= duration && !enough(arrivals); at += gap()) arrivals.push_back(at);
  return arrivals;
}

Program queue_program(const QueueSpec& spec) {
  require(spec.ranks > 0 && spec.serving > 0 && spec.serving <= spec.lanes && spec.window > 0, "a queue is served");
  require_checkable(spec);
  ProgramBuilder p("queue", spec.ranks);
  std::vector<LaneId> lanes;
  for (int l = 0; l < spec.lanes; ++l) {
    lanes.push_back(p.lane({.name = fmt::format("queue{}", l), .role = Role::communication, .waiting = spec.waiting}));
  }
  std::vector<CommId> comms;
  std::vector<Arrays> arrays;
  ArraySizes sizes;
  Rotation rotation;
  if (!spec.given) {
    sizes = sizes_of(spec);
    require_addressable(spec, sizes);
    rotation =
        rotate(spec.rotate_over, size_of(spec.dtype) * (sizes.in + sizes.out) * spec.ranks * spec.lanes, spec.window);
    const auto buffer = [&](const char* what, int lane, std::int64_t count) {
      return p.buffer({.name = fmt::format("{}{}", what, lane),
                       .dtype = spec.dtype,
                       .count = count * rotation.slices,
                       .memory = spec.memory,
                       .copies = rotation.copies});
    };
    for (int l = 0; l < spec.lanes; ++l) {
      comms.push_back(p.world(fmt::format("queue{}", l), spec.transport, spec.channels));
      const BufferId send = buffer("send", l, sizes.in);
      arrays.push_back({send, buffer("receive", l, sizes.out)});
    }
  }

  ClassBuilder c = p.all_ranks();
  for (std::size_t l = 0; l < arrays.size(); ++l) c.prologue(lanes[l], Fill{}, {}, {p.whole(arrays[l].send)});
  const std::int64_t operations = spec.backlog + std::ssize(spec.arrivals);
  std::vector<OpId> last;  // to write what it writes
  for (std::int64_t i = 0; i < operations; ++i) {
    const auto lane = static_cast<std::size_t>(i % spec.serving);
    const std::int64_t slice = i / spec.serving % rotation.slices;
    Work work = Busy{spec.given.value_or(Seconds(0))};
    std::vector<Slice> reads;
    std::vector<Slice> writes;
    if (!spec.given) {
      work = Collective{spec.kind, comms[lane], spec.dtype, sizes.whole};
      reads = {{arrays[lane].send, slice * sizes.in, sizes.in}};
      writes = {{arrays[lane].receive, slice * sizes.out, sizes.out}};
    }
    const OpId op = i < spec.backlog ? c.body(lanes[lane], std::move(work), std::move(reads), std::move(writes))
                                     : c.submit(spec.arrivals[static_cast<std::size_t>(i - spec.backlog)], lanes[lane],
                                                std::move(work), std::move(reads), std::move(writes));
    if (i + spec.serving * rotation.slices >= operations) last.push_back(op);
  }
  if (!spec.given) {
    for (const OpId op : last) c.epilogue(lanes.front(), Verify{op});
  }
  return std::move(p).finish();
}

}  // namespace ovl
