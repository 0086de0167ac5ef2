// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "schedule/gemms.hpp"

namespace ovl {
namespace {

constexpr Bytes usual_stream = mebibytes(64);  // beyond most last-level caches
constexpr Seconds held_at_a_time = milliseconds(1);
// A window of operations that are a list has no more than this many.
constexpr std::int64_t most_operations = 4096;

int parse_units(std::string_view text, std::string_view whole) {
  int units = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), units);
  if (error != std::errc{} || end != text.data() + text.size() || units < 1) {
    throw usage_error(fmt::format("\"{}\" holds no whole number of SMs or cores", whole), "",
                      "type for example occupy:1");
  }
  return units;
}

// Of two arrays of whole cache lines.
Bytes parse_arrays(std::string_view text, std::string_view whole) {
  constexpr std::int64_t least = 128;
  const Bytes bytes = parse_bytes(text);
  if (bytes.value() % least == 0) return bytes;
  throw usage_error(fmt::format("\"{}\" has no two arrays of whole cache lines", whole),
                    fmt::format("its bytes are a multiple of {}", least), "type for example 64MiB");
}

Load parse_stream(std::string_view text, std::string_view whole) {
  Load load{.kind = LoadKind::stream};
  const std::size_t at = text.find('@');
  load.bytes = at == std::string_view::npos ? usual_stream : parse_arrays(text.substr(at + 1), whole);
  std::string_view pace = text.substr(0, at);
  if (pace == "max") return load;
  if (!pace.ends_with("/s")) {
    throw usage_error(fmt::format("\"{}\" has no pace", whole), "a stream has one in bytes a second, or none",
                      "type for example stream:4GB/s@64MiB or stream:max@64MiB");
  }
  pace.remove_suffix(2);
  load.pace = BytesPerSecond(static_cast<double>(parse_bytes(pace).value()));
  return load;
}

// What a side puts into a program: its buffers once, then its operations.
class Side {
 public:
  Side(ProgramBuilder& p, const ContentionSpec& spec, const Load& load, LaneId lane, std::string_view name)
      : p_(p), spec_(spec), load_(load), lane_(lane) {
    const auto buffer = [&](const char* part, std::int64_t count, DType dtype) {
      return p_.buffer(
          {.name = fmt::format("{}_{}", name, part), .dtype = dtype, .count = count, .memory = spec.memory});
    };
    const std::int64_t element = size_of(spec.dtype).value();
    switch (load.kind) {
      case LoadKind::gemm:
        a_ = buffer("a", load.shape.m * load.shape.k, spec.dtype);
        b_ = buffer("b", load.shape.k * load.shape.n, spec.dtype);
        c_ = buffer("c", load.shape.m * load.shape.n, gemm_output(spec.dtype));
        break;
      case LoadKind::collective: {
        const bool gathers = load.collective == CollectiveKind::all_gather;
        const bool scatters = load.collective == CollectiveKind::reduce_scatter;
        const bool divides =
            load.collective != CollectiveKind::all_reduce && load.collective != CollectiveKind::broadcast;
        whole_ = divide_up(load.bytes.value(), element);
        if (divides) whole_ = divide_up(whole_, spec.ranks) * spec.ranks;
        a_ = buffer("send", gathers ? whole_ / spec.ranks : whole_, spec.dtype);
        c_ = buffer("receive", scatters ? whole_ / spec.ranks : whole_, spec.dtype);
        comm_ = p_.world(fmt::format("{} world", name), spec.transport, spec.channels);
        break;
      }
      case LoadKind::elementwise:
      case LoadKind::stream:
      case LoadKind::copy:
        a_ = buffer("from", load.bytes.value() / 2 / element, spec.dtype);
        c_ = buffer("to", load.bytes.value() / 2 / element, spec.dtype);
        break;
      case LoadKind::occupy: break;
    }
  }

