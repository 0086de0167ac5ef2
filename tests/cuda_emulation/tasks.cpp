// SPDX-License-Identifier: Apache-2.0
//
// Tasks, copies among them: checked when they are enqueued, run by the stream's worker, told to CUPTI.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "entry.hpp"
#include "events.hpp"
#include "graph.hpp"
#include "kernels.hpp"
#include "memory.hpp"
#include "table.hpp"

namespace ovl::emulation {
namespace {

thread_local std::vector<std::uint64_t> tags;
thread_local std::uint32_t launch_correlation = 0;  // of the graph that this thread is launching
std::atomic<std::uint32_t> correlations{0};
std::atomic<bool> recording{false};

struct Spans {
  std::mutex mutex;
  std::vector<KernelSpan> kept;
};
Spans& spans() {
  static Spans* const spans = new Spans;
  return *spans;
}

// CUPTI gives all devices' times on one clock.
std::uint64_t span_clock() {
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(steady).count());
}

// The start event fires when the span has begun: what waits for it starts later on CUPTI's clock too.
void run(const Task& task, KernelSpan span, Mark* start) {
  span.start_ns = span_clock();
  if (start != nullptr) start->reach();
  try {
    if (task.run) task.run();
  } catch (const std::exception& error) {
    violation(task.name + " threw " + error.what());
  }
  span.end_ns = span_clock();
  if (!recording) return;
  const std::lock_guard lock(spans().mutex);
  spans().kept.push_back(std::move(span));
}

// With books() held.
void put(Stream& stream, const std::shared_ptr<const Task>& task, const std::shared_ptr<Event>& began) {
  std::shared_ptr<Mark> start;
  if (began != nullptr) {
    // What comes after the start comes after what this one comes after, not after what it does.
    start = std::make_shared<Mark>(stream.device(), stream.order);
    began->record = start;
    began->capture = nullptr;
  }
  touch(*task, stream, stream.tick());
  // A graph's kernels have the tag and the correlation of its launch.
  const KernelSpan span{tags.empty() ? 0 : tags.back(),
                        task->name,
                        0,
                        0,
                        stream.device(),
                        task->copy ? 0 : task->blocks,
                        task->threads,
                        task->registers,
                        task->shared_bytes,
                        task->copy,
                        launch_correlation != 0 ? launch_correlation : ++correlations,
                        stream.id(),
                        task->bytes};
  stream.push(
      [task, start, span] {
        if (stopping()) {
          if (start != nullptr) start->reach();
        } else {
          run(*task, span, start.get());
        }
      },
      true);
}

// Where [to, from] of a copy are; an error where the kind says otherwise.
cudaError_t check_kind(const Place& to, const Place& from, cudaMemcpyKind kind) {
  const bool to_device = to.kind == Place::Kind::device;
  const bool from_device = from.kind == Place::Kind::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return to_device || from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyHostToDevice: return to_device && !from_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDeviceToHost: return !to_device && from_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDeviceToDevice: return to_device && from_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDefault: return cudaSuccess;
  }
  return cudaErrorInvalidMemcpyDirection;
}

void must_be_current(const Stream& stream, const char* call) {
  if (stream.device() == current_device()) return;
  violation(std::string(call) + " on a stream of device " + std::to_string(stream.device()) + " while device " +
            std::to_string(current_device()) + " is current");
}

void wait_for_all(Stream& stream) {
  Clock order;
  std::uint64_t pushed = 0;
  {
    const Books lock(books());
    order = stream.order;
    pushed = stream.pushed();
  }
  stream.wait(pushed);
  const Books lock(books());
  host_passed(order);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t on, bool blocking,
                 const char* call) {
  const std::shared_ptr<Stream> stream = find_stream(on, call);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  must_be_current(*stream, call);
  if (bytes == 0) return cudaSuccess;
  const Place target = place_of(to, bytes, call);
  const Place source = place_of(from, bytes, call);
  if (const cudaError_t error = check_kind(target, source, kind); error != cudaSuccess) return error;
  // Pageable memory is staged while the caller waits.
  const bool staged = target.kind == Place::Kind::pageable || source.kind == Place::Kind::pageable;
  if (blocking && is_unsafe_now(call)) return cudaErrorStreamCaptureUnsupported;
  if (staged && is_capturing_now(*stream)) return cudaErrorStreamCaptureUnsupported;
  Task task;
  task.name = "memcpy";
  task.copy = true;
  task.bytes = bytes;
  if (target.kind != Place::Kind::pageable) task.ranges.push_back({to, bytes, Access::write});
  if (source.kind != Place::Kind::pageable) task.ranges.push_back({from, bytes, Access::read});
  task.run = [target, source, bytes] { std::memmove(target.memory, source.memory, bytes); };
  if (const cudaError_t error = enqueue(on, std::move(task)); error != cudaSuccess) return error;
  if (blocking || staged) wait_for_all(*stream);
  return cudaSuccess;
}

