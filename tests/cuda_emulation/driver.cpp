// SPDX-License-Identifier: Apache-2.0
//
// The driver: nothing links it, its entry points are asked for by name.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "device.hpp"
#include "entry.hpp"
#include "memory.hpp"
#include "streams.hpp"
#include "table.hpp"

namespace ovl::emulation {
namespace {

// ------------------------------------------------------------------------------------------------- memory operations

bool holds(std::uint32_t now, std::uint32_t value, unsigned int flags) {
  switch (flags & 3U) {
    case CU_STREAM_WAIT_VALUE_GEQ: return static_cast<std::int32_t>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    default:  // CU_STREAM_WAIT_VALUE_NOR
      return ~(now | value) != 0;
  }
}

// nullptr: no word of the device's or of pinned memory.
std::uint32_t* word_at(CUdeviceptr address, const char* call) {
  const void* pointer = reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
  if (address % sizeof(std::uint32_t) != 0) return nullptr;
  const Place place = place_of(pointer, sizeof(std::uint32_t), call);
  if (place.kind == Place::Kind::pageable) return nullptr;
  return reinterpret_cast<std::uint32_t*>(place.memory);  // NOLINT: a word in raw memory
}

void wait_until(std::uint32_t* word, std::uint32_t value, unsigned int flags) {
  for (int tries = 0; !stopping(); ++tries) {
    if (holds(std::atomic_ref<std::uint32_t>(*word).load(std::memory_order_acquire), value, flags)) return;
    if (tries < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

CUresult wait_value(CUstream on, CUdeviceptr address, std::uint32_t value, unsigned int flags) {
  const std::shared_ptr<Stream> stream = find_stream(on, "cuStreamWaitValue32");
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::uint32_t* word = word_at(address, "cuStreamWaitValue32");
  if (word == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return static_cast<CUresult>(submit(*stream, [word, value, flags](Stream& s) {
    s.push([word, value, flags] { wait_until(word, value, flags); }, true);
  }));
}

CUresult write_value(CUstream on, CUdeviceptr address, std::uint32_t value) {
  const std::shared_ptr<Stream> stream = find_stream(on, "cuStreamWriteValue32");
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::uint32_t* word = word_at(address, "cuStreamWriteValue32");
  if (word == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return static_cast<CUresult>(submit(*stream, [word, value](Stream& s) {
    s.push([word, value] { std::atomic_ref<std::uint32_t>(*word).store(value, std::memory_order_release); }, true);
  }));
}

// ------------------------------------------------------------------------------------------------------------ contexts

// A device's primary context is a number that stands for it.
struct Primary {
  int device = 0;
};
std::array<Primary, 64>& primaries() {
  static std::array<Primary, 64> primaries;
  return primaries;
}

CUcontext primary_of(int device) {
  Primary& primary = primaries()[static_cast<std::size_t>(device)];
  primary.device = device;
  return reinterpret_cast<CUcontext>(&primary);
}

CUresult set_current(CUcontext context) {
  for (int device = 0; device < devices(); ++device) {
    if (context == primary_of(device)) return make_current(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  }
  return CUDA_ERROR_INVALID_CONTEXT;
}

// ------------------------------------------------------------------------------------------------------ green contexts

// What a resource of ours carries where CUDA keeps what only CUDA reads.
struct SmRange {
  std::array<char, 8> ours{'e', 'm', 'u', 'l', 'a', 't', 'e', 'd'};
  int device = 0;
  int first = 0;
  int count = 0;
};
static_assert(sizeof(SmRange) <= sizeof(CUdevResource::_internal_padding));

struct Granularity {
  unsigned int least;
  unsigned int multiple;
};
Granularity granularity() {
  if (capability() >= 90) return {8, 8};
  if (capability() >= 80) return {4, 2};
  return {2, 2};
}

CUdevResource resource_of(const SmRange& range) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  std::memcpy(resource._internal_padding, &range, sizeof(range));
  resource.sm.smCount = static_cast<unsigned int>(range.count);
#if CUDA_VERSION >= 13000
  resource.sm.minSmPartitionSize = granularity().least;
  resource.sm.smCoscheduledAlignment = granularity().multiple;
#endif
  return resource;
}

bool read_resource(const CUdevResource& resource, SmRange* range) {
  std::memcpy(range, resource._internal_padding, sizeof(*range));
  return resource.type == CU_DEV_RESOURCE_TYPE_SM && range->ours == SmRange{}.ours;
}

CUresult device_resource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = resource_of({SmRange{}.ours, device, 0, sms()});
  return CUDA_SUCCESS;
}

CUresult split(CUdevResource* result, unsigned int* groups, const CUdevResource* input, CUdevResource* remaining,
               unsigned int flags, unsigned int least) {
  SmRange all;
  if (groups == nullptr || input == nullptr || !read_resource(*input, &all)) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  if (least > static_cast<unsigned int>(all.count)) return CUDA_ERROR_INVALID_VALUE;
  const bool fine = (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0;
  const Granularity grain = fine ? Granularity{2, 2} : granularity();
  const unsigned int size = (std::max(least, grain.least) + grain.multiple - 1) / grain.multiple * grain.multiple;
  const unsigned int possible = static_cast<unsigned int>(all.count) / size;
  if (possible == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (result == nullptr) {
    *groups = possible;
    return CUDA_SUCCESS;
  }
  *groups = std::min(*groups, possible);
  SmRange range = all;
  range.count = static_cast<int>(size);
  for (unsigned int i = 0; i < *groups; ++i) {
    result[i] = resource_of(range);
    range.first += range.count;
  }
  if (remaining != nullptr) {
    range.count = all.first + all.count - range.first;
    *remaining = range.count > 0 ? resource_of(range) : CUdevResource{};
  }
  return CUDA_SUCCESS;
}

struct Descriptor {
  int device = 0;
  std::vector<int> sms;
};
struct GreenContext {
  int device = 0;
  std::vector<int> sms;
  std::vector<std::weak_ptr<Stream>> streams;
};

// Guarded by books(). Descriptors are never destroyed: CUDA has no call for it.
Table<CUgreenCtx, GreenContext>& green_contexts() {
  static auto* const contexts = new Table<CUgreenCtx, GreenContext>("green context", "green contexts");
  return *contexts;
}
std::map<CUdevResourceDesc, Descriptor>& descriptors() {
  static auto* const descriptors = new std::map<CUdevResourceDesc, Descriptor>;
  return *descriptors;
}

CUresult describe(CUdevResourceDesc* descriptor, CUdevResource* resources, unsigned int count) {
  if (descriptor == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  Descriptor made;
  for (unsigned int i = 0; i < count; ++i) {
    SmRange range;
    if (!read_resource(resources[i], &range)) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    made.device = range.device;
    for (int sm = range.first; sm < range.first + range.count; ++sm) made.sms.push_back(sm);
  }
  const Books lock(books());
  *descriptor = reinterpret_cast<CUdevResourceDesc>(next_handle());  // NOLINT(performance-no-int-to-ptr)
  descriptors().emplace(*descriptor, std::move(made));
  return CUDA_SUCCESS;
}

CUresult create_green(CUgreenCtx* context, CUdevResourceDesc descriptor, CUdevice device, unsigned int flags) {
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  const Books lock(books());
  const auto found = descriptors().find(descriptor);
  if (found == descriptors().end()) return CUDA_ERROR_INVALID_VALUE;
  if (found->second.device != device) return CUDA_ERROR_INVALID_DEVICE;
  *context = green_contexts().add(std::make_shared<GreenContext>(GreenContext{device, found->second.sms, {}}));
  return CUDA_SUCCESS;
}

CUresult destroy_green(CUgreenCtx handle) {
  const Books lock(books());
  const std::shared_ptr<GreenContext> context = green_contexts().take(handle, "cuGreenCtxDestroy");
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const std::weak_ptr<Stream>& weak : context->streams) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream != nullptr && !stream->closed()) violation("cuGreenCtxDestroy leaks a stream of it; destroy that first");
  }
  return CUDA_SUCCESS;
}

CUresult create_green_stream(CUstream* handle, CUgreenCtx green, unsigned int flags, int priority) {
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<GreenContext> context;
  {
    const Books lock(books());
    context = green_contexts().find(green, "cuGreenCtxStreamCreate");
  }
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::shared_ptr<Stream> stream = Stream::open(context->device, std::clamp(priority, -5, 0), context->sms);
  *handle = add_stream(stream);
  const Books lock(books());
  context->streams.push_back(stream);
  return CUDA_SUCCESS;
}

// -------------------------------------------------------------------------------------------------------- entry points

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return entry<CUresult>("cuStreamWaitValue32", __builtin_return_address(0), Does::work,
                         [&] { return wait_value(stream, address, value, flags); });
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int /*flags*/) {
  return entry<CUresult>("cuStreamWriteValue32", __builtin_return_address(0), Does::work,
                         [&] { return write_value(stream, address, value); });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return entry<CUresult>(__func__, __builtin_return_address(0), Does::query, [&] {
    *context = primary_of(current_device());
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return entry<CUresult>(__func__, __builtin_return_address(0), Does::query, [&] { return set_current(context); });
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  return entry<CUresult>(__func__, __builtin_return_address(0), Does::query,
                         [&] { return device_resource(device, resource, type); });
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* groups, const CUdevResource* input,
                                     CUdevResource* remaining, unsigned int flags, unsigned int least) {
  return entry<CUresult>(__func__, __builtin_return_address(0), Does::query,
                         [&] { return split(result, groups, input, remaining, flags, least); });
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* descriptor, CUdevResource* resources, unsigned int count) {
  return entry<CUresult>(__func__, __builtin_return_address(0), Does::query,
                         [&] { return describe(descriptor, resources, count); });
}

CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc descriptor, CUdevice device, unsigned int flags) {
  return entry<CUresult>(__func__, __builtin_return_address(0), Does::make,
                         [&] { return create_green(context, descriptor, device, flags); });
}

CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  return entry<CUresult>(__func__, __builtin_return_address(0), Does::release, [&] { return destroy_green(context); });
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned int flags, int priority) {
  return entry<CUresult>(__func__, __builtin_return_address(0), Does::make,
                         [&] { return create_green_stream(stream, context, flags, priority); });
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));  // the same numbers
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  read_error();
  switch (error) {
    case CUDA_ERROR_INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_INVALID_DEVICE: *text = "CUDA_ERROR_INVALID_DEVICE"; break;
    case CUDA_ERROR_INVALID_CONTEXT: *text = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case CUDA_ERROR_INVALID_HANDLE: *text = "CUDA_ERROR_INVALID_HANDLE"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case CUDA_ERROR_INVALID_RESOURCE_TYPE: *text = "CUDA_ERROR_INVALID_RESOURCE_TYPE"; break;
    case CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION: *text = "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"; break;
    default: *text = "CUDA_ERROR_UNKNOWN";
  }
  return CUDA_SUCCESS;
}

struct EntryPoint {
  std::string_view name;
  void* function;
  unsigned int since;  // CUDA version
  const char* of;      // what OVL_EMULATED_WITHOUT takes away; nullptr: always there
};

template <class Function>
void* pointer_to(Function* function) {
  return reinterpret_cast<void*>(function);
}

const EntryPoint* find(std::string_view name) {
  static const std::array points{
      EntryPoint{"cuStreamWaitValue32", pointer_to(cuStreamWaitValue32_v2), 8000, "wait_value"},
      EntryPoint{"cuStreamWriteValue32", pointer_to(cuStreamWriteValue32_v2), 8000, "wait_value"},
      EntryPoint{"cuCtxGetCurrent", pointer_to(cuCtxGetCurrent), 4000, nullptr},
      EntryPoint{"cuCtxSetCurrent", pointer_to(cuCtxSetCurrent), 4000, nullptr},
      EntryPoint{"cuDeviceGetDevResource", pointer_to(cuDeviceGetDevResource), 12040, "green_contexts"},
      EntryPoint{"cuDevSmResourceSplitByCount", pointer_to(cuDevSmResourceSplitByCount), 12040, "green_contexts"},
      EntryPoint{"cuDevResourceGenerateDesc", pointer_to(cuDevResourceGenerateDesc), 12040, "green_contexts"},
      EntryPoint{"cuGreenCtxCreate", pointer_to(cuGreenCtxCreate), 12040, "green_contexts"},
      EntryPoint{"cuGreenCtxDestroy", pointer_to(cuGreenCtxDestroy), 12040, "green_contexts"},
      EntryPoint{"cuGreenCtxStreamCreate", pointer_to(cuGreenCtxStreamCreate), 12040, "green_contexts"},
      EntryPoint{"cuGetErrorString", pointer_to(cuGetErrorString), 6000, nullptr},
      EntryPoint{"cuGetErrorName", pointer_to(cuGetErrorName), 6000, nullptr},
  };
  const auto* found =
      std::find_if(points.begin(), points.end(), [name](const EntryPoint& p) { return p.name == name; });
  if (found == points.end() || (found->of != nullptr && without(found->of))) return nullptr;
  return found;
}

cudaError_t entry_point(const char* name, void** function, unsigned int version,
                        cudaDriverEntryPointQueryResult* status) {
  *function = nullptr;
  if (static_cast<int>(version) > driver_version()) return cudaErrorInvalidValue;
  const EntryPoint* found = find(name);
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
  if (found == nullptr || static_cast<int>(found->since) > driver_version()) {
    result = cudaDriverEntryPointSymbolNotFound;
  } else if (found->since > version) {
    result = cudaDriverEntryPointVersionNotSufficent;
  } else {
    *function = found->function;
  }
  if (status != nullptr) *status = result;
  return cudaSuccess;
}

}  // namespace
}  // namespace ovl::emulation

using ovl::emulation::Does;
using ovl::emulation::entry;

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int version,
                                             unsigned long long /*flags*/,
                                             enum cudaDriverEntryPointQueryResult* status) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::entry_point(name, function, version, status); });
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long /*flags*/,
                                    enum cudaDriverEntryPointQueryResult* status) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    const unsigned int version = static_cast<unsigned int>(std::min(ovl::emulation::driver_version(), CUDART_VERSION));
    return ovl::emulation::entry_point(name, function, version, status);
  });
}

}  // extern "C"
