// SPDX-License-Identifier: Apache-2.0
#include "schedule/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/error.hpp"

namespace ovl {
namespace {

constexpr std::array<Transformer, 8> table{{
    // Devlin et al., "BERT", arXiv 1810.04805; google-research/bert, bert_config.json of uncased_L-24_H-1024_A-16.
    {.name = "bert-large",
     .layers = 24,
     .hidden = 1024,
     .heads = 16,
     .kv_heads = 16,
     .ffn = 4096,
     .vocab = 30522,
     .tokens = 512,
     .positions = 512,
     .token_types = 2,
     .biased = true,
     .tied_head = true,
     .pooler = true},
    // Radford et al., "Language models are unsupervised multitask learners", 2019, table 2; openai/gpt-2, hparams.json.
    {.name = "gpt2-small",
     .layers = 12,
     .hidden = 768,
     .heads = 12,
     .kv_heads = 12,
     .ffn = 3072,
     .vocab = 50257,
     .tokens = 1024,
     .positions = 1024,
     .biased = true,
     .tied_head = true},
    {.name = "gpt2-medium",
     .layers = 24,
     .hidden = 1024,
     .heads = 16,
     .kv_heads = 16,
     .ffn = 4096,
     .vocab = 50257,
     .tokens = 1024,
     .positions = 1024,
     .biased = true,
     .tied_head = true},
    {.name = "gpt2-large",
     .layers = 36,
     .hidden = 1280,
     .heads = 20,
     .kv_heads = 20,
     .ffn = 5120,
     .vocab = 50257,
     .tokens = 1024,
     .positions = 1024,
     .biased = true,
     .tied_head = true},
    {.name = "gpt2-xl",
     .layers = 48,
     .hidden = 1600,
     .heads = 25,
     .kv_heads = 25,
     .ffn = 6400,
     .vocab = 50257,
     .tokens = 1024,
     .positions = 1024,
     .biased = true,
     .tied_head = true},
    // Touvron et al., "Llama 2", arXiv 2307.09288; meta-llama/Llama-2-7b, config.json.
    {.name = "llama2-7b",
     .layers = 32,
     .hidden = 4096,
     .heads = 32,
     .kv_heads = 32,
     .ffn = 11008,
     .vocab = 32000,
     .tokens = 4096,
     .gated = true},
    // Grattafiori et al., "The Llama 3 herd of models", arXiv 2407.21783, table 3; meta-llama/Meta-Llama-3-8B,
    // config.json.
    {.name = "llama3-8b",
     .layers = 32,
     .hidden = 4096,
     .heads = 32,
     .kv_heads = 8,
     .ffn = 14336,
     .vocab = 128256,
     .tokens = 8192,
     .gated = true},
    // Jiang et al., "Mixtral of experts", arXiv 2401.04088, table 1.
    {.name = "mixtral-8x7b",
     .layers = 32,
     .hidden = 4096,
     .heads = 32,
     .kv_heads = 8,
     .ffn = 14336,
     .vocab = 32000,
     .tokens = 32768,
     .experts = 8,
     .experts_per_token = 2,
     .gated = true},
}};

constexpr std::string_view resnet50 = "resnet50";
constexpr Bytes bf16{2};
constexpr std::int64_t largest_dimension = std::numeric_limits<std::int32_t>::max();

std::int64_t kv_width(const Transformer& model) { return model.hidden / model.heads * model.kv_heads; }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// A whole number from 1 to `most`. `what` names it, `instead` says what to type.
std::int64_t parse_count(std::string_view digits, std::int64_t most, const std::string& what,
                         std::string_view instead) {
  std::int64_t count = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, ec] = std::from_chars(digits.data(), end, count);
  const bool whole = rest == end && !digits.empty();
  if (whole && (ec == std::errc::result_out_of_range ? digits.front() != '-' : count > most)) {
    throw usage_error(what + " is too large", fmt::format("it is at most {}", most), instead);
  }
  if (ec != std::errc{} || !whole || count < 1) {
    throw usage_error(what + " is not a positive whole number", "", instead);
  }
  return count;
}

// "kind:model@tokens"; the tokens are empty where they were not given.
struct Name {
  std::string_view kind;
  std::string_view model;
  std::optional<std::int64_t> tokens;
};

Name split_name(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view name = text.substr(0, at);
  const std::size_t colon = name.find(':');
  Name parsed{name.substr(0, colon), colon == std::string_view::npos ? "" : name.substr(colon + 1), {}};
  if (at != std::string_view::npos) {
    parsed.tokens = parse_count(text.substr(at + 1), largest_dimension, fmt::format("number of tokens in \"{}\"", text),
                                fmt::format("type for example {}@512", name));
  }
  return parsed;
}

const Transformer* find(std::string_view model) {
  const auto* found = std::find_if(table.begin(), table.end(), [&](const Transformer& t) { return t.name == model; });
  return found == table.end() ? nullptr : found;
}

// What a layer of a model multiplies by: one row of it times k × n.
struct LayerKind {
  std::string_view name;
  bool routed;  // an expert sees only its share of the tokens
  std::int64_t (*n)(const Transformer&);
  std::int64_t (*k)(const Transformer&);
};

std::int64_t hidden(const Transformer& t) { return t.hidden; }
std::int64_t inner(const Transformer& t) { return t.ffn; }
std::int64_t into_ffn(const Transformer& t) { return (t.gated ? 2 : 1) * t.ffn; }
std::int64_t qkv_width(const Transformer& t) { return t.hidden + 2 * kv_width(t); }
std::int64_t vocab(const Transformer& t) { return t.vocab; }

constexpr std::array<LayerKind, 6> layer_kinds{{{"qkv", false, qkv_width, hidden},
                                                {"proj", false, hidden, hidden},
                                                {"mlp", true, into_ffn, hidden},
                                                {"ffn", true, into_ffn, hidden},
                                                {"down", true, hidden, inner},
                                                {"head", false, vocab, hidden}}};

GemmShape parse_shape(std::string_view text) {
  constexpr std::string_view instead = "type m x n x k, for example 4096x4096x4096, or a layer such as mlp:gpt2-small";
  const std::vector<std::string_view> sizes = split(text, 'x');
  if (sizes.size() != 3)
    throw usage_error(fmt::format("gemm \"{}\" is not a shape", text), "it needs three sizes", instead);
  const auto dimension = [&](std::size_t i) {
    return parse_count(sizes[i], largest_dimension, fmt::format("size \"{}\" in gemm \"{}\"", sizes[i], text), instead);
  };
  return {dimension(0), dimension(1), dimension(2)};
}

// No product of two sizes, times the bytes of an element, may overflow.
GemmShape checked(GemmShape shape, std::string_view text) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  const auto& [m, n, k] = shape;
  if (m > most / k || n > most / k || m > most / n) {
    throw usage_error(fmt::format("gemm \"{}\" is too large", text), "a matrix has at most 2^60 elements",
                      "use smaller sizes");
  }
  return shape;
}

