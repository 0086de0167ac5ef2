// SPDX-License-Identifier: Apache-2.0
//
// What every backend must do, asked of the cuda backend as users get it: the module, loaded by name. On a real GPU
// (ctest -L gpu) and on the emulated one. Without a device everything here is skipped.
#include <gtest/gtest.h>

#include "app/backends.hpp"
#include "backend/conformance.hpp"
#include "backend/world.hpp"

namespace ovl {
namespace {

std::unique_ptr<Backend> open_cuda_module() {
  static const std::unique_ptr<World> world = make_solo_world();
  static const BackendRegistry backends = known_backends();
  const BackendEntry* cuda = backends.find("cuda");
  const std::string reason = cuda->unusable();
  return reason.empty() ? cuda->open(*world, {}) : nullptr;
}

// Host stamps and device events are from different clocks; starts are CUPTI's to see, which a node may forbid.
INSTANTIATE_TEST_SUITE_P(cuda_module, BackendConformance,
                         testing::Values(BackendUnderTest{.name = "cuda",
                                                          .transport = "nccl",
                                                          .open = open_cuda_module,
                                                          .waitings = {Waiting::yield},
                                                          .sees_starts = false,
                                                          .one_clock = false}),
                         subject);

}  // namespace
}  // namespace ovl
