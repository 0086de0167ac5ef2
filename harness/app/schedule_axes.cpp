// SPDX-License-Identifier: Apache-2.0
#include "app/schedule_axes.hpp"

#include <fmt/format.h>

#include <charconv>

#include "backend/distributed.hpp"
#include "base/error.hpp"
#include "measure/step_costs.hpp"
#include "measure/summary.hpp"
#include "measure/verify.hpp"

namespace ovl {
namespace {

template <class Number>
Number parse_number(const std::string& text, std::string_view what, std::string_view instead) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    throw usage_error(fmt::format("{} \"{}\" is out of range", what, text), "", instead);
  }
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw usage_error(fmt::format("{} \"{}\" is not a number", what, text), "", instead);
  }
  return value;
}

}  // namespace

Axis layers_axis(const std::string& fallback) {
  return {"layers", "layers of real models: model:layers or model:layers@tokens", fallback};
}
Axis scale_axis() { return {"scale", "makes their widths narrower to fit the machine, above 0 and at most 1", "0.25"}; }

std::int64_t parse_at_least(const std::string& text, std::string_view what, std::int64_t least,
                            std::string_view instead) {
  const auto count = parse_number<std::int64_t>(text, what, instead);
  constexpr std::int64_t most = 1 << 20;
  if (count < least || count > most) {
    throw usage_error(fmt::format("{} {} is not possible", what, count),
                      fmt::format("it is from {} to {}", least, most), instead);
  }
  return count;
}

double parse_scale(const std::string& text) {
  return parse_number<double>(text, "scale", "type for example --scale 0.25");
}

Layers parse_scaled_layers(const std::string& layers, const std::string& scale) {
  return parse_layers(layers, parse_scale(scale));
}

DType parse_product_dtype(const std::string& dtype, std::string_view what) {
  const auto parsed = parse_enum<DType>(dtype);
  if (gemm_output(parsed) == parsed) return parsed;
  throw usage_error(fmt::format("{} of {} are not possible", what, dtype), "its products are of another dtype",
                    "type for example --dtype bf16");
}

std::optional<Bytes> memory_of_rank(const CaseContext& context, int ranks) {
  const Bytes all = context.backend.memory;
  if (all <= Bytes(0)) return std::nullopt;
  return all / rank_block(0, context.processes, ranks).count;
}

std::vector<Column> step_columns() {
  std::vector<Column> columns{
      {"layers", ColumnType::text, "", "model, layers and tokens as asked for"},
      {"scale", ColumnType::real, "1", "of the widths"},
      {"dtype", ColumnType::text, "", "of everything"},
      {"memory", ColumnType::integer, "B", "buffers of a rank"},
      {"model_flops", ColumnType::real, "FLOP", "what the model needs of a rank, a step"},
      {"hardware_flops", ColumnType::real, "FLOP", "what a rank's GEMMs do, a step: more where it computes again"},
      {"gemm_rate", ColumnType::real, "FLOP/s", "hardware_flops / t_compute"}};
  for (Column& column : step_cost_columns()) columns.push_back(std::move(column));
  return columns;
}

void ask_about_step(CaseSpec& spec, const std::string& layers, const std::string& scale, const Program& step,
                    Flops model, std::vector<std::string> results) {
  const Flops hardware(2 * products_of(step) / step.ranks);
  spec.by_operation = true;
  spec.results = std::move(results);
  spec.asked.insert(spec.asked.end(), {{"layers", layers},
                                       {"scale", parse_scale(scale)},
                                       {"dtype", std::string(name(step.buffers.front().dtype))},
                                       {"memory", memory_per_rank(step).value()},
                                       {"model_flops", model.value()},
                                       {"hardware_flops", hardware.value()}});
  spec.derive = [own = std::move(spec.derive), hardware](const Summary& s) {
    std::vector<std::pair<std::string, Value>> values{{"gemm_rate", (hardware / s.times.compute).value()}};
    for (auto& value : step_cost_values(s)) values.push_back(std::move(value));
    if (!own) return values;
    for (auto& value : own(s)) values.push_back(std::move(value));
    return values;
  };
}

}  // namespace ovl
