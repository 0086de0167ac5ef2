// SPDX-License-Identifier: Apache-2.0
#include "backend/conformance.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "program/builder.hpp"
#include "program/print.hpp"
#include "schedule/collective.hpp"

namespace ovl {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

using Array = std::vector<double>;
using ByRank = std::vector<Array>;  // one array a rank

ByRank contents(const Prepared& prepared, BufferId buffer, int ranks, int copy = 0) {
  ByRank all;
  for (int r = 0; r < ranks; ++r) all.push_back(prepared.contents(buffer, Rank(r), copy));
  return all;
}

std::unique_ptr<Prepared> prepare(Backend& backend, Program program, Data data = Data::exact) {
  std::vector<Program> arms;
  arms.push_back(std::move(program));
  return backend.prepare(std::move(arms), data, 7);
}

// ---- collectives ---------------------------------------------------------------------------------------------------

struct CollectiveCase {
  CollectiveKind kind;
  int ranks;
  std::int64_t count;  // of the whole array
  bool in_place;
  int channels;
  Waiting waiting;
  DType dtype = DType::f32;

  [[nodiscard]] std::string text() const {
    return std::string(name(kind)) + " n=" + std::to_string(ranks) + " count=" + std::to_string(count) +
           (in_place ? " in place" : "") + " channels=" + std::to_string(channels) + " " + std::string(name(waiting)) +
           " " + std::string(name(dtype));
  }
  [[nodiscard]] std::int64_t input_count() const { return kind == CollectiveKind::all_gather ? count / ranks : count; }
  [[nodiscard]] std::int64_t output_count() const {
    return kind == CollectiveKind::reduce_scatter ? count / ranks : count;
  }
  [[nodiscard]] int root() const { return ranks - 1; }
};

// In place as NCCL has it: all_gather's input is the rank's block of its output, reduce_scatter's output the rank's
// block of its input.
struct CollectiveProgram {
  Program program;
  BufferId in;
  BufferId out;
};

CollectiveProgram collective_program(const CollectiveCase& c, const BackendUnderTest& under_test) {
  ProgramBuilder p("collective", c.ranks);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication, .waiting = c.waiting});
  const CommId comm = p.world("world", under_test.transport, c.channels, under_test.progress);
  const std::int64_t whole = c.in_place ? c.count : c.input_count();
  const BufferId in = p.buffer({.name = "in", .dtype = c.dtype, .count = whole});
  const BufferId out = c.in_place ? in : p.buffer({.name = "out", .dtype = c.dtype, .count = c.output_count()});
  for (int r = 0; r < c.ranks; ++r) {
    ClassBuilder rank = p.ranks("rank" + std::to_string(r), {Rank(r)});
    const std::int64_t block = c.count / c.ranks * r;
    const Slice read{in, c.in_place && c.kind == CollectiveKind::all_gather ? block : 0, c.input_count()};
    const Slice write{out, c.in_place && c.kind == CollectiveKind::reduce_scatter ? block : 0, c.output_count()};
    rank.prologue(lane, Fill{}, {}, {p.whole(in)});
    rank.body(lane, Collective{c.kind, comm, c.dtype, c.count, c.root()}, {read}, {write});
  }
  return {std::move(p).finish(), in, out};
}

// The straightforward definition. `in` and the result hold the declared buffers whole.
ByRank expected(const CollectiveCase& c, const ByRank& in) {
  const auto n = static_cast<std::size_t>(c.ranks);
  const std::size_t block = static_cast<std::size_t>(c.count) / n;
  Array sum(static_cast<std::size_t>(c.count), 0.0);
  if (c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::reduce_scatter) {
    for (const Array& a : in) std::transform(a.begin(), a.end(), sum.begin(), sum.begin(), std::plus<>());
  }
  ByRank out(n);
  for (std::size_t r = 0; r < n; ++r) {
    const auto block_of = [&](const Array& a, std::size_t b) {
      return Array(a.begin() + static_cast<std::ptrdiff_t>(b * block),
                   a.begin() + static_cast<std::ptrdiff_t>((b + 1) * block));
    };
    const auto append = [&](const Array& a) { out[r].insert(out[r].end(), a.begin(), a.end()); };
    switch (c.kind) {
      case CollectiveKind::all_reduce: out[r] = sum; break;
      case CollectiveKind::broadcast: out[r] = in[static_cast<std::size_t>(c.root())]; break;
      case CollectiveKind::all_gather:
        for (std::size_t p = 0; p < n; ++p) append(c.in_place ? block_of(in[p], p) : in[p]);
        break;
      case CollectiveKind::all_to_all:
        for (std::size_t p = 0; p < n; ++p) append(block_of(in[p], r));
        break;
      case CollectiveKind::reduce_scatter:
        if (!c.in_place) {
          out[r] = block_of(sum, r);
        } else {
          out[r] = in[r];
          std::copy_n(sum.begin() + static_cast<std::ptrdiff_t>(r * block), block,
                      out[r].begin() + static_cast<std::ptrdiff_t>(r * block));
        }
        break;
    }
  }
  return out;
}

