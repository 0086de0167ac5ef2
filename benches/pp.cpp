// SPDX-License-Identifier: Apache-2.0
//
// How much of a pipeline's time is a bubble, and what does each schedule keep in memory for having less of it?
//
// Varies: the schedule, stages, microbatches and chunks, when a receive is posted, the layers, or instead of kernels
// given durations. Held: one stage a rank, real messages between neighbours, one window is one step. What would prove
// the harness wrong: a bubble rate below that of the schedule in virtual time by more than both intervals.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "app/bench.hpp"
#include "app/command_line.hpp"
#include "app/pipeline_report.hpp"
#include "app/schedule_axes.hpp"
#include "base/error.hpp"
#include "measure/bubble.hpp"
#include "schedule/layers.hpp"
#include "schedule/pipeline.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string schedule, stages, microbatches, chunks, receive, layers, scale, dtype, placement, waiting, channels,
      buffers, forward, backward_input, backward_weight, transfer;
};

const std::string kernels = "kernel";  // no duration is given
constexpr std::array<const char*, 4> durations{"forward", "backward-input", "backward-weight", "transfer"};

bool all_given(const AxisValues& axes) {
  return std::any_of(durations.begin(), durations.end(),
                     [&](const char* axis) { return axes[axis] != std::vector<std::string>{kernels}; });
}

std::vector<Asked> product(const AxisValues& axes) {
  std::vector<Asked> all{{}};
  const auto multiply = [&](const char* axis, std::string Asked::*member) {
    all = multiplied(all, axes[axis], member);
  };
  multiply("layers", &Asked::layers);
  multiply("scale", &Asked::scale);
  multiply("dtype", &Asked::dtype);
  multiply("placement", &Asked::placement);
  multiply("waiting", &Asked::waiting);
  multiply("channels", &Asked::channels);
  multiply("buffers", &Asked::buffers);
  multiply("forward", &Asked::forward);
  multiply("backward-input", &Asked::backward_input);
  multiply("backward-weight", &Asked::backward_weight);
  multiply("transfer", &Asked::transfer);
  multiply("stages", &Asked::stages);
  multiply("microbatches", &Asked::microbatches);
  multiply("receive", &Asked::receive);
  multiply("chunks", &Asked::chunks);
  multiply("schedule", &Asked::schedule);
  return all;
}

// In a list of schedules only the interleaved one takes the chunks.
int parse_chunks(const Asked& asked, bool any_interleaved) {
  const bool interleaved = parse_enum<PipelineSchedule>(asked.schedule) == PipelineSchedule::interleaved;
  if (asked.chunks == "default") return interleaved ? 2 : 1;
  const auto chunks = static_cast<int>(parse_count("chunks", asked.chunks, 64));
  return interleaved || !any_interleaved ? chunks : 1;
}

// A pipeline is checked whole before it runs, which takes longer than the number of its operations grows.
constexpr std::int64_t most_forwards = 8192;

void require_size(const PipelineShape& shape) {
  const std::int64_t forwards = std::int64_t{shape.stages} * shape.microbatches * shape.chunks;
  if (forwards <= most_forwards) return;
  throw usage_error(fmt::format("{} stages, {} microbatches and {} chunks are {} forward passes", shape.stages,
                                shape.microbatches, shape.chunks, forwards),
                    fmt::format("a pipeline of at most {} is checked in reasonable time", most_forwards),
                    "take fewer of one of them; the bubble depends on microbatches / stages");
}

// A core a stage where lanes are threads: a compute lane that waits leaves it to its transfers.
std::string placement_of(const Asked& asked, const CaseContext& context) {
  if (asked.placement != "auto") return asked.placement;
  return context.backend.backend == "host" ? "shared_core" : "concurrent";
}

std::optional<PipelineCosts> parse_costs(const Asked& asked) {
  const std::array texts{&asked.forward, &asked.backward_input, &asked.backward_weight, &asked.transfer};
  if (std::all_of(texts.begin(), texts.end(), [](const std::string* text) { return *text == kernels; })) return {};
  std::array<Seconds, 4> costs{};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool transfer = i + 1 == texts.size();
    if (*texts[i] != kernels) {
      costs[i] = parse_duration(std::string("--") + durations[i], *texts[i], transfer);
    } else if (!transfer) {  // without a transfer's it takes nothing
      throw usage_error(fmt::format("--{} is not given", durations[i]),
                        "durations take the place of kernels, so every step has one",
                        fmt::format("add for example --{} 20ms", durations[i]));
    }
  }
  return PipelineCosts{costs[0], costs[1], costs[2], costs[3]};
}

