// SPDX-License-Identifier: Apache-2.0
//
// A drawing of one replay: Chrome's trace event format, which Perfetto and chrome://tracing open.
//
//   rank          a process
//   lane          a thread, compute lanes first, with a slice for each operation
//   record→wait   an arrow from the operation before the record to the one behind the wait
//   exposed       a thread with a slice wherever the rank communicates and does not compute, and a counter that is 1
//                 there: what of the communication stays on the wall clock
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backend/backend.hpp"
#include "program/program.hpp"

namespace ovl {

struct TimelineLabels {
  std::string key;                  // the case
  std::string arm = "overlapped";   // which of its arms was replayed
  std::string source = "measured";  // measured, model, proxy or emulated: the summary's column
  std::string display_unit = "ms";  // how viewers print times: "ms" or "ns"
};

// `timings` come from a replay of `program` with Recording::operations. Times are written in microseconds, to the
// nanosecond, and begin at 0 with the first event; otherData says where the common origin lies. An operation whose
// start is unknown is drawn from the moment it was ready, and says so; one whose end is unknown is counted in
// otherData. What is exposed is told up to Timings::kept_until.
nlohmann::json timeline(const Program& program, const Timings& timings, const TimelineLabels& labels);

// Where a case's timeline goes within a run directory: "timeline/<values>-<hash>.json", from the values of the key
// "bench axis=value axis=value", made fit for a file name, and the hash of the whole key (FNV-1a, 64 bit), so that no
// two keys share a name. The pictures of overlap-plots are named in the same way.
std::filesystem::path timeline_path(const std::string& key);

}  // namespace ovl