void expect_collective(Backend& backend, const BackendUnderTest& under_test, const CollectiveCase& c) {
  SCOPED_TRACE(c.text());
  CollectiveProgram p = collective_program(c, under_test);
  const auto prepared = prepare(backend, p.program);
  const ByRank want = expected(c, contents(*prepared, p.in, c.ranks));
  prepared->run(0, {});
  EXPECT_EQ(contents(*prepared, p.out, c.ranks), want);
}

TEST_P(BackendConformance, AllReduceOfTwoRanksIsTheSumOfTheirInputs) {
  const CollectiveCase c{CollectiveKind::all_reduce, 2, 3, false, 1, Waiting::yield};
  CollectiveProgram p = collective_program(c, GetParam());
  const auto prepared = prepare(*backend_, p.program);
  const Array a = prepared->contents(p.in, Rank(0), 0);
  const Array b = prepared->contents(p.in, Rank(1), 0);
  EXPECT_NE(a, b) << "ranks must hold different data, or a wrong sum could pass";
  EXPECT_THAT(prepared->contents(p.out, Rank(0), 0), Each(testing::IsNan())) << "outputs hold what no result can";
  prepared->run(0, {});
  const Array sum{a[0] + b[0], a[1] + b[1], a[2] + b[2]};
  EXPECT_EQ(prepared->contents(p.out, Rank(0), 0), sum);
  EXPECT_EQ(prepared->contents(p.out, Rank(1), 0), sum);
}

TEST_P(BackendConformance, EveryCollectiveIsExactForEveryShape) {
  for (const auto& [kind, kind_name] : EnumNames<CollectiveKind>::table) {
    const bool divides = kind != CollectiveKind::all_reduce && kind != CollectiveKind::broadcast;
    for (int n = 1; n <= 4; ++n) {
      if (!places(n)) continue;
      for (std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, std::int64_t{n - 1},
                                 std::int64_t{1000}, std::int64_t{1} << 18}) {
        if (divides) count = count / n * n;
        for (const bool in_place : {false, true}) {
          if (in_place && kind == CollectiveKind::all_to_all) continue;
          if (in_place && kind == CollectiveKind::reduce_scatter && !GetParam().scatters_in_place) continue;
          for (int channels = 1; channels <= GetParam().most_channels; ++channels) {
            expect_collective(*backend_, GetParam(), {kind, n, count, in_place, channels, Waiting::yield});
          }
        }
      }
    }
  }
}

TEST_P(BackendConformance, EveryCollectiveIsExactInEveryDTypeAndWaiting) {
  for (const auto& [kind, kind_name] : EnumNames<CollectiveKind>::table) {
    for (const Waiting waiting : GetParam().waitings) {
      for (const DType dtype : backend_->describe().dtypes) {
        const int n = places(3) ? 3 : 2;
        expect_collective(*backend_, GetParam(),
                          {kind, n, 6 * 2500, false, std::min(2, GetParam().most_channels), waiting, dtype});
      }
    }
  }
}

