// SPDX-License-Identifier: Apache-2.0
#include "measure/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/random.hpp"
#include "base/units.hpp"
#include "program/builder.hpp"
#include "schedule/collective.hpp"
#include "schedule/ddp.hpp"
#include "schedule/fsdp.hpp"
#include "schedule/tensor_parallel.hpp"

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::StartsWith;
using Array = std::vector<double>;

// Contents as a test writes them; nothing else is asked of it.
class Contents final : public Prepared {
 public:
  Array& at(BufferId buffer, int rank, int copy = 0) { return arrays_[{buffer, Rank(rank), copy}]; }

  void reset() override {}
  Timings run(std::size_t /*arm*/, const ReplayOptions& /*options*/) override { return {}; }
  [[nodiscard]] Array contents(BufferId buffer, Rank rank, int copy) const override {
    return arrays_.at({buffer, rank, copy});
  }
  [[nodiscard]] std::uint64_t fingerprint(BufferId /*b*/, Rank /*r*/, int /*c*/) const override { return 0; }
  [[nodiscard]] std::vector<Fact> observed() const override { return {}; }

 private:
  std::map<std::tuple<BufferId, Rank, int>, Array> arrays_;
};

// ---- GEMM ----------------------------------------------------------------------------------------------------------

struct OneGemm {
  ProgramBuilder p{"gemm", 1};
  LaneId lane = p.lane({.name = "compute"});
  BufferId a, b, c;
  Program program;
  Contents contents;

  OneGemm(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::f32)
      : a(p.buffer({.name = "a", .dtype = dtype, .count = m * k})),
        b(p.buffer({.name = "b", .dtype = dtype, .count = k * n})),
        c(p.buffer({.name = "c", .dtype = gemm_output(dtype), .count = m * n})) {
    ClassBuilder all = p.all_ranks();
    const OpId gemm = all.body(lane, Gemm{m, n, k, dtype}, {p.whole(a), p.whole(b)}, {p.whole(c)});
    all.epilogue(lane, Verify{gemm});
    program = std::move(p).finish();
  }
  [[nodiscard]] std::string verdict(Data data = Data::exact) const { return verify(program, contents, data, 0); }
};

// ( 1 2 ) ( 5 6 )   ( 19 22 )
// ( 3 4 ) ( 7 8 ) = ( 43 50 )
struct TwoByTwo : OneGemm {
  TwoByTwo() : OneGemm(2, 2, 2) {
    contents.at(a, 0) = {1, 2, 3, 4};
    contents.at(b, 0) = {5, 6, 7, 8};
    contents.at(c, 0) = {19, 22, 43, 50};
  }
};

TEST(VerifyGemm, WorkedExample) {
  TwoByTwo g;
  EXPECT_EQ(g.verdict(), "");
  g.contents.at(g.c, 0)[2] = 44;
  EXPECT_EQ(g.verdict(), "%0 gemm 2x2x2 f32 on rank 0: element (1, 0) is 44, expected 43");
}

// 40 columns, so that a test vector with zeros would have some.
TEST(VerifyGemm, EachSingleWrongElementIsFound) {
  constexpr std::size_t m = 3;
  constexpr std::size_t n = 40;
  constexpr std::size_t k = 5;
  OneGemm g(m, n, k);
  Array& a = g.contents.at(g.a, 0);
  Array& b = g.contents.at(g.b, 0);
  Array& c = g.contents.at(g.c, 0);
  for (std::size_t i = 0; i < m * k; ++i) a.push_back(exact_element(1, static_cast<std::int64_t>(i), DType::f32));
  for (std::size_t i = 0; i < k * n; ++i) b.push_back(exact_element(2, static_cast<std::int64_t>(i), DType::f32));
  c.resize(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t x = 0; x < k; ++x) c[i * n + j] += a[i * k + x] * b[x * n + j];
    }
  }
  ASSERT_EQ(g.verdict(), "");
  for (std::size_t at = 0; at < c.size(); ++at) {
    for (const double error :
         {1.0, -3.0, 0.25, 0x1p-40, 1e300, std::numeric_limits<double>::infinity(), unknown_number}) {
      const double right = c[at];
      c[at] += error;
      EXPECT_THAT(g.verdict(), StartsWith("%0 gemm 3x40x5 f32 on rank 0: element (" + std::to_string(at / n) + ", " +
                                          std::to_string(at % n) + ") is "))
          << error;
      c[at] = right;
    }
  }
}

