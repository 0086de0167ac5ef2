// SPDX-License-Identifier: Apache-2.0
#include "backend/model/engine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "base/random.hpp"
#include "metrics/fluid_interference.hpp"

namespace ovl::model {
namespace {

constexpr double rounding = 1e-9;

// An operation of one flow.
Index work(Graph& g, double duration, std::vector<Share> shares = {}, const Units& units = {}, double weight = 1) {
  const Index op = g.operation(units);
  g.flow(duration, std::array{op}, shares, weight);
  return op;
}

// ---- durations and order -------------------------------------------------------------------------------------------

TEST(ModelEngine, AloneAnOperationTakesItsDurationToTheBit) {
  Graph g;
  const Index a = work(g, 0.1);
  const Index b = work(g, 0.2);
  g.after(a, b);
  Engine engine(g);
  EXPECT_EQ(engine.play(), 0.1 + 0.2);
  EXPECT_EQ(engine.ended(a), 0.1);
  EXPECT_EQ(engine.ready(b), 0.1);
  EXPECT_EQ(engine.begun(b), 0.1);
}

TEST(ModelEngine, WhatHasNoFlowOrdersAndTakesNoTime) {
  Graph g;
  const Index a = work(g, 1);
  const Index b = work(g, 2);
  const Index both = g.operation();
  const Index c = work(g, 0);
  g.after(a, both);
  g.after(b, both);
  g.after(both, c);
  Engine engine(g);
  EXPECT_EQ(engine.play(), 2);
  EXPECT_EQ(engine.begun(both), 2);
  EXPECT_EQ(engine.ended(c), 2);
}

TEST(ModelEngine, ABeginningFiresBeforeTheEnd) {
  Graph g;
  const Index before = work(g, 3);
  const Index marked = work(g, 10);
  const Index other = work(g, 1);
  g.after(before, marked);
  g.after_begin(marked, other);
  Engine engine(g);
  engine.play();
  EXPECT_EQ(engine.begun(other), 3);
  EXPECT_EQ(engine.ended(other), 4);
}

TEST(ModelEngine, AnEndlessFlowEndsWithWhatItLastsUntil) {
  // Both share a resource that holds one of them: for the victim's 4 s of work they take 8 s, in which the endless one
  // has done 4 s of its own. What follows it begins then.
  Graph g;
  const Index shared = g.resource();
  const Index endless = g.operation();
  const Index flow = g.endless(std::array{endless}, std::array{Share{shared, 1, 1}});
  const Index victim = work(g, 4, {{shared, 1, 1}});
  const Index after = work(g, 1);
  g.ends(victim, flow);
  g.after(endless, after);
  Engine engine(g);
  for (int play = 0; play < 2; ++play) {
    EXPECT_EQ(engine.play(), 9);
    EXPECT_EQ(engine.ended(victim), 8);
    EXPECT_EQ(engine.ended(endless), 8);
    EXPECT_EQ(engine.done(flow), 4);
    EXPECT_EQ(engine.begun(after), 8);
  }
}

TEST(ModelEngine, AnEndlessFlowWhoseEndCameFirstEndsAtOnce) {
  Graph g;
  const Index last = work(g, 1);
  const Index late = work(g, 3);
  const Index endless = g.operation();
  const Index flow = g.endless(std::array{endless});
  g.after(late, endless);
  g.ends(last, flow);
  Engine engine(g);
  EXPECT_EQ(engine.play(), 3);
  EXPECT_EQ(engine.ended(endless), 3);
  EXPECT_EQ(engine.done(flow), 0);
}

TEST(ModelEngine, AnEndlessFlowThatNothingEndsHasNoEnd) {
  Graph g;
  const Index endless = g.operation();
  g.endless(std::array{endless});
  Engine engine(g);
  EXPECT_EQ(engine.play(), 0);
  EXPECT_TRUE(std::isnan(engine.ended(endless)));
}

TEST(ModelEngine, AnEndlessHolderGivesItsUnitsBackWhenItEnds) {
  // Of four units an occupier holds three until the victim, which yields none, is done: it runs on one, in four waves
  // of 1 s instead of one, and what wants all four begins then.
  Graph g;
  const Index pool = g.pool(4);
  const Index occupier = g.operation({.pool = pool, .wanted = 3});
  const Index flow = g.endless(std::array{occupier});
  const Index victim = work(g, 1, {}, {.pool = pool, .wanted = 4, .holds = false, .tiles = 4, .unit_work = 1});
  const Index all = work(g, 1, {}, {.pool = pool, .wanted = 4});
  g.after_begin(occupier, victim);
  g.after(victim, all);
  g.ends(victim, flow);
  Engine engine(g);
  EXPECT_EQ(engine.play(), 5);
  EXPECT_EQ(engine.ended(victim), 4);
  EXPECT_EQ(engine.begun(all), 4);
}

TEST(ModelEngine, ACollectiveStartsWhenItsLastRankArrivesAndWaitingIsNoTransfer) {
  Graph g;
  const Index late = work(g, 30);
  const std::array ranks{g.operation(), g.operation()};
  g.flow(5, ranks);
  g.after(late, ranks[1]);
  Engine engine(g);
  engine.play();
  EXPECT_EQ(engine.begun(ranks[0]), 0);
  EXPECT_EQ(engine.begun(ranks[1]), 30);
  for (const Index rank : ranks) {
    EXPECT_EQ(engine.started(rank), 30);
    EXPECT_EQ(engine.ended(rank), 35);
  }
}

TEST(ModelEngine, AnExchangeEndsWithItsLastMessage) {
  // 0 sends to 1 and to 2, which comes late.
  Graph g;
  const Index late = work(g, 10);
  const std::array ranks{g.operation(), g.operation(), g.operation()};
  g.flow(2, std::array{ranks[0], ranks[1]});
  g.flow(3, std::array{ranks[0], ranks[2]});
  g.after(late, ranks[2]);
  Engine engine(g);
  engine.play();
  EXPECT_EQ(engine.ended(ranks[1]), 2);
  EXPECT_EQ(engine.ended(ranks[0]), 13);
  EXPECT_EQ(engine.ended(ranks[2]), 13);
}

TEST(ModelEngine, WhatCanNeverGoOnHasNoEnd) {
  Graph g;
  const std::array ranks{g.operation(), g.operation()};
  g.flow(5, ranks);
  g.after(ranks[0], ranks[1]);
  Engine engine(g);
  EXPECT_EQ(engine.play(), 0);
  EXPECT_TRUE(std::isnan(engine.ended(ranks[0])));
  EXPECT_TRUE(std::isnan(engine.begun(ranks[1])));
}

// ---- sharing -------------------------------------------------------------------------------------------------------

// A GEMM of 100 ms that takes half of memory's bandwidth beside an all_reduce of 100 ms that takes 0.8 of it. Together
// they would take 1.3: both run at 1 / 1.3, and end at 130 ms. With an all_reduce of 50 ms that one ends at 65 ms; the
// GEMM has then done 50 ms of its work, and the rest takes it to 115 ms.
TEST(ModelEngine, AGemmBesideAnAllReduceByHand) {
  for (const auto& [comm, gemm_end, comm_end] : {std::tuple{100.0, 130.0, 130.0}, {50.0, 115.0, 65.0}}) {
    Graph g;
    const Index memory = g.resource();
    const Index gemm = work(g, 100, {{memory, 0.5}});
    const Index reduce = work(g, comm, {{memory, 0.8}});
    Engine engine(g);
    engine.play();
    EXPECT_NEAR(engine.ended(gemm), gemm_end, rounding);
    EXPECT_NEAR(engine.ended(reduce), comm_end, rounding);
  }
}

TEST(ModelEngine, WhatFitsBesideEachOtherSlowsNobody) {
  Graph g;
  const Index memory = g.resource();
  const Index a = work(g, 3, {{memory, 0.3}});
  const Index b = work(g, 5, {{memory, 0.7}});
  Engine engine(g);
  engine.play();
  EXPECT_EQ(engine.ended(a), 3);
  EXPECT_EQ(engine.ended(b), 5);
}

// Twice what there is takes twice as long alone; and beside half of it, 2.5 times as long, as that other does.
TEST(ModelEngine, WhoWantsMoreThanThereIsIsSlowedAlone) {
  for (const double other : {0.0, 0.5}) {
    Graph g;
    const Index link = g.resource();
    const Index a = work(g, 1, {{link, 2}});
    const Index b = work(g, 1, {{link, other}});
    Engine engine(g);
    engine.play();
    EXPECT_NEAR(engine.ended(a), 2 + other, rounding);
    EXPECT_NEAR(engine.ended(b), other == 0 ? 1 : 2 + other, rounding);
  }
}

// Two links: A and B share the first, B and C the second, C only ever takes a quarter of it. A and B get half of the
// first each; the second then has half left, more than C can take.
TEST(ModelEngine, MaxMinFairnessGivesWhatOthersCannotUse) {
  Graph g;
  const Index first = g.resource();
  const Index second = g.resource();
  const Index a = work(g, 10, {{first, 1}});
  const Index b = work(g, 10, {{first, 1}, {second, 1}});
  const Index c = work(g, 10, {{second, 0.25}});
  Engine engine(g);
  engine.play();
  EXPECT_NEAR(engine.ended(c), 10, rounding);
  EXPECT_NEAR(engine.ended(a), 20, rounding);
  EXPECT_NEAR(engine.ended(b), 20, rounding);
}

// Three on one link, one of them twice as heavy: 1/4, 1/4 and 1/2 of it.
TEST(ModelEngine, WeightsAreInProportion) {
  Graph g;
  const Index link = g.resource();
  const Index a = work(g, 1, {{link, 1}});
  const Index b = work(g, 1, {{link, 1}});
  const Index heavy = work(g, 1, {{link, 1}}, {}, 2);
  Engine engine(g);
  engine.play();
  EXPECT_NEAR(engine.ended(heavy), 2, rounding);
  EXPECT_NEAR(engine.ended(a), 3, rounding);  // half of it by then, the rest at a half
  EXPECT_NEAR(engine.ended(b), 3, rounding);
}

// Measured slowdowns are rates while both run, whatever the two share: also 2.5 and 2.5, where overlap does not pay.
TEST(ModelEngine, SignalsAreTheFluidInterferenceFormula) {
  struct Row {
    double compute, comm, slow_compute, slow_comm, together;
  };
  // Independently computed vectors of the formula in metrics/fluid_interference.hpp.
  for (const Row& row : {Row{100, 100, 1, 1, 100},
                         {100, 100, 1.3, 1.3, 130},
                         {100, 50, 1.3, 1.3, 115},
                         {100, 186.6667, 1.189, 1.0, 186.6667},
                         {100, 100, 2, 2, 200},
                         {100, 100, 2.5, 2.5, 250}}) {
    Graph g;
    const Index of_compute = g.signal();
    const Index of_comm = g.signal();
    const Index compute = work(g, row.compute, {{of_compute, 1}, {of_comm, 0, row.slow_compute}});
    const Index comm = work(g, row.comm, {{of_comm, 1}, {of_compute, 0, row.slow_comm}});
    Engine engine(g);
    EXPECT_NEAR(engine.play(), row.together, 5e-5) << row.slow_compute;
    const PairSpans spans = fluid_spans(Seconds(row.compute), Seconds(row.comm), {row.slow_compute, row.slow_comm});
    EXPECT_NEAR(engine.ended(compute), spans.compute.value(), rounding);
    EXPECT_NEAR(engine.ended(comm), spans.comm.value(), rounding);
  }
}

// ---- units ---------------------------------------------------------------------------------------------------------

// A kernel of many blocks: `duration` with all units of the pool.
Units blocks(Index pool, Index units, double duration, std::int64_t tiles = 0) {
  Units u{.pool = pool, .wanted = units, .holds = false, .tiles = tiles};
  u.unit_work = tiles == 0 ? duration * units : duration / static_cast<double>((tiles + units - 1) / units);
  return u;
}
Units holder(Index pool, Index units, int priority = 0) {
  return {.pool = pool, .wanted = units, .holds = true, .priority = priority};
}

// 20 of 132 SMs held by communication for as long as the GEMM runs: it takes 132 / 112 = 1.179 times as long.
TEST(ModelEngine, HeldUnitsSlowAGemmByItsShare) {
  Graph g;
  const Index sms = g.pool(132);
  work(g, 1000, {}, holder(sms, 20));
  const Index gemm = work(g, 100, {}, blocks(sms, 132, 100));
  Engine engine(g);
  engine.play();
  EXPECT_NEAR(engine.ended(gemm), 100 * 132.0 / 112, rounding);
}

// 1216 tiles run in 4 waves on 304 units, in 5 on 272.
TEST(ModelEngine, HeldUnitsCostWholeWaves) {
  Graph g;
  const Index cus = g.pool(304);
  work(g, 1000, {}, holder(cus, 32));
  const Index gemm = work(g, 100, {}, blocks(cus, 304, 100, 1216));
  Engine engine(g);
  engine.play();
  EXPECT_NEAR(engine.ended(gemm), 125, rounding);
}

TEST(ModelEngine, AGemmGrowsIntoWhatAHolderFrees) {
  Graph g;
  const Index sms = g.pool(4);
  work(g, 10, {}, holder(sms, 2));
  const Index gemm = work(g, 10, {}, blocks(sms, 4, 10));
  Engine engine(g);
  engine.play();
  EXPECT_NEAR(engine.ended(gemm), 15, rounding);  // half of it in 10, the rest at full rate
}

TEST(ModelEngine, HoldersDoNotGiveWay) {
  Graph g;
  const Index sms = g.pool(4);
  const Index first = work(g, 10, {}, holder(sms, 3));
  const Index urgent = work(g, 1, {}, holder(sms, 2, 1));
  const Index delay = work(g, 1);
  g.after(delay, urgent);
  Engine engine(g);
  engine.play();
  EXPECT_EQ(engine.ended(first), 10);
  EXPECT_EQ(engine.ready(urgent), 1);
  EXPECT_EQ(engine.begun(urgent), 10);
}

// At 5 a collective comes for one of the two units of a GEMM whose blocks take 4 and whose kernels take 20 of its 60.
// With a higher priority it gets it at the next block's end, 8; with an equal one at the next kernel's, 20. From then
// on the GEMM runs at half rate for the collective's 10, and at full rate again.
TEST(ModelEngine, PrioritiesDecideWhoTakesWhatIsFreed) {
  for (const auto& [priority, begins] : {std::pair{1, 8.0}, {0, 20.0}}) {
    Graph g;
    const Index sms = g.pool(2);
    Units units = blocks(sms, 2, 60);
    units.block = 4;
    units.kernel = 20;
    const Index gemm = work(g, 60, {}, units);
    const Index delay = work(g, 5);
    const Index comm = work(g, 10, {}, holder(sms, 1, priority));
    g.after(delay, comm);
    Engine engine(g);
    engine.play();
    EXPECT_NEAR(engine.begun(comm), begins, rounding);
    EXPECT_NEAR(engine.ended(gemm), 65, rounding);
  }
}

TEST(ModelEngine, AnEqualOneWaitsForTheEndOfASingleKernel) {
  Graph g;
  const Index sms = g.pool(2);
  Units units = blocks(sms, 2, 60);
  units.kernel = 60;
  work(g, 60, {}, units);
  const Index comm = work(g, 10, {}, holder(sms, 1));
  Engine engine(g);
  EXPECT_NEAR(engine.play(), 70, rounding);
  EXPECT_NEAR(engine.begun(comm), 60, rounding);
}

// A boundary that moves because the GEMM is slowed is waited for where it has moved to.
TEST(ModelEngine, ABoundaryMovesWithTheRate) {
  Graph g;
  const Index sms = g.pool(2);
  const Index memory = g.resource();
  Units units = blocks(sms, 2, 100);
  units.block = 10;
  work(g, 100, {{memory, 1}}, units);
  const Index delay = work(g, 2);
  const Index stream = work(g, 1, {{memory, 1}});  // halves the GEMM's rate from 2 to 4
  const Index comm = work(g, 10, {}, holder(sms, 1, 1));
  g.after(delay, stream);
  g.after(delay, comm);
  Engine engine(g);
  engine.play();
  EXPECT_NEAR(engine.begun(comm), 11, rounding);
}

TEST(ModelEngine, OfTwoKernelsOfManyBlocksTheFirstRunsFirst) {
  Graph g;
  const Index sms = g.pool(8);
  const Index a = work(g, 10, {}, blocks(sms, 8, 10));
  const Index b = work(g, 10, {}, blocks(sms, 8, 10));
  Engine engine(g);
  engine.play();
  EXPECT_NEAR(engine.ended(a), 10, rounding);
  EXPECT_NEAR(engine.ended(b), 20, rounding);
}

TEST(ModelEngine, AWaitingRankHoldsItsUnits) {
  // Rank 0 comes at once and takes half of its units; rank 1 comes at 30. Rank 0's GEMM runs at half rate until 35.
  Graph g;
  const std::array pools{g.pool(2), g.pool(2)};
  const std::array ranks{g.operation(holder(pools[0], 1)), g.operation(holder(pools[1], 1))};
  g.flow(5, ranks);
  const Index late = work(g, 30);
  g.after(late, ranks[1]);
  const Index gemm = work(g, 35, {}, blocks(pools[0], 2, 35));
  Engine engine(g);
  engine.play();
  EXPECT_NEAR(engine.ended(gemm), 35 + 17.5, rounding);
}

// ---- what must hold of any graph -----------------------------------------------------------------------------------

struct RandomGraph {
  Graph graph;
  std::vector<double> durations;
};

// Several devices with memory, a link and units; operations in random lanes, some of them collectives.
RandomGraph random_graph(std::uint64_t seed) {
  Random random(mix64(seed));
  RandomGraph r;
  const auto below = [&](int n) { return static_cast<Index>(random.below(static_cast<std::uint64_t>(n))); };
  const int devices = 1 + below(4);
  std::vector<Index> memory;
  std::vector<Index> link;
  std::vector<Index> pool;
  std::vector<std::array<Index, 3>> lanes(static_cast<std::size_t>(devices), {-1, -1, -1});
  for (int d = 0; d < devices; ++d) {
    memory.push_back(r.graph.resource());
    link.push_back(r.graph.resource());
    pool.push_back(r.graph.pool(8));
  }
  const auto issue = [&](std::size_t device, Index op) {
    Index& lane = lanes[device][static_cast<std::size_t>(below(3))];
    if (lane >= 0) r.graph.after(lane, op);
    lane = op;
  };
  for (int i = 0; i < 60; ++i) {
    const double duration = below(10) == 0 ? 0 : random.uniform();
    r.durations.push_back(duration);
    if (below(3) == 0) {
      std::vector<Index> members;
      std::vector<Share> shares;
      for (std::size_t d = 0; d < lanes.size(); ++d) {
        members.push_back(r.graph.operation(holder(pool[d], 1 + below(3))));
        // All collectives on one lane: in another order on another device they would wait for each other for ever.
        Index& lane = lanes[d][0];
        if (lane >= 0) r.graph.after(lane, members.back());
        lane = members.back();
        shares.push_back({memory[d], random.uniform()});
        shares.push_back({link[d], 3 * random.uniform()});  // more than there is: oversubscribed
      }
      r.graph.flow(duration, members, shares);
    } else {
      const auto d = static_cast<std::size_t>(below(devices));
      Units units;
      if (below(2) == 0) {
        units = blocks(pool[d], 1 + below(8), duration, below(2) * 20);
        units.priority = below(2);
        units.block = duration / 10;
        units.kernel = duration / 2;
      }
      const Index op = r.graph.operation(units);
      r.graph.flow(duration, std::array{op}, std::array{Share{memory[d], random.uniform()}}, 0.5 + random.uniform());
      // Never on the collectives' lane: with units held across devices that may wait in a circle.
      Index& lane = lanes[d][1 + static_cast<std::size_t>(below(2))];
      if (lane >= 0) r.graph.after(lane, op);
      lane = op;
      if (below(4) == 0) issue(d, r.graph.operation());
    }
  }
  return r;
}

struct Observed {
  double last = 0;
  double most_taken = 0;
  bool backwards = false;
  std::vector<double> done;   // of each flow
  std::vector<double> rates;  // from `last` on
};

void observe(void* context, double now, std::span<const double> taken, std::span<const double> rates) {
  auto& o = *static_cast<Observed*>(context);
  o.backwards = o.backwards || now < o.last;
  o.done.resize(rates.size());
  o.rates.resize(rates.size());
  for (std::size_t f = 0; f < rates.size(); ++f) o.done[f] += (now - o.last) * o.rates[f];
  for (const double t : taken) o.most_taken = std::max(o.most_taken, t);
  o.last = now;
  o.rates.assign(rates.begin(), rates.end());
}

TEST(ModelEngine, OfAnyGraphAllWorkIsDoneAndNoResourceGivesMoreThanItHas) {
  bool was_full = false;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomGraph r = random_graph(seed);
    Engine engine(r.graph);
    Observed observed;
    engine.watch(observe, &observed);
    std::vector<RateChange> changes;
    engine.note(&changes);
    const double end = engine.play();
    observe(&observed, end, {}, std::vector<double>(r.durations.size()));
    SCOPED_TRACE(seed);
    ASSERT_FALSE(observed.backwards);
    ASSERT_LE(observed.most_taken, 1 + 1e-9);
    was_full = was_full || observed.most_taken > 1 - 1e-9;
    for (std::size_t f = 0; f < r.durations.size(); ++f) ASSERT_NEAR(observed.done[f], r.durations[f], 1e-9) << f;
    // What was noted is the same: work done at each rate, and a reason wherever that is below 1.
    std::vector<double> done(r.durations.size());
    std::vector<RateChange> last(r.durations.size());
    for (const RateChange& c : changes) {
      const auto f = static_cast<std::size_t>(c.flow);
      done[f] += (c.at - last[f].at) * last[f].rate;
      ASSERT_TRUE(c.limit != Limit::none || c.rate == 1 || c.at == end || done[f] > r.durations[f] - 1e-9);
      last[f] = c;
    }
    for (std::size_t f = 0; f < r.durations.size(); ++f) ASSERT_NEAR(done[f], r.durations[f], 1e-9) << f;
    for (Index op = 0; op < r.graph.operations(); ++op) {
      ASSERT_LE(engine.ready(op), engine.begun(op));
      ASSERT_LE(engine.begun(op), engine.started(op));
      ASSERT_LE(engine.started(op), engine.ended(op));
      ASSERT_LE(engine.ended(op), end);
    }
  }
  EXPECT_TRUE(was_full) << "or the bound says nothing";
}

TEST(ModelEngine, TheSameGraphPlaysTheSameToTheBit) {
  const auto times = [](Engine& engine, Index operations) {
    engine.play();
    std::vector<std::uint64_t> bits;
    for (Index op = 0; op < operations; ++op) {
      for (const double t : {engine.ready(op), engine.begun(op), engine.started(op), engine.ended(op)}) {
        bits.push_back(std::bit_cast<std::uint64_t>(t));
      }
    }
    return bits;
  };
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const RandomGraph r = random_graph(seed);
    const RandomGraph again = random_graph(seed);
    Engine engine(r.graph);
    Engine other(again.graph);
    const auto first = times(engine, r.graph.operations());
    EXPECT_EQ(first, times(engine, r.graph.operations())) << "played again";
    EXPECT_EQ(first, times(other, r.graph.operations())) << "made again";
  }
}

}  // namespace
}  // namespace ovl::model
