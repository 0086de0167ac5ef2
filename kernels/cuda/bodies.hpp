// SPDX-License-Identifier: Apache-2.0
//
// What a kernel does with one element, written once for the device and for its host twin: plain constexpr functions.
#pragma once

#include <cstdint>

#include "base/float_formats.hpp"
#include "base/random.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::kernels {

// The bits of element `index` of a buffer.
constexpr std::uint64_t fill_bits(const FillArgs& args, std::int64_t index) {
  switch (args.pattern) {
    case Pattern::exact: return to_bits(exact_element(args.seed, index, args.dtype), args.dtype);
    case Pattern::random: return to_bits(random_element(args.seed, index), args.dtype);
    case Pattern::nothing: break;
  }
  return ~std::uint64_t{0} >> (65 - 8 * bytes_of(args.dtype));  // the NaN of float_formats.hpp, in every format
}

// Of the eight bytes [8 · index, 8 · index + 8), little-endian, beyond the end 0. Their sum is the fingerprint.
constexpr std::uint64_t fingerprint_word(std::uint64_t word, std::int64_t index) {
  return mix64(word ^ mix64(static_cast<std::uint64_t>(index)));
}

// One word of `bytes` bytes, which may begin anywhere.
constexpr std::uint64_t word_of(const unsigned char* data, std::int64_t bytes, std::int64_t index) {
  std::uint64_t word = 0;
  const std::int64_t left = bytes - 8 * index;
  for (std::int64_t i = 0; i < (left < 8 ? left : 8); ++i) {
    word |= std::uint64_t{data[8 * index + i]} << static_cast<unsigned>(8 * i);
  }
  return word;
}

// ---- kernels that stay ----------------------------------------------------------------------------------------------

// What a block of a stream moves next: bytes [offset, offset + bytes) of the array, which begin at `position` of the
// stream. No bytes: the stream ends there.
struct StreamChunk {
  std::int64_t position;
  std::int64_t offset;
  std::int64_t bytes;
};
// The array is gone over again and again; the blocks take its chunks in turn.
constexpr StreamChunk stream_chunk_of(const StreamArgs& args, std::int64_t index) {
  const std::int64_t chunks = (args.size + stream_chunk - 1) / stream_chunk;
  const std::int64_t offset = index % chunks * stream_chunk;
  const std::int64_t position = index / chunks * args.size + offset;
  const std::int64_t of_array = args.size - offset < stream_chunk ? args.size - offset : stream_chunk;
  if (args.bytes == 0) return {position, offset, of_array};
  const std::int64_t left = args.bytes > position ? args.bytes - position : 0;
  return {position, offset, of_array < left ? of_array : left};
}

// Elements of a slice of the ring's array, and how many bytes go over its link for each byte of it.
constexpr std::int64_t ring_slice_elements(const RingProxyArgs& args) { return ring_slice / bytes_of(args.dtype); }
constexpr int ring_link_factor(RingSteps steps) { return steps == RingSteps::both ? 2 : 1; }

// When byte `position` may move, after the start: a token clock, so that what was late is made up for.
constexpr std::uint64_t due_ns(double ns_per_byte, std::int64_t position) {
  return static_cast<std::uint64_t>(ns_per_byte * static_cast<double>(position));
}

}  // namespace ovl::kernels
