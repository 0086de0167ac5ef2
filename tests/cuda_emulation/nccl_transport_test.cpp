// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/nccl_transport.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace ovl::emulation::nccl {
namespace {

std::string fresh_name() {
  static std::atomic<int> next{0};
  return "/ovl-transport-test-" + std::to_string(getpid()) + "-" + std::to_string(next++);
}

const std::byte* bytes(const std::vector<float>& values) {
  return static_cast<const std::byte*>(static_cast<const void*>(values.data()));
}
std::byte* bytes(std::vector<float>& values) { return static_cast<std::byte*>(static_cast<void*>(values.data())); }

// Every rank is a thread that attaches for itself, as a process would.
template <class Body>
void on_ranks(
    int ranks, Body body, Stop stop = [] { return false; }) {
  const std::string name = fresh_name();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Segment segment(name, ranks);
      ASSERT_TRUE(segment.join(rank, {.device = std::to_string(rank), .version = 1}));
      const std::uint64_t all = segment.arrive();
      ASSERT_TRUE(wait_until([&] { return segment.all_arrived(all); }, stop));
      body(Party{.segment = segment, .rank = rank, .stop = stop});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(NcclTransport, AllReduceSumsAllRanksEverywhere) {
  on_ranks(3, [](const Party& party) {
    const auto r = static_cast<float>(party.rank);  // 0 1 2, ten times as much in the second element
    const std::vector<float> in{r + 1, 10 * (r + 1), 0.5F, -r};
    std::vector<float> out(4);
    EXPECT_TRUE(all_reduce(party, Element::f32, bytes(in), bytes(out), 4));
    EXPECT_EQ(out, (std::vector<float>{6, 60, 1.5F, -3}));  // 1+2+3, 10+20+30, 3*0.5, 0-1-2
  });
}

TEST(NcclTransport, AllReduceInPlaceOfManyChunks) {
  constexpr std::size_t count = 100'003;  // 400 kB: several chunks a block, and no multiple of 2
  on_ranks(2, [](const Party& party) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(i % 1000) * (party.rank == 0 ? 1.0F : 2.0F);
    }
    EXPECT_TRUE(all_reduce(party, Element::f32, bytes(values), bytes(values), count));
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(values[i], static_cast<float>(3 * (i % 1000))) << i;
    }
  });
}

TEST(NcclTransport, AFewerElementsThanRanks) {
  on_ranks(4, [](const Party& party) {
    std::vector<float> value{static_cast<float>(1 << party.rank)};
    EXPECT_TRUE(all_reduce(party, Element::f32, bytes(value), bytes(value), 1));
    EXPECT_EQ(value[0], 15);
  });
}

TEST(NcclTransport, ReduceScatterGivesEachRankItsBlock) {
  on_ranks(2, [](const Party& party) {
    const std::vector<float> in = party.rank == 0 ? std::vector<float>{1, 2, 3, 4} : std::vector<float>{10, 20, 30, 40};
    std::vector<float> out(2);
    EXPECT_TRUE(reduce_scatter(party, Element::f32, bytes(in), bytes(out), 2));
    EXPECT_EQ(out, party.rank == 0 ? (std::vector<float>{11, 22}) : (std::vector<float>{33, 44}));
  });
}

TEST(NcclTransport, ReduceScatterInPlace) {
  on_ranks(2, [](const Party& party) {
    std::vector<float> values = party.rank == 0 ? std::vector<float>{1, 2, 3, 4} : std::vector<float>{10, 20, 30, 40};
    const auto mine = static_cast<std::size_t>(party.rank) * 2;
    EXPECT_TRUE(reduce_scatter(party, Element::f32, bytes(values), bytes(values) + mine * sizeof(float), 2));
    EXPECT_EQ(values, party.rank == 0 ? (std::vector<float>{11, 22, 3, 4}) : (std::vector<float>{10, 20, 33, 44}));
  });
}

