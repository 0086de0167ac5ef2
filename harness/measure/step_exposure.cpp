// SPDX-License-Identifier: Apache-2.0
#include "measure/step_exposure.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "measure/summary.hpp"

namespace ovl {
namespace {

const std::string without_tensor = "without_tensor";
const std::string without_data = "without_data";
const std::string without_both = "without_tensor_and_data";

// The collectives that a way of cutting has; empty: the step is not cut that way.
std::vector<std::string> collectives_of_tensor(const TrainingStepSpec& step) {
  return step.tensor > 1 ? std::vector<std::string>{tensor_communicator} : std::vector<std::string>{};
}
std::vector<std::string> collectives_of_data(const TrainingStepSpec& step) {
  if (step.data == 1) return {};
  if (step.mode == DataParallelMode::ddp) return {data_communicator};
  return {data_communicator, gather_communicator};
}

CaseArm arm_without(const std::string& name, std::vector<std::string> communicators) {
  return {.name = name, .program = [communicators = std::move(communicators)](const Program& placed, const Tuning&) {
            return without_collectives(placed, communicators);
          }};
}

std::string overlapped() { return std::string(name(Arm::overlapped)); }

double own(const Summary& s, const std::string& column) {
  for (const auto& [known, estimate] : s.own) {
    if (known == column) return estimate.value;
  }
  return unknown_number;
}

// What the parts do not add up to.
double together_of(const Summary& s) {
  double parts = 0;
  for (const char* column : {"exposed_tensor", "exposed_data", "exposed_pipeline"}) {
    if (const double part = own(s, column); !std::isnan(part)) parts += part;
  }
  return (s.times.step - s.times.compute).value() - parts;
}

std::string exposure_words(const Summary& s) {
  const double step = s.times.step.value();
  std::string text = fmt::format("computes {:.1f} % of the step", 100 * s.times.compute.value() / step);
  for (const auto& [column, what] :
       {std::pair{"exposed_tensor", "tensor"}, {"exposed_pipeline", "pipeline"}, {"exposed_data", "data"}}) {
    const double exposed = own(s, column);
    if (!std::isnan(exposed)) text += fmt::format(", {} exposes {:.1f} %", what, 100 * exposed / step);
  }
  const double together = together_of(s);
  if (std::fabs(together) > 0.005 * step) text += fmt::format(", together {:.1f} % more", 100 * together / step);
  return text;
}

}  // namespace

void ask_for_exposure(CaseSpec& spec, const TrainingStepSpec& step) {
  const std::vector<std::string> tensor = collectives_of_tensor(step);
  const std::vector<std::string> data = collectives_of_data(step);
  std::vector<std::string> both = tensor;
  both.insert(both.end(), data.begin(), data.end());
  const bool pipelined = step.shape.stages > 1;

  spec.tuned = false;
  spec.arms = {case_arm(Arm::empty), case_arm(Arm::compute)};
  if (!both.empty() || pipelined) spec.arms.push_back(case_arm(Arm::comm));
  if (!pipelined) spec.arms.push_back(case_arm(Arm::serial));
  if (!tensor.empty()) spec.arms.push_back(arm_without(without_tensor, tensor));
  if (!data.empty()) spec.arms.push_back(arm_without(without_data, data));
  const bool both_apart = pipelined && !both.empty();
  if (both_apart) spec.arms.push_back(arm_without(without_both, both));
  spec.arms.push_back(case_arm(Arm::overlapped));

  const auto beyond = [](const std::string& whole, const std::string& less) {
    return [=](const ArmMedians& medians) { return (medians.step(whole) - medians.step(less)).value(); };
  };
  const std::string compute(name(Arm::compute));
  spec.estimates.clear();
  if (!tensor.empty()) spec.estimates.push_back({"exposed_tensor", beyond(overlapped(), without_tensor)});
  if (!data.empty()) spec.estimates.push_back({"exposed_data", beyond(overlapped(), without_data)});
  if (pipelined) {
    spec.estimates.push_back({"exposed_pipeline", beyond(both_apart ? without_both : overlapped(), compute)});
  }
  spec.derive = [](const Summary& s) -> std::vector<std::pair<std::string, Value>> {
    return {{"exposed_together", together_of(s)}};
  };
  spec.words = exposure_words;
}

std::vector<Column> exposure_columns() {
  std::vector<Column> columns;
  const auto with_interval = [&](const std::string& column, const std::string& help) {
    columns.push_back({column, ColumnType::real, "s", help});
    columns.push_back({column + "_low", ColumnType::real, "s", "lower end of the 95 % interval of " + column});
    columns.push_back({column + "_high", ColumnType::real, "s", "upper end of the 95 % interval of " + column});
  };
  with_interval("exposed_tensor", "t_step beyond the step whose tensor parallel collectives take no time");
  with_interval("exposed_data", "t_step beyond the step whose gradient (and weight) collectives take no time");
  with_interval("exposed_pipeline", "the step without both beyond t_compute: bubble and transfers");
  columns.push_back(
      {"exposed_together", ColumnType::real, "s",
       "t_step - t_compute beyond these three: what two of them expose only together, or below 0, twice"});
  return columns;
}

}  // namespace ovl
