// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/registry.hpp"

namespace ovl {

// Every backend that a user may ask for; those that are not part of this build say so.
BackendRegistry known_backends();

}  // namespace ovl