TEST_P(BackendConformance, EveryCollectiveIsExactAboveOneWindowOfPieces) {
  for (const auto& [kind, kind_name] : EnumNames<CollectiveKind>::table) {
    for (const int n : {2, 3, 5}) {
      if (!places(n)) continue;
      expect_collective(*backend_, GetParam(), {kind, n, n * 400'001, false, 1, Waiting::yield});
    }
  }
}

// What is reduced in parts and gathered, or inside groups and across them, is what one all_reduce gives, to the bit.
TEST_P(BackendConformance, SequencesOfCollectivesGiveTheSumOfAnAllReduce) {
  for (const CollectiveForm form : {CollectiveForm::all_reduce, CollectiveForm::reduce_scatter_all_gather,
                                    CollectiveForm::all_reduce_hierarchical}) {
    for (const int n : {2, 3, 4, 6}) {
      if (!places(n) || (form == CollectiveForm::all_reduce_hierarchical && (n < 4 || n % 2 != 0))) continue;
      SCOPED_TRACE(std::string(name(form)) + " n=" + std::to_string(n));
      const CollectiveSpec spec{
          .ranks = n, .form = form, .bytes = Bytes(4 * 12 * 1001), .transport = GetParam().transport, .repeats = 2};
      const Program program = collective_program(spec);
      const BufferId send(0);
      const BufferId receive(program.buffers.size() - 1);
      ASSERT_EQ(program.buffers.back().name, "receive");
      const auto prepared = prepare(*backend_, program);
      const ByRank in = contents(*prepared, send, n);
      Array sum(in[0].size());
      for (const Array& a : in) std::transform(a.begin(), a.end(), sum.begin(), sum.begin(), std::plus<>());
      prepared->run(0, {});
      EXPECT_THAT(contents(*prepared, receive, n), Each(sum));
    }
  }
}

TEST_P(BackendConformance, GroupsOfOneCommunicatorDoNotMeet) {
  if (!places(4)) GTEST_SKIP() << "two groups of two need four ranks";
  // Ranks 0 and 2 sum among themselves, 3 and 1 too; a root is an index within the group.
  ProgramBuilder p("groups", 4);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const CommId comm = p.communicator({.name = "pairs",
                                      .groups = {{Rank(0), Rank(2)}, {Rank(3), Rank(1)}},
                                      .transport = GetParam().transport,
                                      .progress = GetParam().progress});
  const BufferId in = p.buffer({.name = "in", .count = 100});
  const BufferId sum = p.buffer({.name = "sum", .count = 100});
  const BufferId sent = p.buffer({.name = "sent", .count = 100});
  ClassBuilder all = p.all_ranks();
  all.prologue(lane, Fill{}, {}, {p.whole(in)});
  all.body(lane, Collective{CollectiveKind::all_reduce, comm, DType::f32, 100, 0}, {p.whole(in)}, {p.whole(sum)});
  all.body(lane, Collective{CollectiveKind::broadcast, comm, DType::f32, 100, 0}, {p.whole(in)}, {p.whole(sent)});
  const auto prepared = prepare(*backend_, std::move(p).finish());
  prepared->run(0, {});
  const ByRank x = contents(*prepared, in, 4);
  const auto added = [](Array a, const Array& b) {
    std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::plus<>());
    return a;
  };
  EXPECT_EQ(contents(*prepared, sum, 4),
            (ByRank{added(x[0], x[2]), added(x[1], x[3]), added(x[0], x[2]), added(x[1], x[3])}));
  EXPECT_EQ(contents(*prepared, sent, 4), (ByRank{x[0], x[3], x[0], x[3]}));
}

TEST_P(BackendConformance, LanesThatShareACommunicatorUseItInIssueOrder) {
  // Rank 0 issues on its lanes in turn, rank 1 all on one: the order on the communicator is the same.
  ProgramBuilder p("shared", 2);
  const LaneId a = p.lane({.name = "a", .role = Role::communication});
  const LaneId b = p.lane({.name = "b", .role = Role::communication});
  const CommId comm =
      p.world("world", GetParam().transport, std::min(2, GetParam().most_channels), GetParam().progress);
  constexpr std::int64_t part = 3000;
  constexpr int parts = 6;
  const BufferId in = p.buffer({.name = "in", .count = part * parts});
  const BufferId out = p.buffer({.name = "out", .count = part * parts});
  for (const int r : {0, 1}) {
    ClassBuilder rank = p.ranks("rank" + std::to_string(r), {Rank(r)});
    rank.prologue(a, Fill{}, {}, {p.whole(in)});
    for (int i = 0; i < parts; ++i) {
      rank.body(r == 0 && i % 2 == 0 ? b : a, Collective{CollectiveKind::all_reduce, comm, DType::f32, part, 0},
                {{in, i * part, part}}, {{out, i * part, part}});
    }
  }
  const auto prepared = prepare(*backend_, std::move(p).finish());
  Array sum = prepared->contents(in, Rank(0), 0);
  const Array other = prepared->contents(in, Rank(1), 0);
  std::transform(sum.begin(), sum.end(), other.begin(), sum.begin(), std::plus<>());
  for (int replay = 0; replay < 50; ++replay) {
    prepared->reset();
    prepared->run(0, {});
    ASSERT_EQ(contents(*prepared, out, 2), (ByRank{sum, sum}));
  }
}

// ---- exchanges -----------------------------------------------------------------------------------------------------

struct Wire {
  int rank;
  Transfer transfer;
  std::int64_t offset;
};

// A send takes `count` elements at its offset of "in", a receive puts them at its offset of "out".
CollectiveProgram exchange_program(int ranks, const BackendUnderTest& under_test, std::int64_t count,
                                   const std::vector<std::vector<Wire>>& exchanges) {
  ProgramBuilder p("exchange", ranks);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const CommId comm = p.world("world", under_test.transport, 1, under_test.progress);
  const BufferId in = p.buffer({.name = "in", .count = 4 * count});
  const BufferId out = p.buffer({.name = "out", .count = 4 * count});
  for (int r = 0; r < ranks; ++r) {
    ClassBuilder rank = p.ranks("rank" + std::to_string(r), {Rank(r)});
    rank.prologue(lane, Fill{}, {}, {p.whole(in)});
    for (const std::vector<Wire>& wires : exchanges) {
      Exchange e{comm, DType::f32, {}};
      std::vector<Slice> reads;
      std::vector<Slice> writes;
      for (const Wire& w : wires) {
        if (w.rank != r) continue;
        e.transfers.push_back(w.transfer);
        (w.transfer.direction == Direction::send ? reads : writes)
            .push_back({w.transfer.direction == Direction::send ? in : out, w.offset * count, count});
      }
      if (!e.transfers.empty()) rank.body(lane, e, reads, writes);
    }
  }
  return {std::move(p).finish(), in, out};
}

Array quarter(const Array& array, std::int64_t index) {
  const auto size = static_cast<std::ptrdiff_t>(array.size()) / 4;
  return {array.begin() + index * size, array.begin() + (index + 1) * size};
}

Transfer send(int peer) { return {Direction::send, peer}; }
Transfer receive(int peer) { return {Direction::receive, peer}; }

TEST_P(BackendConformance, ARingShiftGivesEachRankTheDataOfTheOneBefore) {
  for (const int n : {1, 2, 3, 4}) {
    if (!places(n)) continue;
    SCOPED_TRACE(n);
    std::vector<Wire> wires;
    for (int r = 0; r < n; ++r) {
      wires.push_back({r, receive((r + n - 1) % n), 0});
      wires.push_back({r, send((r + 1) % n), 0});
    }
    const CollectiveProgram p = exchange_program(n, GetParam(), 1000, {wires});
    const auto prepared = prepare(*backend_, p.program);
    prepared->run(0, {});
    for (int r = 0; r < n; ++r) {
      EXPECT_EQ(quarter(prepared->contents(p.out, Rank(r), 0), 0),
                quarter(prepared->contents(p.in, Rank((r + n - 1) % n), 0), 0));
    }
  }
}

TEST_P(BackendConformance, MessagesBetweenTwoRanksMeetInTheirOrder) {
  // Rank 0 sends its quarters 2, 0, 1; rank 1 receives into 0, 1, 3 in two exchanges, and sends one back meanwhile.
  const CollectiveProgram p = exchange_program(
      2, GetParam(), 100,
      {{{0, send(1), 2}, {0, send(1), 0}, {0, send(1), 1}, {0, receive(1), 3}, {1, receive(0), 0}, {1, send(0), 1}},
       {{1, receive(0), 1}, {1, receive(0), 3}}});
  const auto prepared = prepare(*backend_, p.program);
  prepared->run(0, {});
  const ByRank in = contents(*prepared, p.in, 2);
  const ByRank out = contents(*prepared, p.out, 2);
  EXPECT_EQ(quarter(out[1], 0), quarter(in[0], 2));
  EXPECT_EQ(quarter(out[1], 1), quarter(in[0], 0));
  EXPECT_EQ(quarter(out[1], 3), quarter(in[0], 1));
  EXPECT_EQ(quarter(out[0], 3), quarter(in[1], 1));
}

TEST_P(BackendConformance, AnExchangeTakesWhatIsThereFirst) {
  if (!places(3)) GTEST_SKIP() << "needs three ranks";
  // Rank 0 lists rank 1 first, but rank 1 cannot send before rank 2 has got rid of its message to rank 0.
  const CollectiveProgram p = exchange_program(3, GetParam(), 10,
                                               {{{0, receive(1), 0}, {0, receive(2), 1}, {2, send(0), 0}},
                                                {{2, send(1), 1}, {1, receive(2), 0}},
                                                {{1, send(0), 2}}});
  const auto prepared = prepare(*backend_, p.program);
  prepared->run(0, {});
  const ByRank in = contents(*prepared, p.in, 3);
  EXPECT_EQ(quarter(prepared->contents(p.out, Rank(0), 0), 0), quarter(in[1], 2));
  EXPECT_EQ(quarter(prepared->contents(p.out, Rank(0), 0), 1), quarter(in[2], 0));
}

// ---- compute -------------------------------------------------------------------------------------------------------

TEST_P(BackendConformance, GemmIsTheRowMajorProduct) {
  for (const DType dtype : backend_->describe().dtypes) {
    SCOPED_TRACE(name(dtype));
    const bool f8 = dtype == DType::f8e4m3;  // only in multiples of 16, with b stored n×k
    const std::int64_t m = f8 ? 16 : 3;
    const std::int64_t n = f8 ? 48 : 5;
    const std::int64_t k = f8 ? 32 : 4;
    ProgramBuilder p("gemm", 2);
    const LaneId lane = p.lane({.name = "compute"});
    const BufferId a = p.buffer({.name = "a", .dtype = dtype, .count = m * k});
    const BufferId b = p.buffer({.name = "b", .dtype = dtype, .count = k * n});
    const BufferId c = p.buffer({.name = "c", .dtype = gemm_output(dtype), .count = m * n});
    ClassBuilder all = p.all_ranks();
    all.prologue(lane, Fill{}, {}, {p.whole(a), p.whole(b)});
    all.body(lane, Gemm{m, n, k, dtype, 2}, {p.whole(a), p.whole(b)}, {p.whole(c)});
    const auto prepared = prepare(*backend_, std::move(p).finish());
    prepared->run(0, {});
    for (int r = 0; r < 2; ++r) {
      const Array left = prepared->contents(a, Rank(r), 0);
      const Array right = prepared->contents(b, Rank(r), 0);
      const auto [rows, columns, inner] =
          std::array{static_cast<std::size_t>(m), static_cast<std::size_t>(n), static_cast<std::size_t>(k)};
      Array product(rows * columns, 0.0);
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          for (std::size_t l = 0; l < inner; ++l) {
            product[i * columns + j] += left[i * inner + l] * right[f8 ? j * inner + l : l * columns + j];
          }
        }
      }
      EXPECT_EQ(prepared->contents(c, Rank(r), 0), product);
    }
  }
}