// What a serial replay of the whole program takes too long for is checked on the same schedule of small layers.
SerialCheck serial_check(const PipelineSpec& pipeline, const Placement& placement) {
  constexpr double most = 4e8;  // FLOPs
  PipelineSpec small = pipeline;
  std::string note = "exact+serial";
  if (3 * forward_flops(pipeline.layers).value() * pipeline.shape.microbatches > most) {
    Layers& layers = small.layers;
    layers.tokens = std::min<std::int64_t>(layers.tokens, 8);
    layers.hidden = std::min<std::int64_t>(layers.hidden, 16);
    layers.qkv = std::min<std::int64_t>(layers.qkv, 48);
    layers.inner = std::min<std::int64_t>(layers.inner, 64);
    note = fmt::format("exact, and serial with {} tokens of width {}", layers.tokens, layers.hidden);
  }
  const Program program = place(pipeline_program(small), placement);
  return {.program = program,
          .meant = program,
          .buffers = {"activation", "gradient", "activation_out", "gradient_out", "weight_gradients", "master_weights"},
          .note = note};
}

void with_kernels(CaseSpec& spec, const Asked& asked, const PipelineShape& shape, const CaseContext& context) {
  PipelineSpec pipeline;
  pipeline.shape = shape;
  pipeline.layers = parse_scaled_layers(asked.layers, asked.scale);
  pipeline.dtype = parse_product_dtype(asked.dtype, "activations");
  pipeline.receive = parse_enum<ReceivePosting>(asked.receive);
  pipeline.transport = context.transport;
  pipeline.channels = parse_channels(asked.channels);
  pipeline.waiting = parse_enum<Waiting>(asked.waiting);
  pipeline.memory = parse_enum<Memory>(asked.buffers);
  const Bytes memory = memory_per_rank(pipeline_program(pipeline));
  pipeline.memory_limit = memory_of_rank(context, shape.stages);
  (void)pipeline_program(pipeline);

  spec.build = [pipeline](const Tuning& /*tuning*/) { return pipeline_program(pipeline); };
  spec.serial_check = [pipeline, placement = spec.placement](const Program& /*placed*/) {
    return serial_check(pipeline, placement);
  };
  spec.asked.insert(spec.asked.end(), {{"layers", asked.layers},
                                       {"scale", parse_scale(asked.scale)},
                                       {"dtype", asked.dtype},
                                       {"memory", memory.value()}});
  ask_for_bubble(spec, {.shape = shape, .receive = pipeline.receive, .given = std::nullopt},
                 [pipeline, placement = spec.placement](PipelineStepKind kind) {
                   return place(pipeline_steps(pipeline, kind), placement);
                 });
}

void with_durations(CaseSpec& spec, const Asked& asked, const PipelineShape& shape, const PipelineCosts& costs,
                    const CaseContext& context) {
  const PipelineWhatIf what_if{.shape = shape,
                               .forward = costs.forward,
                               .backward_input = costs.backward_input,
                               .backward_weight = costs.backward_weight,
                               .transfer = costs.transfer,
                               .receive = parse_enum<ReceivePosting>(asked.receive),
                               .transport = context.transport};
  spec.build = [what_if](const Tuning& /*tuning*/) { return pipeline_program(what_if); };
  (void)spec.build({});
  ask_for_bubble(spec, {.shape = shape, .receive = what_if.receive, .given = costs}, nullptr);
}

