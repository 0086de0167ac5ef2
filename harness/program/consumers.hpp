// SPDX-License-Identifier: Apache-2.0
//
// Who has what a communication sends ready, and who first needs what it brought: the operations of other lanes that
// its turn depends on, and the one whose turn its end decides.
#pragma once

#include <map>
#include <vector>

#include "program/program.hpp"

namespace ovl {

// Of each communication in the body the first operation issued after it on another lane that reads what it wrote, as
// long as nobody has written there again. Without an entry: nobody does.
std::map<OpId, OpId> first_consumers(const RankClass& rank_class);

// Of each communication in the body the operations of other lanes that wrote what it reads, as far as nobody has
// written over all of that since. Without an entry: what it reads was there before.
std::map<OpId, std::vector<OpId>> producers(const RankClass& rank_class);

}  // namespace ovl
