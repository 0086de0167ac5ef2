// SPDX-License-Identifier: Apache-2.0
//
// The device's kernels: arguments and launch, one .cu each. Pointers are device addresses (or mapped host memory where
// it says so), counts are elements. A launch with nothing to do is still one.
//
// `began`, where it is given, is recorded when every block has started: the operation's start.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/cuda/launch.hpp"

namespace ovl::kernels {

// out[i] for i in [begin, begin + count): the case's data (base/random.hpp), or a pattern that no result can have
// (NaN).
enum class Pattern : std::int32_t { exact, random, nothing };
struct FillArgs {
  void* out;           // start of the buffer's copy, not of the slice
  std::int64_t begin;  // elements
  std::int64_t count;
  std::uint64_t seed;
  DType dtype;
  Pattern pattern;
};
Status launch_fill(const FillArgs& args, Stream stream);

// *hash += a hash of the bytes that depends on their place but not on the order of the blocks. Zero *hash first.
struct FingerprintArgs {
  const void* data;
  std::int64_t bytes;
  std::uint64_t* hash;
};
Status launch_fingerprint(const FingerprintArgs& args, Stream stream);

// out[i] += in[0][i] + in[1][i] + ..., summed in the dtype's accumulation type (f32, f64 for f64).
struct ElementwiseArgs {
  static constexpr int most_inputs = 8;
  void* out;
  const void* in[most_inputs];
  std::int32_t inputs;
  DType dtype;
  std::int64_t count;
};
Status launch_elementwise(const ElementwiseArgs& args, Stream stream, Event began = nullptr);

// One thread that holds its stream until *word >= value (mapped host memory), or the timeout: the gate where the driver
// has no stream wait-value. Sets *timed_out (mapped) then.
struct SpinArgs {
  const std::uint32_t* word;
  std::uint32_t value;
  std::uint32_t* timed_out;
  std::uint64_t timeout_ns;
};
Status launch_spin(const SpinArgs& args, Stream stream);

// One thread that writes the device's clock (%globaltimer, ns) and its SM.
struct Stamp {
  std::uint64_t nanoseconds;
  std::uint64_t sm;
};
struct MarkerArgs {
  Stamp* stamp;  // mapped host memory
};
Status launch_marker(const MarkerArgs& args, Stream stream);

// Keeps one SM's thread busy for a time.
struct BusyArgs {
  std::uint64_t nanoseconds;
};
Status launch_busy(const BusyArgs& args, Stream stream, Event began = nullptr);

// Each of `blocks` blocks takes an SM for itself (by shared memory), says which, and stays until all have said so or
// the timeout has passed: which SMs a stream may use.
struct CensusArgs {
  Stamp* stamps;           // one a block, mapped host memory
  std::uint32_t* arrived;  // zeroed device memory
  std::uint32_t blocks;
  std::uint64_t timeout_ns;
};
Status launch_census(const CensusArgs& args, std::size_t shared_bytes, Stream stream);

// ---- kernels that stay: what contends for one thing, at a set strength
// ------------------------------------------------

// Of each block, written when it ends: where it ran, from when to when.
struct BlockReport {
  Stamp began;
  Stamp ended;
};

// What ends them. Asked by one thread of a block now and then: the host's word seldom, since it is far.
struct Until {
  const std::uint32_t* word;  // device memory, written by the stream that ends them; nullptr: none does
  std::uint32_t value;        // when *word >= value
  const std::uint32_t* halt;  // mapped host memory: at once when it is not 0
  std::uint64_t limit_ns;     // so long after the block began
  std::uint32_t* expired;     // mapped host memory: set where `word` should have ended it and the limit did
};

// What a kernel takes of an SM, as stated here, by the compiler and by the device: a test reads the compiler's report,
// and the backend asks the device before it uses one.
struct Footprint {
  int threads = 0;
  int registers = 0;     // of a thread
  int local_bytes = 0;   // of a thread: spilled
  int blocks_of_sm = 0;  // that fit on an SM at once
};
// Registers of a thread from least to most; CUDA allocates them in eights.
struct StatedFootprint {
  int threads;
  int least_registers;
  int most_registers;
  int most_blocks_of_sm;
};

// Takes an SM a block, and nothing else: all of its registers, all of its shared memory, and threads that sleep.
inline constexpr StatedFootprint occupy_footprint{1024, 57, 64, 1};
struct OccupyArgs {
  std::int32_t blocks;
  Until until;
  BlockReport* reports;  // one a block, mapped host memory
};
Status launch_occupy(const OccupyArgs& args, std::size_t shared_bytes, Stream stream, Event began = nullptr);
Status read_occupy_footprint(std::size_t shared_bytes, Footprint& footprint);

// Copies `size` bytes from -> to, again and again: `bytes` of them in all, or until it is ended (0). The blocks take
// chunks in turn, each not before a token clock of `ns_per_byte` (0: as fast as it goes) allows.
inline constexpr StatedFootprint stream_footprint{512, 1, 64, 4};
inline constexpr std::int64_t stream_chunk = 64 * 1024;  // bytes
struct StreamArgs {
  const void* from;
  void* to;
  std::int64_t size;   // bytes of either array, more than none
  std::int64_t bytes;  // to be copied
  double ns_per_byte;  // of all blocks together
  std::int32_t blocks;
  Until until;
  BlockReport* reports;  // one a block, mapped host memory
  std::uint64_t* moved;  // bytes copied, one a block, mapped host memory
};
Status launch_stream(const StreamArgs& args, Stream stream, Event began = nullptr);
Status read_stream_footprint(Footprint& footprint);

// What a ring collective of many ranks does inside one GPU, slice by slice: reduce adds what was received to the input
// and sends it on, gather sends what was received on and keeps it. What the peers would write and send is written to
// and read from a FIFO in this device's memory, and what is received is zero: the output is the input, as it is where a
// rank is alone. An all_reduce is both, reads and writes its FIFO as NCCL does, and sends each byte twice.
enum class RingSteps : std::int32_t { reduce, gather, both };
inline constexpr StatedFootprint ring_proxy_footprint{640, 89, 96, 1};
inline constexpr std::int64_t ring_slice = 64 * 1024;        // bytes
inline constexpr std::int64_t ring_fifo = 3 * ring_slice;    // of a block: received (zeros), sums, sent
inline constexpr std::size_t ring_most_shared = 100 * 1024;  // what NCCL takes of an SM; less where a block cannot
struct RingProxyArgs {
  const void* in;
  void* out;
  void* fifo;          // blocks * ring_fifo bytes, which begin as zeros
  std::int64_t count;  // elements
  double ns_per_byte;  // of the link, all blocks together; 0: as fast as it goes
  DType dtype;
  RingSteps steps;
  std::int32_t blocks;
  Until until;
  BlockReport* reports;  // one a block, mapped host memory
  std::uint64_t* moved;  // bytes sent, one a block, mapped host memory
};
Status launch_ring_proxy(const RingProxyArgs& args, std::size_t shared_bytes, Stream stream, Event began = nullptr);
Status read_ring_proxy_footprint(std::size_t shared_bytes, Footprint& footprint);

}  // namespace ovl::kernels
