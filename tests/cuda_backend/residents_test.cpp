// SPDX-License-Identifier: Apache-2.0
//
// Kernels that stay, on a device: what they are there, that they end, and what they tell. Times are asserted on a real
// one only (gpu_test.cpp).
#include "backend/cuda/residents.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "backend/cuda/driver.hpp"
#include "backend/cuda/proxy.hpp"
#include "backend/cuda/stream.hpp"
#include "base/error.hpp"
#include "base/float_formats.hpp"
#include "cuda_backend/needs_device.hpp"

namespace ovl::cuda {
namespace {

using testing::HasSubstr;

// ---- pure -----------------------------------------------------------------------------------------------------------

TEST(Proxy, IsATransportWithTheRateOfItsLink) {
  EXPECT_EQ(parse_proxy("nccl"), std::nullopt);
  EXPECT_EQ(parse_proxy("proxyless"), std::nullopt);
  EXPECT_EQ(parse_proxy("proxy")->rate, BytesPerSecond(0));
  EXPECT_EQ(parse_proxy("proxy:50GB/s")->rate, BytesPerSecond(50e9));
  EXPECT_EQ(ns_per_byte(BytesPerSecond(50e9)), 0.02);
  EXPECT_EQ(ns_per_byte(BytesPerSecond(0)), 0.0);
  for (const char* wrong : {"proxy:", "proxy:50GB", "proxy:fast/s", "proxy:0GB/s"}) {
    try {
      static_cast<void>(parse_proxy(wrong));
      FAIL() << wrong;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << wrong;
    }
  }
}

TEST(Proxy, ReducesGathersOrBoth) {
  EXPECT_EQ(proxy_steps(CollectiveKind::all_reduce), kernels::RingSteps::both);
  EXPECT_EQ(proxy_steps(CollectiveKind::reduce_scatter), kernels::RingSteps::reduce);
  EXPECT_EQ(proxy_steps(CollectiveKind::all_gather), kernels::RingSteps::gather);
}

TEST(Footprints, AreWhatIsStated) {
  const kernels::StatedFootprint stated{640, 89, 96, 1};
  const auto reason = [&](kernels::Footprint found) { return footprint_reason("ovl_x", stated, found); };
  EXPECT_EQ(reason({640, 96, 0, 1}), "");
  EXPECT_EQ(reason({640, 88, 0, 1}),
            "the kernel ovl_x is not what it is stated to be: 88 registers of a thread, not 89 to 96");
  EXPECT_THAT(reason({640, 97, 0, 1}), HasSubstr("97 registers"));
  EXPECT_THAT(reason({640, 96, 8, 1}), HasSubstr("8 B of a thread are spilled"));
  EXPECT_THAT(reason({640, 96, 0, 2}), HasSubstr("2 of its blocks fit on an SM, not 1 to 1"));
  EXPECT_THAT(reason({640, 96, 0, 0}), HasSubstr("0 of its blocks"));
}

TEST(SmText, NamesRanges) {
  EXPECT_EQ(text_of(std::set<std::uint64_t>{}), "");
  EXPECT_EQ(text_of({3}), "3");
  EXPECT_EQ(text_of({0, 1, 2, 5, 7, 8}), "0-2 5 7-8");
}

// ---- on a device ----------------------------------------------------------------------------------------------------

class ResidentsTest : public NeedsDevice {
 protected:
  static void launched(kernels::Status status) { check(static_cast<cudaError_t>(status), "cudaLaunchKernelExC"); }
  static void synchronize(const Stream& stream) { check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize"); }
};

TEST_F(ResidentsTest, AreHereWhatIsStatedOfThem) {
  const Residents found = check_residents(device);
  EXPECT_EQ(found.occupy.reason, "");
  EXPECT_EQ(found.stream.reason, "");
  EXPECT_EQ(found.proxy.reason, "");
  EXPECT_THAT(found.occupy.text, HasSubstr("1024 threads"));
  EXPECT_THAT(found.proxy.text, HasSubstr("1 an SM"));
}

// Each block has an SM of its own, all but one of them, until a stream writes the word.
TEST_F(ResidentsTest, OccupyHoldsSmsUntilAStreamWritesTheWord) {
  ASSERT_NE(driver().write_value, nullptr);
  const int blocks = device.sms - 1;
  const Stream holding(device, device.least_priority);
  const Stream other(device, device.least_priority);
  const Halt halt;
  const Words words(2, holding.get());
  synchronize(holding);  // zeros before anybody writes
  ReportMemory report(blocks);
  launched(kernels::launch_occupy(
      {.blocks = blocks, .until = halt.until(words.at(1), 7, 20'000'000'000), .reports = report.reports()},
      occupy_shared_bytes(device), holding.get()));
  words.write(0, 7, other.get());  // another one's
  words.write(1, 6, other.get());  // an earlier one
  synchronize(other);
  EXPECT_EQ(cudaStreamQuery(holding.get()), cudaErrorNotReady);
  forgive(cudaGetLastError());
  words.write(1, 7, other.get());
  synchronize(holding);
  const StayReport told = report.take(blocks);
  EXPECT_EQ(told.blocks, blocks);
  EXPECT_EQ(std::ssize(told.sms), blocks) << "an SM each: " << text_of(told.sms);
  EXPECT_FALSE(halt.expired());
  EXPECT_EQ(report.take(blocks).blocks, 0) << "what was taken is forgotten";
}

TEST_F(ResidentsTest, TheHostEndsThemAndTheirLimitIsTold) {
  const Stream stream(device, device.least_priority);
  Halt halt;
  const Words words(1, stream.get());
  const ReportMemory report(1);
  const auto occupy = [&](std::uint64_t limit_ns) {
    launched(kernels::launch_occupy(
        {.blocks = 1, .until = halt.until(words.at(0), 1, limit_ns), .reports = report.reports()},
        occupy_shared_bytes(device), stream.get()));
  };
  occupy(1000);
  synchronize(stream);
  EXPECT_TRUE(halt.expired());
  Halt fresh;
  std::swap(halt, fresh);
  occupy(20'000'000'000);
  halt.raise();
  synchronize(stream);
  EXPECT_FALSE(halt.expired());
}

// 300 KiB and some bytes on two blocks, from a place that vector loads cannot take too.
TEST_F(ResidentsTest, StreamCopies) {
  for (const std::int64_t shift : {0, 1}) {
    const std::int64_t size = 300 * 1024 + 5;
    const Stream stream(device, device.least_priority);
    const DeviceMemory from(Bytes(size + shift));
    const DeviceMemory to(Bytes(size + shift));
    const Halt halt;
    ReportMemory report(2);
    launched(kernels::launch_fill({.out = from.get(),
                                   .begin = 0,
                                   .count = size + shift,
                                   .seed = 3,
                                   .dtype = DType::f8e4m3,
                                   .pattern = kernels::Pattern::random},
                                  stream.get()));
    launched(kernels::launch_stream({.from = from.get() + shift,
                                     .to = to.get() + shift,
                                     .size = size,
                                     .bytes = size,
                                     .ns_per_byte = 0,
                                     .blocks = 2,
                                     .until = halt.until(nullptr, 0, 20'000'000'000),
                                     .reports = report.reports(),
                                     .moved = report.moved()},
                                    stream.get()));
    std::vector<unsigned char> in(static_cast<std::size_t>(size + shift));
    std::vector<unsigned char> out(in.size());
    check(cudaMemcpyAsync(in.data(), from.get(), in.size(), cudaMemcpyDeviceToHost, stream.get()), "cudaMemcpyAsync");
    check(cudaMemcpyAsync(out.data(), to.get(), out.size(), cudaMemcpyDeviceToHost, stream.get()), "cudaMemcpyAsync");
    synchronize(stream);
    EXPECT_TRUE(std::equal(in.begin() + shift, in.end(), out.begin() + shift)) << "shift " << shift;
    EXPECT_EQ(report.take(2).moved, size);
  }
}

// Every kind in every dtype leaves its input, whole slices and the rest; an all_reduce sends each byte twice.
TEST_F(ResidentsTest, RingProxyLeavesItsInput) {
  using kernels::RingSteps;
  for (const DType dtype : dtypes_of(device)) {
    for (const RingSteps steps : {RingSteps::reduce, RingSteps::gather, RingSteps::both}) {
      const std::int64_t element = size_of(dtype).value();
      const std::int64_t count = 2 * kernels::ring_slice / element + 3;
      const Stream stream(device, device.least_priority);
      const DeviceMemory in(Bytes(count * element));
      const DeviceMemory out(Bytes(count * element));
      const DeviceMemory fifo(Bytes(2 * kernels::ring_fifo));
      const Halt halt;
      ReportMemory report(2);
      check(cudaMemsetAsync(fifo.get(), 0, static_cast<std::size_t>(2 * kernels::ring_fifo), stream.get()),
            "cudaMemsetAsync");
      launched(kernels::launch_fill(
          {.out = in.get(), .begin = 0, .count = count, .seed = 5, .dtype = dtype, .pattern = kernels::Pattern::random},
          stream.get()));
      launched(kernels::launch_ring_proxy({.in = in.get(),
                                           .out = out.get(),
                                           .fifo = fifo.get(),
                                           .count = count,
                                           .ns_per_byte = 0,
                                           .dtype = dtype,
                                           .steps = steps,
                                           .blocks = 2,
                                           .until = halt.until(nullptr, 0, 20'000'000'000),
                                           .reports = report.reports(),
                                           .moved = report.moved()},
                                          proxy_shared_bytes(device), stream.get()));
      std::vector<std::byte> expected(static_cast<std::size_t>(count * element));
      std::vector<std::byte> got(expected.size());
      check(cudaMemcpyAsync(expected.data(), in.get(), expected.size(), cudaMemcpyDeviceToHost, stream.get()),
            "cudaMemcpyAsync");
      check(cudaMemcpyAsync(got.data(), out.get(), got.size(), cudaMemcpyDeviceToHost, stream.get()),
            "cudaMemcpyAsync");
      synchronize(stream);
      for (std::int64_t i = 0; i < count; ++i) {  // -0 becomes 0
        ASSERT_EQ(load_element(got.data(), i, dtype), load_element(expected.data(), i, dtype)) << name(dtype) << i;
      }
      EXPECT_EQ(report.take(2).moved, count * element * (steps == RingSteps::both ? 2 : 1));
    }
  }
}

}  // namespace
}  // namespace ovl::cuda