TEST(VerifyGemm, TwoErrorsThatCancelInARowSumAreFound) {
  TwoByTwo g;
  g.contents.at(g.c, 0) = {20, 21, 43, 50};
  EXPECT_EQ(g.verdict(), "%0 gemm 2x2x2 f32 on rank 0: element (0, 0) is 20, expected 19");
}

// A fraction beside a large integer would be rounded away in the sum of the row.
TEST(VerifyGemm, AnElementThatIsNoIntegerIsFoundBesideLargeOnes) {
  OneGemm g(1, 2, 1);
  g.contents.at(g.a, 0) = {1};
  g.contents.at(g.b, 0) = {0x1p51, 3};
  g.contents.at(g.c, 0) = {0x1p51, 3};
  EXPECT_EQ(g.verdict(), "");
  g.contents.at(g.c, 0)[1] = 3 + 0x1p-20;
  EXPECT_THAT(g.verdict(), testing::HasSubstr("element (0, 1) is 3.0000009"));
}

// What one test vector takes for equal, the other does not: of all pairs of columns, one in 64 instead of one in 8.
TEST(VerifyGemm, FewPairsOfErrorsCancel) {
  constexpr std::size_t n = 40;
  OneGemm g(1, n, 1);
  g.contents.at(g.a, 0) = {0};
  g.contents.at(g.b, 0) = Array(n, 0);
  int pairs = 0;
  int passed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      Array& c = g.contents.at(g.c, 0) = Array(n, 0);
      c[i] = 1;
      c[j] = -1;
      ++pairs;
      passed += g.verdict().empty() ? 1 : 0;
    }
  }
  EXPECT_LT(passed, pairs / 32);
}

TEST(VerifyGemm, OfRandomDataIsLeftToTheSoloRun) {
  TwoByTwo g;
  g.contents.at(g.c, 0)[0] = unknown_number;
  EXPECT_EQ(g.verdict(Data::random), "");
}

// The same product as in the worked example but for the shape, 1×3 · 3×2, with b stored column by column:
// ( 1 2 3 ) ( 4 7 )   ( 32 50 )
//           ( 5 8 ) =
//           ( 6 9 )
TEST(VerifyGemm, InF8TheRightMatrixIsStoredTransposed) {
  OneGemm g(1, 2, 3, DType::f8e4m3);
  g.contents.at(g.a, 0) = {1, 2, 3};
  g.contents.at(g.b, 0) = {4, 5, 6, 7, 8, 9};
  g.contents.at(g.c, 0) = {32, 50};
  EXPECT_EQ(g.verdict(), "");
  g.contents.at(g.c, 0)[1] = 49;
  EXPECT_EQ(g.verdict(), "%0 gemm 1x2x3 f8e4m3 on rank 0: element (0, 1) is 49, expected 50");
  g.contents.at(g.c, 0) = {1 * 4 + 2 * 6 + 3 * 8, 1 * 5 + 2 * 7 + 3 * 9};  // b taken row by row
  EXPECT_NE(g.verdict(), "");
}

// bf16 counts to 256 and holds sums of 65536 products that are seldom not 0; f32 those of 2^20 up to 16.
TEST(VerifyGemm, SumsThatMayNotBeExactAreLeftAloneAndNamed) {
  const std::pair<DType, std::int64_t> most[] = {
      {DType::bf16, 65536}, {DType::f8e4m3, 65536}, {DType::f16, 1 << 22}, {DType::f32, 1 << 20}};
  for (const auto& [dtype, k] : most) {
    EXPECT_EQ(beyond_exact(OneGemm(1, 1, k, dtype).program), "") << name(dtype);
    EXPECT_NE(beyond_exact(OneGemm(1, 1, k + 1, dtype).program), "") << name(dtype);
  }
  OneGemm g(1, 1, 65537, DType::f8e4m3);
  EXPECT_EQ(beyond_exact(g.program),
            "%0 gemm 1x1x65537 f8e4m3 on rank 0: sums of 65537 products may not be exact in bf16, which holds those of "
            "65536");
  EXPECT_EQ(g.verdict(), "");  // though nothing was written
}

