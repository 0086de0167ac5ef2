// SPDX-License-Identifier: Apache-2.0
#include "schedule/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "schedule/gemms.hpp"
#include "schedule/rotation.hpp"

namespace ovl {
namespace {

constexpr int groups = 2;  // of a hierarchy

bool is_sequence(CollectiveForm form) {
  return form == CollectiveForm::reduce_scatter_all_gather || form == CollectiveForm::all_reduce_hierarchical;
}

bool sums(CollectiveForm form) {
  return form == CollectiveForm::all_reduce || form == CollectiveForm::reduce_scatter || is_sequence(form);
}

void require_possible(const CollectiveSpec& spec) {
  const std::string form(name(spec.form));
  if (spec.form == CollectiveForm::all_reduce_hierarchical && (spec.ranks % groups != 0 || spec.ranks < 2 * groups)) {
    throw impossible_error(fmt::format("{} on {} ranks is not possible", form, spec.ranks),
                           fmt::format("it has {} groups of equally many ranks, at least 2 each", groups),
                           "type for example --ranks 4");
  }
  const bool moves = spec.form == CollectiveForm::all_to_all || spec.form == CollectiveForm::exchange;
  if (spec.in_place && (moves || is_sequence(spec.form))) {
    throw impossible_error(form + " cannot work in place",
                           moves ? "what it receives would overwrite what it has still to send"
                                 : "its parts hand their results on in buffers of their own",
                           "type --place out");
  }
}

// One operation of a form, on arrays of its buffers of which each slice is a set: which it reads, and which it writes.
struct FormStep {
  CollectiveKind kind;
  CommId comm;
  int ranks;           // of a group of it
  std::int64_t count;  // of the whole array of that group
  std::size_t from;    // index of a buffer
  std::size_t to;
  // Where a rank's block begins within an array that it shares in place.
  bool reads_block = false;
  bool writes_block = false;
};

struct Parts {
  std::vector<std::pair<const char*, std::int64_t>> buffers;  // name and elements of one array; the first is filled
  std::vector<FormStep> steps;
};

CollectiveKind kind_of(CollectiveForm form) {
  const std::optional<CollectiveKind> kind = result_of(form);
  require(kind.has_value(), "this form is a collective");
  return *kind;
}

Parts single(const CollectiveSpec& spec, CommId world, std::int64_t whole) {
  const CollectiveKind kind = kind_of(spec.form);
  const bool gathers = kind == CollectiveKind::all_gather;
  const bool scatters = kind == CollectiveKind::reduce_scatter;
  if (spec.in_place) return {{{"array", whole}}, {{kind, world, spec.ranks, whole, 0, 0, gathers, scatters}}};
  const std::int64_t part = whole / spec.ranks;
  return {{{"send", gathers ? part : whole}, {"receive", scatters ? part : whole}},
          {{kind, world, spec.ranks, whole, 0, 1}}};
}

Parts identity(const CollectiveSpec& spec, CommId world, std::int64_t whole) {
  return {{{"send", whole}, {"parts", whole / spec.ranks}, {"receive", whole}},
          {{CollectiveKind::reduce_scatter, world, spec.ranks, whole, 0, 1},
           {CollectiveKind::all_gather, world, spec.ranks, whole, 1, 2}}};
}

// Ranks 0 .. n/2 - 1 are one group and the others the second, as on two nodes; r and r + n/2 meet across.
Parts hierarchy(const CollectiveSpec& spec, ProgramBuilder& p, std::int64_t whole) {
  const int size = spec.ranks / groups;
  Communicator inside{.name = "inside",
                      .groups = {},
                      .transport = spec.transport,
                      .channels = spec.channels,
                      .progress = spec.progress};
  Communicator across{.name = "across",
                      .groups = {},
                      .transport = spec.transport,
                      .channels = spec.channels,
                      .progress = spec.progress};
  inside.groups.resize(groups);
  across.groups.resize(static_cast<std::size_t>(size));
  for (int r = 0; r < spec.ranks; ++r) {
    inside.groups[static_cast<std::size_t>(r / size)].emplace_back(r);
    across.groups[static_cast<std::size_t>(r % size)].emplace_back(r);
  }
  const CommId within = p.communicator(std::move(inside));
  const CommId between = p.communicator(std::move(across));
  const std::int64_t part = whole / size;
  return {{{"send", whole}, {"parts", part}, {"sums", part}, {"receive", whole}},
          {{CollectiveKind::reduce_scatter, within, size, whole, 0, 1},
           {CollectiveKind::all_reduce, between, groups, part, 1, 2},
           {CollectiveKind::all_gather, within, size, whole, 2, 3}}};
}

Parts parts_of(const CollectiveSpec& spec, ProgramBuilder& p, std::int64_t whole) {
  if (spec.form == CollectiveForm::all_reduce_hierarchical) return hierarchy(spec, p, whole);
  const CommId world = p.world("world", spec.transport, spec.channels, spec.progress);
  if (spec.form == CollectiveForm::exchange) return {{{"send", whole}, {"receive", whole}}, {}};
  return spec.form == CollectiveForm::reduce_scatter_all_gather ? identity(spec, world, whole)
                                                                : single(spec, world, whole);
}

void require_addressable(const CollectiveSpec& spec, std::int64_t set) {
  double needed = static_cast<double>(set) * static_cast<double>(size_of(spec.dtype).value());
  if (spec.load) needed += gemm_bytes(spec.load->shape, spec.dtype);
  if (needed * spec.ranks <= static_cast<double>(most_bytes)) return;
  throw usage_error(
      fmt::format("{} of {} on {} ranks is too large", name(spec.form), format_bytes(spec.bytes), spec.ranks),
      "all arrays together, those of its GEMM included, have at most 2^60 bytes", "use smaller sizes");
}

// Ranks that do the same, each with the smallest of them to count blocks and neighbours from.
std::vector<std::vector<Rank>> classes_of(const CollectiveSpec& spec, const Parts& parts) {
  const bool differ = spec.form == CollectiveForm::exchange ||
                      std::any_of(parts.steps.begin(), parts.steps.end(),
                                  [](const FormStep& s) { return s.reads_block || s.writes_block; });
  std::vector<std::vector<Rank>> classes(differ ? static_cast<std::size_t>(spec.ranks) : 1);
  for (int r = 0; r < spec.ranks; ++r) classes[differ ? static_cast<std::size_t>(r) : 0].emplace_back(r);
  return classes;
}

Exchange neighbours(const CollectiveSpec& spec, Rank rank) {
  const int n = spec.ranks;
  return {
      CommId(0), spec.dtype, {{Direction::send, (rank.value + 1) % n}, {Direction::receive, (rank.value + n - 1) % n}}};
}

}  // namespace

std::optional<CollectiveKind> result_of(CollectiveForm form) {
  switch (form) {
    case CollectiveForm::reduce_scatter_all_gather:
    case CollectiveForm::all_reduce_hierarchical:
    case CollectiveForm::all_reduce: return CollectiveKind::all_reduce;
    case CollectiveForm::all_gather: return CollectiveKind::all_gather;
    case CollectiveForm::reduce_scatter: return CollectiveKind::reduce_scatter;
    case CollectiveForm::broadcast: return CollectiveKind::broadcast;
    case CollectiveForm::all_to_all: return CollectiveKind::all_to_all;
    case CollectiveForm::exchange: return std::nullopt;
  }
  throw std::logic_error("broken invariant: a form without a result");
}

std::int64_t array_count(const CollectiveSpec& spec) {
  if (spec.bytes.value() > most_bytes) {
    throw usage_error(fmt::format("a collective of {} is too large", format_bytes(spec.bytes)),
                      "it has at most 2^60 bytes", "use smaller sizes");
  }
  const std::int64_t elements = divide_up(spec.bytes.value(), size_of(spec.dtype).value());
  const bool divides = spec.form != CollectiveForm::all_reduce && spec.form != CollectiveForm::broadcast &&
                       spec.form != CollectiveForm::exchange;
  return divides ? divide_up(elements, spec.ranks) * spec.ranks : elements;
}

bool consumes_its_input(const CollectiveSpec& spec) { return spec.in_place && sums(spec.form); }

Program collective_program(const CollectiveSpec& spec) {
  require(spec.ranks > 0 && spec.repeats > 0 && (!spec.load || spec.load->count > 0), "collectives have ranks");
  require_possible(spec);
  const std::int64_t whole = array_count(spec);
  ProgramBuilder p("collective", spec.ranks);
  std::optional<LaneId> compute;
  if (spec.load) compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication, .waiting = spec.waiting});
  const Parts parts = parts_of(spec, p, whole);

  std::int64_t set = 0;  // elements of one set of arrays on one rank: at most four of 2^60 bytes
  for (const auto& [label, count] : parts.buffers) set += count;
  require_addressable(spec, set);
  Rotation rotation = rotate(spec.rotate_over, size_of(spec.dtype) * set * spec.ranks, spec.repeats);
  if (consumes_its_input(spec)) rotation = {spec.repeats, 1};

  std::optional<GemmRow> gemms;
  if (spec.load) {
    gemms.emplace(p, spec.load->shape, spec.dtype, std::min(spec.load->count, most_gemms), spec.ranks, spec.rotate_over,
                  spec.memory);
  }
  std::vector<BufferId> buffers;
  for (const auto& [label, count] : parts.buffers) {
    buffers.push_back(p.buffer({.name = label,
                                .dtype = spec.dtype,
                                .count = count * rotation.slices,
                                .memory = spec.memory,
                                .copies = rotation.copies}));
  }
  std::optional<EventId> started;
  if (spec.load) started = p.event("compute started");

  for (const std::vector<Rank>& members : classes_of(spec, parts)) {
    const Rank rank = members.front();
    ClassBuilder c = members.size() == static_cast<std::size_t>(spec.ranks)
                         ? p.all_ranks()
                         : p.ranks(fmt::format("rank {}", rank.value), members);
    if (gemms) gemms->fill(p, c, *compute);
    c.prologue(comm, Fill{}, {}, {p.whole(buffers.front())});
    std::vector<OpId> writers;
    if (gemms) {
      c.body(*compute, Record{*started, Moment::start});
      writers = gemms->issue(c, *compute, 1, spec.load->count);
      c.body(comm, Wait{*started});
    }
    const auto slice = [&](std::size_t buffer, std::int64_t s, std::int64_t offset, std::int64_t count) {
      return Slice{buffers[buffer], s * parts.buffers[buffer].second + offset, count};
    };
    for (std::int64_t i = 0; i < spec.repeats; ++i) {
      const std::int64_t s = i % rotation.slices;
      const bool last = i + rotation.slices >= spec.repeats;  // to write this slice
      if (spec.form == CollectiveForm::exchange) {
        const OpId op = c.body(comm, neighbours(spec, rank), {slice(0, s, 0, whole)}, {slice(1, s, 0, whole)});
        if (last) writers.push_back(op);
      }
      for (const FormStep& step : parts.steps) {
        const std::int64_t block = step.count / step.ranks;
        const std::int64_t in = step.kind == CollectiveKind::all_gather ? block : step.count;
        const std::int64_t out = step.kind == CollectiveKind::reduce_scatter ? block : step.count;
        const OpId op = c.body(comm, Collective{step.kind, step.comm, spec.dtype, step.count},
                               {slice(step.from, s, step.reads_block ? rank.value * block : 0, in)},
                               {slice(step.to, s, step.writes_block ? rank.value * block : 0, out)});
        if (last) writers.push_back(op);
      }
    }
    for (const OpId writer : writers) c.epilogue(comm, Verify{writer});
  }
  return std::move(p).finish();
}

}  // namespace ovl
