// SPDX-License-Identifier: Apache-2.0
#include "schedule/ddp.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "base/error.hpp"
#include "metrics/path.hpp"
#include "program/print.hpp"
#include "schedule/soundness.hpp"
#include "support/errors.hpp"

namespace ovl {
namespace {

using test::error_text;
using testing::ElementsAre;

using Indices = std::vector<std::vector<std::size_t>>;

Indices tensors_of(const std::vector<Bucket>& buckets) {
  Indices all;
  for (const Bucket& b : buckets) all.push_back(b.tensors);
  return all;
}

// f32 tensors of so many KiB.
std::vector<Tensor> kib(std::initializer_list<std::int64_t> sizes) {
  std::vector<Tensor> tensors;
  for (const std::int64_t size : sizes) tensors.push_back({"t", size * 256, DType::f32, {}});
  return tensors;
}

// ---- assignment ----------------------------------------------------------------------------------------------------

// First limit 1 MiB, then 25 MiB, as PyTorch has it. 600 + 600 KiB reach the first and overshoot; 10 + 10 MiB do not
// reach the second, the next 10 do; what is left is the last.
TEST(BucketAssignment, WorkedExample) {
  const auto buckets = assign_buckets(kib({600, 600, 10240, 10240, 10240, 1024, 512}), {});
  EXPECT_EQ(tensors_of(buckets), (Indices{{0, 1}, {2, 3, 4}, {5, 6}}));
  EXPECT_EQ(buckets[0].size, kibibytes(1200));
  EXPECT_EQ(buckets[1].size, mebibytes(30));
  EXPECT_EQ(buckets[2].size, kibibytes(1536));
}

TEST(BucketAssignment, ATensorThatReachesTheLimitExactlyClosesItsBucket) {
  EXPECT_EQ(tensors_of(assign_buckets(kib({512, 512, 1}), {})), (Indices{{0, 1}, {2}}));
  EXPECT_EQ(tensors_of(assign_buckets(kib({512, 511, 1}), {})), (Indices{{0, 1, 2}}));
}

TEST(BucketAssignment, ATensorLargerThanTheLimitIsNotDivided) {
  EXPECT_EQ(tensors_of(assign_buckets(kib({102400, 1, 102400}), {})), (Indices{{0}, {1, 2}}));
}

// As compute_bucket_assignment_by_size does: each dtype has its own open bucket and its own first limit. f32 closes
// after tensor 2, bf16 after tensor 3; then each fills a bucket of the cap, and what is open follows by first tensor.
TEST(BucketAssignment, EachDTypeHasBucketsOfItsOwn) {
  const auto mib = [](DType dtype, std::int64_t size) {
    return Tensor{"t", size * 1048576 / bytes_of(dtype), dtype, {}};
  };
  std::vector<Tensor> tensors{{"half", 131072, DType::f32, {}},
                              {"quarter", 131072, DType::bf16, {}},
                              mib(DType::f32, 1),
                              mib(DType::bf16, 2),
                              mib(DType::f32, 5),
                              mib(DType::bf16, 30),
                              mib(DType::bf16, 3)};
  const auto buckets = assign_buckets(tensors, {});
  EXPECT_EQ(tensors_of(buckets), (Indices{{0, 2}, {1, 3}, {5}, {4}, {6}}));
  EXPECT_EQ(buckets[1].dtype, DType::bf16);
}

TEST(BucketAssignment, WithoutAFirstLimitAllBucketsHaveTheCap) {
  EXPECT_EQ(tensors_of(assign_buckets(kib({1, 1, 1, 1}), {.cap = kibibytes(2), .first = std::nullopt})),
            (Indices{{0, 1}, {2, 3}}));
}

TEST(BucketAssignment, ALastLimitMakesTheTailShorter) {
  const BucketLimits limits{.cap = kibibytes(4), .first = std::nullopt, .last = kibibytes(2)};
  EXPECT_EQ(tensors_of(assign_buckets(kib({3, 3, 3, 1, 1}), limits)), (Indices{{0, 1}, {2}, {3, 4}}));
  EXPECT_EQ(tensors_of(assign_buckets(kib({1}), limits)), (Indices{{0}})) << "all of it is the tail";
}

TEST(BucketAssignment, FromABucketATensorToOneForAll) {
  const auto tensors = kib({1, 2, 3, 4});
  EXPECT_EQ(assign_buckets(tensors, {.cap = Bytes(1), .first = std::nullopt}).size(), 4U);
  EXPECT_EQ(assign_buckets(tensors, {.cap = mebibytes(1000), .first = std::nullopt}).size(), 1U);
  EXPECT_TRUE(assign_buckets({}, {}).empty());
}

TEST(BucketAssignment, RefusesNoLimit) {
  EXPECT_EQ(
      error_text([] { (void)assign_buckets({}, {.cap = Bytes(0)}); }),
      "a bucket limit of 0 bytes is not possible: a bucket holds at least a tensor; type 1 for a bucket a tensor");
}

// ---- program -------------------------------------------------------------------------------------------------------

// One layer without biases: 2 tokens, 2 wide, inner width 2, qkv 6. Ready order: down 4, mlp 4, norm 2, proj 4, qkv 12,
// norm 2. Buckets of at least 40 bytes: {down, mlp, norm}, {proj, qkv}, {norm}.
DdpSpec tiny_ddp() {
  DdpSpec spec;
  spec.layers = {.model = "tiny", .count = 1, .tokens = 2, .hidden = 2, .qkv = 6, .inner = 2};
  spec.limits = {.cap = Bytes(40), .first = std::nullopt};
  return spec;
}

TEST(DdpProgram, WorkedExample) {
  EXPECT_EQ(print(ddp_program(tiny_ddp())),
            R"(program ddp ranks=2
lane compute role=compute priority=normal partition=auto waiting=yield
lane comm role=comm priority=normal partition=auto waiting=yield
comm 0 world transport=shm channels=1 groups={0..1}
event 0 after %4
event 1 after %7
event 2 after %12
event 3 after %15
event 4 after %17
event 5 after %20
buffer saved f32 count=16 memory=plain copies=1
buffer output_gradient f32 count=12 memory=plain copies=1
buffer input_gradient f32 count=4 memory=plain copies=1
buffer small_gradients f32 count=6 memory=plain copies=1
buffer weights f32 count=28 memory=plain copies=1
buffer gradients f32 count=28 memory=plain copies=1
buffer reduced f32 count=28 memory=plain copies=1
buffer master_weights f32 count=28 memory=plain copies=1
class all ranks={0..1}
  prologue
    %28 @compute fill -> output_gradient[0:12], weights[0:28], saved[0:16], small_gradients[0:6], gradients[0:28], reduced[0:28], master_weights[0:28]
  body
    %0 @compute gemm 2x2x2 f32 <- output_gradient[0:4], weights[0:4] -> input_gradient[0:4]
    %1 @compute gemm 2x2x2 f32 <- saved[12:16], output_gradient[0:4] -> gradients[0:4]
    %2 @compute gemm 2x2x2 f32 <- output_gradient[0:4], weights[4:8] -> input_gradient[0:4]
    %3 @compute gemm 2x2x2 f32 <- saved[8:12], output_gradient[0:4] -> gradients[4:8]
    %4 @compute copy <- small_gradients[0:2] -> gradients[8:10]
    %5 @compute record e0
    %6 @comm wait e0
    %7 @comm all_reduce 40 f32 comm=0 <- gradients[0:10] -> reduced[0:10]
    %8 @comm record e1
    %9 @compute gemm 2x2x2 f32 <- output_gradient[0:4], weights[10:14] -> input_gradient[0:4]
    %10 @compute gemm 2x2x2 f32 <- saved[4:8], output_gradient[0:4] -> gradients[10:14]
    %11 @compute gemm 2x2x6 f32 <- output_gradient[0:12], weights[14:26] -> input_gradient[0:4]
    %12 @compute gemm 2x6x2 f32 <- saved[0:4], output_gradient[0:12] -> gradients[14:26]
    %13 @compute record e2
    %14 @comm wait e2
    %15 @comm all_reduce 64 f32 comm=0 <- gradients[10:26] -> reduced[10:26]
    %16 @comm record e3
    %17 @compute copy <- small_gradients[0:2] -> gradients[26:28]
    %18 @compute record e4
    %19 @comm wait e4
    %20 @comm all_reduce 8 f32 comm=0 <- gradients[26:28] -> reduced[26:28]
    %21 @comm record e5
    %22 @compute wait e1
    %23 @compute elementwise <- reduced[0:10] -> master_weights[0:10]
    %24 @compute wait e3
    %25 @compute elementwise <- reduced[10:26] -> master_weights[10:26]
    %26 @compute wait e5
    %27 @compute elementwise <- reduced[26:28] -> master_weights[26:28]
  epilogue
    %29 @compute verify %1
    %30 @compute verify %3
    %31 @compute verify %7
    %32 @compute verify %10
    %33 @compute verify %11
    %34 @compute verify %12
    %35 @compute verify %15
    %36 @compute verify %20
)");
}

TEST(DdpProgram, NeedsEveryEdgeAndNoOther) {
  for (const std::int64_t cap : {1, 40, 1000}) {
    for (const bool biased : {false, true}) {
      DdpSpec spec = tiny_ddp();
      spec.layers.count = 3;
      spec.layers.biased = biased;
      spec.limits.cap = Bytes(cap);
      const Program program = ddp_program(spec);
      expect_sound(program, "cap " + std::to_string(cap));
      // Two edges a bucket: gradient to reduction, reduction to optimizer; both ends of each.
      const auto buckets = assign_buckets(ddp_gradients(spec), spec.limits).size();
      EXPECT_EQ(expect_every_edge_needed(program, "cap " + std::to_string(cap)), static_cast<int>(4 * buckets));
    }
  }
}

// In a window of several steps the optimizer's waits keep the next backward pass from gradients that are being reduced.
TEST(DdpProgram, StepsInAWindowNeedNoFurtherEdge) {
  DdpSpec spec = tiny_ddp();
  spec.repeats = 3;
  const Program program = ddp_program(spec);
  expect_sound(program, "window");
  EXPECT_EQ(expect_every_edge_needed(program, "window"), 3 * 12);
}

TEST(DdpProgram, EveryArmIsSound) {
  for (const auto& [arm, text] : EnumNames<Arm>::table)
    expect_sound(project(ddp_program(tiny_ddp()), arm), std::string(text));
}

TEST(DdpProgram, AGivenBackwardPassIsSharedByFlops) {
  DdpSpec spec = tiny_ddp();
  spec.backward = Seconds(8);
  const Program program = ddp_program(spec);
  double total = 0;
  for (const Operation& op : program.classes[0].body) {
    EXPECT_FALSE(std::holds_alternative<Gemm>(op.work));
    if (const auto* busy = std::get_if<Busy>(&op.work)) total += busy->duration.value();
  }
  EXPECT_NEAR(total, 8, 1e-12);
  expect_sound(program, "given");
}

// ---- given durations -----------------------------------------------------------------------------------------------

// A backward pass of 100 ms; 14 GB, so 28 GB on the wire, at 150 and at 360 GB/s, 50 us a launch. Derived
// once by another program from the recurrence of metrics/bucket_curve.hpp; to half a unit of the last digit printed.
struct UCurveRow {
  double wire_ms;
  std::int64_t buckets;
  double step_ms;
};
constexpr double hundred_fifty = 28.0 / 0.150;
constexpr double three_sixty = 28.0 / 0.360;
constexpr UCurveRow u_curve[] = {
    {hundred_fifty, 1, 286.7167},    {hundred_fifty, 2, 236.7667},   {hundred_fifty, 4, 211.8667},
    {hundred_fifty, 8, 199.5667},    {hundred_fifty, 16, 193.7167},  {hundred_fifty, 32, 191.3917},
    {hundred_fifty, 45, 191.1389},   {hundred_fifty, 64, 191.4292},  {hundred_fifty, 128, 193.8479},
    {hundred_fifty, 256, 199.8573},  {hundred_fifty, 535, 213.6036}, {hundred_fifty, 1024, 237.9643},
    {hundred_fifty, 4096, 391.4911}, {three_sixty, 1, 177.8278},     {three_sixty, 2, 138.9389},
    {three_sixty, 4, 119.4944},      {three_sixty, 8, 109.7722},     {three_sixty, 16, 104.9111},
    {three_sixty, 32, 102.4806},     {three_sixty, 45, 101.7784},    {three_sixty, 64, 101.2653},
    {three_sixty, 128, 100.6576},    {three_sixty, 256, 100.3538},   {three_sixty, 535, 104.7147},
    {three_sixty, 1024, 129.0754},   {three_sixty, 4096, 282.6022}};

TEST(DdpWhatIf, IsTheUCurve) {
  for (const UCurveRow& row : u_curve) {
    const Program program = ddp_program({.backward = milliseconds(100),
                                         .wire = milliseconds(row.wire_ms),
                                         .alpha = microseconds(50),
                                         .buckets = row.buckets},
                                        1);
    const Seconds step = makespan(earliest_spans(program, given_durations(program)));
    EXPECT_NEAR(step.value() * 1e3, row.step_ms, 0.5e-4) << row.buckets << " buckets, W = " << row.wire_ms;
  }
}

TEST(DdpWhatIf, IsSoundAndNeedsEveryEdge) {
  const Program program = ddp_program({Seconds(1), Seconds(1), Seconds(0), 5}, 3);
  expect_sound(program, "what if");
  EXPECT_EQ(expect_every_edge_needed(program, "what if"), 10);
}

TEST(DdpWhatIf, RefusesNoBucket) {
  EXPECT_EQ(error_text([] {
              (void)ddp_program({Seconds(1), Seconds(1), Seconds(0), 0}, 2);
            }),
            "0 buckets are not possible: the gradients are sent in one or more; type for example --equal-buckets 45");
}

}  // namespace
}  // namespace ovl
