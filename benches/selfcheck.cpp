// SPDX-License-Identifier: Apache-2.0
//
// Can the numbers of this machine be trusted? What the harness costs, how steady the machine is, what holds it back,
// and what to change. The checks and their limits are in measure/selfcheck.cpp.
#include "app/selfcheck.hpp"

int main(int argc, char** argv) { return ovl::run_selfcheck(argc, argv); }