CaseSpec make_case(const Asked& asked, bool any_interleaved, const CaseContext& context) {
  const std::optional<PipelineCosts> costs = parse_costs(asked);
  const PipelineShape shape{
      .schedule = parse_enum<PipelineSchedule>(asked.schedule),
      .stages = asked.stages == "default" ? context.ranks : static_cast<int>(parse_count("stages", asked.stages, 1024)),
      .microbatches = static_cast<int>(parse_count("microbatches", asked.microbatches, 2048)),
      .chunks = parse_chunks(asked, any_interleaved)};
  require_size(shape);
  const std::string placement = placement_of(asked, context);
  CaseSpec spec;
  const std::string pipeline =
      fmt::format("{}/p{}/m{}/v{}/{}", asked.schedule, shape.stages, shape.microbatches, shape.chunks, asked.receive);
  const std::string key = fmt::format("pp schedule={} stages={} microbatches={} chunks={} receive={}", asked.schedule,
                                      shape.stages, shape.microbatches, shape.chunks, asked.receive);
  if (costs) {
    const std::string& transfer = asked.transfer == kernels ? "0" : asked.transfer;
    spec.name = fmt::format("pp/{}/F{}/B{}/W{}/c{}/{}", pipeline, asked.forward, asked.backward_input,
                            asked.backward_weight, transfer, placement);
    spec.key =
        fmt::format("{} forward={} backward_input={} backward_weight={} transfer={} placement={} transport={}", key,
                    asked.forward, asked.backward_input, asked.backward_weight, transfer, placement, context.transport);
  } else {
    spec.name = fmt::format("pp/{}/{}/s{}/{}/{}/{}/c{}/{}", pipeline, asked.layers, asked.scale, asked.dtype, placement,
                            asked.waiting, asked.channels, asked.buffers);
    spec.key = fmt::format("{} layers={} scale={} dtype={} placement={} waiting={} channels={} buffers={} transport={}",
                           key, asked.layers, asked.scale, asked.dtype, placement, asked.waiting, asked.channels,
                           asked.buffers, context.transport);
  }
  spec.placement_name = placement;
  spec.placement = parse_unordered(placement, "here the schedule says what comes when");
  const std::vector<int> peaks = peak_activations(pipeline_table(shape));
  spec.asked = {{"schedule", asked.schedule},
                {"microbatches", std::int64_t{shape.microbatches}},
                {"chunks", std::int64_t{shape.chunks}},
                {"receive", asked.receive},
                {"peak_activations", std::int64_t{*std::max_element(peaks.begin(), peaks.end())}}};
  if (costs) {
    with_durations(spec, asked, shape, *costs, context);
  } else {
    with_kernels(spec, asked, shape, context);
  }
  return spec;
}

std::vector<Column> columns() {
  std::vector<Column> all{
      {"schedule", ColumnType::text, "", "gpipe, 1f1b, interleaved, zb_h1 or zb_h2; a stage is a rank"},
      {"microbatches", ColumnType::integer, "1", "in a step"},
      {"chunks", ColumnType::integer, "1", "of layers, that a stage has"},
      {"receive", ColumnType::text, "", "when a receive is posted: early or late"},
      {"peak_activations", ColumnType::integer, "1", "forward steps whose input a stage keeps at once, at most"},
      {"layers", ColumnType::text, "",
       "model, layers of all stages and tokens of a microbatch; empty: given durations"},
      {"scale", ColumnType::real, "1", "of the widths"},
      {"dtype", ColumnType::text, "", "of everything"},
      {"memory", ColumnType::integer, "B", "buffers of a rank"}};
  for (Column& column : bubble_columns()) all.push_back(std::move(column));
  return all;
}

const Bench bench{
    .name = "pp",
    .question =
        "How much of a pipeline's time is a bubble, and what does each schedule keep in memory for having less of it?",
    .axes = {{"schedule", "gpipe, 1f1b, interleaved, zb_h1, zb_h2", "gpipe,1f1b,interleaved,zb_h1,zb_h2"},
             {"stages", "stages, one a rank, or default: as many ranks as the backend has", "default"},
             {"microbatches", "in a step", "8"},
             {"chunks", "of layers, that a stage has where interleaved; default: 2", "default"},
             {"receive", "posted early (as soon as a slot is free) or late (after the step before)", "early"},
             {"layers", "of real models: model:layers or model:layers@tokens of a microbatch", "gpt2-small:4@128"},
             scale_axis(),
             dtype_axis("f32"),
             {"placement", "auto (host: shared_core, so that a stage is a core; else concurrent), or as other benches",
              "auto"},
             waiting_axis(),
             channels_axis(),
             buffers_axis(),
             {"forward",
              "a duration instead of kernels: a microbatch's forward pass on a stage; with all given and "
              "--backend auto it is the model that plays them",
              kernels},
             {"backward-input", "likewise: the gradients of its inputs", kernels},
             {"backward-weight", "likewise: the gradients of its weights", kernels},
             {"transfer", "likewise: from a stage to the next; without it nothing", kernels}},
    .columns = columns(),
    .cases =
        [](const AxisValues& axes, const CaseContext& context) {
          const std::vector<std::string>& schedules = axes["schedule"];
          const bool interleaved = std::find(schedules.begin(), schedules.end(), "interleaved") != schedules.end();
          if (all_given(axes)) {
            require_used(axes, {"schedule", "stages", "microbatches", "chunks", "receive", "placement", "forward",
                                "backward-input", "backward-weight", "transfer"});
          }
          std::vector<CaseSpec> cases;
          for (const Asked& asked : product(axes)) cases.push_back(make_case(asked, interleaved, context));
          return cases;
        },
    .table = pipeline_table_text,
    .ranks_axis = "stages",
    .all_given = all_given};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
