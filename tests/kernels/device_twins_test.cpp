// SPDX-License-Identifier: Apache-2.0
//
// What each device kernel does, shown on its host twin: the two share kernels/cuda/bodies.hpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <thread>

#include "kernels/cuda/bodies.hpp"
#include "kernels/cuda/twins.hpp"

namespace ovl::kernels {
namespace {

constexpr DType all_types[] = {DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16, DType::f8e4m3};

const Twin& twin(std::string_view name) {
  const auto found = std::find_if(twins().begin(), twins().end(), [&](const Twin& t) { return t.name == name; });
  if (found == twins().end()) throw std::out_of_range(std::string(name));
  return *found;
}

bool never() { return false; }

// As a launch with so many blocks would, in the order first to last or last to first.
template <class Args>
void run(std::string_view name, const Args& args, int blocks = 1, bool backwards = false) {
  ASSERT_EQ(twin(name).argument_bytes, sizeof args);
  for (int i = 0; i < blocks; ++i) twin(name).run(&args, backwards ? blocks - 1 - i : i, blocks, 0, never);
}

std::vector<std::string> touched(std::string_view name, void* args) {
  std::vector<std::string> all;
  for (const Touch& t : twin(name).touches(args)) {
    const char* const access[] = {"read", "write", "read_write", "poll"};
    const auto at = reinterpret_cast<std::byte*>(t.field) - static_cast<std::byte*>(args);
    all.push_back(std::string(access[static_cast<int>(t.access)]) + " of " + std::to_string(t.bytes) + " at " +
                  std::to_string(t.offset) + ", field " + std::to_string(at));
  }
  return all;
}

TEST(Twins, AreOneAKernel) {
  std::vector<std::string_view> all;
  for (const Twin& t : twins()) all.push_back(t.name);
  EXPECT_THAT(all, testing::ElementsAre("ovl_fill", "ovl_fingerprint", "ovl_elementwise", "ovl_spin", "ovl_marker",
                                        "ovl_busy", "ovl_census", "ovl_occupy", "ovl_stream", "ovl_ring_proxy"));
}

// ---- fill ----------------------------------------------------------------------------------------------------------

TEST(Fill, GivesARangeTheCasesDataAndNothingElse) {
  constexpr std::int64_t begin = 3;
  constexpr std::int64_t count = 1000;
  for (const DType dtype : all_types) {
    for (const auto pattern : {Pattern::exact, Pattern::random, Pattern::nothing}) {
      for (const int blocks : {1, 7}) {
        std::vector<unsigned char> memory(static_cast<std::size_t>((begin + count + 2) * bytes_of(dtype)), 0x55);
        run("ovl_fill", FillArgs{memory.data(), begin, count, 42, dtype, pattern}, blocks);
        const auto expected = [&](std::int64_t i) {
          if (i < begin || i >= begin + count) return from_bits(0x5555555555555555, dtype);
          if (pattern == Pattern::exact) return exact_element(42, i, dtype);
          if (pattern == Pattern::random) return random_element(42, i, dtype);
          return std::numeric_limits<double>::quiet_NaN();
        };
        for (std::int64_t i = 0; i < begin + count + 2; ++i) {
          const double got = load_element(memory.data(), i, dtype);
          ASSERT_TRUE(got == expected(i) || (std::isnan(got) && std::isnan(expected(i)))) << name(dtype) << " " << i;
        }
      }
    }
  }
}

TEST(Fill, NothingIsTheOneNan) {
  for (const DType dtype : all_types) {
    const FillArgs args{.dtype = dtype, .pattern = Pattern::nothing};
    EXPECT_EQ(fill_bits(args, 0), to_bits(std::numeric_limits<double>::quiet_NaN(), dtype)) << name(dtype);
  }
}

// ---- fingerprint ---------------------------------------------------------------------------------------------------

std::uint64_t fingerprint(const void* data, std::int64_t bytes, int blocks = 1, bool backwards = false) {
  std::uint64_t hash = 0;
  run("ovl_fingerprint", FingerprintArgs{data, bytes, &hash}, blocks, backwards);
  return hash;
}

TEST(Fingerprint, WorkedExample) {
  // Two words, the second of one byte.
  const unsigned char data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(fingerprint(data, 9), mix64(0x0807060504030201 ^ mix64(0)) + mix64(0x09 ^ mix64(1)));
}

TEST(Fingerprint, DependsOnEveryBytesPlaceButNotOnTheBlocks) {
  std::vector<unsigned char> data(1003);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(mix64(i));
  const std::int64_t bytes = std::ssize(data) - 1;
  const std::uint64_t right = fingerprint(data.data(), bytes);
  for (const int blocks : {1, 2, 5, 64, 2000}) {
    EXPECT_EQ(fingerprint(data.data(), bytes, blocks), right);
    EXPECT_EQ(fingerprint(data.data(), bytes, blocks, true), right);
  }
  for (std::size_t i = 0; i + 1 < data.size(); ++i) {
    data[i] ^= 1U;
    ASSERT_NE(fingerprint(data.data(), bytes), right) << i;
    data[i] ^= 1U;
    if (data[i] == data[i + 1] || i + 2 == data.size()) continue;
    std::swap(data[i], data[i + 1]);
    ASSERT_NE(fingerprint(data.data(), bytes), right) << i;
    std::swap(data[i], data[i + 1]);
  }
  data.back() ^= 1U;  // beyond the end
  EXPECT_EQ(fingerprint(data.data(), bytes), right);
}

TEST(Fingerprint, OfUnalignedDataIsTheSame) {
  std::vector<unsigned char> data(65, 7);
  EXPECT_EQ(fingerprint(data.data(), 64), fingerprint(data.data() + 1, 64));
}

TEST(Fingerprint, IsAddedUp) {
  const std::uint64_t data = 5;
  std::uint64_t hash = 100;
  run("ovl_fingerprint", FingerprintArgs{&data, 8, &hash});
  EXPECT_EQ(hash, 100 + fingerprint(&data, 8));
}

// ---- elementwise ---------------------------------------------------------------------------------------------------

TEST(Elementwise, AddsAllInputs) {
  for (const DType dtype : all_types) {
    constexpr std::int64_t count = 21;
    std::array<std::vector<std::byte>, 4> arrays;
    for (auto& array : arrays) array.resize(static_cast<std::size_t>(count * bytes_of(dtype)));
    for (std::int64_t i = 0; i < count; ++i) {
      // 1 + 0 + 2 - 3 = 0, then 1 + 1 + 2 - 3 = 1 ... up to 15
      store_element(arrays[0].data(), i, dtype, 1);
      store_element(arrays[1].data(), i, dtype, static_cast<double>(i % 16));
      store_element(arrays[2].data(), i, dtype, 2);
      store_element(arrays[3].data(), i, dtype, -3);
    }
    ElementwiseArgs args{.out = arrays[0].data(),
                         .in = {arrays[1].data(), arrays[2].data(), arrays[3].data()},
                         .inputs = 3,
                         .dtype = dtype,
                         .count = count};
    run("ovl_elementwise", args, 4);
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(load_element(arrays[0].data(), i, dtype), static_cast<double>(i % 16)) << name(dtype);
    }
  }
}

// 256 + 1 + 1 is 258 when it is rounded once, 256 when it is rounded after each sum.
TEST(Elementwise, RoundsOnce) {
  std::array<std::uint16_t, 1> out{0x4380};
  const std::uint16_t one = 0x3f80;
  run("ovl_elementwise",
      ElementwiseArgs{.out = out.data(), .in = {&one, &one}, .inputs = 2, .dtype = DType::bf16, .count = 1});
  EXPECT_EQ(from_bits(out[0], DType::bf16), 258);
}

TEST(Elementwise, SumsInF32WhatIsStoredInF32) {
  float out = 0x1p24F;
  const float half = 0.5F;
  run("ovl_elementwise",
      ElementwiseArgs{.out = &out, .in = {&half, &half, &half, &half}, .inputs = 4, .dtype = DType::f32, .count = 1});
  EXPECT_EQ(out, 0x1p24F);
  double wide = 0x1p24;
  const double narrow = 0.5;
  run("ovl_elementwise",
      ElementwiseArgs{.out = &wide, .in = {&narrow, &narrow}, .inputs = 2, .dtype = DType::f64, .count = 1});
  EXPECT_EQ(wide, 0x1p24 + 1);
}

// ---- what waits ----------------------------------------------------------------------------------------------------

constexpr std::uint64_t forever = std::numeric_limits<std::uint64_t>::max();

TEST(Spin, HoldsUntilTheWordIsLargeEnough) {
  std::uint32_t word = 0;
  std::uint32_t timed_out = 0;
  std::thread spin([&] { run("ovl_spin", SpinArgs{&word, 2, &timed_out, forever}); });
  std::atomic_ref<std::uint32_t>(word).store(1);
  std::atomic_ref<std::uint32_t>(word).store(3);
  spin.join();
  EXPECT_EQ(timed_out, 0U);
}

TEST(Spin, SaysThatItTimedOut) {
  std::uint32_t word = 1;
  std::uint32_t timed_out = 0;
  run("ovl_spin", SpinArgs{&word, 2, &timed_out, 0});
  EXPECT_EQ(timed_out, 1U);
}

TEST(Spin, EndsWhenStopped) {
  std::uint32_t word = 0;
  std::uint32_t timed_out = 0;
  const SpinArgs args{&word, 1, &timed_out, forever};
  twin("ovl_spin").run(&args, 0, 1, 0, [] { return true; });
  EXPECT_EQ(timed_out, 1U);
}

TEST(Busy, LastsAtLeastAsLongAsAsked) {
  const auto start = std::chrono::steady_clock::now();
  run("ovl_busy", BusyArgs{2'000'000});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2));
  const BusyArgs args{forever};
  twin("ovl_busy").run(&args, 0, 1, 0, [] { return true; });
}

