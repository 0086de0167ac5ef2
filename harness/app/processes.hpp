// SPDX-License-Identifier: Apache-2.0
//
// The processes of a run: how they find each other, and what run.json says of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/options.hpp"
#include "backend/backend.hpp"
#include "backend/world.hpp"

namespace ovl {

struct Processes {
  std::unique_ptr<World> world;
  std::string launcher;     // "torchrun", "srun" ...; empty: none
  std::int64_t parent = 0;  // what the launches of all processes on this machine are told of it
};

// Alone, or with those that the launcher started beside this one. `say` tells the user of visitors that are not let in;
// `broken` as TcpOptions has it. Throws Error(usage) for what the environment and
// --master cannot mean, Error(failure) when they do not meet.
Processes meet(const Options& options, const std::function<void(const std::string& text)>& say,
               const std::function<void(const std::string& reason)>& broken);

// Each process's host, number, device and device's UUID, on every process.
std::vector<std::vector<Fact>> process_facts(World& world, const Description& local);

}  // namespace ovl