  void fill(ClassBuilder& ranks) const {
    std::vector<Slice> read;
    for (const BufferId buffer : {a_, b_}) {
      if (buffer.valid()) read.push_back(p_.whole(buffer));
    }
    if (load_.kind == LoadKind::elementwise) read.push_back(p_.whole(c_));  // it adds to it
    if (!read.empty()) ranks.prologue(lane_, Fill{}, {}, std::move(read));
  }

  // What is to be verified, if anything.
  std::optional<OpId> issue(ClassBuilder& ranks, std::int64_t repeat) const {
    switch (load_.kind) {
      case LoadKind::gemm: {
        const Gemm gemm{load_.shape.m, load_.shape.n, load_.shape.k, spec_.dtype, repeat, spec_.sm_target};
        return ranks.body(lane_, gemm, {p_.whole(a_), p_.whole(b_)}, {p_.whole(c_)});
      }
      case LoadKind::occupy:
        ranks.body(lane_, Occupy{load_.units, held_at_a_time * static_cast<double>(repeat), {}});
        return std::nullopt;
      case LoadKind::stream:
        ranks.body(lane_, Stream{load_.pace, spec_.workers, load_.bytes * repeat, {}}, {p_.whole(a_)}, {p_.whole(c_)});
        return std::nullopt;
      case LoadKind::collective: {
        OpId last;
        for (std::int64_t i = 0; i < repeat; ++i) {
          last = ranks.body(lane_, Collective{load_.collective, comm_, spec_.dtype, whole_}, {p_.whole(a_)},
                            {p_.whole(c_)});
        }
        return last;
      }
      case LoadKind::elementwise:
      case LoadKind::copy:
        for (std::int64_t i = 0; i < repeat; ++i) {
          const Work work = load_.kind == LoadKind::copy ? Work(Copy{}) : Work(Elementwise{});
          ranks.body(lane_, work, {p_.whole(a_)}, {p_.whole(c_)});
        }
        return std::nullopt;
    }
    throw std::logic_error("broken invariant: a load of no kind");
  }

 private:
  ProgramBuilder& p_;
  const ContentionSpec& spec_;
  const Load& load_;
  LaneId lane_;
  BufferId a_, b_, c_;
  CommId comm_;
  std::int64_t whole_ = 0;
};

double bytes_of(const Load& load, DType dtype) {
  if (load.kind == LoadKind::gemm) return gemm_bytes(load.shape, dtype);
  return 2 * static_cast<double>(load.bytes.value());
}

// The operation made to last until an event; false: it does not hold or stream.
bool made_to_last(Work& work, EventId until) {
  if (auto* occupy = std::get_if<Occupy>(&work)) {
    occupy->duration = Seconds(0);
    occupy->until = until;
    return true;
  }
  if (auto* stream = std::get_if<Stream>(&work)) {
    stream->bytes = Bytes(0);
    stream->until = until;
    return true;
  }
  return false;
}

std::vector<Operation> of_role(const std::vector<Operation>& body, Role role) {
  std::vector<Operation> operations;
  std::copy_if(body.begin(), body.end(), std::back_inserter(operations),
               [&](const Operation& op) { return op.role == role; });
  return operations;
}

}  // namespace

std::string load_examples() {
  return "gemm:512x512x512, elementwise:64MiB, all_reduce:16MiB, occupy:1, stream:4GB/s@64MiB, stream:max@64MiB, "
         "copy:64MiB";
}

Load parse_load(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view what = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (what.empty()) {
    throw usage_error(fmt::format("\"{}\" says not what or how much", text), "a load has a kind and an amount",
                      "type for example " + load_examples());
  }
  if (kind == "gemm") return {.kind = LoadKind::gemm, .shape = named_gemm(what)};
  if (kind == "elementwise") return {.kind = LoadKind::elementwise, .bytes = parse_arrays(what, text)};
  if (kind == "copy") return {.kind = LoadKind::copy, .bytes = parse_arrays(what, text)};
  if (kind == "occupy") return {.kind = LoadKind::occupy, .units = parse_units(what, text)};
  if (kind == "stream") return parse_stream(what, text);
  for (const auto& [collective, collective_name] : EnumNames<CollectiveKind>::table) {
    if (kind != collective_name) continue;
    return {.kind = LoadKind::collective, .bytes = parse_bytes(what), .collective = collective};
  }
  std::vector<std::string> known{"gemm", "elementwise", "occupy", "stream", "copy"};
  for (const std::string& collective : names<CollectiveKind>()) known.push_back(collective);
  throw unknown_value("load", kind, known);
}

