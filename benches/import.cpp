// SPDX-License-Identifier: Apache-2.0
//
// What do the logs that I have say? Reads those of nccl-tests, rccl-tests, OSU, IMB and plain tables into rows, fits
// and a run directory. Varies: nothing is measured here. Held: what a log does not say is unknown, or a warning.
#include "app/import.hpp"

int main(int argc, char** argv) { return ovl::run_import(argc, argv); }