TEST(Marker, StampsTimeAndSm) {
  Stamp first{};
  Stamp second{};
  const MarkerArgs args{&first};
  twin("ovl_marker").run(&args, 0, 1, 17, never);
  run("ovl_marker", MarkerArgs{&second});
  EXPECT_EQ(first.sm, 17U);
  EXPECT_GT(first.nanoseconds, 0U);
  EXPECT_GE(second.nanoseconds, first.nanoseconds);
}

TEST(Census, BlocksStayUntilAllHaveSaidWhereTheyAre) {
  std::array<Stamp, 3> stamps{};
  std::uint32_t arrived = 0;
  const CensusArgs args{stamps.data(), &arrived, 3, forever};
  std::vector<std::thread> blocks;
  for (int block = 0; block < 3; ++block) {
    blocks.emplace_back([&, block] { twin("ovl_census").run(&args, block, 3, 10 * block, never); });
  }
  for (std::thread& t : blocks) t.join();
  EXPECT_EQ(arrived, 3U);
  for (std::uint64_t block = 0; block < 3; ++block) EXPECT_EQ(stamps.at(block).sm, 10 * block);
}

TEST(Census, GivesUpOnBlocksThatFindNoSm) {
  Stamp stamp{};
  std::uint32_t arrived = 0;
  run("ovl_census", CensusArgs{&stamp, &arrived, 2, 0});
  EXPECT_EQ(arrived, 1U);
}

