// SPDX-License-Identifier: Apache-2.0
//
// What does a collective cost on this machine, alone and while GEMMs run?
//
// Varies: the collective (or a sequence of collectives with the same result), its bytes, dtype, ranks, whether it works
// in place, and the GEMM beside it. Held: the collective begins after the GEMMs and ends before them, on every rank, or
// the round is measured again. What would prove the harness wrong: a loaded time below the idle one, beyond both
// intervals, on a machine whose lanes share no core.
#include <fmt/format.h>

#include <limits>

#include "app/bench.hpp"
#include "app/cost_report.hpp"
#include "base/error.hpp"
#include "measure/cost.hpp"
#include "results/fits.hpp"
#include "schedule/collective.hpp"
#include "schedule/models.hpp"

namespace {

using namespace ovl;

const std::string no_load = "none";

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string collective, dtype, ranks, place, gemm, placement, waiting, channels, buffers, progress, bytes;
};

// Sizes vary fastest: they are the series that is fitted.
std::vector<Asked> product(const AxisValues& axes) {
  std::vector<Asked> all{{}};
  const auto multiply = [&](const std::vector<std::string>& values, std::string Asked::*axis) {
    all = multiplied(all, values, axis);
  };
  multiply(axes["collective"], &Asked::collective);
  multiply(axes["dtype"], &Asked::dtype);
  multiply(axes["ranks"], &Asked::ranks);
  multiply(axes["place"], &Asked::place);
  multiply(axes["gemm"], &Asked::gemm);
  multiply(axes["placement"], &Asked::placement);
  multiply(axes["waiting"], &Asked::waiting);
  multiply(axes["channels"], &Asked::channels);
  multiply(axes["buffers"], &Asked::buffers);
  multiply(axes["progress"], &Asked::progress);
  std::vector<std::string> sizes;
  for (const std::string& list : axes["bytes"]) {
    for (const Bytes bytes : parse_byte_list(list)) sizes.push_back(format_bytes(bytes));
  }
  multiply(sizes, &Asked::bytes);
  return all;
}

bool in_place(const std::string& place) {
  if (place != "out" && place != "in") throw unknown_value("place", place, {"out", "in"});
  return place == "in";
}

CaseSpec make_case(const Asked& asked, const CaseContext& context) {
  CollectiveSpec collective{.ranks = asked.ranks == "default" ? context.ranks : std::stoi(asked.ranks),
                            .form = parse_enum<CollectiveForm>(asked.collective),
                            .bytes = parse_size(asked.bytes, parse_enum<DType>(asked.dtype)),
                            .dtype = parse_enum<DType>(asked.dtype),
                            .in_place = in_place(asked.place),
                            .load = {},
                            .transport = context.transport,
                            .channels = parse_channels(asked.channels),
                            .waiting = parse_enum<Waiting>(asked.waiting),
                            .memory = parse_enum<Memory>(asked.buffers),
                            .progress = parse_progress(asked.progress),
                            .rotate_over = context.backend.last_level_cache * 2};
  const bool loaded = asked.gemm != no_load;
  if (loaded) collective.load = GemmLoad{named_gemm(asked.gemm), 1};
  const Bytes bytes = size_of(collective.dtype) * array_count(collective);

  CaseSpec spec;
  const std::string progress = progress_name(collective.progress);
  spec.name = fmt::format("collective/{}/{}/{}/r{}/{}/{}/{}/{}/c{}/{}{}", asked.collective, asked.bytes, asked.dtype,
                          collective.ranks, asked.place, asked.gemm, asked.placement, asked.waiting, asked.channels,
                          asked.buffers, progress == "auto" ? "" : "/" + progress);
  spec.key = fmt::format(
      "collective collective={} bytes={} dtype={} ranks={} place={} gemm={} placement={} waiting={} channels={} "
      "buffers={} transport={}{}",
      asked.collective, asked.bytes, asked.dtype, collective.ranks, asked.place, asked.gemm, asked.placement,
      asked.waiting, asked.channels, asked.buffers, context.transport,
      progress == "auto" ? "" : " progress=" + progress);
  spec.placement_name = asked.placement;
  spec.placement =
      parse_unordered(asked.placement, "here the collective always begins after the GEMMs and ends before them");
  spec.build = [collective](const Tuning& tuning) {
    CollectiveSpec tuned = collective;
    tuned.repeats = tuning.repeats;
    if (tuned.load) tuned.load->count = tuning.gemm_repeat;
    return collective_program(tuned);
  };
  spec.restores_data = consumes_its_input(collective);
  spec.asked = {{"collective", asked.collective},
                {"bytes", bytes.value()},
                {"dtype", asked.dtype},
                {"in_place", std::int64_t{collective.in_place}},
                {"gemm", asked.gemm}};
  const double factor =
      collective.ranks == 1 ? std::numeric_limits<double>::quiet_NaN() : bus_factor(collective.form, collective.ranks);
  ask_for_cost(spec, {.bytes = bytes, .bus_factor = factor, .loaded = loaded});
  return spec;
}

std::vector<Column> columns() {
  std::vector<Column> all{
      {"collective", ColumnType::text, "", "a collective, or a sequence of them; summing where it reduces"},
      {"bytes", ColumnType::integer, "B", "the whole array, as nccl-tests counts; what a rank of an exchange sends"},
      {"dtype", ColumnType::text, "", "of the collective and the GEMMs"},
      {"in_place", ColumnType::integer, "1", "1 in place, 0 out of place"},
      {"gemm", ColumnType::text, "", "shape beside it as asked for; none: idle only"}};
  for (Column& column : cost_columns()) all.push_back(std::move(column));
  return all;
}

const Bench bench{
    .name = "collective",
    .question = "What does a collective cost on this machine, alone and while GEMMs run?",
    .axes = {{"collective",
              "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, exchange, or in sequence: "
              "reduce_scatter+all_gather, all_reduce:hierarchical",
              "all_reduce"},
             {"bytes", "sizes, ranges 64KiB:256MiB:x4, or names: bucket:ddp-default, layer:llama2-7b ...",
              "4KiB:16MiB:x4"},
             dtype_axis("f32"),
             ranks_axis(),
             {"place", "out of place, in place: out, in", "out"},
             {"gemm", "what runs beside it: shapes MxNxK, or of real models: mlp:gpt2-small ...; none: idle only",
              "512x512x512"},
             placement_axis("concurrent"),
             waiting_axis(),
             channels_axis(),
             buffers_axis(),
             progress_axis()},
    .columns = columns(),
    .cases =
        [](const AxisValues& axes, const CaseContext& context) {
          std::vector<CaseSpec> cases;
          for (const Asked& asked : product(axes)) cases.push_back(make_case(asked, context));
          return cases;
        },
    .table = collective_table,
    .series = measured_series};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
