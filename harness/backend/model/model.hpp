// SPDX-License-Identifier: Apache-2.0
//
// The model backend: a program in virtual time. No data moves and no clock runs; a replay is the same every time. What
// is modelled and what is not, with its sources and what it is worth, is in docs/model.md.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/model/rates.hpp"
#include "backend/registry.hpp"
#include "backend/world.hpp"

namespace ovl {

// Throws Error(usage) for a bad machine description or number of ranks; Error(impossible) in a world of several
// processes.
std::unique_ptr<Backend> open_model(World& world, const SessionOptions& options);

// The same for given rates. Without a number of ranks those that its first collective was measured with.
std::unique_ptr<Backend> open_model(model::Rates rates, int ranks = 0);

// Always usable, never taken by `--backend auto`: it does not measure.
BackendEntry model_entry();

}  // namespace ovl