TEST_P(BackendConformance, ElementwiseAddsAllReadsToWhatIsThere) {
  ProgramBuilder p("elementwise", few_ranks());
  const LaneId lane = p.lane({.name = "compute"});
  const BufferId a = p.buffer({.name = "a", .count = 10});
  const BufferId b = p.buffer({.name = "b", .count = 10});
  const BufferId sum = p.buffer({.name = "sum", .count = 10});
  ClassBuilder all = p.all_ranks();
  all.prologue(lane, Fill{}, {}, {p.whole(a), p.whole(b)});
  all.body(lane, Copy{}, {p.whole(b)}, {p.whole(sum)});
  all.body(lane, Elementwise{}, {p.whole(a), p.whole(b)}, {p.whole(sum)});
  const auto prepared = prepare(*backend_, std::move(p).finish());
  prepared->run(0, {});
  const Array x = prepared->contents(a, Rank(0), 0);
  const Array y = prepared->contents(b, Rank(0), 0);
  const Array z = prepared->contents(sum, Rank(0), 0);
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_EQ(z[i], x[i] + 2 * y[i]);
}

// ---- order ---------------------------------------------------------------------------------------------------------

// One lane produces into "stage" by copying "in", the other consumes it into "out"; a stale read would find the NaN or
// the other copy's data.
struct Handover {
  Program program;
  BufferId in;
  BufferId out;
};

