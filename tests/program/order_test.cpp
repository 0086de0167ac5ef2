// SPDX-License-Identifier: Apache-2.0
#include "program/order.hpp"

#include <gtest/gtest.h>

#include "program/builder.hpp"

namespace ovl {
namespace {

constexpr LaneId a(0);
constexpr LaneId b(1);
constexpr LaneId c(2);
constexpr Busy work{};

using Listed = std::pair<LaneId, Work>;

// The relation as a table: row i, column j is '<' where i has finished before j may begin.
std::vector<std::string> table(const std::vector<Listed>& listed) {
  ProgramBuilder p("table", 1);
  for (const char* lane : {"a", "b", "c"}) p.lane({.name = lane});
  ClassBuilder all = p.all_ranks();
  for (const auto& [lane, what] : listed) all.body(lane, what);
  const Program program = std::move(p).finish();
  const HappensBefore order(program.classes[0].body, program.lanes.size());
  std::vector<std::string> rows(listed.size(), std::string(listed.size(), '.'));
  for (std::size_t i = 0; i < listed.size(); ++i) {
    for (std::size_t j = 0; j < listed.size(); ++j) {
      if (order.before(i, j)) rows[i][j] = '<';
    }
  }
  return rows;
}

using Table = std::vector<std::string>;

TEST(Order, IssueOrderHoldsOnALaneAndNotBetweenLanes) {
  EXPECT_EQ(table({{a, work}, {b, work}, {a, work}, {b, work}}), (Table{"..<.",  //
                                                                        "...<",  //
                                                                        "....",  //
                                                                        "...."}));
}

TEST(Order, AWaitFollowsAllThatTheRecordFollows) {
  EXPECT_EQ(table({{a, work}, {a, Record{EventId(0)}}, {a, work}, {b, work}, {b, Wait{EventId(0)}}, {b, work}}),
            (Table{".<<.<<",  // the work before the record: before its lane and before what waits
                   "..<.<<",  // the record
                   "......",  // the work after the record orders nothing on b
                   "....<<",  // b's own work
                   ".....<",  // the wait
                   "......"}));
}

TEST(Order, EventsAreTransitiveThroughLanes) {
  const EventId first(0);
  const EventId second(1);
  EXPECT_EQ(table({{a, work}, {a, Record{first}}, {b, Wait{first}}, {b, Record{second}}, {c, Wait{second}}, {c, work}}),
            (Table{".<<<<<",  //
                   "..<<<<",  //
                   "...<<<",  //
                   "....<<",  //
                   ".....<",  //
                   "......"}));
}

TEST(Order, AStartEventOrdersOnlyWhatPrecedesItsRecord) {
  const Record start{EventId(0), Moment::start};
  EXPECT_EQ(table({{a, work}, {a, start}, {a, work}, {b, Wait{EventId(0)}}, {b, work}}),
            (Table{".<<<<",  // finished when the marked operation starts
                   "..<<<",  //
                   ".....",  // the marked operation runs beside b
                   "....<",  //
                   "....."}));
}

TEST(Order, ARecordWithNothingBeforeItFiresAtOnce) {
  EXPECT_EQ(table({{b, work}, {a, Record{EventId(0)}}, {b, Wait{EventId(0)}}}), (Table{"..<",  //
                                                                                       "..<",  //
                                                                                       "..."}));
}

TEST(Order, AHostSyncJoinsAllLanes) {
  EXPECT_EQ(table({{a, work}, {b, work}, {a, HostSync{}}, {c, work}, {a, work}, {b, work}}),
            (Table{"..<<<<",  //
                   "..<<<<",  // also from b, which has no event
                   "...<<<",  // also to c, which had nothing before
                   "......",  //
                   "......",  //
                   "......"}));
}

TEST(Order, WorkBetweenTwoHostSyncsIsAfterOneAndBeforeTheOther) {
  EXPECT_EQ(table({{a, HostSync{}}, {b, work}, {c, work}, {a, HostSync{}}, {b, work}}), (Table{".<<<<",  //
                                                                                               "...<<",  //
                                                                                               "...<<",  //
                                                                                               "....<",  //
                                                                                               "....."}));
}

TEST(Order, AWaitForWhatIsNotRecordedOrdersNothing) {
  EXPECT_EQ(table({{a, work}, {b, Wait{EventId(0)}}, {a, Record{EventId(0)}}}), (Table{"..<",  //
                                                                                       "...",  //
                                                                                       "..."}));
}

TEST(Order, PredecessorsAreTheLanesLastTheRecordAndTheHostSync) {
  ProgramBuilder p("predecessors", 1);
  const LaneId x = p.lane({.name = "x"});
  const LaneId y = p.lane({.name = "y"});
  ClassBuilder all = p.all_ranks();
  all.body(x, work);        // 0
  all.order(x, y);          // 1 record, 2 wait
  all.body(x, HostSync{});  // 3
  all.body(y, work);        // 4
  all.body(y, work);        // 5
  const Program program = std::move(p).finish();
  const HappensBefore order(program.classes[0].body, 2);
  using Positions = std::vector<std::size_t>;
  EXPECT_EQ(order.predecessors(0), Positions{});
  EXPECT_EQ(order.predecessors(1), Positions{0});
  EXPECT_EQ(order.predecessors(2), Positions{1});
  EXPECT_EQ(order.predecessors(3), (Positions{1, 2}));
  EXPECT_EQ(order.predecessors(4), (Positions{2, 3}));
  EXPECT_EQ(order.predecessors(5), Positions{4});
}

}  // namespace
}  // namespace ovl
