// SPDX-License-Identifier: Apache-2.0
#include "metrics/fluid_interference.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"

namespace ovl {
namespace {

TEST(FluidInterference, WorkedExample) {
  // Compute 100, communication 50, each 1.3 times slower beside the other. Communication ends at 65; compute has done
  // 65 / 1.3 = 50 of its 100 by then and does the other 50 at full rate: 115.
  const PairSpans spans = fluid_spans(Seconds(100), Seconds(50), {1.3, 1.3});
  EXPECT_DOUBLE_EQ(spans.comm.value(), 65);
  EXPECT_DOUBLE_EQ(spans.compute.value(), 115);
}

TEST(FluidInterference, PublishedVectors) {
  struct Row {
    double compute, comm, slow_compute, slow_comm, step, speedup;
    OverlapPays pays;
  };
  for (const Row& r :
       {Row{100, 100, 1, 1, 100, 2.0000, OverlapPays::yes}, Row{100, 100, 1.3, 1.3, 130, 1.5385, OverlapPays::yes},
        Row{100, 50, 1.3, 1.3, 115, 1.3043, OverlapPays::yes},
        Row{100, 186.6667, 1.189, 1.0, 186.6667, 1.5357, OverlapPays::yes},
        Row{100, 100, 2, 2, 200, 1.0000, OverlapPays::tie}, Row{100, 100, 2.5, 2.5, 250, 0.8000, OverlapPays::no}}) {
    const Slowdowns slowdown{r.slow_compute, r.slow_comm};
    const Seconds step = fluid_step(Seconds(r.compute), Seconds(r.comm), slowdown);
    EXPECT_NEAR(step.value(), r.step, 1e-9) << r.slow_compute;
    EXPECT_NEAR((r.compute + r.comm) / step.value(), r.speedup, 5e-5) << r.slow_compute;
    EXPECT_EQ(overlap_pays(slowdown), r.pays) << r.slow_compute;
  }
}

TEST(FluidInterference, PaysExactlyWhenTheStepBeatsTheSum) {
  Random random(21);
  for (int i = 0; i < 1000; ++i) {
    const Seconds compute(0.1 + random.uniform());
    const Seconds comm(0.1 + random.uniform());
    const Slowdowns slowdown{1 + 2 * random.uniform(), 1 + 2 * random.uniform()};
    const bool gains = fluid_step(compute, comm, slowdown) < compute + comm;
    EXPECT_EQ(overlap_pays(slowdown) == OverlapPays::yes, gains) << slowdown.compute << " " << slowdown.comm;
  }
}

TEST(FluidInterference, ATieIsWhereBothRatesAddUpToOne) {
  EXPECT_EQ(overlap_pays({3, 1.5}), OverlapPays::tie);  // 1/3 + 2/3, though not in binary
  EXPECT_DOUBLE_EQ(fluid_step(Seconds(7), Seconds(2), {3, 1.5}).value(), 9);
}

TEST(SlowdownsFromSpans, InvertTheModel) {
  Random random(22);
  for (int i = 0; i < 1000; ++i) {
    const Seconds compute(0.1 + random.uniform());
    const Seconds comm(0.1 + random.uniform());
    // Below one too: one may help the other, by holding the clock up or a page in cache.
    const Slowdowns slowdown{0.8 + 2 * random.uniform(), 0.8 + 2 * random.uniform()};
    const Slowdowns found = slowdowns_from_spans(compute, comm, fluid_spans(compute, comm, slowdown));
    EXPECT_NEAR(found.compute, slowdown.compute, 1e-9);
    EXPECT_NEAR(found.comm, slowdown.comm, 1e-9);
  }
}

TEST(SlowdownsFromSpans, OfEqualSpansAreStretches) {
  const Slowdowns found = slowdowns_from_spans(Seconds(100), Seconds(80), {Seconds(120), Seconds(120)});
  EXPECT_DOUBLE_EQ(found.compute, 1.2);
  EXPECT_DOUBLE_EQ(found.comm, 1.5);
}

TEST(SlowdownsFromSpans, HaveNoValueForOneThatOnlyQueued) {
  // Communication of 50 ends 50 after compute did: it did nothing beside it. Later than that is the same.
  const Slowdowns queued = slowdowns_from_spans(Seconds(100), Seconds(50), {Seconds(100), Seconds(150)});
  EXPECT_DOUBLE_EQ(queued.compute, 1);
  EXPECT_TRUE(std::isnan(queued.comm));
  EXPECT_TRUE(std::isnan(slowdowns_from_spans(Seconds(100), Seconds(50), {Seconds(100), Seconds(170)}).comm));
}

TEST(SlowdownsFromSpans, OfUnknownOrEmptyTimesAreUnknown) {
  const Slowdowns unseen = slowdowns_from_spans(Seconds(1), Seconds(1), {.compute = Seconds(2)});
  EXPECT_TRUE(std::isnan(unseen.compute));
  EXPECT_TRUE(std::isnan(unseen.comm));
  EXPECT_TRUE(std::isnan(slowdowns_from_spans(Seconds(0), Seconds(1), {Seconds(1), Seconds(1)}).compute));
}

}  // namespace
}  // namespace ovl