// ---- what stays ----------------------------------------------------------------------------------------------------

// What a kernel that stays needs besides its arguments, of up to four blocks.
struct Resident {
  std::uint32_t word = 0;
  std::uint32_t halt = 0;
  std::uint32_t expired = 0;
  std::array<BlockReport, 4> reports{};
  std::array<std::uint64_t, 4> moved{};

  // Not before *word >= value; nothing but `halt` ends it without one.
  Until until(std::uint32_t value) { return {&word, value, &halt, forever, &expired}; }
  Until alone(std::uint64_t limit_ns = forever) { return {nullptr, 0, &halt, limit_ns, nullptr}; }
};

template <class Args>
void run_at_once(std::string_view name, const Args& args) {
  std::vector<std::thread> blocks;
  for (int b = 0; b < args.blocks; ++b) {
    blocks.emplace_back([&, b] { twin(name).run(&args, b, args.blocks, 10 * b, never); });
  }
  for (std::thread& t : blocks) t.join();
}

TEST(Occupy, StaysUntilTheWordAndTellsWhereEachBlockWas) {
  Resident r;
  const OccupyArgs args{.blocks = 3, .until = r.until(2), .reports = r.reports.data()};
  std::thread kernel([&] { run_at_once("ovl_occupy", args); });
  std::atomic_ref<std::uint32_t>(r.word).store(1);  // not yet
  const auto released = std::chrono::steady_clock::now().time_since_epoch();
  std::atomic_ref<std::uint32_t>(r.word).store(2);
  kernel.join();
  for (std::uint64_t b = 0; b < 3; ++b) {
    EXPECT_EQ(r.reports.at(b).began.sm, 10 * b);
    EXPECT_EQ(r.reports.at(b).ended.sm, 10 * b);
    EXPECT_GE(r.reports.at(b).ended.nanoseconds,
              static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(released).count()));
  }
  EXPECT_EQ(r.expired, 0U);
}

