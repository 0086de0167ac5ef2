// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

namespace ovl {

// From now on SIGINT and SIGTERM set the returned flag: the case under way is given up, the run ends with exit code
// 130. A second signal ends the process at once.
const std::atomic<bool>& watch_for_interrupts();

// While one lives, a signal ends the process at once, with one line and exit code 130: nothing has begun that would be
// kept, and what goes on (building the programs of many cases) asks no flag.
class NothingBegun {
 public:
  explicit NothingBegun(const std::string& program);
  NothingBegun(const NothingBegun&) = delete;
  NothingBegun& operator=(const NothingBegun&) = delete;
  ~NothingBegun();
};

// Both signals also go on to this child, until it is another or none (0). One that a terminal has told already is then
// told twice and ends at once, which loses no more than the case under way.
void pass_interrupts_to(pid_t child);

}  // namespace ovl
