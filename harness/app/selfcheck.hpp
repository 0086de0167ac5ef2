// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ovl {

// overlap-selfcheck, from the command line to the exit code: 0 good or with care, 1 do not trust, 2 usage, 3 not
// possible here.
int run_selfcheck(int argc, char** argv);

}  // namespace ovl
