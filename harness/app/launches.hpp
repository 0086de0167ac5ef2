// SPDX-License-Identifier: Apache-2.0
//
// A claim between runs needs several process launches: memory layout, core placement and library state are drawn anew
// with every process, and no number of samples inside one sees that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/table.hpp"

namespace ovl {

// How a launch ended: its exit code (128 + signal when one killed it), and that in words.
struct LaunchEnd {
  int code = 0;
  std::string text;
};

// Runs this program again with the same command line as launch `index` of the run in --out, and waits. `environment`
// (NAME=VALUE; empty: none) is set for it, and it measures the cases that want that. `parent` is passed on as what the
// processes of one machine have in common (launched_by()); 0: nothing. Interrupts are
// passed on to it, and it does not outlive this process for longer than a replay. Throws Error(failure) when it cannot
// be started.
LaunchEnd run_launch(const std::vector<std::string>& command_line, int index, const std::string& environment = "",
                     std::int64_t parent = 0);

// launches.csv from the rows of summary.csv, one for each case with at least one usable launch. An interval is
// where as many further launches lie, all of them, in 95 % of cases (Student t over the launches' medians,
// stats/student.hpp), of at least five launches; else it is empty. `agree` counts the launches whose hidden share, or
// where a bench has none whose t_comm, lies where the others predict, in the same sense.
std::vector<Row> launch_rows(const std::vector<Row>& summary);

// Those rows for people.
std::string launches_text(const std::vector<Row>& launches);

}  // namespace ovl
