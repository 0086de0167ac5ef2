// SPDX-License-Identifier: Apache-2.0
#include "program/program.hpp"

#include <algorithm>
#include <iterator>

namespace ovl {

DType gemm_output(DType dtype) { return dtype == DType::f8e4m3 ? DType::bf16 : dtype; }

const RankClass& Program::class_of(Rank rank) const {
  // Members are mostly a range: the rank then stands at its place, which of 10^5 ranks nobody searches.
  for (const RankClass& c : classes) {
    if (c.members.empty()) continue;
    const std::int64_t place = std::int64_t{rank.value} - c.members.front().value;
    if (place >= 0 && place < std::ssize(c.members) && c.members[static_cast<std::size_t>(place)] == rank) return c;
  }
  for (const RankClass& c : classes) {
    if (std::find(c.members.begin(), c.members.end(), rank) != c.members.end()) return c;
  }
  throw std::logic_error("broken invariant: rank " + std::to_string(rank.value) + " belongs to no class of " + name);
}

std::string_view kind_name(const Work& work) {
  struct Namer {
    std::string_view operator()(const Gemm&) const { return "gemm"; }
    std::string_view operator()(const Collective& c) const { return name(c.kind); }
    std::string_view operator()(const Exchange&) const { return "exchange"; }
    std::string_view operator()(const Copy&) const { return "copy"; }
    std::string_view operator()(const Busy&) const { return "busy"; }
    std::string_view operator()(const Elementwise&) const { return "elementwise"; }
    std::string_view operator()(const Occupy&) const { return "occupy"; }
    std::string_view operator()(const Stream&) const { return "stream"; }
    std::string_view operator()(const Fill&) const { return "fill"; }
    std::string_view operator()(const Verify&) const { return "verify"; }
    std::string_view operator()(const Record&) const { return "record"; }
    std::string_view operator()(const Wait&) const { return "wait"; }
    std::string_view operator()(const HostSync&) const { return "host_sync"; }
  };
  return std::visit(Namer{}, work);
}

bool is_ordering(const Work& work) {
  return std::holds_alternative<Record>(work) || std::holds_alternative<Wait>(work) ||
         std::holds_alternative<HostSync>(work);
}

bool submitted_over_time(const Program& program) {
  return std::any_of(program.classes.begin(), program.classes.end(), [](const RankClass& c) {
    return std::any_of(c.body.begin(), c.body.end(), [](const Operation& op) { return op.not_before.has_value(); });
  });
}

EventId lasts_until(const Work& work) {
  if (const auto* occupy = std::get_if<Occupy>(&work)) return occupy->until;
  if (const auto* stream = std::get_if<Stream>(&work)) return stream->until;
  return {};
}

OpId free_id(const RankClass& rank_class) {
  OpId largest;
  for (const auto* part : {&rank_class.prologue, &rank_class.body, &rank_class.epilogue}) {
    for (const Operation& op : *part) largest = std::max(largest, op.id);
  }
  return OpId(largest.value + 1);
}

Bytes memory_per_rank(const Program& program) {
  Bytes total;
  for (const Buffer& b : program.buffers) total += size_of(b.dtype) * b.count * b.copies;
  return total;
}

Flops flops_of(const Gemm& gemm) {
  return Flops(2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k) *
               static_cast<double>(gemm.repeat));
}

}  // namespace ovl
