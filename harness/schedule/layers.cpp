// SPDX-License-Identifier: Apache-2.0
#include "schedule/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.hpp"
#include "schedule/models.hpp"

namespace ovl {
namespace {

constexpr std::string_view example = "type for example --layers gpt2-small:4@256";

const Transformer& dense_model(std::string_view name) {
  std::vector<std::string> known;
  for (const Transformer& t : transformers()) {
    if (t.experts == 1) known.emplace_back(t.name);
    if (t.name != name) continue;
    if (t.experts > 1) {
      throw usage_error(fmt::format("the layers of {} choose among {} experts", name, t.experts),
                        "these schedules run every weight on every token",
                        "take a dense model, such as --layers llama3-8b:2");
    }
    return t;
  }
  throw unknown_value("model", name, known);
}

// More layers than any model has: what is checked of a schedule grows faster than their number.
constexpr std::int64_t most_layers = 1024;
constexpr std::int64_t most_tokens = std::int64_t{1} << 24;

std::int64_t count(std::string_view digits, std::string_view what, std::int64_t most, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 1 || value > most) {
    throw usage_error(fmt::format("\"{}\" in \"{}\" is not a number of {}", digits, text, what),
                      fmt::format("it is a whole number from 1 to {}", most), example);
  }
  return value;
}

std::int64_t scaled(std::int64_t width, double scale) {
  constexpr std::int64_t multiple = 16;
  if (scale == 1) return width;
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(width) * scale / multiple)) * multiple;
}

}  // namespace

std::array<Matrix, 4> Layers::matrices() const {
  return {{{"qkv", hidden, qkv},
           {"proj", hidden, hidden},
           {"mlp", hidden, gated ? 2 * inner : inner},
           {"down", inner, hidden}}};
}

Layers parse_layers(std::string_view text, double scale) {
  if (!(scale > 0 && scale <= 1)) {
    throw usage_error(fmt::format("scale {} is not possible", scale), "it makes widths narrower: above 0, at most 1",
                      "type for example --scale 0.25");
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    throw usage_error(fmt::format("layers \"{}\" do not say how many", text), "it takes a model and a number", example);
  }
  const Transformer& model = dense_model(text.substr(0, colon));
  const auto width = static_cast<double>(model.hidden);
  if (width * scale < 1) {
    throw usage_error(fmt::format("scale {} leaves nothing of {}'s width of {}", scale, model.name, model.hidden),
                      fmt::format("widths are 16 or more, which is {:.2g} of it", 16 / width),
                      "type for example --scale 0.25");
  }
  const std::string_view rest = text.substr(colon + 1);
  const std::size_t at = rest.find('@');
  const std::int64_t kv = model.hidden / model.heads * model.kv_heads;
  return {
      .model = std::string(model.name),
      .count = count(rest.substr(0, at), "layers", most_layers, text),
      .tokens = at == std::string_view::npos ? model.tokens : count(rest.substr(at + 1), "tokens", most_tokens, text),
      .hidden = scaled(model.hidden, scale),
      .qkv = scaled(model.hidden + 2 * kv, scale),
      .inner = scaled(model.ffn, scale),
      .gated = model.gated,
      .biased = model.biased};
}

Flops forward_flops(const Layers& layers) {
  double weights = 0;
  for (const Matrix& m : layers.matrices()) weights += static_cast<double>(m.weights());
  return Flops(2.0 * static_cast<double>(layers.count) * static_cast<double>(layers.tokens) * weights);
}

std::vector<Tensor> gradients_of_layer(const Layers& layers, DType dtype) {
  const std::array<Matrix, 4> matrices = layers.matrices();
  std::vector<Tensor> tensors;
  for (std::size_t i = matrices.size(); i-- > 0;) {
    const Matrix& m = matrices[i];
    if (layers.biased) tensors.push_back({fmt::format("{}.bias", m.name), m.out, dtype, {}});
    tensors.push_back({fmt::format("{}.weight", m.name), m.weights(), dtype, i});
    // A norm comes before the attention and before the feed-forward part.
    if (i % 2 != 0) continue;
    if (layers.biased) tensors.push_back({fmt::format("norm{}.bias", i / 2 + 1), layers.hidden, dtype, {}});
    tensors.push_back({fmt::format("norm{}.weight", i / 2 + 1), layers.hidden, dtype, {}});
  }
  return tensors;
}

}  // namespace ovl
