// SPDX-License-Identifier: Apache-2.0
#include "program/dataflow.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "program/check.hpp"
#include "program/order.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

struct Three {
  ProgramBuilder p{"flow", 1};
  LaneId a = p.lane({.name = "a"});
  LaneId b = p.lane({.name = "b"});
  LaneId c = p.lane({.name = "c"});
  BufferId x = p.buffer({.name = "x", .count = 12});
  ClassBuilder all = p.all_ranks();
  Dataflow flow{p, all};

  [[nodiscard]] Slice part(std::int64_t begin, std::int64_t end) const { return {x, begin, end - begin}; }
  std::vector<std::string> body() {
    std::move(flow).finish();
    const Program program = std::move(p).finish();
    std::vector<std::string> text;
    for (const Operation& op : program.classes[0].body) {
      text.push_back(program.lanes[op.lane.index()].name + " " + std::string(kind_name(op.work)) +
                     (is_ordering(op.work) ? describe(op).substr(describe(op).find(' ')) : ""));
    }
    return text;
  }
};
using Texts = std::vector<std::string>;

// What b reads a wrote, and what a overwrites b has read.
TEST(Dataflow, WorkedExample) {
  Three t;
  t.flow.add(t.a, Busy{}, {}, {t.part(0, 4)});
  t.flow.add(t.b, Busy{}, {t.part(0, 4)});
  t.flow.add(t.a, Busy{}, {}, {t.part(4, 8)});
  t.flow.add(t.a, Busy{}, {}, {t.part(2, 6)});
  EXPECT_EQ(t.body(),
            (Texts{"a busy", "a record e0", "b wait e0", "b busy", "b record e1", "a busy", "a wait e1", "a busy"}));
}

TEST(Dataflow, ReadersDoNotWaitForEachOther) {
  Three t;
  t.flow.add(t.a, Busy{}, {t.part(0, 4)});
  t.flow.add(t.b, Busy{}, {t.part(0, 4)});
  EXPECT_EQ(t.body(), (Texts{"a busy", "b busy"}));
}

TEST(Dataflow, OneLaneIsInOrderAnyway) {
  Three t;
  t.flow.add(t.a, Busy{}, {}, {t.part(0, 4)});
  t.flow.add(t.a, Busy{}, {t.part(0, 4)}, {t.part(4, 8)});
  EXPECT_EQ(t.body(), (Texts{"a busy", "a busy"}));
}

// c reads what a and b wrote, but b already waited for a.
TEST(Dataflow, WaitsOnlyForTheLastOfAChain) {
  Three t;
  t.flow.add(t.a, Busy{}, {}, {t.part(0, 4)});
  t.flow.add(t.b, Busy{}, {t.part(0, 4)}, {t.part(4, 8)});
  t.flow.add(t.c, Busy{}, {t.part(0, 8)});
  EXPECT_EQ(t.body(), (Texts{"a busy", "a record e0", "b wait e0", "b busy", "b record e1", "c wait e1", "c busy"}));
}

TEST(Dataflow, OneRecordServesSeveralWaits) {
  Three t;
  t.flow.add(t.a, Busy{}, {}, {t.part(0, 4)});
  t.flow.add(t.b, Busy{}, {t.part(0, 2)});
  t.flow.add(t.c, Busy{}, {t.part(2, 4)});
  EXPECT_EQ(t.body(), (Texts{"a busy", "a record e0", "b wait e0", "b busy", "c wait e0", "c busy"}));
}

// A writer waits for all readers since the last write, on each lane for the last.
TEST(Dataflow, AWriterWaitsForEveryReader) {
  Three t;
  t.flow.add(t.a, Busy{}, {t.part(0, 4)});
  t.flow.add(t.a, Busy{}, {t.part(0, 4)});
  t.flow.add(t.b, Busy{}, {t.part(0, 4)});
  t.flow.add(t.c, Busy{}, {}, {t.part(3, 5)});
  EXPECT_EQ(t.body(),
            (Texts{"a busy", "a busy", "a record e0", "b busy", "b record e1", "c wait e0", "c wait e1", "c busy"}));
}

TEST(Dataflow, HoldsALaneThoughNoDataSaysSo) {
  Three t;
  const std::size_t first = t.flow.add(t.a, Busy{});
  t.flow.hold(t.b, first);
  t.flow.add(t.b, Busy{});
  t.flow.add(t.b, Busy{});
  EXPECT_EQ(t.body(), (Texts{"a busy", "a record e0", "b wait e0", "b busy", "b busy"}));
}

TEST(Dataflow, GivesTheIdsOfItsOperations) {
  Three t;
  t.all.prologue(t.a, Fill{}, {}, {t.part(0, 12)});
  t.flow.add(t.a, Busy{}, {}, {t.part(0, 4)});
  t.flow.add(t.b, Busy{}, {t.part(0, 4)});
  EXPECT_EQ(std::move(t.flow).finish(), (std::vector<OpId>{OpId(1), OpId(4)})) << "fill 0, record 2, wait 3";
}

TEST(Dataflow, TakesNoOrdering) {
  Three t;
  EXPECT_THROW(t.flow.add(t.a, HostSync{}), std::logic_error);
}

// Operations at random: whatever conflicts is ordered, and each wait is needed.
TEST(Dataflow, RandomProgramsHaveNoRaceAndNoEdgeTooMany) {
  Random random(3);
  int waits = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Three t;
    const LaneId lanes[] = {t.a, t.b, t.c};
    const auto slice = [&] {
      const auto begin = static_cast<std::int64_t>(random.below(12));
      return t.part(begin, begin + 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(12 - begin))));
    };
    for (int i = 0; i < 25; ++i) {
      std::vector<Slice> reads;
      std::vector<Slice> writes;
      if (random.below(3) != 0) reads.push_back(slice());
      if (random.below(2) != 0) writes.push_back(slice());
      t.flow.add(lanes[random.below(3)], Busy{}, std::move(reads), std::move(writes));
    }
    std::move(t.flow).finish();
    const Program program = std::move(t.p).finish();
    EXPECT_TRUE(check(program).empty()) << print(program);
    for (const Operation& op : program.classes[0].body) {
      if (!std::holds_alternative<Wait>(op.work)) continue;
      Program without = program;
      std::erase_if(without.classes[0].body, [&](const Operation& other) { return other.id == op.id; });
      EXPECT_FALSE(check(without).empty()) << print(program) << "without %" << op.id.value;
      ++waits;
    }
  }
  EXPECT_GT(waits, 500) << "the programs are too loose to test anything";
}

}  // namespace
}  // namespace ovl