TEST(Occupy, LastsAsLongAsAskedWithoutAWord) {
  Resident r;
  run("ovl_occupy", OccupyArgs{.blocks = 1, .until = r.alone(1'000'000), .reports = r.reports.data()});
  EXPECT_GE(r.reports[0].ended.nanoseconds - r.reports[0].began.nanoseconds, 1'000'000U);
  EXPECT_EQ(r.expired, 0U);
}

TEST(Occupy, SaysThatNobodyEndedIt) {
  Resident r;
  Until until = r.until(1);
  until.limit_ns = 0;
  run("ovl_occupy", OccupyArgs{.blocks = 1, .until = until, .reports = r.reports.data()});
  EXPECT_EQ(r.expired, 1U);
}

TEST(Occupy, EndsWhenTheHostSaysSo) {
  Resident r;
  r.halt = 1;
  run("ovl_occupy", OccupyArgs{.blocks = 1, .until = r.until(1), .reports = r.reports.data()});
  EXPECT_EQ(r.expired, 0U);
}

// An array of 64 KiB + 100 B is two chunks; the third is the first again.
TEST(StreamChunks, WorkedExample) {
  constexpr std::int64_t size = stream_chunk + 100;
  const auto chunk = [](std::int64_t bytes, std::int64_t index) {
    const StreamChunk c = stream_chunk_of({.size = size, .bytes = bytes}, index);
    return std::array<std::int64_t, 3>{c.position, c.offset, c.bytes};
  };
  using Three = std::array<std::int64_t, 3>;
  EXPECT_EQ(chunk(0, 0), (Three{0, 0, stream_chunk}));
  EXPECT_EQ(chunk(0, 1), (Three{stream_chunk, stream_chunk, 100}));
  EXPECT_EQ(chunk(0, 2), (Three{size, 0, stream_chunk}));
  EXPECT_EQ(chunk(0, 5), (Three{2 * size + stream_chunk, stream_chunk, 100}));
  // So many bytes in all: the last chunk is cut, and there is none after it.
  EXPECT_EQ(chunk(size + 7, 2), (Three{size, 0, 7}));
  EXPECT_EQ(chunk(size + 7, 3)[2], 0);
  EXPECT_EQ(chunk(10, 0), (Three{0, 0, 10}));
}

TEST(Stream, CopiesSoManyBytesBetweenItsBlocks) {
  std::vector<unsigned char> from(static_cast<std::size_t>(3 * stream_chunk + 5));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(mix64(i));
  std::vector<unsigned char> to(from.size());
  Resident r;
  const std::int64_t size = std::ssize(from);
  StreamArgs args{.from = from.data(),
                  .to = to.data(),
                  .size = size,
                  .bytes = size,
                  .blocks = 2,
                  .until = r.alone(),
                  .reports = r.reports.data(),
                  .moved = r.moved.data()};
  run("ovl_stream", args, 2);
  EXPECT_EQ(to, from);
  EXPECT_EQ(r.moved, (std::array<std::uint64_t, 4>{2 * stream_chunk, stream_chunk + 5, 0, 0}));
  // Less than the array: the rest stays.
  std::fill(to.begin(), to.end(), 0);
  args.bytes = stream_chunk + 1;
  run("ovl_stream", args, 2);
  EXPECT_EQ(to[static_cast<std::size_t>(stream_chunk)], from[static_cast<std::size_t>(stream_chunk)]);
  EXPECT_TRUE(std::all_of(to.begin() + stream_chunk + 1, to.end(), [](unsigned char c) { return c == 0; }));
}

