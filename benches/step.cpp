// SPDX-License-Identifier: Apache-2.0
//
// Of one training step, cut over tensor, pipeline and data parallel ranks: what does each way of cutting leave exposed?
//
// Varies: the parts of a layer, the stages, the replicas, what replicas share, buckets, prefetch depth, schedule and
// microbatches, the layers; placement, waiting, channels, dtype. Held: ranks are numbered tensor first, then data, then
// stages; one window is one step. What would prove the harness wrong: a way that does not cut the step exposing
// anything.
#include <fmt/format.h>

#include <algorithm>

#include "app/bench.hpp"
#include "app/schedule_axes.hpp"
#include "app/step_report.hpp"
#include "base/error.hpp"
#include "measure/step_exposure.hpp"
#include "measure/verify.hpp"
#include "schedule/layers.hpp"
#include "schedule/training_step.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string layers, scale, tensor, stages, microbatches, chunks, schedule, mode, bucket, prefetch, dtype, placement,
      waiting, channels, buffers;
};

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
  multiply("schedule", &Asked::schedule);
  multiply("chunks", &Asked::chunks);
  multiply("microbatches", &Asked::microbatches);
  multiply("mode", &Asked::mode);
  multiply("bucket", &Asked::bucket);
  multiply("prefetch", &Asked::prefetch);
  multiply("tensor", &Asked::tensor);
  multiply("stages", &Asked::stages);
  return all;
}

int parse_part(const std::string& text, const char* axis) {
  return static_cast<int>(parse_at_least(text, axis, 1, fmt::format("type for example --{} 1,2,4", axis)));
}

// What is left of the ranks when layers and stages are cut.
int replicas(const CaseContext& context, int tensor, int stages) {
  const std::int64_t cut = std::int64_t{tensor} * stages;
  if (context.ranks % cut == 0) return static_cast<int>(context.ranks / cut);
  throw usage_error(
      fmt::format("{} ranks do not divide by {} parts of a layer times {} stages", context.ranks, tensor, stages),
      "each replica of the model has as many ranks", "type another --ranks, --tensor or --stages");
}

// Pipelines with several stages keep their rank's lanes on one core where lanes are threads, as overlap-pp does.
std::string placement_of(const Asked& asked, const CaseContext& context, bool pipelined) {
  if (asked.placement != "auto") return asked.placement;
  return context.backend.backend == "host" && pipelined ? "shared_core" : "concurrent";
}

// What a serial replay of the whole program takes too long for is checked on the same step of small layers.
SerialCheck serial_check(const TrainingStepSpec& step, const Placement& placement) {
  constexpr double most = 4e8;  // FLOPs
  TrainingStepSpec small = step;
  std::string note = "exact+serial";
  if (3 * forward_flops(step.layers).value() * step.shape.microbatches * step.data > most) {
    Layers& layers = small.layers;
    const std::int64_t unit = std::int64_t{step.tensor} * step.data;
    layers.tokens = std::min<std::int64_t>(layers.tokens, 8);
    layers.hidden = std::min<std::int64_t>(layers.hidden, 16);
    layers.qkv = 3 * unit;
    layers.inner = 4 * unit;
    layers.hidden = std::max<std::int64_t>(1, layers.hidden / unit) * unit;
    note = fmt::format("exact, and serial with {} tokens of width {}", layers.tokens, layers.hidden);
  }
  small.memory_limit = std::nullopt;
  const Program program = place(training_step_program(small), placement);
  std::vector<std::string> buffers{"activation_out", "gradient_out", "weight_gradients", "master_weights"};
  if (step.data > 1) buffers.emplace_back("reduced");
  return {.program = program, .meant = program, .buffers = std::move(buffers), .note = note};
}

