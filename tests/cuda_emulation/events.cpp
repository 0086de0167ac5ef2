// SPDX-License-Identifier: Apache-2.0
//
// Events. One holds its latest record; who waits for an event waits for the record that it held at that moment.
#include "events.hpp"

#include <utility>

#include "entry.hpp"
#include "graph.hpp"
#include "table.hpp"

namespace ovl::emulation {
namespace {

Table<cudaEvent_t, Event>& events() {
  static auto* const events = new Table<cudaEvent_t, Event>("event", "events");
  return *events;
}

bool captured(const Event& event) { return event.capture != nullptr; }

cudaError_t create(cudaEvent_t* event, unsigned int flags) {
  auto made = std::make_shared<Event>();
  made->device = current_device();
  made->timing = (flags & cudaEventDisableTiming) == 0;
  const Books lock(books());
  *event = events().add(std::move(made));
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t handle, cudaStream_t on, unsigned int flags, const char* call) {
  const std::shared_ptr<Event> event = find_event(handle, call);
  const std::shared_ptr<Stream> stream = find_stream(on, call);
  if (event == nullptr || stream == nullptr || event->device != stream->device()) return cudaErrorInvalidResourceHandle;
  if (stream->device() != current_device()) {
    violation(std::string(call) + " on a stream of device " + std::to_string(stream->device()) + " while device " +
              std::to_string(current_device()) + " is current");
  }
  const bool external = (flags & cudaEventRecordExternal) != 0;
  {
    const Books lock(books());
    if (stream->capture == nullptr && external) return cudaErrorInvalidValue;
    if (stream->capture != nullptr && !external) {
      if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
      event->capture = stream->capture;
      event->front = front_of(*stream);
      return cudaSuccess;
    }
  }
  return submit(*stream, [event](Stream& s) {
    event->capture = nullptr;
    event->record = mark(s, true);
  });
}

cudaError_t wait(cudaStream_t on, cudaEvent_t handle, unsigned int flags) {
  const std::shared_ptr<Event> event = find_event(handle, "cudaStreamWaitEvent");
  const std::shared_ptr<Stream> stream = find_stream(on, "cudaStreamWaitEvent");
  if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
  const bool external = (flags & cudaEventWaitExternal) != 0;
  std::shared_ptr<Mark> record;
  {
    const Books lock(books());
    if (external && stream->capture == nullptr) return cudaErrorInvalidValue;
    if (!external && captured(*event)) {
      if (event->capture->ended) return cudaErrorCapturedEvent;
      if (stream->capture != nullptr && stream->capture != event->capture) {
        stream->capture->invalid = event->capture->invalid = true;
        return cudaErrorStreamCaptureMerge;
      }
      join_capture(*stream, event->capture, event->front);
      return cudaSuccess;
    }
    if (!external && stream->capture != nullptr) {
      stream->capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    record = event->record;
  }
  if (external) {
    return submit(*stream, [event](Stream& s) {
      if (event->record != nullptr) wait_for(s, event->record, true);
    });
  }
  if (record == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
  return submit(*stream, [record](Stream& s) { wait_for(s, record, true); });
}

// The record to look at; an error where there is none to be had.
cudaError_t latest(cudaEvent_t handle, const char* call, std::shared_ptr<Mark>* record) {
  const std::shared_ptr<Event> event = find_event(handle, call);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (is_unsafe_now(call)) return cudaErrorStreamCaptureUnsupported;
  const Books lock(books());
  if (captured(*event)) return cudaErrorCapturedEvent;
  *record = event->record;
  return cudaSuccess;
}

cudaError_t query(cudaEvent_t handle) {
  std::shared_ptr<Mark> record;
  if (const cudaError_t error = latest(handle, "cudaEventQuery", &record); error != cudaSuccess) return error;
  if (record == nullptr) return cudaSuccess;
  if (!record->reached()) return cudaErrorNotReady;
  const Books lock(books());
  host_passed(record->order());
  return cudaSuccess;
}

cudaError_t synchronize(cudaEvent_t handle) {
  std::shared_ptr<Mark> record;
  if (const cudaError_t error = latest(handle, "cudaEventSynchronize", &record); error != cudaSuccess) return error;
  if (record == nullptr) return cudaSuccess;
  record->wait();
  const Books lock(books());
  host_passed(record->order());
  return cudaSuccess;
}

cudaError_t elapsed(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const std::shared_ptr<Event> start = find_event(from, "cudaEventElapsedTime");
  const std::shared_ptr<Event> end = find_event(to, "cudaEventElapsedTime");
  if (start == nullptr || end == nullptr) return cudaErrorInvalidResourceHandle;
  const Books lock(books());
  if (captured(*start) || captured(*end)) return cudaErrorCapturedEvent;
  if (!start->timing || !end->timing || start->device != end->device) return cudaErrorInvalidResourceHandle;
  if (start->record == nullptr || end->record == nullptr) return cudaErrorInvalidResourceHandle;
  if (!start->record->reached() || !end->record->reached()) return cudaErrorNotReady;
  const auto nanoseconds = [](const Mark& mark) { return static_cast<std::int64_t>(mark.nanoseconds()); };
  const std::int64_t between = nanoseconds(*end->record) - nanoseconds(*start->record);
  *milliseconds = static_cast<float>(static_cast<double>(between) * 1e-6);
  return cudaSuccess;
}

}  // namespace

std::shared_ptr<Event> find_event(cudaEvent_t handle, const char* call) {
  const Books lock(books());
  return events().find(handle, call);
}

}  // namespace ovl::emulation

using ovl::emulation::Does;
using ovl::emulation::entry;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::make,
                            [&] { return ovl::emulation::create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::release, [&] {
    const ovl::emulation::Books lock(ovl::emulation::books());
    const bool known = ovl::emulation::events().take(event, "cudaEventDestroy") != nullptr;
    return known ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work,
                            [&] { return ovl::emulation::record(event, stream, 0, "cudaEventRecord"); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work,
                            [&] { return ovl::emulation::record(event, stream, flags, "cudaEventRecordWithFlags"); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::work,
                            [&] { return ovl::emulation::wait(stream, event, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::query(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::synchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::elapsed(milliseconds, start, end); });
}

}  // extern "C"
