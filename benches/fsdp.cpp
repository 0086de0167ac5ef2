// SPDX-License-Identifier: Apache-2.0
//
// How far ahead should the layers of a sharded model be gathered, and what memory does that cost?
//
// Varies: the prefetch depth, the limit of gathers in flight, one communicator for gathers and reductions or two;
// placement, waiting, channels, dtype. Held: the layers, a forward and a backward pass, each layer gathered once for
// each, its gradients reduced and scattered, the optimizer on the shards. What would prove the harness wrong: depth 0,
// where each layer waits for its own gather, exposing less than depth 1.
#include <fmt/format.h>

#include "app/bench.hpp"
#include "app/schedule_axes.hpp"
#include "base/error.hpp"
#include "measure/summary.hpp"
#include "results/loaded_run.hpp"
#include "schedule/fsdp.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string layers, scale, prefetch, in_flight, communicators, memory, dtype, placement, waiting, channels, buffers;
};

std::vector<Asked> product(const AxisValues& axes) {
  std::vector<Asked> all{{}};
  const auto multiply = [&](const char* name, std::string Asked::*axis) { all = multiplied(all, axes[name], axis); };
  multiply("layers", &Asked::layers);
  multiply("scale", &Asked::scale);
  multiply("dtype", &Asked::dtype);
  multiply("placement", &Asked::placement);
  multiply("waiting", &Asked::waiting);
  multiply("channels", &Asked::channels);
  multiply("buffers", &Asked::buffers);
  multiply("memory", &Asked::memory);
  multiply("communicators", &Asked::communicators);
  multiply("in-flight", &Asked::in_flight);
  multiply("prefetch", &Asked::prefetch);
  return all;
}

bool two_communicators(const std::string& text) {
  if (text != "one" && text != "two") throw unknown_value("communicators", text, {"one", "two"});
  return text == "two";
}

std::int64_t parse_prefetch(const std::string& text) {
  return parse_at_least(text, "prefetch depth", 0, "type for example --prefetch 0,1,2");
}

// Of n layers there are n - 1 to gather ahead of the one that computes: what is deeper is the same schedule again.
bool beyond_layers(const Asked& asked) {
  return parse_prefetch(asked.prefetch) >= parse_scaled_layers(asked.layers, asked.scale).count;
}

CaseSpec make_case(const Asked& asked, const CaseContext& context) {
  FsdpSpec fsdp;
  fsdp.ranks = context.ranks;
  fsdp.layers = parse_scaled_layers(asked.layers, asked.scale);
  fsdp.dtype = parse_product_dtype(asked.dtype, "weights");
  fsdp.prefetch = parse_prefetch(asked.prefetch);
  if (beyond_layers(asked)) {
    throw usage_error(fmt::format("prefetch depth {} of {} layers", fsdp.prefetch, fsdp.layers.count),
                      "no more than the others can be gathered ahead of one",
                      fmt::format("type --prefetch {} at most", fsdp.layers.count - 1));
  }
  fsdp.in_flight =
      parse_at_least(asked.in_flight, "in-flight limit", 0, "type for example --in-flight 2, or 0 for none");
  fsdp.two_communicators = two_communicators(asked.communicators);
  fsdp.memory_limit = asked.memory == "machine" ? memory_of_rank(context, fsdp.ranks) : parse_bytes(asked.memory);
  fsdp.transport = context.transport;
  fsdp.channels = parse_channels(asked.channels);
  fsdp.waiting = parse_enum<Waiting>(asked.waiting);
  fsdp.memory = parse_enum<Memory>(asked.buffers);

  CaseSpec spec;
  spec.name = fmt::format("fsdp/{}/s{}/prefetch{}/in_flight{}/{}/{}/{}/{}/{}/c{}/{}", asked.layers, asked.scale,
                          asked.prefetch, asked.in_flight, asked.communicators, asked.memory, asked.dtype,
                          asked.placement, asked.waiting, asked.channels, asked.buffers);
  spec.key = fmt::format(
      "fsdp layers={} scale={} prefetch={} in_flight={} communicators={} memory={} dtype={} placement={} waiting={} "
      "channels={} buffers={} ranks={} transport={}",
      asked.layers, asked.scale, asked.prefetch, asked.in_flight, asked.communicators, asked.memory, asked.dtype,
      asked.placement, asked.waiting, asked.channels, asked.buffers, context.ranks, context.transport);
  spec.placement_name = asked.placement;
  spec.placement = parse_placement(asked.placement);
  spec.build = [fsdp](const Tuning& tuning) {
    FsdpSpec tuned = fsdp;
    tuned.repeats = tuning.repeats;
    return fsdp_program(tuned);
  };
  const Bytes layer = size_of(fsdp.dtype) * fsdp_layer_elements(fsdp);
  spec.asked = {{"prefetch", asked.prefetch},
                {"in_flight", fsdp.in_flight},
                {"communicators", std::int64_t{fsdp.two_communicators ? 2 : 1}},
                {"slots", fsdp_slots(fsdp)},
                {"layer_bytes", layer.value()},
                {"gathered_memory", (layer * fsdp_slots(fsdp)).value()}};
  // Forward, and backward twice that.
  ask_about_step(spec, asked.layers, asked.scale, fsdp_program(fsdp), forward_flops(fsdp.layers) * 3,
                 {"gathered", "gradients", "reduced", "master_shards"});
  return spec;
}

std::vector<Column> columns() {
  std::vector<Column> all{{"prefetch", ColumnType::text, "", "layers gathered ahead of the one that computes"},
                          {"in_flight", ColumnType::integer, "1", "most gathered layers at once as asked for; 0: none"},
                          {"communicators", ColumnType::integer, "1", "2: gathers and reductions on one each"},
                          {"slots", ColumnType::integer, "1", "gathered layers that exist at once"},
                          {"layer_bytes", ColumnType::integer, "B", "one layer's parameters, gathered"},
                          {"gathered_memory", ColumnType::integer, "B", "slots times layer_bytes"}};
  for (Column& column : step_columns()) all.push_back(std::move(column));
  return all;
}

const Bench bench{
    .name = "fsdp",
    .question = "How far ahead should the layers of a sharded model be gathered, and what memory does that cost?",
    .axes =
        {layers_axis("gpt2-small:6@128"),
         scale_axis(),
         {"prefetch", "layers gathered ahead of the one that computes, fewer than there are; 0: each waits for its own",
          "0,1,2,3"},
         {"in-flight", "at most this many gathered layers at once (PyTorch's limit_all_gathers: 2); 0: no limit", "0"},
         {"communicators", "two: gathers and reductions on one each, so that neither waits for the other; one", "two"},
         {"memory", "what the buffers of a rank may take: a size, machine (what this one has)", "machine"},
         dtype_axis("f32"),
         placement_axis("concurrent"),
         waiting_axis(),
         channels_axis(),
         buffers_axis()},
    .columns = columns(),
    .cases =
        [](const AxisValues& axes, const CaseContext& context) {
          const bool typed = axes.typed().contains("prefetch");  // of the bench's own list what there are layers for
          std::vector<CaseSpec> cases;
          for (const Asked& asked : product(axes)) {
            if (typed || !beyond_layers(asked)) cases.push_back(make_case(asked, context));
          }
          return cases;
        },
    .sweep = SweptOption{.name = "prefetch",
                         .reference = "0",
                         .place = [](const Row& row) { return std::stod(text_in(row, "prefetch")); },
                         .first_that_suffices = true}};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
