// SPDX-License-Identifier: Apache-2.0
//
// Into how large buckets should gradients go, so that their reduction hides behind the backward pass?
//
// Varies: the limit of a bucket, from one for each tensor to one for all, and separately that of the first and of the
// last; placement, waiting, channels, dtype. Held: the layers, their backward pass, PyTorch's assignment in ready
// order, the optimizer that waits for each bucket. What would prove the harness wrong: nothing exposed with one bucket
// for all, which begins when everything is computed.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "app/bench.hpp"
#include "app/ddp_given.hpp"
#include "app/schedule_axes.hpp"
#include "base/error.hpp"
#include "measure/summary.hpp"
#include "metrics/bucket_curve.hpp"
#include "metrics/bus_bandwidth.hpp"
#include "results/loaded_run.hpp"
#include "schedule/ddp.hpp"
#include "schedule/models.hpp"
#include "stats/fit.hpp"
#include "stats/summary.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string layers, scale, bucket, first, last, dtype, placement, waiting, channels, buffers;
};

std::vector<Asked> product(const AxisValues& axes) {
  std::vector<Asked> all{{}};
  const auto multiply = [&](const std::vector<std::string>& values, std::string Asked::*axis) {
    all = multiplied(all, values, axis);
  };
  multiply(axes["layers"], &Asked::layers);
  multiply(axes["scale"], &Asked::scale);
  multiply(axes["dtype"], &Asked::dtype);
  multiply(axes["placement"], &Asked::placement);
  multiply(axes["waiting"], &Asked::waiting);
  multiply(axes["channels"], &Asked::channels);
  multiply(axes["buffers"], &Asked::buffers);
  multiply(axes["first-bucket"], &Asked::first);
  multiply(axes["last-bucket"], &Asked::last);
  std::vector<std::string> buckets;
  for (const std::string& list : axes["bucket"]) {
    if (list == "tensor" || list == "all") {
      buckets.push_back(list);
      continue;
    }
    for (const Bytes bytes : parse_byte_list(list)) buckets.push_back(format_bytes(bytes));
  }
  multiply(buckets, &Asked::bucket);
  return all;
}

Bytes parse_cap(const std::string& text) {
  if (text == "tensor") return Bytes(1);
  if (text == "all") return Bytes(std::numeric_limits<std::int64_t>::max());
  return parse_bytes(text);
}

BucketLimits parse_limits(const Asked& asked) {
  BucketLimits limits{.cap = parse_cap(asked.bucket), .first = std::nullopt};
  // PyTorch begins with a small bucket as long as its limit is the default one.
  if (asked.first == "auto" && limits.cap == ddp_default_bucket) limits.first = ddp_first_bucket;
  if (asked.first != "auto" && asked.first != "cap") limits.first = named_message(asked.first);
  if (asked.last != "none") limits.last = named_message(asked.last);
  return limits;
}

CaseSpec make_case(const Asked& asked, const CaseContext& context) {
  DdpSpec ddp;
  ddp.ranks = context.ranks;
  ddp.layers = parse_scaled_layers(asked.layers, asked.scale);
  ddp.dtype = parse_product_dtype(asked.dtype, "gradients");
  ddp.limits = parse_limits(asked);
  ddp.transport = context.transport;
  ddp.channels = parse_channels(asked.channels);
  ddp.waiting = parse_enum<Waiting>(asked.waiting);
  ddp.memory = parse_enum<Memory>(asked.buffers);

  CaseSpec spec;
  spec.name =
      fmt::format("ddp/{}/s{}/{}/first_{}/last_{}/{}/{}/{}/c{}/{}", asked.layers, asked.scale, asked.bucket,
                  asked.first, asked.last, asked.dtype, asked.placement, asked.waiting, asked.channels, asked.buffers);
  spec.key = fmt::format(
      "ddp layers={} scale={} bucket={} first={} last={} dtype={} placement={} waiting={} channels={} buffers={} "
      "ranks={} transport={}",
      asked.layers, asked.scale, asked.bucket, asked.first, asked.last, asked.dtype, asked.placement, asked.waiting,
      asked.channels, asked.buffers, context.ranks, context.transport);
  spec.placement_name = asked.placement;
  spec.placement = parse_placement(asked.placement);
  spec.build = [ddp](const Tuning& tuning) {
    DdpSpec tuned = ddp;
    tuned.repeats = tuning.repeats;
    return ddp_program(tuned);
  };
  const std::vector<Bucket> buckets = assign_buckets(ddp_gradients(ddp), ddp.limits);
  Bytes gradients;
  Bytes largest;
  for (const Bucket& b : buckets) {
    gradients += b.size;
    largest = std::max(largest, b.size);
  }
  spec.asked = {{"bucket", asked.bucket},
                {"first_bucket", asked.first},
                {"last_bucket", asked.last},
                {"buckets", std::ssize(buckets)},
                {"gradient_bytes", gradients.value()},
                {"largest_bucket", largest.value()},
                {"tail_bucket", buckets.back().size.value()}};
  spec.derive = [ranks = ddp.ranks, gradients](const Summary& s) -> std::vector<std::pair<std::string, Value>> {
    return {{"algorithm_bandwidth", algorithm_bandwidth(gradients, s.times.comm).value()},
            {"bus_bandwidth", bus_bandwidth(CollectiveKind::all_reduce, ranks, gradients, s.times.comm).value()}};
  };
  ask_about_step(spec, asked.layers, asked.scale, ddp_program(ddp), forward_flops(ddp.layers) * 2,
                 {"gradients", "reduced", "master_weights"});
  return spec;
}