// 1 ns a byte: the second chunk may not move before 65.5 us, the third not before 131 us.
TEST(Stream, KeepsItsPace) {
  std::vector<unsigned char> memory(static_cast<std::size_t>(2 * stream_chunk));
  Resident r;
  run("ovl_stream", StreamArgs{.from = memory.data(),
                               .to = memory.data() + stream_chunk,
                               .size = stream_chunk,
                               .bytes = 3 * stream_chunk,
                               .ns_per_byte = 1,
                               .blocks = 1,
                               .until = r.alone(),
                               .reports = r.reports.data(),
                               .moved = r.moved.data()});
  EXPECT_GE(r.reports[0].ended.nanoseconds - r.reports[0].began.nanoseconds, 2U * stream_chunk);
}

// The fifth look finds nothing yet, the sixth the word: five times the array.
TEST(Stream, GoesOnUntilTheWord) {
  std::vector<unsigned char> memory(200);
  Resident r;
  r.word = 1;
  const StreamArgs args{.from = memory.data(),
                        .to = memory.data() + 100,
                        .size = 100,
                        .blocks = 1,
                        .until = r.until(2),
                        .reports = r.reports.data(),
                        .moved = r.moved.data()};
  int looks = 0;
  twin("ovl_stream").run(&args, 0, 1, 0, [&] {
    if (++looks == 5) r.word = 2;
    return false;
  });
  EXPECT_EQ(r.moved[0], 500U);
}

// The peers of the ring send zeros, so that every kind leaves its input in its output.
TEST(RingProxy, LeavesItsInputAndTellsWhatWentOverItsLink) {
  for (const DType dtype : all_types) {
    for (const auto steps : {RingSteps::reduce, RingSteps::gather, RingSteps::both}) {
      const std::int64_t count = 2 * ring_slice / bytes_of(dtype) + 3;  // three slices, the last of three elements
      const auto bytes = static_cast<std::size_t>(count * bytes_of(dtype));
      std::vector<std::byte> in(bytes);
      for (std::int64_t i = 0; i < count; ++i) store_element(in.data(), i, dtype, static_cast<double>(i % 15));
      std::vector<std::byte> out(bytes);
      std::vector<std::byte> fifo(2 * ring_fifo);
      Resident r;
      run("ovl_ring_proxy",
          RingProxyArgs{.in = in.data(),
                        .out = out.data(),
                        .fifo = fifo.data(),
                        .count = count,
                        .dtype = dtype,
                        .steps = steps,
                        .blocks = 2,
                        .until = r.alone(),
                        .reports = r.reports.data(),
                        .moved = r.moved.data()},
          2);
      EXPECT_EQ(out, in) << name(dtype);
      // The first block sends two slices, the second one; twice where it reduces and gathers.
      const std::uint64_t factor = steps == RingSteps::both ? 2 : 1;
      const auto tail = static_cast<std::uint64_t>(3 * bytes_of(dtype));
      EXPECT_EQ(r.moved, (std::array<std::uint64_t, 4>{factor * (ring_slice + tail), factor * ring_slice, 0, 0}));
      const auto slot = [&](std::int64_t block, std::int64_t place) {
        return fifo.data() + block * ring_fifo + place * ring_slice;
      };
      EXPECT_TRUE(std::all_of(slot(0, 0), slot(0, 1), [](std::byte b) { return b == std::byte{0}; })) << "received";
      EXPECT_EQ(std::memcmp(slot(1, 2), in.data() + ring_slice, ring_slice), 0) << "sent";
    }
  }
}