// ---- collectives ---------------------------------------------------------------------------------------------------

constexpr CollectiveKind all_kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                        CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
                                        CollectiveKind::all_to_all};

struct OneCollective {
  static constexpr std::int64_t offset = 3;  // of both slices within their buffers, over what is none of theirs
  CollectiveKind kind;
  int ranks;
  std::int64_t part = 2;  // elements of one rank's block
  int root;
  BufferId in, out;
  Program program;
  Contents contents;

  OneCollective(CollectiveKind which, int n, int from = 0, DType dtype = DType::f32)
      : kind(which), ranks(n), root(from) {
    const std::int64_t whole = part * n;
    const std::int64_t read = kind == CollectiveKind::all_gather ? part : whole;
    const std::int64_t written = kind == CollectiveKind::reduce_scatter ? part : whole;
    ProgramBuilder p("collective", n);
    const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
    const CommId comm = p.world("world", "shm", 1);
    in = p.buffer({.name = "in", .dtype = dtype, .count = offset + read, .copies = 2});
    out = p.buffer({.name = "out", .dtype = dtype, .count = offset + written, .copies = 2});
    ClassBuilder all = p.all_ranks();
    const OpId op =
        all.body(lane, Collective{kind, comm, dtype, whole, root}, {{in, offset, read}}, {{out, offset, written}});
    all.epilogue(lane, Verify{op});
    program = std::move(p).finish();
    for (int r = 0; r < n; ++r) {
      contents.at(in, r, copy) = Array(static_cast<std::size_t>(offset + read), unknown_number);
      contents.at(out, r, copy) = Array(static_cast<std::size_t>(offset + written), unknown_number);
    }
  }

  static constexpr int copy = 1;
  double& input(int rank, std::int64_t i) { return contents.at(in, rank, copy)[static_cast<std::size_t>(offset + i)]; }
  double& output(int rank, std::int64_t i) {
    return contents.at(out, rank, copy)[static_cast<std::size_t>(offset + i)];
  }
  std::int64_t inputs() { return static_cast<std::int64_t>(contents.at(in, 0, copy).size()) - offset; }
  std::int64_t outputs() { return static_cast<std::int64_t>(contents.at(out, 0, copy).size()) - offset; }
  std::string verdict(Data data) { return verify(program, contents, data, 5); }  // slot 5 of 2 copies: copy 1

  // What each kind means, written as in its manual page.
  double expected(int rank, std::int64_t i) {
    double sum = 0;
    switch (kind) {
      case CollectiveKind::all_reduce:
        for (int r = 0; r < ranks; ++r) sum += input(r, i);
        return sum;
      case CollectiveKind::reduce_scatter:
        for (int r = 0; r < ranks; ++r) sum += input(r, rank * part + i);
        return sum;
      case CollectiveKind::all_gather: return input(static_cast<int>(i / part), i % part);
      case CollectiveKind::broadcast: return input(root, i);
      case CollectiveKind::all_to_all: return input(static_cast<int>(i / part), rank * part + i % part);
    }
    return unknown_number;
  }

  void fill(Data data) {
    for (int r = 0; r < ranks; ++r) {
      for (std::int64_t i = 0; i < inputs(); ++i) {
        const auto seed = static_cast<std::uint64_t>(r) + 1;
        input(r, i) = data == Data::exact ? exact_element(seed, i, DType::f32) : random_element(seed, i);
      }
    }
    for (int r = 0; r < ranks; ++r) {
      for (std::int64_t i = 0; i < outputs(); ++i) output(r, i) = expected(r, i);
    }
  }
};

