// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>
#include <type_traits>

#include "kernels/cuda/bodies.hpp"
#include "kernels/cuda/twins.hpp"

namespace ovl::kernels {
namespace {

using Stop = std::function<bool()>;

// The elements that one block of a kernel over an array takes: the device's threads take them in strides, which writes
// the same and adds up to the same.
template <class Each>
void for_block(std::int64_t count, int block, int blocks, Each each) {
  for (std::int64_t i = block; i < count; i += blocks) each(i);
}

std::uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// Looks until `done`, for so long or until it is stopped. False: it was not done.
template <class Done>
bool wait_until(Done done, std::uint64_t timeout_ns, const Stop& stop) {
  const std::uint64_t start = now_ns();
  while (!done()) {
    if (now_ns() - start >= timeout_ns || stop()) return false;
    std::this_thread::yield();
  }
  return true;
}

std::atomic_ref<std::uint32_t> shared_word(const std::uint32_t* word) {
  return std::atomic_ref<std::uint32_t>(const_cast<std::uint32_t&>(*word));  // atomic_ref of const is C++26
}

std::vector<Touch> touches(FillArgs& args) {
  const std::int64_t size = bytes_of(args.dtype);
  return {{&args.out, args.count * size, Access::write, args.begin * size}};
}
void run(const FillArgs& args, int block, int blocks, int /*sm*/, const Stop& /*stop*/) {
  const std::int64_t size = bytes_of(args.dtype);
  for_block(args.count, block, blocks, [&](std::int64_t i) {
    const std::uint64_t bits = fill_bits(args, args.begin + i);
    std::memcpy(static_cast<std::byte*>(args.out) + (args.begin + i) * size, &bits, static_cast<std::size_t>(size));
  });
}

std::vector<Touch> touches(FingerprintArgs& args) {
  return {{const_cast<void**>(&args.data), args.bytes, Access::read},
          {reinterpret_cast<void**>(&args.hash), sizeof *args.hash, Access::read_write}};
}
void run(const FingerprintArgs& args, int block, int blocks, int /*sm*/, const Stop& /*stop*/) {
  const auto* data = static_cast<const unsigned char*>(args.data);
  std::uint64_t sum = 0;
  for_block((args.bytes + 7) / 8, block, blocks,
            [&](std::int64_t i) { sum += fingerprint_word(word_of(data, args.bytes, i), i); });
  std::atomic_ref<std::uint64_t>(*args.hash).fetch_add(sum);
}

std::vector<Touch> touches(ElementwiseArgs& args) {
  const std::int64_t bytes = args.count * bytes_of(args.dtype);
  std::vector<Touch> all{{&args.out, bytes, Access::read_write}};
  for (int j = 0; j < args.inputs; ++j) all.push_back({const_cast<void**>(&args.in[j]), bytes, Access::read});
  return all;
}
template <class Sum>
void accumulate(const ElementwiseArgs& args, std::int64_t i) {
  Sum sum = static_cast<Sum>(load_element(args.out, i, args.dtype));
  for (int j = 0; j < args.inputs; ++j) sum += static_cast<Sum>(load_element(args.in[j], i, args.dtype));
  store_element(args.out, i, args.dtype, static_cast<double>(sum));
}
void run(const ElementwiseArgs& args, int block, int blocks, int /*sm*/, const Stop& /*stop*/) {
  for_block(args.count, block, blocks, [&](std::int64_t i) {
    args.dtype == DType::f64 ? accumulate<double>(args, i) : accumulate<float>(args, i);
  });
}

std::vector<Touch> touches(SpinArgs& args) {
  return {{reinterpret_cast<void**>(const_cast<std::uint32_t**>(&args.word)), sizeof *args.word, Access::read},
          {reinterpret_cast<void**>(&args.timed_out), sizeof *args.timed_out, Access::write}};
}
void run(const SpinArgs& args, int /*block*/, int /*blocks*/, int /*sm*/, const Stop& stop) {
  const auto open = [word = shared_word(args.word), value = args.value] { return word.load() >= value; };
  if (!wait_until(open, args.timeout_ns, stop)) shared_word(args.timed_out).store(1);
}

std::vector<Touch> touches(MarkerArgs& args) {
  return {{reinterpret_cast<void**>(&args.stamp), sizeof *args.stamp, Access::write, 0, true}};
}
void run(const MarkerArgs& args, int /*block*/, int /*blocks*/, int sm, const Stop& /*stop*/) {
  *args.stamp = {now_ns(), static_cast<std::uint64_t>(sm)};
}

std::vector<Touch> touches(BusyArgs& /*args*/) { return {}; }
void run(const BusyArgs& args, int /*block*/, int /*blocks*/, int /*sm*/, const Stop& stop) {
  wait_until([] { return false; }, args.nanoseconds, stop);
}

std::vector<Touch> touches(CensusArgs& args) {
  return {{reinterpret_cast<void**>(&args.stamps), static_cast<std::int64_t>(args.blocks * sizeof *args.stamps),
           Access::write, 0, true},
          {reinterpret_cast<void**>(&args.arrived), sizeof *args.arrived, Access::read_write}};
}
void run(const CensusArgs& args, int block, int /*blocks*/, int sm, const Stop& stop) {
  args.stamps[block] = {now_ns(), static_cast<std::uint64_t>(sm)};
  const auto arrived = shared_word(args.arrived);
  arrived.fetch_add(1);
  wait_until([&] { return arrived.load() >= args.blocks; }, args.timeout_ns, stop);
}

// ---- kernels that stay ----------------------------------------------------------------------------------------------

template <class T>
void** field(T*& pointer) {
  return reinterpret_cast<void**>(const_cast<std::remove_const_t<T>**>(&pointer));
}

void append_shared(Until& until, std::vector<Touch>& all) {
  const auto word_bytes = static_cast<std::int64_t>(sizeof(std::uint32_t));
  all.push_back({field(until.word), until.word == nullptr ? 0 : word_bytes, Access::poll});
  all.push_back({field(until.halt), word_bytes, Access::poll});
  all.push_back({field(until.expired), until.expired == nullptr ? 0 : word_bytes, Access::poll});
}
template <class Args>
void append_reports(Args& args, std::vector<Touch>& all) {
  all.push_back(
      {field(args.reports), args.blocks * static_cast<std::int64_t>(sizeof(BlockReport)), Access::write, 0, true});
}
template <class Args>
void append_moved(Args& args, std::vector<Touch>& all) {
  all.push_back({field(args.moved), args.blocks * static_cast<std::int64_t>(sizeof *args.moved), Access::write});
}

bool is_over(const Until& until, std::uint64_t start, const Stop& stop) {
  if (until.word != nullptr && shared_word(until.word).load() >= until.value) return true;
  if (shared_word(until.halt).load() != 0 || stop()) return true;
  if (now_ns() - start < until.limit_ns) return false;
  if (until.word != nullptr) shared_word(until.expired).store(1);
  return true;
}
bool is_over_before(std::uint64_t due, const Until& until, std::uint64_t start, const Stop& stop) {
  while (!is_over(until, start, stop)) {
    if (now_ns() >= due) return false;
    std::this_thread::yield();
  }
  return true;
}

Stamp stamp(int sm) { return {now_ns(), static_cast<std::uint64_t>(sm)}; }

std::vector<Touch> touches(OccupyArgs& args) {
  std::vector<Touch> all;
  append_reports(args, all);
  append_shared(args.until, all);
  return all;
}
void run(const OccupyArgs& args, int block, int /*blocks*/, int sm, const Stop& stop) {
  const Stamp began = stamp(sm);
  // As on the device the blocks sleep between looks: there are many.
  while (!is_over(args.until, began.nanoseconds, stop)) std::this_thread::sleep_for(std::chrono::microseconds(20));
  args.reports[block] = {began, stamp(sm)};
}

std::vector<Touch> touches(StreamArgs& args) {
  const std::int64_t touched = args.bytes == 0 ? args.size : std::min(args.size, args.bytes);
  std::vector<Touch> all{{field(args.from), touched, Access::read}, {&args.to, touched, Access::write}};
  append_reports(args, all);
  append_moved(args, all);
  append_shared(args.until, all);
  return all;
}
void run(const StreamArgs& args, int block, int blocks, int sm, const Stop& stop) {
  const Stamp began = stamp(sm);
  std::int64_t moved = 0;
  for (std::int64_t index = block;; index += blocks) {
    const StreamChunk chunk = stream_chunk_of(args, index);
    if (chunk.bytes == 0) break;
    const std::uint64_t due = began.nanoseconds + due_ns(args.ns_per_byte, chunk.position);
    if (is_over_before(due, args.until, began.nanoseconds, stop)) break;
    std::memcpy(static_cast<std::byte*>(args.to) + chunk.offset,
                static_cast<const std::byte*>(args.from) + chunk.offset, static_cast<std::size_t>(chunk.bytes));
    moved += chunk.bytes;
  }
  args.moved[block] = static_cast<std::uint64_t>(moved);
  args.reports[block] = {began, stamp(sm)};
}

std::vector<Touch> touches(RingProxyArgs& args) {
  const std::int64_t bytes = args.count * bytes_of(args.dtype);
  std::vector<Touch> all{{field(args.in), bytes, Access::read},
                         {&args.out, bytes, Access::write},
                         {&args.fifo, args.blocks * ring_fifo, Access::read_write}};
  append_reports(args, all);
  append_moved(args, all);
  append_shared(args.until, all);
  return all;
}
void move_slice(const RingProxyArgs& args, int block, std::int64_t begin, std::int64_t count) {
  const std::int64_t size = bytes_of(args.dtype);
  const auto* in = static_cast<const std::byte*>(args.in) + begin * size;
  std::byte* out = static_cast<std::byte*>(args.out) + begin * size;
  std::byte* received = static_cast<std::byte*>(args.fifo) + block * ring_fifo;
  std::byte* sums = received + ring_slice;
  std::byte* sent = sums + ring_slice;
  const auto bytes = static_cast<std::size_t>(count * size);
  std::byte* reduced = args.steps == RingSteps::both ? sums : out;
  if (args.steps == RingSteps::gather) {
    std::memmove(out, in, bytes);
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      store_element(reduced, i, args.dtype, load_element(in, i, args.dtype) + load_element(received, i, args.dtype));
    }
  }
  if (args.steps == RingSteps::both) std::memcpy(out, sums, bytes);
  std::memcpy(sent, out, bytes);
}
void run(const RingProxyArgs& args, int block, int blocks, int sm, const Stop& stop) {
  const Stamp began = stamp(sm);
  const std::int64_t most = ring_slice_elements(args);
  const std::int64_t link_bytes = bytes_of(args.dtype) * ring_link_factor(args.steps);  // of an element
  std::int64_t moved = 0;
  const auto over_before = [&](std::int64_t element) {
    const std::uint64_t due = began.nanoseconds + due_ns(args.ns_per_byte, element * link_bytes);
    return is_over_before(due, args.until, began.nanoseconds, stop);
  };
  for (std::int64_t begin = block * most; begin < args.count; begin += blocks * most) {
    if (over_before(begin)) break;
    const std::int64_t count = std::min(args.count - begin, most);
    move_slice(args, block, begin, count);
    moved += count * link_bytes;
  }
  static_cast<void>(over_before(args.count));
  args.moved[block] = static_cast<std::uint64_t>(moved);
  args.reports[block] = {began, stamp(sm)};
}

template <class Args>
constexpr Twin twin(std::string_view name, int registers = 32) {
  return {name, sizeof(Args), [](void* arguments) { return touches(*static_cast<Args*>(arguments)); },
          [](const void* arguments, int block, int blocks, int sm, const Stop& stop) {
            run(*static_cast<const Args*>(arguments), block, blocks, sm, stop);
          },
          registers};
}

constexpr Twin all_twins[] = {
    twin<FillArgs>("ovl_fill"),
    twin<FingerprintArgs>("ovl_fingerprint"),
    twin<ElementwiseArgs>("ovl_elementwise"),
    twin<SpinArgs>("ovl_spin"),
    twin<MarkerArgs>("ovl_marker"),
    twin<BusyArgs>("ovl_busy"),
    twin<CensusArgs>("ovl_census"),
    twin<OccupyArgs>("ovl_occupy", occupy_footprint.most_registers),
    twin<StreamArgs>("ovl_stream"),
    twin<RingProxyArgs>("ovl_ring_proxy", ring_proxy_footprint.most_registers),
};

}  // namespace

std::span<const Twin> twins() { return all_twins; }

}  // namespace ovl::kernels
