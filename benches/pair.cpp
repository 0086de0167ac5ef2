// SPDX-License-Identifier: Apache-2.0
//
// How much of a collective hides behind a GEMM on this machine?
//
// Varies: the GEMM's shape, the collective, its bytes, dtype, placement, waiting, channels, progress. Held: both run on
// every rank and do not depend on each other, so everything could hide. What would prove the harness wrong: a hidden
// share away from zero for the placement `serial`, or above one anywhere.
#include <fmt/format.h>

#include "app/bench.hpp"
#include "base/error.hpp"
#include "measure/summary.hpp"
#include "metrics/bus_bandwidth.hpp"
#include "schedule/models.hpp"
#include "schedule/pair.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string gemm, collective, bytes, dtype, placement, waiting, channels, buffers, progress;
  bool balance = false;
};

std::vector<Asked> product(const AxisValues& axes) {
  Asked common;
  common.balance = axes.on("balance");
  std::vector<Asked> all{common};
  const auto multiply = [&](const std::vector<std::string>& values, std::string Asked::*axis) {
    all = multiplied(all, values, axis);
  };
  std::vector<std::string> progress;
  for (const std::string& mode : axes["progress"]) progress.push_back(progress_name(parse_progress(mode)));
  std::vector<std::string> sizes;
  for (const std::string& list : axes["bytes"]) {
    for (const Bytes bytes : parse_byte_list(list)) sizes.push_back(format_bytes(bytes));
  }
  multiply(axes["placement"], &Asked::placement);
  multiply(progress, &Asked::progress);
  multiply(axes["waiting"], &Asked::waiting);
  multiply(axes["channels"], &Asked::channels);
  multiply(axes["buffers"], &Asked::buffers);
  multiply(axes["dtype"], &Asked::dtype);
  multiply(axes["collective"], &Asked::collective);
  multiply(axes["gemm"], &Asked::gemm);
  multiply(sizes, &Asked::bytes);
  return all;
}

CaseSpec make_case(const Asked& asked, const CaseContext& context) {
  const GemmShape shape = named_gemm(asked.gemm);
  PairSpec pair{.ranks = context.ranks,
                .m = shape.m,
                .n = shape.n,
                .k = shape.k,
                .collective = parse_enum<CollectiveKind>(asked.collective),
                .bytes = parse_size(asked.bytes, parse_enum<DType>(asked.dtype)),
                .dtype = parse_enum<DType>(asked.dtype),
                .transport = context.transport,
                .channels = parse_channels(asked.channels),
                .waiting = parse_enum<Waiting>(asked.waiting),
                .memory = parse_enum<Memory>(asked.buffers),
                .progress = parse_progress(asked.progress),
                .rotate_over = context.backend.last_level_cache * 2};
  CaseSpec spec;
  spec.name = fmt::format("pair/{}/{}/{}/{}/{}/{}/c{}/{}{}{}", asked.gemm, asked.collective, asked.bytes, asked.dtype,
                          asked.placement, asked.waiting, asked.channels, asked.buffers,
                          asked.progress == "auto" ? "" : "/" + asked.progress, asked.balance ? "/balance" : "");
  spec.key = fmt::format(
      "pair gemm={} collective={} bytes={} dtype={} placement={} waiting={} channels={} buffers={} "
      "balance={} ranks={} transport={}{}",
      asked.gemm, asked.collective, asked.bytes, asked.dtype, asked.placement, asked.waiting, asked.channels,
      asked.buffers, asked.balance ? "on" : "off", context.ranks, context.transport,
      asked.progress == "auto" ? "" : " progress=" + asked.progress);
  spec.placement_name = asked.placement;
  spec.placement = parse_placement(asked.placement);
  spec.balance = asked.balance;
  spec.build = [pair](const Tuning& tuning) {
    PairSpec tuned = pair;
    tuned.gemm_repeat = tuning.gemm_repeat;
    tuned.repeats = tuning.repeats;
    return pair_program(tuned);
  };
  // The collective's real size: rounded up where the kind divides the array.
  const Bytes bytes = size_of(pair.dtype) * collective_count(pair);
  spec.asked = {{"gemm", asked.gemm},
                {"m", shape.m},
                {"n", shape.n},
                {"k", shape.k},
                {"collective", asked.collective},
                {"bytes", bytes.value()},
                {"dtype", asked.dtype},
                {"balance", std::string(asked.balance ? "on" : "off")}};
  spec.derive = [pair, bytes](const Summary& s) -> std::vector<std::pair<std::string, Value>> {
    const Gemm gemm{pair.m, pair.n, pair.k, pair.dtype, s.tuning.gemm_repeat};
    const BytesPerSecond algorithm = algorithm_bandwidth(bytes, s.times.comm);
    return {{"gemm_repeat", s.tuning.gemm_repeat},
            {"gemm_rate", (flops_of(gemm) / s.times.compute).value()},
            {"algorithm_bandwidth", algorithm.value()},
            {"bus_bandwidth", bus_bandwidth(pair.collective, pair.ranks, bytes, s.times.comm).value()}};
  };
  return spec;
}

const Bench bench{
    .name = "pair",
    .question = "How much of a collective hides behind a GEMM on this machine?",
    .axes = {{"gemm", "shapes MxNxK, or of real models: mlp:gpt2-small, qkv:llama2-7b, ffn:llama3-8b ...",
              "mlp:gpt2-small,1024x1024x1024"},
             collective_axis("all_reduce"),
             {"bytes", "sizes, ranges 64KiB:256MiB:x4, or names: bucket:ddp-default, layer:llama2-7b ...",
              "1MiB,bucket:ddp-default"},
             dtype_axis("f32"),
             placement_axis("concurrent,serial"),
             waiting_axis(),
             channels_axis(),
             buffers_axis(),
             progress_axis(),
             {"balance", "repeat the GEMM until it takes about as long as the collective", "", true}},
    .columns = {{"gemm", ColumnType::text, "", "shape as asked for"},
                {"m", ColumnType::integer, "1", "rows of the product, on every rank"},
                {"n", ColumnType::integer, "1", "columns of the product"},
                {"k", ColumnType::integer, "1", "inner dimension"},
                {"gemm_repeat", ColumnType::integer, "1", "GEMMs beside one collective"},
                {"balance", ColumnType::text, "", "on: gemm_repeat was chosen so that t_compute is about t_comm"},
                {"collective", ColumnType::text, "", "kind, summing where it reduces"},
                {"bytes", ColumnType::integer, "B", "the whole array, as nccl-tests counts"},
                {"dtype", ColumnType::text, "", "of GEMM and collective"},
                {"gemm_rate", ColumnType::real, "FLOP/s", "one rank's GEMMs, alone"},
                {"algorithm_bandwidth", ColumnType::real, "B/s", "bytes / t_comm, alone"},
                {"bus_bandwidth", ColumnType::real, "B/s", "algorithm bandwidth times nccl-tests' factor, alone"}},
    .cases = [](const AxisValues& axes, const CaseContext& context) {
      std::vector<CaseSpec> cases;
      for (const Asked& asked : product(axes)) cases.push_back(make_case(asked, context));
      return cases;
    }};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
