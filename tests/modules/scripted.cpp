// SPDX-License-Identifier: Apache-2.0
//
// A module whose backend follows a script and has no device, in the place of cuda's: one process or several. What shall
// go wrong is in OVL_SCRIPTED as "<what>:<process>":
//   unusable, fail (a replay), hang (a replay), stuck (in a replay that no abort ends), die (in a replay), unsupported,
//   slow (until somebody interrupts it)
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "backend/registry.hpp"
#include "base/error.hpp"
#include "support/scripted.hpp"

#ifndef OVL_MODULE_VERSION
#define OVL_MODULE_VERSION ovl::module_version
#endif

namespace {

using namespace ovl;

std::string trouble_of(int process) {
  const char* text = std::getenv("OVL_SCRIPTED");
  const std::string trouble = text == nullptr ? "" : text;
  const std::string suffix = ":" + std::to_string(process);
  return trouble.ends_with(suffix) ? trouble.substr(0, trouble.size() - suffix.size()) : "";
}

std::unique_ptr<Backend> open(World& world, const SessionOptions& /*options*/) {
  static test::ScriptedClock clock;
  test::Script script = test::constant(milliseconds(10), milliseconds(10), milliseconds(13), milliseconds(12));
  const std::string trouble = trouble_of(world.process());
  if (trouble == "unsupported") script.unsupported = [](const Program&) { return std::string("not on a Sunday"); };
  if (trouble == "hang") script.hanging_replay = 0;
  script.on_replay = [trouble](Arm arm) {
    if (arm != Arm::overlapped) return;
    if (trouble == "fail") throw failure("a lane broke", "", "");
    while (trouble == "stuck") std::this_thread::sleep_for(std::chrono::hours(1));
    if (trouble == "die") std::raise(SIGKILL);
    if (trouble == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  return test::part_of(std::make_unique<test::ScriptedBackend>(script, clock), world.process(), world.size(),
                       Seconds(0));
}

}  // namespace

extern "C" const char* overlapbench_version() { return OVL_MODULE_VERSION; }
extern "C" void overlapbench_register(ovl::BackendRegistry& registry) {
  registry.add({.name = "cuda",
                .preference = 2,
                .unusable = [] { return std::string(trouble_of(0) == "unusable" ? "no device answers" : ""); },
                .open = open});
}
