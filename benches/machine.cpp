// SPDX-License-Identifier: Apache-2.0
//
// What does this machine cost, in numbers that a model can take? Makes a description (machine.json) of runs of
// overlap-collective and of logs that overlap-import has read. Varies: nothing is measured here. Held: every number
// says where it comes from.
#include "app/machine.hpp"

int main(int argc, char** argv) { return ovl::run_machine(argc, argv); }
