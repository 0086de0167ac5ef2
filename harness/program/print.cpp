// SPDX-License-Identifier: Apache-2.0
#include "program/print.hpp"

#include <fmt/format.h>

#include "base/random.hpp"

namespace ovl {
namespace {

std::string slices_text(const Program& program, const std::vector<Slice>& slices) {
  std::string text;
  for (const Slice& s : slices) {
    text += fmt::format("{}{}[{}:{}]", text.empty() ? "" : ", ", program.buffers.at(s.buffer.index()).name, s.offset,
                        s.offset + s.count);
  }
  return text;
}

struct Describer {
  std::string operator()(const Gemm& g) const {
    return fmt::format("gemm {}x{}x{} {}{}{}", g.m, g.n, g.k, name(g.dtype),
                       g.repeat == 1 ? "" : fmt::format(" x{}", g.repeat),
                       g.sm_target == 0 ? "" : fmt::format(" sm_target={}", g.sm_target));
  }
  std::string operator()(const Collective& c) const {
    return fmt::format("{} {} {} comm={}{}", name(c.kind), format_bytes(size_of(c.dtype) * c.count), name(c.dtype),
                       c.comm.value, c.root == 0 ? "" : fmt::format(" root={}", c.root));
  }
  std::string operator()(const Exchange& e) const {
    std::string text = fmt::format("exchange {} comm={}", name(e.dtype), e.comm.value);
    for (const Transfer& t : e.transfers) {
      text += fmt::format(" {}{}", t.direction == Direction::send ? "to:" : "from:", t.peer);
    }
    return text;
  }
  std::string operator()(const Busy& b) const { return fmt::format("busy {} s", b.duration.value()); }
  std::string operator()(const Occupy& o) const {
    return fmt::format(
        "occupy {} {}", o.count,
        o.until.valid() ? fmt::format("until e{}", o.until.value) : fmt::format("for {} s", o.duration.value()));
  }
  std::string operator()(const Stream& s) const {
    return fmt::format(
        "stream {}{}{}", s.until.valid() ? fmt::format("until e{}", s.until.value) : format_bytes(s.bytes),
        s.pace.value() == 0 ? "" : fmt::format(" pace={}", s.pace.value()), fmt::format(" workers={}", s.workers));
  }
  std::string operator()(const Verify& v) const { return fmt::format("verify %{}", v.target.value); }
  std::string operator()(const Record& r) const {
    return fmt::format("record e{}{}", r.event.value, r.moment == Moment::start ? " at start" : "");
  }
  std::string operator()(const Wait& w) const { return fmt::format("wait e{}", w.event.value); }
  std::string operator()(const Copy& w) const { return std::string(kind_name(w)); }
  std::string operator()(const Elementwise& w) const { return std::string(kind_name(w)); }
  std::string operator()(const Fill& w) const { return std::string(kind_name(w)); }
  std::string operator()(const HostSync& w) const { return std::string(kind_name(w)); }
};

void print_part(std::string& out, const Program& program, std::string_view part, const std::vector<Operation>& list) {
  if (list.empty()) return;
  out += fmt::format("  {}\n", part);
  for (const Operation& op : list) {
    const Lane& lane = program.lanes.at(op.lane.index());
    out += fmt::format("    %{} @{} {}", op.id.value, lane.name, describe(op));
    if (op.role != lane.role) out += fmt::format(" role={}", name(op.role));  // as in a serial arm
    if (op.not_before) out += fmt::format(" not_before={} s", op.not_before->value());
    if (!op.reads.empty()) out += " <- " + slices_text(program, op.reads);
    if (!op.writes.empty()) out += " -> " + slices_text(program, op.writes);
    out += '\n';
  }
}

}  // namespace

std::string describe(const Operation& operation) { return std::visit(Describer{}, operation.work); }

std::string describe(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1].value == ranks[j].value + 1) ++j;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i].value);
    if (j > i) text += fmt::format("..{}", ranks[j].value);
    i = j + 1;
  }
  return "{" + text + "}";
}

std::string print(const Program& program) {
  std::string out = fmt::format("program {} ranks={}{}", program.name, program.ranks, program.graph ? " graph" : "");
  for (const FindingKind kind : program.expected_findings) out += fmt::format(" expects={}", name(kind));
  out += '\n';
  for (const Lane& l : program.lanes) {
    out += fmt::format("lane {} role={} priority={} partition={} waiting={}\n", l.name, name(l.role), name(l.priority),
                       name(l.partition), name(l.waiting));
  }
  for (std::size_t i = 0; i < program.communicators.size(); ++i) {
    const Communicator& c = program.communicators[i];
    out += fmt::format("comm {} {} transport={} channels={} groups=", i, c.name, c.transport, c.channels);
    for (const auto& group : c.groups) out += describe(group);
    if (c.progress != MessageProgress{}) out += " progress=" + progress_name(c.progress);
    out += '\n';
  }
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    out += fmt::format("event {} {}\n", i, program.events[i].name);
  }
  for (const Buffer& b : program.buffers) {
    out += fmt::format("buffer {} {} count={} memory={} copies={}\n", b.name, name(b.dtype), b.count, name(b.memory),
                       b.copies);
  }
  for (const RankClass& c : program.classes) {
    out += fmt::format("class {} ranks={}\n", c.name, describe(c.members));
    print_part(out, program, "prologue", c.prologue);
    print_part(out, program, "body", c.body);
    print_part(out, program, "epilogue", c.epilogue);
  }
  return out;
}

std::string program_hash(const Program& program) { return fmt::format("{:016x}", hash64(print(program))); }

}  // namespace ovl