TEST(NcclTransport, AllGatherKeepsRankOrderAlsoInPlace) {
  on_ranks(3, [](const Party& party) {
    const auto r = static_cast<float>(party.rank);
    const std::vector<float> expected{0, 0.5F, 1, 1.5F, 2, 2.5F};
    const std::vector<float> in{r, r + 0.5F};
    std::vector<float> out(6, -1);
    EXPECT_TRUE(all_gather(party, Element::f32, bytes(in), bytes(out), 2));
    EXPECT_EQ(out, expected);
    std::vector<float> both(6, -1);
    const auto mine = static_cast<std::size_t>(party.rank) * 2;
    std::memcpy(both.data() + mine, in.data(), 2 * sizeof(float));
    EXPECT_TRUE(all_gather(party, Element::f32, bytes(both) + mine * sizeof(float), bytes(both), 2));
    EXPECT_EQ(both, expected);
  });
}

TEST(NcclTransport, BroadcastTakesTheRootsInputAlone) {
  on_ranks(3, [](const Party& party) {
    const std::vector<float> in{static_cast<float>(party.rank) + 7};
    std::vector<float> out(1);
    EXPECT_TRUE(broadcast(party, Element::f32, bytes(in), bytes(out), 1, 2));
    EXPECT_EQ(out[0], 9);
  });
}

TEST(NcclTransport, AllToAllTransposes) {
  on_ranks(2, [](const Party& party) {
    const std::vector<float> in = party.rank == 0 ? std::vector<float>{1, 2} : std::vector<float>{3, 4};
    std::vector<float> out(2);
    EXPECT_TRUE(all_to_all(party, Element::f32, bytes(in), bytes(out), 1));
    EXPECT_EQ(out, party.rank == 0 ? (std::vector<float>{1, 3}) : (std::vector<float>{2, 4}));
  });
}

TEST(NcclTransport, ExchangeMatchesSeveralMessagesOfAPairInOrder) {
  on_ranks(2, [](const Party& party) {
    const auto base = static_cast<float>(10 * party.rank);
    const std::vector<float> first{base + 1};
    const std::vector<float> second{base + 2, base + 3};
    std::vector<float> one(1);
    std::vector<float> two(2);
    const int peer = 1 - party.rank;
    EXPECT_TRUE(exchange(party, {{peer, bytes(first), 4}, {peer, bytes(second), 8}},
                         {{peer, bytes(one), 4}, {peer, bytes(two), 8}}));
    const float other = 10 - base;
    EXPECT_EQ(one, (std::vector<float>{other + 1}));
    EXPECT_EQ(two, (std::vector<float>{other + 2, other + 3}));
  });
}

