// SPDX-License-Identifier: Apache-2.0
//
// A program as a graph for the engine. Ranks that cannot be told apart are played as one: all that is in a class, as
// long as every communicator puts them among the same others; else each rank is played by itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/model/engine.hpp"
#include "backend/model/rates.hpp"
#include "program/program.hpp"

namespace ovl::model {

// The ranks of a class that are played as one.
struct Player {
  std::size_t rank_class = 0;
  std::vector<Rank> members;
};
std::vector<Player> players_of(const Program& program, const Rates& rates);

// What a stream moves.
struct Moved {
  Index flow = -1;  // the endless one whose time tells how much; -1: it moves `bytes`
  Bytes bytes;
  BytesPerSecond rate;
};

class Plan {
 public:
  // Throws Error(impossible) for what the rates do not tell. `live`: the host hands over one operation after another
  // within the window.
  Plan(const Program& program, const Rates& rates, bool live);

  Timings play(Recording recording);

  [[nodiscard]] std::size_t players() const { return players_.size(); }
  // How its collectives were predicted, in the order of their first use; by comma.
  [[nodiscard]] const std::string& how() const { return how_; }
  // Units that the widest collective holds.
  [[nodiscard]] int comm_units() const { return comm_units_; }

 private:
  friend class PlanBuilder;
  struct Played {
    OpId id;
    LaneId lane;
    Role role;
    Index operation;  // of the engine
    Index handed;     // the host's handing over; -1: before the clock
    Moved moved;      // no bytes: it is no stream
  };
  std::vector<Player> players_;
  std::vector<std::vector<Played>> operations_;  // of each player, those that do work, in issue order
  int ranks_ = 0;
  std::size_t lanes_ = 0;
  std::string name_;
  std::string how_;
  int comm_units_ = 0;
  std::optional<Engine> engine_;  // once the graph is complete
};

}  // namespace ovl::model
