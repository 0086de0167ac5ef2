// SPDX-License-Identifier: Apache-2.0
//
// World joins processes, not ranks: a process may hold several ranks. Process 0 decides, writes and broadcasts.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ovl {

class World {
 public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  [[nodiscard]] virtual int process() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void barrier() = 0;
  // Process 0's text, on every process.
  virtual std::string broadcast(const std::string& text) = 0;
  // Every process's text in process order, on process 0; empty elsewhere.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  virtual double minimum(double value) = 0;
  virtual double maximum(double value) = 0;
  // Ends every process. Returns only in a world of one.
  virtual void abort(const std::string& reason) noexcept = 0;

  [[nodiscard]] bool decides() const { return process() == 0; }
};

// One process.
std::unique_ptr<World> make_solo_world();

// Every process must hold the same text (a printed plan, an environment). Throws Error(failure) on all processes with
// the first differing line otherwise.
void require_equal(World& world, const std::string& what, const std::string& text);

}  // namespace ovl
