// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ovl {

// overlap-import, from the command line to the exit code: 0 all files read, 1 what was read cannot be written, 2 usage,
// also a file without a usable row.
int run_import(int argc, char** argv);

}  // namespace ovl