// 64 KiB at 2 ns a byte of an all_reduce, which sends each twice: at least 262 us, as the last byte would take.
TEST(RingProxy, EndsWhenTheLinkWouldHave) {
  std::vector<std::byte> memory(static_cast<std::size_t>(2 * ring_slice + ring_fifo));
  Resident r;
  run("ovl_ring_proxy", RingProxyArgs{.in = memory.data(),
                                      .out = memory.data() + ring_slice,
                                      .fifo = memory.data() + 2 * ring_slice,
                                      .count = ring_slice / 4,
                                      .ns_per_byte = 2,
                                      .dtype = DType::f32,
                                      .steps = RingSteps::both,
                                      .blocks = 1,
                                      .until = r.alone(),
                                      .reports = r.reports.data(),
                                      .moved = r.moved.data()});
  EXPECT_GE(r.reports[0].ended.nanoseconds - r.reports[0].began.nanoseconds, 4U * ring_slice);
}

// ---- memory --------------------------------------------------------------------------------------------------------

TEST(Touches, ListEveryPointer) {
  using testing::ElementsAre;
  FillArgs fill{.begin = 10, .count = 5, .dtype = DType::f16};
  EXPECT_THAT(touched("ovl_fill", &fill), ElementsAre("write of 10 at 20, field 0"));
  FingerprintArgs print{.bytes = 77};
  EXPECT_THAT(touched("ovl_fingerprint", &print),
              ElementsAre("read of 77 at 0, field 0", "read_write of 8 at 0, field 16"));
  ElementwiseArgs sum{.inputs = 2, .dtype = DType::f64, .count = 3};
  EXPECT_THAT(touched("ovl_elementwise", &sum),
              ElementsAre("read_write of 24 at 0, field 0", "read of 24 at 0, field 8", "read of 24 at 0, field 16"));
  SpinArgs spin{};
  EXPECT_THAT(touched("ovl_spin", &spin), ElementsAre("read of 4 at 0, field 0", "write of 4 at 0, field 16"));
  MarkerArgs marker{};
  EXPECT_THAT(touched("ovl_marker", &marker), ElementsAre("write of 16 at 0, field 0"));
  BusyArgs busy{};
  EXPECT_THAT(touched("ovl_busy", &busy), ElementsAre());
  CensusArgs census{.blocks = 4};
  EXPECT_THAT(touched("ovl_census", &census),
              ElementsAre("write of 64 at 0, field 0", "read_write of 4 at 0, field 8"));
}

TEST(Touches, OfKernelsThatStayAreThoseOfAllBlocks) {
  using testing::Contains;
  using testing::ElementsAre;
  using testing::IsSupersetOf;
  std::uint32_t word = 0;
  OccupyArgs timed{.blocks = 2, .until = {}, .reports = nullptr};
  EXPECT_THAT(touched("ovl_occupy", &timed),
              Contains("write of 64 at 0, field " + std::to_string(offsetof(OccupyArgs, reports))));
  EXPECT_THAT(touched("ovl_occupy", &timed), Contains("poll of 0 at 0, field 8")) << "no word";
  timed.until.word = &word;
  EXPECT_THAT(touched("ovl_occupy", &timed), Contains("poll of 4 at 0, field 8"));
  StreamArgs stream{.size = 100, .blocks = 1};
  EXPECT_THAT(touched("ovl_stream", &stream),
              IsSupersetOf({"read of 100 at 0, field 0", "write of 100 at 0, field 8"}));
  stream.bytes = 60;
  EXPECT_THAT(touched("ovl_stream", &stream), IsSupersetOf({"read of 60 at 0, field 0", "write of 60 at 0, field 8"}));
  stream.bytes = 160;
  EXPECT_THAT(touched("ovl_stream", &stream),
              IsSupersetOf({"read of 100 at 0, field 0", "write of 100 at 0, field 8"}));
  RingProxyArgs ring{.count = 5, .dtype = DType::bf16, .blocks = 2};
  EXPECT_THAT(touched("ovl_ring_proxy", &ring), IsSupersetOf({"read of 10 at 0, field 0", "write of 10 at 0, field 8",
                                                              "read_write of 393216 at 0, field 16"}));
}

}  // namespace
}  // namespace ovl::kernels
