// SPDX-License-Identifier: Apache-2.0
//
// JSON that the tests of the libraries write: `-J` of nccl-tests (one object: args, config with devices, results) and
// `-Z json -x` of rccl-tests (an array of records, or one record a line). Records are taken as they are read, so a file
// that ends in the middle gives those before it.
#pragma once

#include "results/import/imported.hpp"

namespace ovl {

Imported read_tests_json(std::string_view text, const ImportHints& hints = {});

}  // namespace ovl
