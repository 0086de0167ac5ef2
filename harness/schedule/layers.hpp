// SPDX-License-Identifier: Apache-2.0
//
// The work of a stack of transformer layers, as the training schedules (ddp, fsdp, tensor_parallel, pipeline) divide
// it. One layer is four matrices, applied in this order to `tokens` rows:
//   qkv    hidden -> query, key and value in one     proj   hidden -> hidden
//   mlp    hidden -> inner width (both where gated)  down   inner width -> hidden
// Attention itself, norms and activation functions are left out: they move no weights and no gradients.
//
// What a GEMM reads: a schedule's GEMMs read what collectives and transfers brought, and otherwise operands that the
// prologue filled, not each other's products. Products of unscaled random numbers grow by the square root of the inner
// dimension each, so a few dozen in a row overflow; the lane's order is the same either way. Operands are read as they
// lie: a transposed one is the same elements as another matrix.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace ovl {

struct Matrix {
  std::string_view name;
  std::int64_t in = 0;
  std::int64_t out = 0;

  [[nodiscard]] std::int64_t weights() const { return in * out; }
};

struct Layers {
  std::string model;  // whose layers, for people
  std::int64_t count = 1;
  std::int64_t tokens = 1;  // rows on one rank: of a microbatch, where there are several
  std::int64_t hidden = 1;
  std::int64_t qkv = 1;    // width of query, key and value together
  std::int64_t inner = 1;  // width of the feed-forward part
  bool gated = false;      // mlp is gate and up in one, twice as wide
  bool biased = false;     // matrices have biases, and norms a shift

  [[nodiscard]] std::array<Matrix, 4> matrices() const;
};

// "<model>:<layers>" or "<model>:<layers>@<tokens>", as in --layers gpt2-small:4@256; without tokens the model's own.
// `scale`, above 0 and at most 1, makes all widths narrower to fit a machine, rounded to a multiple of 16: weights and
// FLOPs shrink with its square. Throws Error(usage) for what is not as above and for models whose layers choose
// experts.
Layers parse_layers(std::string_view text, double scale);

// 2 · tokens · weights of each: a forward pass over all layers; a backward pass takes twice that.
Flops forward_flops(const Layers& layers);

// ---- gradients and their buckets -----------------------------------------------------------------------------------

struct Tensor {
  std::string name;
  std::int64_t elements = 0;
  DType dtype = DType::f32;
  // Whose gradient it is: the matrix of the layer, or none for a bias or a norm.
  std::optional<std::size_t> matrix;

  [[nodiscard]] Bytes size() const { return size_of(dtype) * elements; }
};

// The parameters of one layer in the order in which the backward pass has their gradients ready: that of definition,
// reversed. They add up to the model's parameters per layer.
std::vector<Tensor> gradients_of_layer(const Layers& layers, DType dtype);

}  // namespace ovl