TEST(VerifyCollective, AllReduceWorkedExample) {
  OneCollective c(CollectiveKind::all_reduce, 2);
  for (std::int64_t i = 0; i < 4; ++i) {
    c.input(0, i) = 1;
    c.input(1, i) = static_cast<double>(i);
    c.output(0, i) = c.output(1, i) = static_cast<double>(1 + i);
  }
  EXPECT_EQ(c.verdict(Data::exact), "");
  c.output(1, 2) = 4;
  EXPECT_EQ(c.verdict(Data::exact), "%0 all_reduce 16 f32 comm=0 on rank 1: element 2 is 4, expected 3");
}

TEST(VerifyCollective, EachSingleWrongElementOfEveryKindIsFound) {
  for (const CollectiveKind kind : all_kinds) {
    for (int n = 1; n <= 4; ++n) {
      for (const Data data : {Data::exact, Data::random}) {
        SCOPED_TRACE(std::string(name(kind)) + " of " + std::to_string(n) + (data == Data::exact ? "" : " random"));
        OneCollective c(kind, n, n - 1);
        c.fill(data);
        ASSERT_EQ(c.verdict(data), "");
        for (int rank = 0; rank < n; ++rank) {
          for (std::int64_t i = 0; i < c.outputs(); ++i) {
            const double right = c.output(rank, i);
            for (const double wrong :
                 {right + 1, right - 0.5, std::numeric_limits<double>::infinity(), unknown_number}) {
              c.output(rank, i) = wrong;
              EXPECT_THAT(c.verdict(data), testing::ContainsRegex(" on rank " + std::to_string(rank) + ": element " +
                                                                  std::to_string(i) + " is "));
            }
            c.output(rank, i) = right;
          }
        }
      }
    }
  }
}

// Sums of n - 1 roundings: what they may be off by passes, four times that does not, in every dtype.
TEST(VerifyCollective, TheBoundOfARandomSumIsTight) {
  const std::pair<DType, double> roundoffs[] = {{DType::f64, 0x1p-53}, {DType::f32, 0x1p-24}, {DType::tf32, 0x1p-11},
                                                {DType::f16, 0x1p-11}, {DType::bf16, 0x1p-8}, {DType::f8e4m3, 0x1p-4}};
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter}) {
    for (const auto& [dtype, roundoff] : roundoffs) {
      for (int n = 2; n <= 4; ++n) {
        SCOPED_TRACE(std::string(name(kind)) + " of " + std::to_string(n) + " " + std::string(name(dtype)));
        OneCollective c(kind, n, 0, dtype);
        for (int r = 0; r < n; ++r) {
          for (std::int64_t i = 0; i < c.inputs(); ++i) c.input(r, i) = 1;
        }
        for (int r = 0; r < n; ++r) {
          for (std::int64_t i = 0; i < c.outputs(); ++i) c.output(r, i) = n;
        }
        const double bound = (n - 1) * roundoff * n;
        c.output(n - 1, 1) = n + bound;
        EXPECT_EQ(c.verdict(Data::random), "");
        c.output(n - 1, 1) = n - 4 * bound;
        EXPECT_THAT(c.verdict(Data::random), testing::HasSubstr(" element 1 is "));
        EXPECT_THAT(c.verdict(Data::random), testing::HasSubstr(", expected " + std::to_string(n) + " within "));
      }
    }
  }
}

// Every order of adding f64 numbers passes, though the reference is an f64 sum itself.
TEST(VerifyCollective, AnF64SumInAnotherOrderThanTheReferencePasses) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    OneCollective c(CollectiveKind::all_reduce, 4, 0, DType::f64);
    for (int r = 0; r < 4; ++r) {
      for (std::int64_t i = 0; i < 8; ++i) c.input(r, i) = random_element(seed * 4 + static_cast<std::uint64_t>(r), i);
    }
    for (int r = 0; r < 4; ++r) {
      for (std::int64_t i = 0; i < 8; ++i) {
        c.output(r, i) = c.input(3, i) + (c.input(1, i) + (c.input(2, i) + c.input(0, i)));
      }
    }
    ASSERT_EQ(c.verdict(Data::random), "") << seed;
  }
}

