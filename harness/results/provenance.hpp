// SPDX-License-Identifier: Apache-2.0
//
// Where numbers come from: all that run.json says. A number without it is a rumour.
//
//   identity   what must be the same for two rows to stand in one table; compared on resume, and (but for the machine)
//              between the processes of a run: bench, seed, settings, build, machine, backend, environment, schemas
//   run        what may differ: date, processes, command line, the environment of the job, memory, frequency governor
//   tables     name, type, unit and description of every column, so that no reader needs a copy
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "results/table.hpp"

namespace ovl {

struct ProvenanceInput {
  std::string bench;
  std::uint64_t seed = 0;
  std::vector<std::string> command_line;
  std::vector<Fact> settings;  // options that rows of one table must share: precision, interleave, ...
  Description backend;
  std::vector<Schema> tables;
  std::string launcher = {};                      // "torchrun", "srun" ...; empty: none
  std::vector<std::vector<Fact>> processes = {};  // of a run of several, by number: host, device ...
};

// {"identity": ..., "run": ..., "tables": ...}. Reads this process's environment and /proc; what cannot be read is
// null.
nlohmann::json collect_provenance(const ProvenanceInput& input);

// The part that all processes of a run must share, one field a line, for require_equal(): the first line that differs
// names the field.
std::string shared_identity(const nlohmann::json& provenance);

}  // namespace ovl
