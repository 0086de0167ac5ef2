// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>

#include "streams.hpp"

namespace ovl::emulation {

struct Capture;

struct Event {
  int device = 0;
  bool timing = true;
  // Guarded by books().
  std::shared_ptr<Mark> record;      // the latest; none: never recorded
  std::shared_ptr<Capture> capture;  // where the latest record was in a capture: after these nodes
  std::set<std::size_t> front;
};

// nullptr where it is no event. Takes books().
std::shared_ptr<Event> find_event(cudaEvent_t handle, const char* call);

}  // namespace ovl::emulation
