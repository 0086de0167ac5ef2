// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "results/comparison.hpp"

namespace ovl {

// overlap-compare, from the command line to the exit code: 0 compared, 1 slower than --fail-if-slower, 2 usage, also
// runs without a case in common.
int run_compare(int argc, char** argv);

// What people read: the runs, what differs around them, every quantity, then words. Pure.
std::string comparison_text(const RunComparison& comparison, const ComparisonOptions& options);

}  // namespace ovl
