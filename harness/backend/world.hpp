// SPDX-License-Identifier: Apache-2.0
//
// World joins processes, not ranks: a process may hold several ranks. Process 0 decides, writes and broadcasts.
//
// Every process makes the same operations in the same order, one at a time. They throw SharedError(failure) when
// another process has died, left, is in another operation or does not come before the deadline, and after an abort.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace ovl {

class World {
 public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  [[nodiscard]] virtual int process() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Which of this machine's processes this is, and how many it has: the n-th process takes the n-th device.
  [[nodiscard]] virtual int local_process() const { return 0; }
  [[nodiscard]] virtual int local_size() const { return 1; }
  virtual void barrier() = 0;
  // The text of process `from`, on every process.
  virtual std::string broadcast(const std::string& text, int from = 0) = 0;
  // Every process's text in process order, on process 0; empty elsewhere.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  // NaN is unknown: it counts only where all are.
  virtual double minimum(double value) = 0;
  virtual double maximum(double value) = 0;
  // Tells all processes why: operations under way and later ones throw SharedError with the reason, on every process.
  // From any thread, also while an operation waits. Nothing in a world of one. The first reason stays.
  virtual void abort(const std::string& reason) noexcept = 0;
  // `call` runs once, on a thread of its own, when this world is aborted or breaks, with the reason: for whoever waits
  // outside of an operation. An empty function takes it back: after an abort it has run then, else it never will.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it keep the function
  virtual void when_aborted(std::function<void(const std::string& reason)> /*call*/) {}
  // What this process knows of itself when it is aborted, for process 0; the first text stays. From any thread.
  virtual void report(const std::string& /*text*/) noexcept {}
  // On process 0: what each process reported, by process; nullopt where it did not within `patience`.
  virtual std::vector<std::optional<std::string>> reports(Seconds /*patience*/) { return {}; }
  // Whether process 0 knows why this world was aborted, so that it can tell the user; within `patience`.
  virtual bool known_to_process_0(Seconds /*patience*/) { return true; }

  [[nodiscard]] bool decides() const { return process() == 0; }
};

// One process.
std::unique_ptr<World> make_solo_world();

// What all processes throw alike, with the same text: process 0 tells the user.
class SharedError : public Error {
  using Error::Error;
};

// Every process's text in process order, on every process.
std::vector<std::string> all_gather(World& world, const std::string& text);

// Runs `body` on every process. When it throws an Error somewhere, all throw one of its kind that names the processes.
// `body` may use the world only where it does so on every process, whatever happens.
void together(World& world, const std::function<void()>& body);

// Runs `body` on process 0 alone; what it throws, all throw.
void decided(World& world, const std::function<void()>& body);

// Every process must hold the same text (a printed plan, an environment). Throws SharedError of this kind on all
// processes with the first differing line otherwise: what differs before anything began was started differently. Equal
// texts are compared by their hashes and not sent.
void require_equal(World& world, const std::string& what, const std::string& text, ErrorKind kind = ErrorKind::usage);

}  // namespace ovl
