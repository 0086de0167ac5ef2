// SPDX-License-Identifier: Apache-2.0
#include "app/backends.hpp"

#include "backend/host/host.hpp"

namespace ovl {
namespace {

// A backend that this build lacks: asked for by name, it says why it cannot run.
BackendEntry absent(const std::string& name, const std::string& why) {
  return {name, 0, [why] { return why; }, {}};
}

}  // namespace

BackendRegistry known_backends() {
  BackendRegistry registry;
  registry.add(absent("cuda", "this build has no cuda backend"));
  registry.add(host_entry());
  registry.add(absent("model", "this build has no model backend"));
  return registry;
}

}  // namespace ovl