TEST(VerifyCollective, MovedElementsAreEqualToTheBit) {
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::broadcast, CollectiveKind::all_to_all}) {
    OneCollective c(kind, 2);
    c.fill(Data::random);
    c.output(1, 1) = std::nextafter(c.output(1, 1), 2.0);
    EXPECT_THAT(c.verdict(Data::random), testing::HasSubstr(" on rank 1: element 1 is ")) << name(kind);
  }
}

TEST(VerifyCollective, ABroadcastIsTheRootsInput) {
  for (int root = 0; root < 3; ++root) {
    OneCollective c(CollectiveKind::broadcast, 3, root);
    for (int r = 0; r < 3; ++r) {
      for (std::int64_t i = 0; i < 6; ++i) {
        c.input(r, i) = r;
        c.output(r, i) = root;
      }
    }
    EXPECT_EQ(c.verdict(Data::exact), "");
    c.output(1, 0) = (root + 1) % 3;
    EXPECT_THAT(c.verdict(Data::exact), testing::EndsWith(" on rank 1: element 0 is " + std::to_string((root + 1) % 3) +
                                                          ", expected " + std::to_string(root)));
  }
}

// Ranks 0, 2 and 1, 3 reduce among themselves.
TEST(VerifyCollective, APeerIsOneOfTheRanksOwnGroup) {
  ProgramBuilder p("groups", 4);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const CommId comm = p.communicator({"columns", {{Rank(0), Rank(2)}, {Rank(1), Rank(3)}}, "shm", 1});
  const BufferId in = p.buffer({.name = "in", .count = 1});
  const BufferId out = p.buffer({.name = "out", .count = 1});
  ClassBuilder all = p.all_ranks();
  const OpId op =
      all.body(lane, Collective{CollectiveKind::all_reduce, comm, DType::f32, 1}, {p.whole(in)}, {p.whole(out)});
  all.epilogue(lane, Verify{op});
  const Program program = std::move(p).finish();
  Contents contents;
  for (int r = 0; r < 4; ++r) contents.at(in, r) = {static_cast<double>(r)};
  for (int r = 0; r < 4; ++r) contents.at(out, r) = {r % 2 == 0 ? 2.0 : 4.0};
  EXPECT_EQ(verify(program, contents, Data::exact, 0), "");
  contents.at(out, 3) = {6};
  EXPECT_EQ(verify(program, contents, Data::exact, 0),
            "%0 all_reduce 4 f32 comm=0 on rank 3: element 0 is 6, expected 4");
}

TEST(VerifyCollective, SumsOverTooManyRanksAreLeftAloneAndNamed) {
  for (const CollectiveKind kind : all_kinds) {
    const bool sums = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
    EXPECT_EQ(beyond_exact(OneCollective(kind, 16, 0, DType::f8e4m3).program), "");
    EXPECT_EQ(beyond_exact(OneCollective(kind, 17, 0, DType::f8e4m3).program).empty(), !sums);
    EXPECT_EQ(beyond_exact(OneCollective(kind, 257, 0, DType::bf16).program).empty(), !sums);
  }
  OneCollective c(CollectiveKind::all_reduce, 17, 0, DType::f8e4m3);
  EXPECT_EQ(
      beyond_exact(c.program),
      "%0 all_reduce 34 f8e4m3 comm=0 on rank 0: sums over 17 ranks may not be exact in f8e4m3, which holds those "
      "over 16");
  EXPECT_EQ(c.verdict(Data::exact), "");
  EXPECT_NE(c.verdict(Data::random), "");  // has a bound of its own
}

// A gradient sums up a product for each token, and its reduction as many for each rank: 2 · 32768 is what bf16 holds.
TEST(VerifyCollective, SumsOfWhatGemmsWroteCountTheirProductsToo) {
  const auto steps = [](std::int64_t tokens) {
    DdpSpec spec;
    spec.layers = {.model = "tiny", .count = 1, .tokens = tokens, .hidden = 1, .qkv = 1, .inner = 1};
    spec.dtype = DType::bf16;
    return ddp_program(spec);
  };
  EXPECT_EQ(beyond_exact(steps(32768)), "");
  EXPECT_THAT(beyond_exact(steps(32769)),
              testing::HasSubstr("sums over 2 ranks of 32769 products may not be exact in bf16, which holds those of "
                                 "65536"));
}

