// SPDX-License-Identifier: Apache-2.0
//
// Why a rank does not compute. On its line of time every moment is computing at some rate, or waiting for what comes
// next: for an operation, through the last of its predecessors, one after the other. So what the step takes beyond what
// the rank computes alone is told apart without a rest.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/model/engine.hpp"
#include "program/program.hpp"

namespace ovl::model {

// One of a player's operations that do work, in issue order.
struct ExplainedOperation {
  OpId op;
  Role role;
  Index operation;  // of the engine
};
struct ExplainedPlayer {
  Rank rank;
  std::vector<ExplainedOperation> operations;
};

// After a play whose changes of rates were noted. Of who computes longest alone; of several, who ends last. Nothing
// where nobody computes, where operations of one rank compute beside each other, and where one lasts until an event.
std::optional<ExposedTime> exposed_time(const Engine& engine, std::span<const RateChange> changes,
                                        const std::vector<ExplainedPlayer>& players);

}  // namespace ovl::model