std::vector<Bytes> parse_range(std::string_view text, std::string_view first, std::string_view last,
                               std::string_view step) {
  constexpr std::size_t most = 1000;
  const std::string example = "type for example 64KiB:256MiB:x4 or 1MiB:4MiB:+1MiB";
  const std::string range = fmt::format("range \"{}\"", text);
  const Bytes start = parse_bytes(first);
  const Bytes end = parse_bytes(last);
  if (end < start) {
    throw usage_error(range + " does not progress", "it ends below its start",
                      fmt::format("type {}:{}:{}", last, first, step));
  }
  const bool times = step.starts_with('x');
  if (!times && !step.starts_with('+')) {
    throw usage_error(fmt::format("{} has the unknown step \"{}\"", range, step),
                      "a step is x and a factor, or + and a size", example);
  }
  const std::string_view amount = step.substr(1);
  const std::int64_t factor =
      times ? parse_count(amount, std::numeric_limits<std::int64_t>::max(), "factor of " + range, example) : 1;
  const Bytes increment = times ? Bytes(0) : parse_bytes(amount);
  if (times && factor == 1) {
    throw usage_error(range + " does not progress", "times 1 repeats the start", example);
  }
  std::vector<Bytes> sizes;
  for (Bytes size = start;;) {
    if (sizes.size() == most) {
      throw usage_error(fmt::format("{} has more than {} sizes", range, most), "", "take larger steps");
    }
    sizes.push_back(size);
    // Compared before stepping, so that no step overflows.
    if (times ? size.value() > end.value() / factor : size > end - increment) return sizes;
    size = times ? size * factor : size + increment;
  }
}

}  // namespace

std::span<const Transformer> transformers() { return table; }

std::int64_t parameters_per_layer(const Transformer& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t matrices = h * qkv_width(model) + h * h + (h * into_ffn(model) + model.ffn * h) * model.experts;
  const std::int64_t biases = qkv_width(model) + h + into_ffn(model) + h;
  const std::int64_t router = model.experts > 1 ? h * model.experts : 0;
  const std::int64_t norms = 2 * h;
  return matrices + router + norms + (model.biased ? biases + norms : 0);
}