TEST(NcclTransport, ARankSendsToItself) {
  on_ranks(1, [](const Party& party) {
    const std::vector<float> in(100'000, 3);  // more than the mailbox holds
    std::vector<float> out(100'000);
    EXPECT_TRUE(exchange(party, {{0, bytes(in), 400'000}}, {{0, bytes(out), 400'000}}));
    EXPECT_EQ(out, in);
  });
}

TEST(NcclTransport, SumsInRankOrderInDoubleAndRoundsOnce) {
  // 2^24 + 1 is no float. In float and rank order: (2^24 + 1) + 1 = 2^24. In double: 2^24 + 2, which is one.
  on_ranks(3, [](const Party& party) {
    std::vector<float> value{party.rank == 0 ? 16777216.0F : 1.0F};
    EXPECT_TRUE(all_reduce(party, Element::f32, bytes(value), bytes(value), 1));
    EXPECT_EQ(value[0], 16777218.0F);
  });
}

TEST(NcclTransport, SumsNarrowTypes) {
  on_ranks(2, [](const Party& party) {
    // 1.5 in bf16 (0x3fc0), f16 (0x3e00) and f8e4m3 (0x3c); 1.5 + 1.5 = 3: 0x4040, 0x4200, 0x44.
    std::uint16_t bf16 = 0x3fc0;
    std::uint16_t f16 = 0x3e00;
    std::uint8_t f8 = 0x3c;
    const auto at = [](auto& value) { return static_cast<std::byte*>(static_cast<void*>(&value)); };
    EXPECT_TRUE(all_reduce(party, Element::bf16, at(bf16), at(bf16), 1));
    EXPECT_TRUE(all_reduce(party, Element::f16, at(f16), at(f16), 1));
    EXPECT_TRUE(all_reduce(party, Element::f8e4m3, at(f8), at(f8), 1));
    EXPECT_EQ(bf16, 0x4040);
    EXPECT_EQ(f16, 0x4200);
    EXPECT_EQ(f8, 0x44);
  });
}

TEST(NcclTransport, RoundsHalfToEvenAndSaturatesF8) {
  std::uint16_t bf16 = 0;
  const auto at = [](auto& value) { return static_cast<std::byte*>(static_cast<void*>(&value)); };
  store(Element::bf16, at(bf16), 0, 1.00390625);  // 1 + 2^-8 lies between 1 and 1 + 2^-7
  EXPECT_EQ(bf16, 0x3f80);
  store(Element::bf16, at(bf16), 0, 1.01171875);  // 1 + 3 * 2^-8 lies between 1 + 2^-7 and 1 + 2^-6
  EXPECT_EQ(bf16, 0x3f82);
  std::uint8_t f8 = 0;
  store(Element::f8e4m3, at(f8), 0, 1000);
  EXPECT_EQ(f8, 0x7e);  // 448
  EXPECT_EQ(load(Element::f8e4m3, at(f8), 0), 448);
}

// A rank in another operation never takes what it gets: both wait until they are told to stop.
template <class First, class Second>
void expect_hang(First first, Second second) {
  std::atomic<int> waiting{0};
  std::atomic<bool> enough{false};
  const Stop stop = [&] {
    thread_local int polls = 0;  // no time decides: many polls of both without any progress
    if (++polls == 200) {
      enough = ++waiting == 2 || enough;
    }
    return enough.load();
  };
  on_ranks(
      2, [&](const Party& party) { EXPECT_FALSE(party.rank == 0 ? first(party) : second(party)); }, stop);
}

TEST(NcclTransport, AMismatchHangsUntilStopped) {
  const std::vector<float> in(8, 1);
  const auto reduce = [&](std::size_t count, Element element) {
    return [&in, count, element](const Party& party) {
      std::vector<float> out(8);
      return all_reduce(party, element, bytes(in), bytes(out), count);
    };
  };
  const auto gather = [&](const Party& party) {
    std::vector<float> out(16);
    return all_gather(party, Element::f32, bytes(in), bytes(out), 8);
  };
  const auto cast = [&](int root) {
    return [&in, root](const Party& party) {
      std::vector<float> out(8);
      return broadcast(party, Element::f32, bytes(in), bytes(out), 8, root);
    };
  };
  expect_hang(reduce(8, Element::f32), reduce(4, Element::f32));   // count
  expect_hang(reduce(8, Element::f32), reduce(8, Element::bf16));  // type
  expect_hang(reduce(8, Element::f32), gather);                    // operation
  expect_hang(cast(0), cast(1));                                   // root
}

TEST(NcclTransport, AMessageWithoutItsReceiveHangs) {
  const std::vector<float> in(1, 1);
  const auto send = [&in](const Party& party) { return exchange(party, {{1 - party.rank, bytes(in), 4}}, {}); };
  expect_hang(send, send);
}

TEST(NcclTransport, APlaceIsTakenOnceAndRanksMustAgreeOnTheirNumber) {
  const std::string name = fresh_name();
  Segment first(name, 2);
  Segment second(name, 2);
  EXPECT_TRUE(first.join(0, {.device = "a", .version = 22809}));
  EXPECT_FALSE(second.join(0, {.device = "b", .version = 22809}));
  EXPECT_EQ(second.identity(0).device, "a");
  EXPECT_EQ(second.identity(0).version, 22809);
  Segment other(name, 3);
  EXPECT_FALSE(other.join(2, {.device = "c", .version = 22809}));
}

}  // namespace
}  // namespace ovl::emulation::nccl
