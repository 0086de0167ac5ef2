// SPDX-License-Identifier: Apache-2.0
#include "schedule/ordering.hpp"

#include <gmock/gmock.h>

#include "program/print.hpp"
#include "schedule/soundness.hpp"

namespace ovl {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using V = OrderingVariant;

OrderingSpec tiny(V variant) {
  OrderingSpec spec;
  spec.variant = variant;
  spec.m = spec.n = spec.k = 2;
  return spec;
}

TEST(Ordering, TheCorrectOneNeedsEveryEdge) {
  const Program program = ordering_program(tiny(V::correct));
  expect_sound(program, "correct");
  EXPECT_THAT(program.expected_findings, IsEmpty());
  EXPECT_EQ(expect_every_edge_needed(program, "correct"), 2 * (3 + 3));
}

TEST(Ordering, AGlobalSyncIsCorrect) { expect_sound(ordering_program(tiny(V::global_sync)), "global_sync"); }

// What the static check says of each gradient: who, and the edge that is missing.
TEST(Ordering, AMissingEventOfTheProducerIsARaceOnTheGradients) {
  const Program program = ordering_program(tiny(V::missing_producer_event));
  EXPECT_THAT(print(program), HasSubstr("program ordering ranks=2 expects=race\n"));
  const auto findings = check(program);
  ASSERT_EQ(findings.size(), 6U) << "pause and reduction of each of three gradients";
  for (const Finding& f : findings) {
    EXPECT_EQ(f.kind, FindingKind::race);
    EXPECT_THAT(f.message, HasSubstr("touch gradients and nothing orders them"));
  }
  EXPECT_THAT(unexpected_findings(program), IsEmpty());
}

TEST(Ordering, AMissingWaitOfTheConsumerIsARaceOnTheSums) {
  const Program program = ordering_program(tiny(V::missing_consumer_wait));
  const auto findings = check(program);
  ASSERT_EQ(findings.size(), 3U);
  for (const Finding& f : findings) EXPECT_THAT(f.message, HasSubstr("touch reduced and nothing orders them"));
  EXPECT_THAT(unexpected_findings(program), IsEmpty());
}

TEST(Ordering, AnotherOrderOnOneRankIsAMismatchAndRefused) {
  OrderingSpec spec = tiny(V::rank_misorder);
  const auto findings = unexpected_findings(ordering_program(spec));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, FindingKind::mismatch);
  EXPECT_EQ(findings[0].message,
            "communicator world, collective 0: rank 0 has all_reduce of 4 f32 root 0, rank 1 has all_reduce of 8 f32 "
            "root 0");
  spec.run_anyway = true;
  EXPECT_THAT(unexpected_findings(ordering_program(spec)), IsEmpty());
}

// A mistake of another kind than the announced one is still refused.
TEST(Ordering, ExpectsNoOtherFinding) {
  Program program = ordering_program(tiny(V::missing_producer_event));
  program.buffers[0].count = 1;
  const auto findings = unexpected_findings(program);
  ASSERT_THAT(findings, Not(IsEmpty()));
  EXPECT_EQ(findings[0].kind, FindingKind::shape);
}

}  // namespace
}  // namespace ovl