std::int64_t parameters(const Transformer& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t embeddings = (model.vocab + model.positions + model.token_types) * h;
  const std::int64_t head = model.tied_head ? 0 : model.vocab * h;
  const std::int64_t pooler = model.pooler ? h * h + h : 0;
  const std::int64_t norm = model.biased ? 2 * h : h;  // of the embeddings in BERT, of the output elsewhere
  return embeddings + model.layers * parameters_per_layer(model) + head + pooler + norm;
}

std::int64_t resnet50_parameters() {
  const auto convolution = [](std::int64_t in, std::int64_t out, std::int64_t size) {
    return in * out * size * size + 2 * out;  // followed by a batch norm's scale and shift
  };
  struct Stage {
    std::int64_t width;
    int blocks;
  };
  constexpr std::array<Stage, 4> stages{{{64, 3}, {128, 4}, {256, 6}, {512, 3}}};
  constexpr std::int64_t classes = 1000;
  std::int64_t channels = 64;
  std::int64_t total = convolution(3, channels, 7);
  for (const auto& [width, blocks] : stages) {
    total += convolution(channels, 4 * width, 1);  // the shortcut of the stage's first block
    for (int block = 0; block < blocks; ++block) {
      total += convolution(channels, width, 1) + convolution(width, width, 3) + convolution(width, 4 * width, 1);
      channels = 4 * width;
    }
  }
  return total + channels * classes + classes;
}

GemmShape named_gemm(std::string_view text) {
  if (text.find(':') == std::string_view::npos) return checked(parse_shape(text), text);
  const Name name = split_name(text);
  const Transformer* model = find(name.model);
  const auto* kind =
      std::find_if(layer_kinds.begin(), layer_kinds.end(), [&](const LayerKind& l) { return l.name == name.kind; });
  if (model == nullptr || kind == layer_kinds.end()) throw unknown_value("gemm", text, gemm_names());
  std::int64_t m = name.tokens.value_or(model->tokens);
  if (kind->routed) m = (m * model->experts_per_token + model->experts - 1) / model->experts;
  return checked({m, kind->n(*model), kind->k(*model)}, text);
}

std::vector<std::string> gemm_names() {
  std::vector<std::string> names;
  for (const Transformer& model : table) {
    for (const LayerKind& kind : layer_kinds) names.push_back(fmt::format("{}:{}", kind.name, model.name));
  }
  return names;
}

Bytes named_message(std::string_view text) {
  if (text.find(':') == std::string_view::npos) return parse_bytes(text);
  if (text == "bucket:ddp-default") return ddp_default_bucket;
  if (text == "bucket:ddp-first") return ddp_first_bucket;
  const Name name = split_name(text);
  const bool takes_tokens = name.kind == "activation" || name.kind == "dispatch";
  if (!name.tokens || takes_tokens) {
    if (name.kind == "model" && name.model == resnet50) return bf16 * resnet50_parameters();
    if (const Transformer* model = find(name.model)) {
      const std::int64_t tokens = name.tokens.value_or(model->tokens);
      if (name.kind == "layer") return bf16 * parameters_per_layer(*model);
      if (name.kind == "model") return bf16 * parameters(*model);
      if (name.kind == "activation") return bf16 * tokens * model->hidden;
      if (name.kind == "dispatch" && model->experts > 1) {
        return bf16 * tokens * model->experts_per_token * model->hidden;
      }
    }
  }
  throw unknown_value("message", text, message_names());
}

std::vector<std::string> message_names() {
  std::vector<std::string> names{"bucket:ddp-default", "bucket:ddp-first", fmt::format("model:{}", resnet50)};
  for (const Transformer& model : table) {
    for (const std::string_view kind : {"layer", "model", "activation"}) {
      names.push_back(fmt::format("{}:{}", kind, model.name));
    }
    if (model.experts > 1) names.push_back(fmt::format("dispatch:{}", model.name));
  }
  return names;
}

std::vector<Bytes> parse_byte_list(std::string_view text) {
  std::vector<Bytes> sizes;
  for (const std::string_view item : split(text, ',')) {
    const std::vector<std::string_view> parts = split(item, ':');
    const bool number = !item.empty() && (item.front() == '-' || (item.front() >= '0' && item.front() <= '9'));
    if (number && parts.size() == 2) {
      throw usage_error(fmt::format("range \"{}\" has no step", item), "", fmt::format("type for example {}:x4", item));
    }
    if (number && parts.size() == 3) {
      const std::vector<Bytes> range = parse_range(item, parts[0], parts[1], parts[2]);
      sizes.insert(sizes.end(), range.begin(), range.end());
    } else {
      sizes.push_back(named_message(item));
    }
  }
  return sizes;
}

}  // namespace ovl
