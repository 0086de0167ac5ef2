// SPDX-License-Identifier: Apache-2.0
#include "measure/case.hpp"

namespace ovl {

CaseArm case_arm(Arm projection, std::string name) {
  const bool stamps = projection == Arm::compute || projection == Arm::comm || projection == Arm::overlapped;
  return {
      .name = name.empty() ? std::string(ovl::name(projection)) : std::move(name),
      .program = [projection](const Program& placed, const Tuning& /*tuning*/) { return project(placed, projection); },
      .instrumented = stamps};
}

std::vector<CaseArm> usual_arms() {
  std::vector<CaseArm> arms;
  for (const auto& [arm, text] : EnumNames<Arm>::table) arms.push_back(case_arm(arm));
  return arms;
}

}  // namespace ovl
