// SPDX-License-Identifier: Apache-2.0
//
// How this library was built: stamped by cmake/OvlVersion.cmake at every build.
#pragma once

#include <string_view>

namespace ovl {

struct BuildInfo {
  std::string_view version;
  std::string_view git_revision;  // "unknown" outside a checkout
  std::string_view git_state;     // "clean", "dirty" or "unknown"
  std::string_view build_type;
  std::string_view compiler;
  std::string_view flags;
  std::string_view sanitizers;  // empty: none
  bool assertions = false;      // NDEBUG was not defined
};

const BuildInfo& build_info();

// Optimised, no sanitizer, no assertions. Only such a build measures; others write results only when they are told to.
bool release_build(const BuildInfo& build = build_info());

}  // namespace ovl
