// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/gate.hpp"
#include "base/error.hpp"

namespace ovl::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Refused {
  ErrorKind kind{};
  std::string text;
};
template <class Call>
Refused refused(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  return {ErrorKind::failure, "nothing was refused"};
}

TEST(Placing, OneProcessHasARankOnEachDevice) {
  const Placing all = place_ranks(0, 4, 0, 1, 0, 1);
  EXPECT_EQ(all.first, Rank(0));
  EXPECT_THAT(all.devices, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(place_ranks(2, 4, 0, 1, 0, 1).devices, ElementsAre(0, 1));
}

TEST(Placing, EachOfSeveralProcessesHasOneOnTheDeviceOfItsNumber) {
  // The sixth of eight processes, the second of its machine's four.
  const Placing one = place_ranks(0, 4, 5, 8, 1, 4);
  EXPECT_EQ(one.first, Rank(5));
  EXPECT_THAT(one.devices, ElementsAre(1));
  EXPECT_THAT(place_ranks(8, 4, 5, 8, 1, 4).devices, ElementsAre(1)) << "--ranks may say what there is";
}

TEST(Placing, ALauncherMayShowEachProcessItsDeviceAlone) {
  EXPECT_THAT(place_ranks(0, 1, 3, 4, 3, 4).devices, ElementsAre(0));
}

TEST(Placing, RefusesWhatNcclRefuses) {
  Refused r = refused([] { place_ranks(5, 4, 0, 1, 0, 1); });
  EXPECT_EQ(r.kind, ErrorKind::impossible);
  EXPECT_EQ(r.text, "5 ranks on 4 GPUs: NCCL refuses two ranks on one GPU; type --ranks 4 or less, or --backend host");
  r = refused([] { place_ranks(0, 2, 3, 4, 3, 4); });
  EXPECT_EQ(r.kind, ErrorKind::impossible);
  EXPECT_THAT(r.text, HasSubstr("CUDA_VISIBLE_DEVICES"));
  r = refused([] { place_ranks(3, 2, 0, 2, 0, 2); });
  EXPECT_EQ(r.kind, ErrorKind::usage);
  EXPECT_THAT(r.text, HasSubstr("--ranks 3 in a job of 2 processes"));
  EXPECT_EQ(refused([] { place_ranks(-1, 2, 0, 1, 0, 1); }).kind, ErrorKind::usage);
}

// From NCCL 2.30 on, where its variable says so.
TEST(Placing, TwoRanksShareAGpuOnlyWhereNcclIsToldTo) {
  EXPECT_EQ(ranks_of_a_gpu(nullptr, 23203), 1);
  EXPECT_EQ(ranks_of_a_gpu("0", 23203), 1);
  EXPECT_EQ(ranks_of_a_gpu("1", 22809), 1) << "it does not know the variable";
  EXPECT_EQ(ranks_of_a_gpu("1", 23003), 2);
  EXPECT_THAT(place_ranks(2, 1, 0, 1, 0, 1, 2).devices, ElementsAre(0, 0));
  EXPECT_THAT(place_ranks(3, 2, 0, 1, 0, 1, 2).devices, ElementsAre(0, 1, 0));
  EXPECT_THAT(place_ranks(0, 2, 0, 1, 0, 1, 2).devices, ElementsAre(0, 1)) << "not unless it is asked";
  EXPECT_THAT(place_ranks(0, 2, 3, 4, 3, 4, 2).devices, ElementsAre(1)) << "the fourth process of four";
  EXPECT_THAT(refused([] { place_ranks(3, 1, 0, 1, 0, 1, 2); }).text, HasSubstr("type --ranks 2 or less"));
}

TEST(Gate, IsTheDriversUnlessItHasNoneOrTheUserWantsAKernel) {
  EXPECT_EQ(choose_gate(true, nullptr), GateKind::wait_value);
  EXPECT_EQ(choose_gate(false, nullptr), GateKind::spin);
  EXPECT_EQ(choose_gate(true, "spin"), GateKind::spin);
  EXPECT_EQ(refused([] { choose_gate(false, "wait_value"); }).kind, ErrorKind::impossible);
  EXPECT_THAT(refused([] { choose_gate(true, "door"); }).text, HasSubstr("\"door\""));
}

TEST(LaunchBlocking, IsRefusedWithWhatToType) {
  EXPECT_EQ(blocking_reason(nullptr), "");
  EXPECT_EQ(blocking_reason(""), "");
  EXPECT_EQ(blocking_reason("0"), "");
  EXPECT_THAT(blocking_reason("1"), HasSubstr("CUDA_LAUNCH_BLOCKING=1 makes every launch wait for its kernel"));
  EXPECT_THAT(blocking_reason("1"), HasSubstr("; unset CUDA_LAUNCH_BLOCKING"));
}

TEST(OpenCuda, RefusesCores) {
  const auto world = make_solo_world();
  const Refused r = refused([&] { static_cast<void>(open_cuda(*world, {.cores = {0}})); });
  EXPECT_EQ(r.kind, ErrorKind::usage);
  EXPECT_EQ(
      r.text,
      "--cores with the cuda backend: its lanes are streams of a GPU, not threads on cores; leave --cores out, or "
      "type --backend host");
}

}  // namespace
}  // namespace ovl::cuda
