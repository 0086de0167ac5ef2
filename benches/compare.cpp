// SPDX-License-Identifier: Apache-2.0
//
// Which of these runs is faster, and is it certain? Puts run directories, measured or imported, beside the first of
// them. Varies: nothing is measured here. Held: cases are matched by what was asked for; a verdict rests on intervals,
// or says that it does not.
#include "app/compare.hpp"

int main(int argc, char** argv) { return ovl::run_compare(argc, argv); }
