// SPDX-License-Identifier: Apache-2.0
//
// The backends that this process knows, by name. app lists them; a module adds its own when it is loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/world.hpp"

namespace ovl {

// What a backend is told when the session opens. Axes of a case (channels, waiting, memory) live in the program.
struct SessionOptions {
  int ranks = 0;           // of the whole world; 0: the backend's default
  std::vector<int> cores;  // host: the cores that lanes may use, operating system numbers; empty: all allowed ones
  int blas_threads = 1;    // host: OpenBLAS threads a lane
  std::string transport;   // what was asked for; empty: the backend's choice
  std::string machine;     // model: a machine description, machine.json; empty: none
  std::vector<int> units;  // model: ranks of a node, of a rack ...; empty: as the machine says
  double skew = 0;         // model: every rank computes by up to this share slower or faster
  std::uint64_t seed = 1;  // model: of the skew
};

struct BackendEntry {
  std::string name;
  int preference = 0;  // `--backend auto` takes the usable one with the highest
  // Empty: usable here. Otherwise the reason why not, for exit code 3. Fast: no session is opened.
  std::function<std::string()> unusable;
  std::function<std::unique_ptr<Backend>(World&, const SessionOptions&)> open;  // may be empty where never usable
};

// What a module and the library that loads it were compiled from: both name it, and must agree. The first part is the
// version of overlapbench; the second counts changes of what a module sees, in this header and those that it includes.
inline constexpr const char* module_version = "0.1.0 interface 5";

class BackendRegistry {
 public:
  void add(BackendEntry entry);
  [[nodiscard]] std::vector<std::string> names() const;
  // nullptr: there is none of that name.
  [[nodiscard]] const BackendEntry* find(const std::string& name) const;
  // `name` or "auto". Throws usage for an unknown name, impossible with the reason for an unusable one.
  [[nodiscard]] const BackendEntry& choose(const std::string& name) const;

 private:
  std::vector<BackendEntry> entries_;
};

}  // namespace ovl
