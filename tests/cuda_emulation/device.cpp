// SPDX-License-Identifier: Apache-2.0
//
// Devices, memory and versions: the entry points that only ask or own.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "device.hpp"
#include "entry.hpp"
#include "graph.hpp"
#include "memory.hpp"
#include "settings.hpp"
#include "streams.hpp"

namespace ovl::emulation {
namespace {

thread_local int current = 0;

constexpr int l2_bytes = 1 << 20;  // small, so that buffers which rotate over it stay small
constexpr int copy_engines = 3;

bool is_device(int device) { return device >= 0 && device < devices(); }

cudaError_t properties_of(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return cudaErrorInvalidDevice;
  cudaDeviceProp& p = *properties;
  p = {};
  std::snprintf(p.name, sizeof(p.name), "Emulated GPU sm_%d", capability());
  const DeviceUuid uuid = uuid_of(device);
  std::memcpy(p.uuid.bytes, uuid.data(), uuid.size());
  p.totalGlobalMem = settings().memory;
  p.sharedMemPerBlock = 48 * 1024;
  p.sharedMemPerBlockOptin = static_cast<std::size_t>(shared_opt_in());
  p.sharedMemPerMultiprocessor = static_cast<std::size_t>(shared_opt_in() + 1024);
  p.reservedSharedMemPerBlock = 1024;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  std::fill(std::begin(p.maxThreadsDim), std::end(p.maxThreadsDim), 1024);
  std::fill(std::begin(p.maxGridSize), std::end(p.maxGridSize), 65535);
  p.maxGridSize[0] = 0x7fffffff;
  p.major = capability() / 10;
  p.minor = capability() % 10;
  p.multiProcessorCount = sms();
  p.asyncEngineCount = copy_engines;
  p.l2CacheSize = l2_bytes;
  p.memoryBusWidth = 5120;
  p.pciBusID = pci_bus(device);
  p.concurrentKernels = 1;
  p.unifiedAddressing = 1;
  p.canMapHostMemory = 1;
  p.streamPrioritiesSupported = 1;
  p.cooperativeLaunch = 1;
  return cudaSuccess;
}

cudaError_t attribute_of(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return cudaErrorInvalidDevice;
  const std::map<int, int> values{
      {cudaDevAttrComputeCapabilityMajor, capability() / 10},
      {cudaDevAttrComputeCapabilityMinor, capability() % 10},
      {cudaDevAttrMultiProcessorCount, sms()},
      {cudaDevAttrMaxThreadsPerBlock, 1024},
      {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
      {cudaDevAttrWarpSize, 32},
      {cudaDevAttrMaxSharedMemoryPerBlock, 48 * 1024},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, shared_opt_in()},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, shared_opt_in() + 1024},
      {cudaDevAttrMaxRegistersPerBlock, 65536},
      {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
      {cudaDevAttrL2CacheSize, l2_bytes},
      {cudaDevAttrAsyncEngineCount, copy_engines},
      {cudaDevAttrClockRate, 1980000},
      {cudaDevAttrMemoryClockRate, 3201000},
      {cudaDevAttrGlobalMemoryBusWidth, 5120},
      {cudaDevAttrPciBusId, pci_bus(device)},
      {cudaDevAttrPciDeviceId, 0},
      {cudaDevAttrPciDomainId, 0},
      {cudaDevAttrConcurrentKernels, 1},
      {cudaDevAttrUnifiedAddressing, 1},
      {cudaDevAttrCanMapHostMemory, 1},
      {cudaDevAttrStreamPrioritiesSupported, 1},
      {cudaDevAttrCooperativeLaunch, 1},
      {cudaDevAttrEccEnabled, 0},
      {cudaDevAttrIntegrated, 0},
  };
  const auto found = values.find(attribute);
  if (found == values.end())
    violation("device attribute " + std::to_string(static_cast<int>(attribute)) + " is not emulated");
  *value = found->second;
  return cudaSuccess;
}

}  // namespace

int current_device() { return current; }

int shared_opt_in() { return capability() >= 90 ? 227 * 1024 : capability() >= 80 ? 163 * 1024 : 64 * 1024; }

int pci_bus(int device) { return 0x17 + settings().visible[static_cast<std::size_t>(device)]; }

DeviceUuid uuid_of(int device) {
  DeviceUuid uuid{};
  std::memcpy(uuid.data(), "emulated device", 15);
  uuid[15] = static_cast<unsigned char>(settings().visible[static_cast<std::size_t>(device)]);
  return uuid;
}

bool make_current(int device) {
  if (!is_device(device)) return false;
  current = device;
  return true;
}

}  // namespace ovl::emulation

using ovl::emulation::Does;
using ovl::emulation::entry;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    *count = ovl::emulation::devices();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    return ovl::emulation::make_current(device) ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    *device = ovl::emulation::current_device();
    return cudaSuccess;
  });
}

// Before CUDA 13 the header renames this to cudaGetDeviceProperties_v2.
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::properties_of(properties, device); });
}

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query,
                            [&] { return ovl::emulation::attribute_of(value, attribute, device); });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    if (!ovl::emulation::is_device(device)) return cudaErrorInvalidDevice;
    const int needed = std::snprintf(text, static_cast<size_t>(std::max(length, 0)), "0000:%02X:00.0",
                                     static_cast<unsigned int>(ovl::emulation::pci_bus(device)));
    return needed < length ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    if (ovl::emulation::is_unsafe_now("cudaDeviceSynchronize")) return cudaErrorStreamCaptureUnsupported;
    ovl::emulation::wait_idle(ovl::emulation::current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    *total = ovl::emulation::settings().memory;
    *available = *total - ovl::emulation::memory_in_use(ovl::emulation::current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** device, size_t bytes) {
  return entry<cudaError_t>(
      __func__, __builtin_return_address(0), Does::make, [&] { return ovl::emulation::allocate(device, bytes); },
      cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* device) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::release,
                            [&] { return ovl::emulation::deallocate(device); });
}

cudaError_t cudaHostAlloc(void** host, size_t bytes, unsigned int /*flags*/) {
  return entry<cudaError_t>(
      __func__, __builtin_return_address(0), Does::make, [&] { return ovl::emulation::allocate_pinned(host, bytes); },
      cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* host) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::release,
                            [&] { return ovl::emulation::free_pinned(host); });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int /*flags*/) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::query, [&] {
    const ovl::emulation::Place place = ovl::emulation::place_of(host, 1, "cudaHostGetDevicePointer");
    if (place.kind != ovl::emulation::Place::Kind::pinned) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::tell, [&] {
    *version = ovl::emulation::driver_version();
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return entry<cudaError_t>(__func__, __builtin_return_address(0), Does::tell, [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

}  // extern "C"
