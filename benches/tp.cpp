// SPDX-License-Identifier: Apache-2.0
//
// What does tensor parallelism leave exposed, and from which size on does it pay to reduce in tiles?
//
// Varies: the number of tiles, the rows (tokens), all_reduce or reduce_scatter and all_gather; placement, waiting,
// channels, dtype. Held: the layers' pairs of matrices, cut by columns and then by rows, each pair's output whole
// before the next pair begins. What would prove the harness wrong: anything hidden with one tile, where computing and
// reducing take turns.
#include <fmt/format.h>

#include <algorithm>

#include "app/bench.hpp"
#include "app/schedule_axes.hpp"
#include "measure/summary.hpp"
#include "metrics/bus_bandwidth.hpp"
#include "results/loaded_run.hpp"
#include "schedule/tensor_parallel.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string layers, scale, mode, tiles, dtype, placement, waiting, channels, buffers;
};

std::vector<Asked> product(const AxisValues& axes) {
  std::vector<Asked> all{{}};
  const auto multiply = [&](const char* name, std::string Asked::*axis) { all = multiplied(all, axes[name], axis); };
  multiply("scale", &Asked::scale);
  multiply("dtype", &Asked::dtype);
  multiply("placement", &Asked::placement);
  multiply("waiting", &Asked::waiting);
  multiply("channels", &Asked::channels);
  multiply("buffers", &Asked::buffers);
  multiply("mode", &Asked::mode);
  multiply("layers", &Asked::layers);
  multiply("tiles", &Asked::tiles);
  return all;
}

CaseSpec make_case(const Asked& asked, const CaseContext& context) {
  TensorParallelSpec tp;
  tp.ranks = context.ranks;
  tp.layers = parse_scaled_layers(asked.layers, asked.scale);
  tp.dtype = parse_product_dtype(asked.dtype, "activations");
  tp.mode = parse_enum<TensorParallelMode>(asked.mode);
  tp.tiles = static_cast<int>(parse_at_least(asked.tiles, "number of tiles", 1, "type for example --tiles 1,2,4"));
  tp.transport = context.transport;
  tp.channels = parse_channels(asked.channels);
  tp.waiting = parse_enum<Waiting>(asked.waiting);
  tp.memory = parse_enum<Memory>(asked.buffers);

  CaseSpec spec;
  spec.name = fmt::format("tp/{}/s{}/{}/tiles{}/{}/{}/{}/c{}/{}", asked.layers, asked.scale, asked.mode, asked.tiles,
                          asked.dtype, asked.placement, asked.waiting, asked.channels, asked.buffers);
  spec.key = fmt::format(
      "tp layers={} scale={} mode={} tiles={} dtype={} placement={} waiting={} channels={} buffers={} ranks={} "
      "transport={}",
      asked.layers, asked.scale, asked.mode, asked.tiles, asked.dtype, asked.placement, asked.waiting, asked.channels,
      asked.buffers, context.ranks, context.transport);
  spec.placement_name = asked.placement;
  spec.placement = parse_placement(asked.placement);
  spec.build = [tp](const Tuning& tuning) {
    TensorParallelSpec tuned = tp;
    tuned.repeats = tuning.repeats;
    return tensor_parallel_program(tuned);
  };
  const Bytes activation = size_of(tp.dtype) * (tp.layers.tokens * tp.layers.hidden);
  const Bytes reduced = activation * (2 * tp.layers.count);
  spec.asked = {{"mode", asked.mode},
                {"tiles", asked.tiles},
                {"tokens", tp.layers.tokens},
                {"activation_bytes", activation.value()},
                {"reduced_bytes", reduced.value()}};
  // All reductions of a pass; what a reduce_scatter and an all_gather move together is what an all_reduce does.
  spec.derive = [ranks = tp.ranks, reduced](const Summary& s) -> std::vector<std::pair<std::string, Value>> {
    return {{"bus_bandwidth", bus_bandwidth(CollectiveKind::all_reduce, ranks, reduced, s.times.comm).value()}};
  };
  ask_about_step(spec, asked.layers, asked.scale, tensor_parallel_program(tp), forward_flops(tp.layers) / tp.ranks,
                 {"inner", "summand", "part", "output"});
  return spec;
}

std::vector<Column> columns() {
  std::vector<Column> all{
      {"mode", ColumnType::text, "", "all_reduce, or sequence: reduce_scatter over the rows, then all_gather"},
      {"tiles", ColumnType::text, "", "parts of the rows: one is reduced while the next is computed"},
      {"tokens", ColumnType::integer, "1", "rows"},
      {"activation_bytes", ColumnType::integer, "B", "the output of a pair, which is reduced"},
      {"reduced_bytes", ColumnType::integer, "B", "all that is reduced in a pass"},
      {"bus_bandwidth", ColumnType::real, "B/s", "of reduced_bytes as an all_reduce, alone"}};
  for (Column& column : step_columns()) all.push_back(std::move(column));
  return all;
}

// The number of tokens of a series' key: the layers' part after the @.
double tokens_of(const std::string& series) {
  const std::size_t at = series.find('@');
  return at == std::string::npos ? 0 : std::atof(series.c_str() + at + 1);
}

// From which size on tiling pays: of the series with the same other options the first from which on it always does.
std::string conclusion(const std::vector<Row>& choices) {
  std::vector<const Row*> rows;
  for (const Row& row : choices) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) {
    return tokens_of(text_in(*a, "series")) < tokens_of(text_in(*b, "series"));
  });
  const auto mode_of = [](const Row& row) {
    const std::string series = text_in(row, "series");
    const std::size_t at = series.find(" mode=") + 6;
    return series.substr(at, series.find(' ', at) - at);
  };
  std::string text;
  for (const auto& [mode, mode_name] : EnumNames<TensorParallelMode>::table) {
    std::string from;
    bool any = false;
    for (const Row* row : rows) {
      if (mode_of(*row) != mode_name) continue;
      any = true;
      const bool pays = text_in(*row, "best") != "1" && number_in(*row, "gain_low") > 0;
      const std::string series = text_in(*row, "series");
      const std::size_t at = series.find(" layers=") + 8;
      if (!pays) from.clear();
      if (pays && from.empty()) from = series.substr(at, series.find(' ', at) - at);
    }
    if (!any) continue;
    text += fmt::format("{}: tiling {}\n", mode_name,
                        from.empty() ? "does not measurably pay at the largest size" : "pays from " + from + " on");
  }
  return text;
}

const Bench bench{
    .name = "tp",
    .question = "What does tensor parallelism leave exposed, and from which size on does it pay to reduce in tiles?",
    .axes = {layers_axis("gpt2-small:2@128,gpt2-small:2@512"),
             scale_axis(),
             {"mode", "all_reduce, sequence (reduce_scatter and all_gather)", "all_reduce"},
             {"tiles", "parts of the rows, one reduced while the next is computed; 1: no tiles", "1,2,4"},
             dtype_axis("f32"),
             placement_axis("concurrent"),
             waiting_axis(),
             channels_axis(),
             buffers_axis()},
    .columns = columns(),
    .cases =
        [](const AxisValues& axes, const CaseContext& context) {
          std::vector<CaseSpec> cases;
          for (const Asked& asked : product(axes)) cases.push_back(make_case(asked, context));
          return cases;
        },
    .sweep = SweptOption{.name = "tiles",
                         .reference = "1",
                         .place = [](const Row& row) { return std::stod(text_in(row, "tiles")); },
                         .first_that_suffices = true},
    .conclusion = conclusion};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
