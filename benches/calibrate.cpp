// SPDX-License-Identifier: Apache-2.0
//
// What does this machine cost, learnt from pairs that ran alone and together? Makes a description (machine.json) for
// the model backend. Varies: nothing is measured here. Held: every prediction that is judged is of a case which the
// calibration had not seen.
#include "app/calibrate.hpp"

int main(int argc, char** argv) { return ovl::run_calibrate(argc, argv); }