cudaError_t set(void* to, int value, std::size_t bytes, cudaStream_t on) {
  const std::shared_ptr<Stream> stream = find_stream(on, "cudaMemsetAsync");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  must_be_current(*stream, "cudaMemsetAsync");
  if (bytes == 0) return cudaSuccess;
  const Place target = place_of(to, bytes, "cudaMemsetAsync");
  if (target.kind == Place::Kind::pageable) return cudaErrorInvalidValue;
  Task task;
  task.name = "memset";
  task.copy = true;
  task.bytes = bytes;
  task.ranges.push_back({to, bytes, Access::write});
  task.run = [target, value, bytes] { std::memset(target.memory, value, bytes); };
  return enqueue(on, std::move(task));
}

cudaError_t create_stream(cudaStream_t* handle, unsigned int flags, int priority) {
  if (flags != cudaStreamNonBlocking) {
    violation("a stream without cudaStreamNonBlocking waits for the default stream and is not emulated");
  }
  // Out of range is taken as the nearest.
  *handle = add_stream(Stream::open(current_device(), std::clamp(priority, -5, 0), all_sms()));
  return cudaSuccess;
}

cudaError_t synchronize_stream(cudaStream_t handle) {
  const std::shared_ptr<Stream> stream = find_stream(handle, "cudaStreamSynchronize");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (is_capturing_now(*stream)) return cudaErrorStreamCaptureUnsupported;
  wait_for_all(*stream);
  return cudaSuccess;
}

cudaError_t query_stream(cudaStream_t handle) {
  const std::shared_ptr<Stream> stream = find_stream(handle, "cudaStreamQuery");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (is_capturing_now(*stream)) return cudaErrorStreamCaptureUnsupported;
  const Books lock(books());
  if (!stream->done(stream->pushed())) return cudaErrorNotReady;
  host_passed(stream->order);
  return cudaSuccess;
}

cudaError_t destroy_stream(cudaStream_t handle) {
  if (handle == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Stream> stream = find_stream(handle, "cudaStreamDestroy");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  drop_capture(*stream);
  take_stream(handle, "cudaStreamDestroy");
  return cudaSuccess;
}

}  // namespace

cudaError_t enqueue(cudaStream_t on, Task task) {
  must_have_read_error(task.name.c_str());
  if (sticky_error() != cudaSuccess) return sticky_error();
  const std::shared_ptr<Stream> stream = find_stream(on, task.name.c_str());
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (!task.copy && task.name.rfind("nccl", 0) != 0) load_kernel(task.name, stream->device());
  std::shared_ptr<Event> began;
  if (task.all_blocks_began != nullptr) began = find_event(task.all_blocks_began, task.name.c_str());
  const auto kept = std::make_shared<const Task>(std::move(task));
  bool captures = false;
  {
    const Books lock(books());
    captures = stream->capture != nullptr;
  }
  // In a graph the event stands for the whole kernel: it may wait until that is complete.
  const cudaError_t error =
      submit(*stream, [kept, began = captures ? nullptr : began](Stream& s) { put(s, kept, began); });
  if (captures && began != nullptr && error == cudaSuccess) {
    const Books lock(books());
    began->capture = stream->capture;
    began->front = front_of(*stream);
  }
  return error;
}

GraphLaunchScope::GraphLaunchScope() { launch_correlation = ++correlations; }
GraphLaunchScope::~GraphLaunchScope() { launch_correlation = 0; }

int device_of(cudaStream_t stream) {
  const std::shared_ptr<Stream> found = find_stream(stream, "device of a stream");
  return found == nullptr ? -1 : found->device();
}

void record_spans(bool on) { recording = on; }

std::vector<KernelSpan> take_spans() {
  const std::lock_guard lock(spans().mutex);
  return std::exchange(spans().kept, {});
}

void push_tag(std::uint64_t tag) { tags.push_back(tag); }

std::uint64_t pop_tag() {
  if (tags.empty()) return 0;
  const std::uint64_t tag = tags.back();
  tags.pop_back();
  return tag;
}

}  // namespace ovl::emulation

using ovl::emulation::Does;
using ovl::emulation::entry;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work, [&] {
    return ovl::emulation::copy(to, from, bytes, kind, stream, false, "cudaMemcpyAsync");
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work,
                            [&] { return ovl::emulation::copy(to, from, bytes, kind, nullptr, true, "cudaMemcpy"); });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work,
                            [&] { return ovl::emulation::set(to, value, bytes, stream); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::make,
                            [&] { return ovl::emulation::create_stream(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::release,
                            [&] { return ovl::emulation::destroy_stream(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::synchronize_stream(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::query_stream(stream); });
}

}  // extern "C"