template <class Order>
Handover handover(int copies, Waiting waiting, Order order) {
  ProgramBuilder p("handover", 2);
  const LaneId producer = p.lane({.name = "producer", .role = Role::compute, .waiting = waiting});
  const LaneId consumer = p.lane({.name = "consumer", .role = Role::communication, .waiting = waiting});
  const BufferId in = p.buffer({.name = "in", .count = 500, .copies = copies});
  const BufferId stage = p.buffer({.name = "stage", .count = 500});
  const BufferId out = p.buffer({.name = "out", .count = 500, .copies = copies});
  ClassBuilder all = p.all_ranks();
  all.prologue(producer, Fill{}, {}, {p.whole(in)});
  all.body(producer, Copy{}, {p.whole(in)}, {p.whole(stage)});
  order(all, producer, consumer);
  all.body(consumer, Copy{}, {p.whole(stage)}, {p.whole(out)});
  return {std::move(p).finish(), in, out};
}

void by_event(ClassBuilder& all, LaneId first, LaneId then) { all.order(first, then); }
void by_host_sync(ClassBuilder& all, LaneId first, LaneId) { all.body(first, HostSync{}); }

void expect_handed_over(Backend& backend, const Handover& h, int replays) {
  const auto prepared = prepare(backend, h.program);
  const int copies = h.program.buffers[h.in.index()].copies;
  std::vector<ByRank> in;
  for (int copy = 0; copy < copies; ++copy) in.push_back(contents(*prepared, h.in, 2, copy));
  for (int replay = 0; replay < replays; ++replay) {
    prepared->run(0, {.slot = replay});
    const int copy = replay % copies;
    ASSERT_EQ(contents(*prepared, h.out, 2, copy), in[static_cast<std::size_t>(copy)]) << "replay " << replay;
  }
}

TEST_P(BackendConformance, AConsumerSeesWhatItsEventWaitedForInAThousandReplays) {
  expect_handed_over(*backend_, handover(3, Waiting::yield, by_event), 1000);
}

TEST_P(BackendConformance, EventsOrderInEveryWaiting) {
  for (const Waiting waiting : GetParam().waitings) {
    expect_handed_over(*backend_, handover(2, waiting, by_event), 20);
  }
}

TEST_P(BackendConformance, HostSyncHoldsWhatFollowsOnAllLanes) {
  expect_handed_over(*backend_, handover(2, Waiting::yield, by_host_sync), 200);
}

TEST_P(BackendConformance, ReplaysUseTheirSlotsCopyAndNoOther) {
  const Handover h = handover(3, Waiting::yield, by_event);
  const auto prepared = prepare(*backend_, h.program);
  prepared->run(0, {.slot = 4});
  EXPECT_THAT(prepared->contents(h.out, Rank(0), 0), Each(testing::IsNan()));
  EXPECT_EQ(prepared->contents(h.out, Rank(0), 1), prepared->contents(h.in, Rank(0), 1));
  EXPECT_THAT(prepared->contents(h.out, Rank(0), 2), Each(testing::IsNan()));
  EXPECT_NE(prepared->contents(h.in, Rank(0), 0), prepared->contents(h.in, Rank(0), 1));
}