// ---- what is asked -------------------------------------------------------------------------------------------------

TEST(Verify, LooksOnlyAtWhatTheEpilogueNames) {
  TwoByTwo g;
  g.contents.at(g.c, 0) = {0, 0, 0, 0};
  g.program.classes[0].epilogue.clear();
  EXPECT_EQ(g.verdict(), "");
}

TEST(Verify, WhatItCannotCheckIsADefectOfTheProgram) {
  TwoByTwo g;
  g.program.classes[0].body[0].work = Copy{};
  EXPECT_THROW((void)g.verdict(), std::logic_error);
  g.program.classes[0].body.clear();
  EXPECT_THROW((void)g.verdict(), std::logic_error);
}

// ---- in place, and exchanges ---------------------------------------------------------------------------------------

// Rank 0 had 1 2 3 4 and rank 1 had 5 6 7 8. Of the sum 6 8 10 12 each keeps its half, where its own half was.
TEST(VerifyInPlace, ASumIsHeldAgainstWhatWasThereBefore) {
  const Program program =
      collective_program({.ranks = 2, .form = CollectiveForm::reduce_scatter, .bytes = Bytes(16), .in_place = true});
  const BufferId array(0);
  Contents contents;
  contents.at(array, 0) = {1, 2, 3, 4};
  contents.at(array, 1) = {5, 6, 7, 8};
  const Inputs before = inputs(program, contents, 0);
  contents.at(array, 0) = {6, 8, 3, 4};
  contents.at(array, 1) = {5, 6, 10, 12};
  EXPECT_EQ(verify(program, contents, Data::exact, 0, before), "");
  EXPECT_NE(verify(program, contents, Data::exact, 0), "") << "what is there now is no input of it";
  contents.at(array, 1)[3] = 13;
  EXPECT_EQ(verify(program, contents, Data::exact, 0, before),
            "%1 reduce_scatter 16 f32 comm=0 on rank 1: element 1 is 13, expected 12");
}

TEST(VerifyInPlace, EachRankOfAGatherHasItsOwnBlock) {
  const Program program =
      collective_program({.ranks = 2, .form = CollectiveForm::all_gather, .bytes = Bytes(16), .in_place = true});
  Contents contents;
  for (const int rank : {0, 1}) contents.at(BufferId(0), rank) = {1, 2, 7, 8};
  EXPECT_TRUE(inputs(program, contents, 0).empty()) << "nothing is summed";
  EXPECT_EQ(verify(program, contents, Data::random, 0), "");
  contents.at(BufferId(0), 0)[2] = 6;
  EXPECT_EQ(verify(program, contents, Data::random, 0),
            "%1 all_gather 16 f32 comm=0 on rank 0: element 2 is 6, expected 7");
}

TEST(VerifyExchange, WhatARankReceivesIsWhatItsNeighbourSent) {
  const Program program = collective_program({.ranks = 3, .form = CollectiveForm::exchange, .bytes = Bytes(8)});
  const BufferId send(0);
  const BufferId receive(1);
  Contents contents;
  for (const int rank : {0, 1, 2}) {
    const double own = 10.0 * rank;
    const double previous = 10.0 * ((rank + 2) % 3);
    contents.at(send, rank) = {own, own + 1};
    contents.at(receive, rank) = {previous, previous + 1};
  }
  EXPECT_EQ(verify(program, contents, Data::random, 0), "");
  contents.at(receive, 0)[1] = unknown_number;
  EXPECT_EQ(verify(program, contents, Data::random, 0),
            "%1 exchange f32 comm=0 to:1 from:2 on rank 0: element 1 from rank 2 is nan, expected 21");
}

