// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's activities, of what the emulated streams did. As with the real one, the tag of a call is told only where
// records of calls (RUNTIME or DRIVER) are asked for.
#include <cupti.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "emulator.hpp"

namespace ovl::emulation {
namespace {

#if CUDART_VERSION >= 13000
using KernelActivity = CUpti_ActivityKernel10;
using CopyActivity = CUpti_ActivityMemcpy6;
#else
using KernelActivity = CUpti_ActivityKernel9;
using CopyActivity = CUpti_ActivityMemcpy5;
#endif
using SetActivity = CUpti_ActivityMemset4;
using TagActivity = CUpti_ActivityExternalCorrelation;

struct Activities {
  std::mutex mutex;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<CUpti_ActivityKind> on;
  std::set<std::string> names;  // records point to them for good
  std::size_t dropped = 0;
};
Activities& activities() {
  static auto* const activities = new Activities;
  return *activities;
}
std::atomic<int> tag_kind{CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0};

bool fails_now(const char* call, void* site, CUptiResult* result) {
  int code = 0;
  if (!fails(call, site, CUPTI_ERROR_UNKNOWN, &code)) return false;
  *result = static_cast<CUptiResult>(code);
  return true;
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(KernelActivity);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CopyActivity);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(SetActivity);
    default: return sizeof(TagActivity);
  }
}

// The buffer that is being filled; handed back when it is full and at the end.
class Buffer {
 public:
  explicit Buffer(Activities& all) : all_(all) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { give_back(); }

  template <class Activity>
  void put(const Activity& activity) {
    if (memory_ == nullptr || used_ + sizeof(Activity) > size_) {
      give_back();
      size_t most = 0;
      all_.request(&memory_, &size_, &most);
    }
    if (memory_ == nullptr || sizeof(Activity) > size_) {
      ++all_.dropped;
      return;
    }
    std::memcpy(memory_ + used_, &activity, sizeof(Activity));
    used_ += sizeof(Activity);
  }

 private:
  void give_back() {
    if (memory_ != nullptr) all_.complete(nullptr, 0, memory_, size_, used_);
    memory_ = nullptr;
    size_ = used_ = 0;
  }

  Activities& all_;
  std::uint8_t* memory_ = nullptr;
  size_t size_ = 0;
  size_t used_ = 0;
};

void put_kernel(Buffer& buffer, Activities& all, const KernelSpan& span) {
  KernelActivity activity;
  std::memset(&activity, 0, sizeof(activity));
  activity.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  activity.registersPerThread = static_cast<std::uint16_t>(span.registers);
  activity.start = span.start_ns;
  activity.end = span.end_ns;
  activity.deviceId = static_cast<std::uint32_t>(span.device);
  activity.streamId = span.stream;
  activity.gridX = span.blocks;
  activity.gridY = activity.gridZ = 1;
  activity.blockX = span.threads;
  activity.blockY = activity.blockZ = 1;
  activity.dynamicSharedMemory = span.shared_bytes;
  activity.correlationId = span.correlation;
  activity.name = all.names.insert(span.name).first->c_str();
  buffer.put(activity);
}

template <class Activity>
void put_copy(Buffer& buffer, CUpti_ActivityKind kind, const KernelSpan& span) {
  Activity activity;
  std::memset(&activity, 0, sizeof(activity));
  activity.kind = kind;
  activity.bytes = span.bytes;
  activity.start = span.start_ns;
  activity.end = span.end_ns;
  activity.deviceId = static_cast<std::uint32_t>(span.device);
  activity.streamId = span.stream;
  activity.correlationId = span.correlation;
  buffer.put(activity);
}

