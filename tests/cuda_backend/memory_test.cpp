// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/memory.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "base/error.hpp"
#include "cuda_backend/needs_device.hpp"

namespace ovl::cuda {
namespace {

using testing::HasSubstr;

TEST(DeviceMemoryOfNothing, HasNoAddress) {
  const DeviceMemory none(Bytes(0));
  EXPECT_EQ(none.get(), nullptr);
  EXPECT_EQ(none.size(), Bytes(0));
}

class OnFirstDevice : public NeedsDevice {
 protected:
  std::vector<float> read(const std::byte* from, std::size_t count) {
    std::vector<float> values(count);
    check(cudaMemcpy(values.data(), from, count * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }
};
using DeviceMemoryTest = OnFirstDevice;

TEST_F(DeviceMemoryTest, HoldsWhatIsWritten) {
  for (const Memory kind : {Memory::plain, Memory::registered, Memory::symmetric}) {
    const DeviceMemory memory(Bytes(8), kind);
    const std::vector<float> values = {1, 2};
    check(cudaMemcpy(memory.get(), values.data(), 8, cudaMemcpyHostToDevice), "cudaMemcpy");
    EXPECT_EQ(read(memory.get(), 2), values);
  }
}

TEST_F(DeviceMemoryTest, MovesWithItsMemory) {
  DeviceMemory memory(Bytes(256));
  const std::byte* address = memory.get();
  DeviceMemory other = std::move(memory);
  EXPECT_EQ(other.get(), address);
  EXPECT_EQ(other.size(), Bytes(256));
}

TEST_F(DeviceMemoryTest, WithoutRoomIsImpossible) {
  for (const Memory kind : {Memory::plain, Memory::registered}) {
    try {
      const DeviceMemory memory(Bytes(std::int64_t{1} << 50), kind);
      FAIL() << "a pebibyte was allocated";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::impossible) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("smaller sizes"));
    }
  }
}

using MappedMemoryTest = OnFirstDevice;

TEST_F(MappedMemoryTest, IsZeroAndSeenByBothSides) {
  const MappedMemory memory(Bytes(8));
  std::uint64_t value = 1;
  std::memcpy(&value, memory.host(), sizeof(value));
  EXPECT_EQ(value, 0U);
  const Stream stream(device, device.least_priority);
  check(cudaMemsetAsync(memory.device(), 0xff, 4, stream.get()), "cudaMemsetAsync");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  std::memcpy(&value, memory.host(), sizeof(value));
  EXPECT_EQ(value, 0xffffffffU);
}

using ArenaTest = OnFirstDevice;

// 65 f32 are 260 bytes: the next copy begins at 512. A slice from element 3 of copy 1 begins at 512 + 12.
TEST_F(ArenaTest, CopiesBeginOnABoundaryAndSlotsRotate) {
  const std::vector<Buffer> buffers = {{.name = "a", .dtype = DType::f32, .count = 65, .copies = 2},
                                       {.name = "b", .dtype = DType::f64, .count = 4, .memory = Memory::registered}};
  const Arena arena(device, buffers);
  const BufferId a(0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.copy(a, 0)) % 256, 0U);
  EXPECT_EQ(arena.copy(a, 1) - arena.copy(a, 0), 512);
  EXPECT_EQ(arena.at({a, 3, 1}, 1) - arena.copy(a, 0), 512 + 12);
  EXPECT_EQ(arena.at({a, 3, 1}, 2) - arena.copy(a, 0), 12);
  EXPECT_EQ(arena.memory(a).size(), Bytes(1024));
  EXPECT_EQ(arena.memory(BufferId(1)).size(), Bytes(256));
  EXPECT_EQ(arena.buffer(BufferId(1)).name, "b");
}

}  // namespace
}  // namespace ovl::cuda