std::int64_t most_repeats(const Load& load) {
  constexpr std::int64_t most_in_one = 1'000'000;
  const bool list =
      load.kind == LoadKind::collective || load.kind == LoadKind::elementwise || load.kind == LoadKind::copy;
  return list ? most_operations : most_in_one;
}

bool only_holds(const Load& load) { return load.kind == LoadKind::occupy; }

Program contention_program(const ContentionSpec& spec) {
  const auto possible = [](std::int64_t repeat, const Load& load) {
    return repeat > 0 && repeat <= most_repeats(load);
  };
  require(spec.ranks > 0 && possible(spec.compute_repeat, spec.compute) && possible(spec.comm_repeat, spec.comm),
          "a contention has ranks and repeats");
  if ((bytes_of(spec.compute, spec.dtype) + bytes_of(spec.comm, spec.dtype)) * spec.ranks >
      static_cast<double>(most_bytes)) {
    throw usage_error(fmt::format("two loads of this size on {} ranks are too large", spec.ranks),
                      "all arrays together have at most 2^60 bytes", "use smaller sizes");
  }
  ProgramBuilder p("contention", spec.ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication, .waiting = spec.waiting});
  const Side first(p, spec, spec.compute, compute, "compute");
  const Side second(p, spec, spec.comm, comm, "comm");
  ClassBuilder all = p.all_ranks();
  first.fill(all);
  second.fill(all);
  for (const std::optional<OpId> writer :
       {first.issue(all, spec.compute_repeat), second.issue(all, spec.comm_repeat)}) {
    if (writer) all.epilogue(compute, Verify{*writer});
  }
  return std::move(p).finish();
}

Program covered_by(const Program& program, Role covering, std::int64_t cover) {
  Program out = program;
  out.name += fmt::format(":covered_by_{}", name(covering));
  out.events.push_back({"covering started"});
  const EventId started(out.events.size() - 1);
  out.events.push_back({"victim done"});
  const EventId done(out.events.size() - 1);
  for (RankClass& c : out.classes) {
    require(std::none_of(c.body.begin(), c.body.end(), [](const Operation& op) { return is_ordering(op.work); }),
            "what is covered orders nothing itself");
    std::vector<Operation> aggressor = of_role(c.body, covering);
    const std::vector<Operation> victim =
        of_role(c.body, covering == Role::compute ? Role::communication : Role::compute);
    if (aggressor.empty() || victim.empty()) continue;
    int id = free_id(c).value;
    const auto order = [&](const Operation& beside, Work work) {
      c.body.push_back({OpId(id++), beside.lane, beside.role, std::move(work), {}, {}});
    };
    c.body.clear();
    order(aggressor.front(), Record{started, Moment::start});
    bool lasts = false;
    for (Operation& op : aggressor) {
      lasts = made_to_last(op.work, done) || lasts;
      auto* gemm = std::get_if<Gemm>(&op.work);
      if (gemm != nullptr) gemm->repeat *= covering_amount * cover;
      c.body.push_back(op);
    }
    if (!lasts && !std::holds_alternative<Gemm>(aggressor.front().work)) {
      for (std::int64_t i = 1; i < covering_amount * cover; ++i) {
        for (Operation op : aggressor) {
          op.id = OpId(id++);
          c.body.push_back(std::move(op));
        }
      }
    }
    order(victim.front(), Wait{started});
    c.body.insert(c.body.end(), victim.begin(), victim.end());
    order(victim.back(), Record{done});
  }
  return out;
}

}  // namespace ovl