void flush(Activities& all) {
  const bool tags = all.on.count(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) != 0 &&
                    (all.on.count(CUPTI_ACTIVITY_KIND_RUNTIME) != 0 || all.on.count(CUPTI_ACTIVITY_KIND_DRIVER) != 0);
  Buffer buffer(all);
  for (const KernelSpan& span : take_spans()) {
    const CUpti_ActivityKind kind = !span.copy              ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                                    : span.name == "memset" ? CUPTI_ACTIVITY_KIND_MEMSET
                                                            : CUPTI_ACTIVITY_KIND_MEMCPY;
    if (all.on.count(kind) == 0) continue;
    if (tags && span.tag != 0) {
      TagActivity tag{};
      tag.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      tag.externalKind = static_cast<CUpti_ExternalCorrelationKind>(tag_kind.load());
      tag.externalId = span.tag;
      tag.correlationId = span.correlation;
      buffer.put(tag);
    }
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) put_kernel(buffer, all, span);
    if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) put_copy<CopyActivity>(buffer, kind, span);
    if (kind == CUPTI_ACTIVITY_KIND_MEMSET) put_copy<SetActivity>(buffer, kind, span);
  }
}

}  // namespace
}  // namespace ovl::emulation

using ovl::emulation::activities;
using ovl::emulation::fails_now;

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_SUCCESS                         ? "CUPTI_SUCCESS"
          : result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
          : result == CUPTI_ERROR_MAX_LIMIT_REACHED       ? "CUPTI_ERROR_MAX_LIMIT_REACHED"
          : result == CUPTI_ERROR_QUEUE_EMPTY             ? "CUPTI_ERROR_QUEUE_EMPTY"
                                                          : "CUPTI_ERROR_UNKNOWN";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  CUptiResult result = CUPTI_SUCCESS;
  if (fails_now(__func__, __builtin_return_address(0), &result)) return result;
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(activities().mutex);
  activities().request = request;
  activities().complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  CUptiResult result = CUPTI_SUCCESS;
  if (fails_now(__func__, __builtin_return_address(0), &result)) return result;
  // What a machine says that keeps profiling to its administrator.
  if (ovl::emulation::without("cupti")) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (kind == CUPTI_ACTIVITY_KIND_KERNEL)
    ovl::emulation::violation("CUPTI_ACTIVITY_KIND_KERNEL serialises all kernels");
  const std::lock_guard lock(activities().mutex);
  activities().on.insert(kind);
  ovl::emulation::record_spans(true);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  CUptiResult result = CUPTI_SUCCESS;
  const bool injected = fails_now(__func__, __builtin_return_address(0), &result);
  const std::lock_guard lock(activities().mutex);
  activities().on.erase(kind);
  if (activities().on.empty()) ovl::emulation::record_spans(false);
  return injected ? result : CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t /*flag*/) {
  CUptiResult result = CUPTI_SUCCESS;
  if (fails_now(__func__, __builtin_return_address(0), &result)) return result;
  const std::lock_guard lock(activities().mutex);
  if (activities().request == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  ovl::emulation::flush(activities());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  uint8_t* next = buffer;
  if (*record != nullptr) {
    void* now = *record;
    next = static_cast<uint8_t*>(now) + ovl::emulation::size_of((*record)->kind);
  }
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = static_cast<CUpti_Activity*>(static_cast<void*>(next));
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext /*context*/, uint32_t /*stream*/, size_t* dropped) {
  // Called from within a flush too, which holds the lock.
  *dropped = std::exchange(activities().dropped, 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  CUptiResult result = CUPTI_SUCCESS;
  if (fails_now(__func__, __builtin_return_address(0), &result)) return result;
  ovl::emulation::tag_kind = kind;
  ovl::emulation::push_tag(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind /*kind*/, uint64_t* last) {
  CUptiResult result = CUPTI_SUCCESS;
  const bool injected = fails_now(__func__, __builtin_return_address(0), &result);
  const uint64_t id = ovl::emulation::pop_tag();
  if (last != nullptr) *last = id;
  if (injected) return result;
  return id == 0 ? CUPTI_ERROR_QUEUE_EMPTY : CUPTI_SUCCESS;
}

}  // extern "C"
