// SPDX-License-Identifier: Apache-2.0
#include "schedule/ddp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/dataflow.hpp"
#include "schedule/data.hpp"

namespace ovl {
namespace {

// How many tensors at the end are the last bucket: of one dtype, and enough to reach `last`.
std::size_t tail_length(std::span<const Tensor> tensors, std::optional<Bytes> last) {
  if (!last) return 0;
  std::size_t length = 0;
  for (Bytes size; length < tensors.size() && size < *last; ++length) {
    const Tensor& t = tensors[tensors.size() - 1 - length];
    if (t.dtype != tensors.back().dtype) break;
    size += t.size();
  }
  return length;
}

struct LayerSizes {
  std::int64_t widest_in = 0;
  std::int64_t widest_out = 0;
  std::int64_t saved = 0;  // activations of one layer, a row
};

LayerSizes sizes_of(const Layers& layers) {
  LayerSizes sizes;
  for (const Matrix& m : layers.matrices()) {
    sizes.widest_in = std::max(sizes.widest_in, m.in);
    sizes.widest_out = std::max(sizes.widest_out, m.out);
    sizes.saved += m.in;
  }
  return sizes;
}

}  // namespace

std::vector<Bucket> assign_buckets(std::span<const Tensor> ready_order, const BucketLimits& limits) {
  const Bytes smallest = std::min({limits.cap, limits.first.value_or(limits.cap), limits.last.value_or(limits.cap)});
  if (smallest <= Bytes(0)) {
    throw usage_error("a bucket limit of 0 bytes is not possible", "a bucket holds at least a tensor",
                      "type 1 for a bucket a tensor");
  }
  std::vector<Bucket> closed;
  std::map<DType, Bucket> open;
  std::map<DType, Bytes> limit;  // of the open bucket
  const std::size_t tail = ready_order.size() - tail_length(ready_order, limits.last);
  const auto close_all = [&] {
    std::vector<Bucket> rest;
    for (auto& [dtype, bucket] : open) {
      if (!bucket.tensors.empty()) rest.push_back(std::move(bucket));
    }
    std::sort(rest.begin(), rest.end(),
              [](const Bucket& a, const Bucket& b) { return a.tensors.front() < b.tensors.front(); });
    std::move(rest.begin(), rest.end(), std::back_inserter(closed));
    open.clear();
  };
  for (std::size_t i = 0; i < tail; ++i) {
    const Tensor& t = ready_order[i];
    Bucket& bucket = open[t.dtype];
    bucket.dtype = t.dtype;
    bucket.tensors.push_back(i);
    bucket.size += t.size();
    Bytes& reach = limit.try_emplace(t.dtype, limits.first.value_or(limits.cap)).first->second;
    if (bucket.size < reach) continue;
    closed.push_back(std::move(bucket));
    open.erase(t.dtype);
    reach = limits.cap;
  }
  close_all();
  if (tail == ready_order.size()) return closed;
  Bucket last{.dtype = ready_order.back().dtype};
  for (std::size_t i = tail; i < ready_order.size(); ++i) {
    last.tensors.push_back(i);
    last.size += ready_order[i].size();
  }
  closed.push_back(std::move(last));
  return closed;
}

std::vector<Tensor> ddp_gradients(const DdpSpec& spec) {
  const std::vector<Tensor> one = gradients_of_layer(spec.layers, spec.dtype);
  std::vector<Tensor> all;
  for (std::int64_t layer = spec.layers.count; layer-- > 0;) {
    for (Tensor t : one) {
      t.name = fmt::format("layer{}.{}", layer, t.name);
      all.push_back(std::move(t));
    }
  }
  return all;
}

Program ddp_program(const DdpSpec& spec) {
  require(spec.ranks > 0 && spec.repeats > 0 && gemm_output(spec.dtype) == spec.dtype,
          "gradients are of one dtype, and ranks hold them");
  const Layers& layers = spec.layers;
  const std::array<Matrix, 4> matrices = layers.matrices();
  const std::vector<Tensor> tensors = ddp_gradients(spec);
  const std::vector<Bucket> buckets = assign_buckets(tensors, spec.limits);
  std::vector<std::int64_t> offsets;
  std::int64_t parameters = 0;
  for (const Tensor& t : tensors) {
    offsets.push_back(parameters);
    parameters += t.elements;
  }
  const LayerSizes sizes = sizes_of(layers);

  ProgramBuilder p("ddp", spec.ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute, .waiting = spec.waiting});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication, .waiting = spec.waiting});
  const CommId world = p.world("world", spec.transport, spec.channels);
  const auto buffer = [&](const char* name, std::int64_t count) {
    return p.buffer({.name = name, .dtype = spec.dtype, .count = count, .memory = spec.memory});
  };
  const BufferId saved = buffer("saved", layers.count * layers.tokens * sizes.saved);
  const BufferId output_gradient = buffer("output_gradient", layers.tokens * sizes.widest_out);
  const BufferId input_gradient = buffer("input_gradient", layers.tokens * sizes.widest_in);
  const BufferId small = buffer("small_gradients", std::max(sizes.widest_out, layers.hidden));
  const BufferId weights = buffer("weights", parameters);
  const BufferId gradients = buffer("gradients", parameters);
  const BufferId reduced = buffer("reduced", parameters);
  // What the optimizer updates: the weights that GEMMs read stay as they are, and every replay computes the same.
  const BufferId master = buffer("master_weights", parameters);

  Dataflow flow(p, p.all_ranks());
  // A GEMM's share of a given backward pass: both GEMMs of a matrix do the same work.
  const double flops = 2 * forward_flops(layers).value();
  const auto gemm = [&](std::int64_t m, std::int64_t n, std::int64_t k) -> Work {
    const Gemm work{m, n, k, spec.dtype};
    return spec.backward ? Work(Busy{*spec.backward * (flops_of(work).value() / flops)}) : Work(work);
  };

  std::vector<std::size_t> bucket_of(tensors.size());
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const std::size_t t : buckets[b].tensors) bucket_of[t] = b;
  }
  const auto range = [&](BufferId of, const Bucket& bucket) {
    const std::size_t last = bucket.tensors.back();
    const std::int64_t begin = offsets[bucket.tensors.front()];
    return Slice{of, begin, offsets[last] + tensors[last].elements - begin};
  };
  // One tensor's gradient, and before a matrix's that of its input. `row` is where the matrix's saved input begins.
  const auto differentiate = [&](std::size_t t, std::int64_t row) {
    const Slice gradient{gradients, offsets[t], tensors[t].elements};
    if (!tensors[t].matrix) {
      flow.add(compute, Copy{}, {{small, 0, tensors[t].elements}}, {gradient});
      return;
    }
    const Matrix& m = matrices[*tensors[t].matrix];
    const Slice dy{output_gradient, 0, layers.tokens * m.out};
    flow.add(compute, gemm(layers.tokens, m.in, m.out), {dy, {weights, offsets[t], m.weights()}},
             {{input_gradient, 0, layers.tokens * m.in}});
    flow.add(compute, gemm(m.in, m.out, layers.tokens), {{saved, layers.tokens * row, layers.tokens * m.in}, dy},
             {gradient});
  };
  for (std::int64_t repeat = 0; repeat < spec.repeats; ++repeat) {
    std::vector<std::size_t> missing;  // gradients of each bucket that are not there yet
    for (const Bucket& bucket : buckets) missing.push_back(bucket.tensors.size());
    std::size_t next = 0;  // buckets are reduced in order
    std::int64_t row = layers.count * sizes.saved;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].matrix) row -= matrices[*tensors[t].matrix].in;
      differentiate(t, row);
      --missing[bucket_of[t]];
      for (; next < buckets.size() && missing[next] == 0; ++next) {
        const Slice bucket = range(gradients, buckets[next]);
        flow.add(comm, Collective{CollectiveKind::all_reduce, world, spec.dtype, bucket.count}, {bucket},
                 {range(reduced, buckets[next])});
      }
    }
    for (const Bucket& bucket : buckets) {
      flow.add(compute, Elementwise{}, {range(reduced, bucket)}, {range(master, bucket)});
    }
  }
  std::move(flow).finish();
  Program program = std::move(p).finish();
  fill_what_is_read(program);
  verify_what_lasts(program);
  return program;
}

Program ddp_program(const DdpWhatIf& what_if, int ranks) {
  if (what_if.buckets < 1) {
    throw usage_error(fmt::format("{} buckets are not possible", what_if.buckets),
                      "the gradients are sent in one or more", "type for example --equal-buckets 45");
  }
  ProgramBuilder p("ddp", ranks);
  const LaneId compute = p.lane({.name = "compute", .role = Role::compute});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const BufferId gradients = p.buffer({.name = "gradients", .count = what_if.buckets});
  const BufferId reduced = p.buffer({.name = "reduced", .count = what_if.buckets});
  Dataflow flow(p, p.all_ranks());
  const auto n = static_cast<double>(what_if.buckets);
  for (std::int64_t k = 0; k < what_if.buckets; ++k) {
    flow.add(compute, Busy{what_if.backward / n}, {}, {{gradients, k, 1}});
    flow.add(comm, Busy{what_if.alpha + what_if.wire / n}, {{gradients, k, 1}}, {{reduced, k, 1}});
  }
  std::move(flow).finish();
  return std::move(p).finish();
}

}  // namespace ovl
