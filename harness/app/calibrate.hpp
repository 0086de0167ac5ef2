// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ovl {

// overlap-calibrate, from the command line to the exit code: 0 written, 1 cannot be written, 2 usage, also runs that
// hold nothing to learn from.
int run_calibrate(int argc, char** argv);

}  // namespace ovl