TEST_P(BackendConformance, AStartEventFiresWhenTheNextOperationStartsNotWhenItEnds) {
  // The long operation can only end after the other lane has run: its own lane waits for nothing but its start.
  ProgramBuilder p("start", few_ranks());
  const LaneId first = p.lane({.name = "first", .role = Role::communication});
  const LaneId second = p.lane({.name = "second", .role = Role::compute});
  const EventId started = p.event("started");
  ClassBuilder all = p.all_ranks();
  all.body(first, Record{started, Moment::start});
  const OpId opener = all.body(first, Busy{milliseconds(20)});
  all.body(second, Wait{started});
  const OpId follower = all.body(second, Busy{microseconds(10)});
  const auto prepared = prepare(*backend_, std::move(p).finish());
  const Timings t = prepared->run(0, {.recording = Recording::operations});
  const auto timing = [&](OpId op) {
    return *std::find_if(t.operations.begin(), t.operations.end(), [&](const auto& o) { return o.op == op; });
  };
  if (!GetParam().sees_starts) {
    EXPECT_TRUE(std::isnan(timing(opener).start.value())) << "unknown, not a guess";
    EXPECT_EQ(t.start_source, "");
    EXPECT_EQ(t.launch_order, "unverified");
    return;
  }
  EXPECT_GE(timing(follower).start, timing(opener).start);
  EXPECT_EQ(t.launch_order, "comm_first");
}

// ---- what contends -------------------------------------------------------------------------------------------------