CaseSpec make_case(const Asked& asked, const CaseContext& context) {
  TrainingStepSpec step;
  step.tensor = parse_part(asked.tensor, "tensor");
  const int stages = parse_part(asked.stages, "stages");
  step.data = replicas(context, step.tensor, stages);
  step.shape = {.schedule = parse_enum<PipelineSchedule>(asked.schedule),
                .stages = stages,
                .microbatches = static_cast<int>(parse_count("microbatches", asked.microbatches, 2048)),
                .chunks = static_cast<int>(parse_count("chunks", asked.chunks, 64))};
  step.layers = parse_scaled_layers(asked.layers, asked.scale);
  step.dtype = parse_product_dtype(asked.dtype, "activations");
  step.mode = parse_enum<DataParallelMode>(asked.mode);
  const std::string bucket = step.mode == DataParallelMode::ddp ? asked.bucket : "none";
  step.bucket = parse_bytes(asked.bucket);
  const std::string prefetch = step.mode == DataParallelMode::fsdp ? asked.prefetch : "none";
  step.prefetch = parse_at_least(asked.prefetch, "prefetch depth", 0, "type for example --prefetch 0,1,2");
  step.transport = context.transport;
  step.channels = parse_channels(asked.channels);
  step.waiting = parse_enum<Waiting>(asked.waiting);
  step.memory = parse_enum<Memory>(asked.buffers);
  step.memory_limit = memory_of_rank(context, context.ranks);
  const Program program = training_step_program(step);
  const std::string placement = placement_of(asked, context, stages > 1);

  CaseSpec spec;
  spec.name =
      fmt::format("step/{}/s{}/t{}/p{}/d{}/{}/m{}/v{}/{}/{}/prefetch{}/{}/{}/{}/c{}/{}", asked.layers, asked.scale,
                  step.tensor, stages, step.data, asked.schedule, asked.microbatches, asked.chunks, asked.mode, bucket,
                  prefetch, asked.dtype, placement, asked.waiting, asked.channels, asked.buffers);
  spec.key = fmt::format(
      "step layers={} scale={} tensor={} stages={} data={} schedule={} microbatches={} chunks={} mode={} bucket={} "
      "prefetch={} dtype={} placement={} waiting={} channels={} buffers={} ranks={} transport={}",
      asked.layers, asked.scale, step.tensor, stages, step.data, asked.schedule, asked.microbatches, asked.chunks,
      asked.mode, bucket, prefetch, asked.dtype, placement, asked.waiting, asked.channels, asked.buffers, context.ranks,
      context.transport);
  spec.placement_name = placement;
  spec.placement = parse_unordered(placement, "here the schedule says what comes when");
  spec.build = [step](const Tuning& /*tuning*/) { return training_step_program(step); };
  spec.serial_check = [step, placed = spec.placement](const Program& /*program*/) {
    return serial_check(step, placed);
  };
  const double parts = static_cast<double>(step.tensor) * stages;
  const Flops model = forward_flops(step.layers) * (3.0 * step.shape.microbatches / parts);
  spec.asked = {{"layers", asked.layers},
                {"scale", parse_scale(asked.scale)},
                {"dtype", asked.dtype},
                {"tensor", std::int64_t{step.tensor}},
                {"stages", std::int64_t{stages}},
                {"data", std::int64_t{step.data}},
                {"schedule", asked.schedule},
                {"microbatches", std::int64_t{step.shape.microbatches}},
                {"chunks", std::int64_t{step.shape.chunks}},
                {"mode", asked.mode},
                {"bucket", bucket},
                {"prefetch", prefetch},
                {"memory", memory_per_rank(program).value()},
                {"model_flops", model.value()},
                {"hardware_flops", 2 * products_of(program) / program.ranks}};
  ask_for_exposure(spec, step);
  return spec;
}

std::vector<Column> columns() {
  std::vector<Column> all{{"layers", ColumnType::text, "", "model, layers and tokens of a microbatch as asked for"},
                          {"scale", ColumnType::real, "1", "of the widths"},
                          {"dtype", ColumnType::text, "", "of everything"},
                          {"tensor", ColumnType::integer, "1", "ranks that a layer is cut over"},
                          {"stages", ColumnType::integer, "1", "of the pipeline"},
                          {"data", ColumnType::integer, "1", "replicas of the model"},
                          {"schedule", ColumnType::text, "", "gpipe, 1f1b, interleaved, zb_h1 or zb_h2"},
                          {"microbatches", ColumnType::integer, "1", "in a step, of each replica"},
                          {"chunks", ColumnType::integer, "1", "of layers, that a stage has"},
                          {"mode", ColumnType::text, "", "what replicas share: ddp gradients, fsdp weights too"},
                          {"bucket", ColumnType::text, "", "ddp: a bucket closes after the layer that reaches this"},
                          {"prefetch", ColumnType::text, "", "fsdp: layers gathered ahead of the one that computes"},
                          {"memory", ColumnType::integer, "B", "buffers of a rank"},
                          {"model_flops", ColumnType::real, "FLOP", "what the model needs of a rank, a step"},
                          {"hardware_flops", ColumnType::real, "FLOP", "what a rank's GEMMs do, a step, on average"}};
  for (Column& column : exposure_columns()) all.push_back(std::move(column));
  return all;
}

const Bench bench{
    .name = "step",
    .question =
        "Of one training step, cut over tensor, pipeline and data parallel ranks: what does each leave exposed?",
    .axes = {layers_axis("gpt2-small:4@128"),
             scale_axis(),
             {"tensor", "ranks that each layer is cut over", "1"},
             {"stages", "of the pipeline; what tensor times stages leaves of --ranks are replicas", "1"},
             {"microbatches", "in a step, of each replica", "4"},
             {"schedule", "of the pipeline: gpipe, 1f1b, interleaved, zb_h1, zb_h2", "1f1b"},
             {"chunks", "of layers, that a stage has where interleaved", "1"},
             {"mode", "what replicas share: ddp (gradients) or fsdp (weights too)", "ddp"},
             {"bucket", "ddp: a bucket closes after the layer that makes it reach this", "25MiB"},
             {"prefetch", "fsdp: layers gathered ahead of the one that computes; 0: each waits for its own", "1"},
             dtype_axis("f32"),
             {"placement",
              "auto (host with several stages: shared_core, so that a rank is a core; else concurrent), or as other "
              "benches",
              "auto"},
             waiting_axis(),
             channels_axis(),
             buffers_axis()},
    .columns = columns(),
    .cases =
        [](const AxisValues& axes, const CaseContext& context) {
          std::vector<CaseSpec> cases;
          for (const Asked& asked : product(axes)) {
            // Only ddp has buckets and only fsdp gathers: of several the other has one case.
            if (asked.mode == "fsdp" && asked.bucket != axes["bucket"].front()) continue;
            if (asked.mode == "ddp" && asked.prefetch != axes["prefetch"].front()) continue;
            cases.push_back(make_case(asked, context));
          }
          return cases;
        },
    .table = step_table_text};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