// Two messages to the same peer: the second that is received is the second that was sent.
TEST(VerifyExchange, MessagesOfOnePeerKeepTheirOrder) {
  ProgramBuilder p("two", 2);
  const LaneId lane = p.lane({.name = "comm", .role = Role::communication});
  const CommId comm = p.world("world", "shm", 1);
  const BufferId send = p.buffer({.name = "send", .count = 2});
  const BufferId receive = p.buffer({.name = "receive", .count = 2});
  for (const int rank : {0, 1}) {
    const int peer = 1 - rank;
    ClassBuilder c = p.ranks("rank" + std::to_string(rank), {Rank(rank)});
    const OpId op = c.body(
        lane,
        Exchange{
            comm,
            DType::f32,
            {{Direction::send, peer}, {Direction::receive, peer}, {Direction::send, peer}, {Direction::receive, peer}}},
        {{send, 0, 1}, {send, 1, 1}}, {{receive, 0, 1}, {receive, 1, 1}});
    c.epilogue(lane, Verify{op});
  }
  const Program program = std::move(p).finish();
  Contents contents;
  for (const int rank : {0, 1}) contents.at(send, rank) = {1, 2};
  for (const int rank : {0, 1}) contents.at(receive, rank) = {1, 2};
  EXPECT_EQ(verify(program, contents, Data::exact, 0), "");
  contents.at(receive, 1) = {2, 1};
  EXPECT_NE(verify(program, contents, Data::exact, 0), "");
}

// ---- what a solo run can tell
// -----------------------------------------------------------------------------------------

std::set<std::string> independent(const Program& program) {
  std::set<std::string> names;
  for (const BufferId b : independent_of_communication(program.classes.at(0))) {
    names.insert(program.buffers[b.index()].name);
  }
  return names;
}

Layers tiny_layers() { return {.model = "tiny", .count = 2, .tokens = 4, .hidden = 2, .qkv = 8, .inner = 4}; }

// A layer's gathered weights decide what the forward pass and the input gradients write (scratch), but not the weight
// gradients, which are of saved activations.
TEST(IndependentOfCommunication, OfFsdpOnlyWeightGradients) {
  FsdpSpec spec;
  spec.layers = tiny_layers();
  EXPECT_THAT(independent(fsdp_program(spec)), ElementsAre("gradients"));
}

// A pair's first product reads what was reduced; its second reads a filled operand.
TEST(IndependentOfCommunication, OfTensorParallelOnlyTheSecondProducts) {
  TensorParallelSpec spec;
  spec.layers = tiny_layers();
  EXPECT_THAT(independent(tensor_parallel_program(spec)), ElementsAre("summand"));
}

TEST(IndependentOfCommunication, OfDdpAllThatTheBackwardPassWrites) {
  DdpSpec spec;
  spec.layers = tiny_layers();
  EXPECT_THAT(independent(ddp_program(spec)), ElementsAre("gradients", "input_gradient"));
}

// What depends on it by way of another buffer is found too, wherever it stands in the body.
TEST(IndependentOfCommunication, FollowsWhatWasComputed) {
  ProgramBuilder p("chain", 1);
  const LaneId compute = p.lane({.name = "compute"});
  const LaneId comm = p.lane({.name = "comm", .role = Role::communication});
  const CommId world = p.world("world", "shm", 1);
  const BufferId x = p.buffer({.name = "x", .count = 1});
  const BufferId y = p.buffer({.name = "y", .count = 1});
  const BufferId z = p.buffer({.name = "z", .count = 1});
  const BufferId own = p.buffer({.name = "own", .count = 1});
  ClassBuilder all = p.all_ranks();
  all.body(compute, Copy{}, {p.whole(y)}, {p.whole(z)});
  all.body(compute, Copy{}, {p.whole(x)}, {p.whole(y)});
  all.body(compute, Copy{}, {p.whole(own)}, {p.whole(own)});
  all.body(comm, Collective{CollectiveKind::all_reduce, world, DType::f32, 1}, {p.whole(own)}, {p.whole(x)});
  EXPECT_THAT(independent(std::move(p).finish()), ElementsAre("own"));
}

}  // namespace
}  // namespace ovl