// A victim on one lane, and on the other `aggressor` from before it to after it.
struct Covered {
  Program program;
  OpId aggressor, victim;
};
Covered covered(const std::function<Work(EventId until)>& aggressor) {
  ProgramBuilder p("covered", 1);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const BufferId from = p.buffer({.name = "from", .count = 50'000});
  const BufferId to = p.buffer({.name = "to", .count = 50'000});
  const EventId started = p.event("started");
  const EventId done = p.event("done");
  ClassBuilder all = p.all_ranks();
  const Work work = aggressor(done);
  const bool streams = std::holds_alternative<Stream>(work);
  all.prologue(comm, Fill{}, {}, {p.whole(from)});
  all.body(comm, Record{started, Moment::start});
  const OpId covering = all.body(comm, work, streams ? std::vector{p.whole(from)} : std::vector<Slice>{},
                                 streams ? std::vector{p.whole(to)} : std::vector<Slice>{});
  all.body(compute, Wait{started});
  const OpId victim = all.body(compute, Busy{milliseconds(5)});
  all.body(compute, Record{done});
  return {std::move(p).finish(), covering, victim};
}

TEST_P(BackendConformance, WhatLastsUntilAnEventIsThereBeforeItsVictimAndOutlivesIt) {
  const std::function<Work(EventId)> aggressors[] = {[](EventId until) {
                                                       return Occupy{1, {}, until};
                                                     },
                                                     [](EventId until) {
                                                       return Stream{{}, 1, {}, until};
                                                     },
                                                     [](EventId until) {
                                                       return Stream{BytesPerSecond(1e8), 1, {}, until};
                                                     }};
  for (const auto& aggressor : aggressors) {
    const Covered c = covered(aggressor);
    SCOPED_TRACE(describe(*std::find_if(c.program.classes[0].body.begin(), c.program.classes[0].body.end(),
                                        [&](const Operation& op) { return op.id == c.aggressor; })));
    if (!backend_->supports(c.program).ok()) GTEST_SKIP() << backend_->supports(c.program).reason;
    const auto prepared = prepare(*backend_, c.program);
    for (int replay = 0; replay < 3; ++replay) {
      const Timings t = prepared->run(0, {});
      ASSERT_EQ(t.ranks.size(), 1U);
      const std::vector<LaneTiming>& lanes = t.ranks[0].lanes;
      const auto of = [&](int lane) {
        return *std::find_if(lanes.begin(), lanes.end(), [&](const LaneTiming& l) { return l.lane == LaneId(lane); });
      };
      const LaneTiming victim = of(0);
      const LaneTiming covering = of(1);
      EXPECT_GE(victim.end - victim.start, milliseconds(5));
      EXPECT_LE(covering.start, victim.start);
      EXPECT_GE(covering.end, victim.end);
    }
  }
}

TEST_P(BackendConformance, AStreamMovesItsBytesAndSaysHowMany) {
  // Of 200 kB arrays five passes read and write 2 MB; at 200 MB/s they take 10 ms.
  ProgramBuilder p("stream", 1);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const BufferId from = p.buffer({.name = "from", .count = 50'000});
  const BufferId to = p.buffer({.name = "to", .count = 50'000});
  ClassBuilder all = p.all_ranks();
  all.prologue(lane, Fill{}, {}, {p.whole(from)});
  all.body(lane, Stream{BytesPerSecond(2e8), 1, Bytes(2'000'000), {}}, {p.whole(from)}, {p.whole(to)});
  const Program program = std::move(p).finish();
  if (!backend_->supports(program).ok()) GTEST_SKIP() << backend_->supports(program).reason;
  const auto prepared = prepare(*backend_, program);
  const Timings t = prepared->run(0, {});
  const LaneTiming& stream = t.ranks.at(0).lanes.at(0);
  EXPECT_EQ(stream.moved, Bytes(2'000'000));
  EXPECT_GE(stream.end - stream.start, milliseconds(9)) << "never faster than its pace";
  EXPECT_EQ(prepared->contents(to, Rank(0), 0), prepared->contents(from, Rank(0), 0));
}

// ---- timings -------------------------------------------------------------------------------------------------------

TEST_P(BackendConformance, SpansLieBetweenOriginAndEndAndHoldTheWork) {
  for (const auto& [launch, text] : EnumNames<Launch>::table) {
    SCOPED_TRACE(text);
    ProgramBuilder p("busy", 2);
    const LaneId lane = p.lane({.name = "compute"});
    const LaneId unused = p.lane({.name = "comm", .role = Role::communication});
    p.all_ranks().body(lane, Busy{milliseconds(2)});
    const auto prepared = prepare(*backend_, std::move(p).finish());
    const Timings t = prepared->run(0, {.launch = launch});
    ASSERT_EQ(t.ranks.size(), 2U);
    EXPECT_THAT(t.operations, IsEmpty());
    EXPECT_GE(t.step(), milliseconds(2));
    EXPECT_GE(t.align_skew(), Seconds(0));
    EXPECT_EQ(std::max(t.ranks[0].origin, t.ranks[1].origin), Seconds(0)) << "zero is the latest origin";
    for (const RankTiming& r : t.ranks) {
      ASSERT_EQ(r.lanes.size(), 1U) << "a lane without work has no timing";
      EXPECT_EQ(r.lanes[0].lane, lane);
      EXPECT_NE(r.lanes[0].lane, unused);
      EXPECT_LE(r.origin, r.lanes[0].start);
      EXPECT_GE(r.lanes[0].end - r.lanes[0].start, milliseconds(2));
      EXPECT_EQ(r.lanes[0].end, r.end);
    }
  }
}

TEST_P(BackendConformance, OperationsAreReadyWhenTheirPredecessorsEnded) {
  Handover h = handover(1, Waiting::yield, by_event);
  const auto prepared = prepare(*backend_, h.program);
  const Timings t = prepared->run(0, {.recording = Recording::operations});
  ASSERT_EQ(t.operations.size(), 8U) << "copy, record, wait, copy on two ranks";
  const std::vector<Operation>& body = h.program.classes[0].body;
  for (const OperationTiming& o : t.operations) {
    if (GetParam().one_clock) {
      EXPECT_LE(o.enqueued, o.start);
    }
    if (GetParam().sees_starts) {
      EXPECT_LE(o.start, o.end);
    }
    EXPECT_LE(o.ready, o.end);
  }
  for (std::size_t rank : {std::size_t{0}, std::size_t{4}}) {
    const OperationTiming& producer = t.operations[rank];
    const OperationTiming& consumer = t.operations[rank + 3];
    EXPECT_EQ(producer.op, body[0].id);
    EXPECT_EQ(consumer.op, body[3].id);
    EXPECT_GE(consumer.ready, producer.end);
    if (GetParam().one_clock) {
      EXPECT_GE(consumer.start, consumer.ready);
    }
  }
}

TEST_P(BackendConformance, WhatHasATimeIsNotSubmittedBeforeNorWhatIsIssuedAfterIt) {
  ProgramBuilder p("timed", 2);
  const LaneId first = p.lane({.name = "first", .role = Role::communication});
  const LaneId second = p.lane({.name = "second"});
  p.world("world", GetParam().transport, 1, GetParam().progress);
  ClassBuilder all = p.all_ranks();
  const OpId at_once = all.body(first, Busy{milliseconds(1)});
  const OpId timed = all.submit(milliseconds(40), first, Busy{milliseconds(60)});
  const OpId after_it = all.body(second, Busy{milliseconds(1)});
  const OpId meanwhile = all.submit(milliseconds(60), first, Busy{milliseconds(1)});
  const Program program = std::move(p).finish();
  if (!backend_->supports(program).ok()) GTEST_SKIP() << backend_->supports(program).reason;
  const auto prepared = prepare(*backend_, program);
  for (const auto& [launch, text] : EnumNames<Launch>::table) {
    SCOPED_TRACE(text);
    const Timings t = prepared->run(0, {.launch = launch, .recording = Recording::operations});
    // Each rank counts from its own origin, the timings from the latest one; and two clocks may be apart.
    const Seconds clocks = t.align_skew() + milliseconds(2);
    for (const OperationTiming& o : t.operations) {
      if (o.op == at_once) {
        EXPECT_GE(o.end, milliseconds(1) - clocks);
      }
      if (o.op == timed || o.op == after_it) {
        EXPECT_GE(o.enqueued, milliseconds(40) - clocks);
        EXPECT_GE(o.end, milliseconds(41) - clocks);
      }
      if (o.op == meanwhile) {
        EXPECT_GE(o.enqueued, milliseconds(60) - clocks);
        EXPECT_GE(o.end - o.enqueued, Seconds(0)) << "it waits behind what takes until 100 ms";
        EXPECT_GE(o.end, milliseconds(101) - clocks);
      }
    }
    EXPECT_GE(t.step(), milliseconds(101) - clocks);
  }
  const std::vector<Fact> facts = prepared->observed();
  EXPECT_TRUE(std::any_of(facts.begin(), facts.end(),
                          [](const Fact& f) { return f.name == "launch_mode" && f.value == "live"; }));
}

TEST_P(BackendConformance, AnEmptyArmHasATimeAndNoLanesWork) {
  ProgramBuilder p("empty", 2);
  p.lane({.name = "compute"});
  p.all_ranks();
  const auto prepared = prepare(*backend_, std::move(p).finish());
  const Timings t = prepared->run(0, {});
  EXPECT_EQ(t.ranks.size(), 2U);
  EXPECT_GE(t.step(), Seconds(0));
}

TEST_P(BackendConformance, ArmsShareTheirBuffers) {
  const CollectiveCase c{CollectiveKind::all_reduce, 2, 1000, false, 1, Waiting::yield};
  const CollectiveProgram p = collective_program(c, GetParam());
  Program nothing = p.program;
  for (RankClass& rank : nothing.classes) rank.body.clear();
  const auto prepared = backend_->prepare({nothing, p.program}, Data::random, 3);
  const ByRank in = contents(*prepared, p.in, 2);
  prepared->run(0, {});
  EXPECT_THAT(prepared->contents(p.out, Rank(0), 0), Each(testing::IsNan()));
  prepared->run(1, {});
  EXPECT_EQ(prepared->contents(p.out, Rank(0), 0)[17], static_cast<double>(static_cast<float>(in[0][17] + in[1][17])));
  const std::uint64_t once = prepared->fingerprint(p.out, Rank(0), 0);
  prepared->reset();
  EXPECT_NE(prepared->fingerprint(p.out, Rank(0), 0), once);
  EXPECT_EQ(contents(*prepared, p.in, 2), in);
  prepared->run(1, {});
  EXPECT_EQ(prepared->fingerprint(p.out, Rank(0), 0), once) << "the same bits every time";
}

// ---- trouble -------------------------------------------------------------------------------------------------------

// A backend may run every arm once when it prepares a case: then the hang is there already.
TEST_P(BackendConformance, AMissingPeerHangsUntilAbortAndProgressNamesTheOperation) {
  for (const Waiting waiting : GetParam().waitings) {
    SCOPED_TRACE(name(waiting));
    const auto backend = GetParam().open();
    ProgramBuilder p("missing", 2);
    const LaneId lane = p.lane({.name = "comm", .role = Role::communication, .waiting = waiting});
    const CommId comm = p.world("world", GetParam().transport, 1, GetParam().progress);
    const BufferId x = p.buffer({.name = "x", .count = 100});
    const BufferId y = p.buffer({.name = "y", .count = 100});
    ClassBuilder there = p.ranks("there", {Rank(0)});
    p.ranks("missing", {Rank(1)});
    there.prologue(lane, Fill{}, {}, {p.whole(x)});
    const OpId busy = there.body(lane, Busy{microseconds(1)});
    const OpId stuck =
        there.body(lane, Collective{CollectiveKind::all_reduce, comm, DType::f32, 100, 0}, {p.whole(x)}, {p.whole(y)});
    const Program program = std::move(p).finish();

    std::string error;
    std::atomic<bool> returned{false};
    std::thread replay([&] {
      try {
        prepare(*backend, program)->run(0, {});
      } catch (const Error& e) {
        error = e.what();
      }
      returned = true;
    });
    const auto of_rank_0 = [&] {
      for (const LaneProgress& l : backend->progress()) {
        if (l.rank == Rank(0)) return l;
      }
      return LaneProgress{};
    };
    const auto stands_there = [&] {
      const LaneProgress l = of_rank_0();
      return l.enqueued == stuck && l.completed == busy;
    };
    while (!stands_there() && !returned) std::this_thread::yield();
    EXPECT_FALSE(returned);
    backend->abort();
    replay.join();
    EXPECT_THAT(error, HasSubstr("aborted"));
    EXPECT_THROW(prepare(*backend, program)->run(0, {}), Error) << "unusable afterwards";
  }
}

TEST_P(BackendConformance, UnknownConditionsAreNaNAndNamesAreUnique) {
  std::vector<std::string> seen;
  for (const Reading& r : backend_->conditions().readings) {
    EXPECT_THAT(seen, testing::Not(testing::Contains(r.name)));
    EXPECT_FALSE(r.unit.empty()) << r.name;
    seen.push_back(r.name);
  }
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendConformance);

}  // namespace ovl
