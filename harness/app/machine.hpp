// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ovl {

// overlap-machine, from the command line to the exit code: 0 written or sound, 1 cannot be written, 2 usage, also runs
// that hold nothing to describe and descriptions that are not sound.
int run_machine(int argc, char** argv);

// Of --out: a .json file that is not there yet. A description is read by its name, and a file that is there may be
// somebody's. Throws Error(usage).
void require_new_description(const std::string& out);

}  // namespace ovl
