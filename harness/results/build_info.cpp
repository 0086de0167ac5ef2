// SPDX-License-Identifier: Apache-2.0
#include "results/build_info.hpp"

namespace ovl {

bool release_build(const BuildInfo& build) {
  return build.build_type == "Release" && build.sanitizers.empty() && !build.assertions;
}

}  // namespace ovl
