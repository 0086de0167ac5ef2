// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ovl {

// overlap-machine, from the command line to the exit code: 0 written or sound, 1 cannot be written, 2 usage, also runs
// that hold nothing to describe and descriptions that are not sound.
int run_machine(int argc, char** argv);

}  // namespace ovl