std::vector<Column> columns() {
  std::vector<Column> all{
      {"bucket", ColumnType::text, "", "limit of a bucket as asked for"},
      {"first_bucket", ColumnType::text, "", "limit of the first bucket as asked for"},
      {"last_bucket", ColumnType::text, "", "least size of the last bucket as asked for"},
      {"buckets", ColumnType::integer, "1", "how many there are"},
      {"gradient_bytes", ColumnType::integer, "B", "all gradients of a rank"},
      {"largest_bucket", ColumnType::integer, "B", "buckets overshoot their limit by up to a tensor"},
      {"tail_bucket", ColumnType::integer, "B", "the bucket that is reduced last"},
      {"algorithm_bandwidth", ColumnType::real, "B/s", "gradient_bytes / t_comm, alone"},
      {"bus_bandwidth", ColumnType::real, "B/s", "algorithm bandwidth times nccl-tests' factor, alone"}};
  for (Column& column : step_columns()) all.push_back(std::move(column));
  return all;
}

double count_in(const Row& row, std::string_view column) {
  return static_cast<double>(std::get<std::int64_t>(row.at(column)));
}

// What the closed form says of the sweep, from its own isolated times: a launch and the wire, by a line through t_comm
// over the number of buckets, and the backward pass.
std::string closed_form(const std::vector<const Row*>& series) {
  std::vector<SizeTime> comm;
  std::vector<double> backward;
  for (const Row* row : series) {
    comm.push_back({count_in(*row, "buckets"), number_in(*row, "t_comm")});
    backward.push_back(number_in(*row, "t_compute"));
  }
  const CostLine line = fit_line(comm, FitMethod::relative);
  const BucketCurve curve{Seconds(median(backward)), Seconds(line.alpha), Seconds(line.beta)};
  if (!(line.beta > 0 && line.alpha >= 0)) {
    return "closed form: none, since more buckets did not cost more in the communication alone";
  }
  const std::int64_t best = best_bucket_count(curve);
  const Bytes bytes(static_cast<std::int64_t>(count_in(*series.front(), "gradient_bytes")) / best);
  return fmt::format(
      "closed form (backward {}, wire {}, {} a bucket; neither slows the other): least with {} equal buckets of about "
      "{:.3g} KiB, exposes {}",
      format_seconds(curve.backward), format_seconds(curve.wire), format_seconds(curve.latency), best,
      static_cast<double>(bytes.value()) / 0x1p10, format_seconds(exposed_time(curve, best)));
}

const Bench bench{
    .name = "ddp",
    .question = "Into how large buckets should gradients go, so that their reduction hides behind the backward pass?",
    .axes = {layers_axis("gpt2-small:4@128"),
             scale_axis(),
             {"bucket", "limits of a bucket: sizes, ranges 64KiB:256MiB:x4, tensor (each its own), all (one for all)",
              "tensor,256KiB,1MiB,4MiB,25MiB,all"},
             {"first-bucket",
              "limit of the first bucket: a size, cap (as the others), auto (as PyTorch: 1MiB at 25MiB)", "auto"},
             {"last-bucket", "the last bucket holds at least this much of what is ready last: a size, none", "none"},
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
    .sweep = SweptOption{
        .name = "bucket",
        .reference = "25MiB",
        .place = [](const Row& row) { return static_cast<double>(parse_cap(text_in(row, "bucket")).value()); },
        .predicted = closed_form}};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(ovl::with_given_durations(bench), argc, argv); }
