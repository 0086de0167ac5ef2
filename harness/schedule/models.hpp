// SPDX-License-Identifier: Apache-2.0
//
// Real work by name: the shapes and message sizes of well-known models, so that a user can ask for "the MLP of GPT-2"
// and a default run measures something that somebody trains. One table, with its sources; parameter counts follow from
// it and equal the published ones.
//
// Conventions: gradients, weights and activations are counted in bf16, 2 bytes each, whatever dtype a run computes in.
// Tokens are those of one sequence at the model's training length on one rank, unless "@tokens" says otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace ovl {

struct Transformer {
  std::string_view name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // fewer than heads: grouped-query attention
  std::int64_t ffn = 0;       // inner width of the feed-forward part, of one expert
  std::int64_t vocab = 0;
  std::int64_t tokens = 0;       // one training sequence
  std::int64_t positions = 0;    // learned position embeddings; 0: rotary
  std::int64_t token_types = 0;  // learned segment embeddings
  std::int64_t experts = 1;      // feed-forward parts that a router chooses from
  std::int64_t experts_per_token = 1;
  bool gated = false;      // SwiGLU: gate and up, then down; else up, then down
  bool biased = false;     // linear layers have biases, and norms a shift beside their scale
  bool tied_head = false;  // the output layer is the token embedding
  bool pooler = false;     // a last hidden × hidden layer
};

std::span<const Transformer> transformers();

std::int64_t parameters_per_layer(const Transformer& model);
std::int64_t parameters(const Transformer& model);

// The convolutional one: 25,557,032 parameters (He et al., "Deep residual learning for image recognition", 2015, as in
// torchvision).
std::int64_t resnet50_parameters();

// c (m×n) = a (m×k) · b (k×n).
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

// "4096x4096x4096" is m×n×k. Or a layer of a model, m being the tokens: "<layer>:<model>" or "<layer>:<model>@<tokens>"
//   qkv    n = hidden + 2 · kv width, k = hidden    query, key and value in one
//   proj   n = hidden, k = hidden                   attention output
//   mlp    n = ffn, k = hidden                      into the feed-forward part; `ffn` is another spelling
//   down   n = hidden, k = ffn                      out of it
//   head   n = vocab, k = hidden                    output layer
// Where the feed-forward part is gated, mlp is gate and up in one, n = 2 · ffn, as Megatron-LM and vLLM run it. Where
// it is chosen by a router, m of mlp and down is one expert's share of the tokens, evenly routed. Throws a usage Error
// for a size that is not a whole number from 1 to 2^31 - 1 (BLAS counts in 32 bits), for a matrix beyond 2^60 elements,
// and for an unknown name, offering the nearest.
GemmShape named_gemm(std::string_view text);
std::vector<std::string> gemm_names();

// PyTorch DDP, torch/csrc/distributed/c10d/reducer.hpp: kDefaultBucketBytesCap and kDefaultFirstBucketBytes.
inline constexpr Bytes ddp_default_bucket = mebibytes(25);
inline constexpr Bytes ddp_first_bucket = mebibytes(1);

// A plain size (parse_bytes), or a message that a training step sends:
//   bucket:ddp-default, bucket:ddp-first   gradient buckets of PyTorch DDP
//   layer:<model>                          gradients of one transformer layer
//   model:<model>                          all gradients
//   activation:<model>[@<tokens>]          tokens × hidden: a tensor-parallel all_reduce, a pipeline send
//   dispatch:<model>[@<tokens>]            tokens × experts per token × hidden: a mixture-of-experts all_to_all
Bytes named_message(std::string_view text);
std::vector<std::string> message_names();

// A comma-separated list of the above and of ranges "64KiB:256MiB:x4" (times a whole factor) or "1MiB:4MiB:+1MiB",
// which include their end where a step meets it. Throws a usage Error for a range that does not progress or has over
// 1000 sizes.
std::vector<Bytes> parse_byte_list(std::string_view text);

}  // namespace ovl
