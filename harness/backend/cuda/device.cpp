// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include <fmt/format.h>

#include "backend/cuda/communicator.hpp"

namespace ovl::cuda {
namespace {

std::string reason_of(cudaError_t status) {
  const std::string name = cudaGetErrorName(status);
  switch (status) {
    case cudaErrorInsufficientDriver: {
      const int has = driver_version();
      if (has == 0) return "no driver: libcuda.so.1 is missing or cannot be loaded (" + name + ")";
      return fmt::format("the driver is for CUDA {}, this build needs one for CUDA {} ({})", version_text(has),
                         version_text(CUDART_VERSION), name);
    }
    case cudaErrorStubLibrary: return "libcuda.so.1 is the toolkit's stub, not a driver's (" + name + ")";
    case cudaErrorNoDevice: {
      const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
      if (visible == nullptr) return "no GPU (" + name + ")";
      return fmt::format("no GPU: CUDA_VISIBLE_DEVICES=\"{}\" leaves none ({})", visible, name);
    }
    default: return fmt::format("cudaGetDeviceCount: {} ({})", cudaGetErrorString(status), name);
  }
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

template <class Function>
std::string file_of(Function* function) {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(function), &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

}  // namespace

std::string no_device_reason() noexcept {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  try {
    if (status != cudaSuccess) {
      forgive(status);
      return reason_of(status);
    }
    return count > 0 ? std::string() : reason_of(cudaErrorNoDevice);
  } catch (...) {  // no memory for the words
    return "no GPU";
  }
}

int device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

Device read_device(int index) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  Device d;
  d.index = index;
  d.name = properties.name;
  d.uuid = uuid_text(properties.uuid);
  d.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
  d.emulated = d.name.starts_with("Emulated");
  d.major = properties.major;
  d.minor = properties.minor;
  d.sms = properties.multiProcessorCount;
  d.memory = Bytes(static_cast<std::int64_t>(properties.totalGlobalMem));
  d.l2 = Bytes(properties.l2CacheSize);
  d.copy_engines = properties.asyncEngineCount;
  d.shared_bytes_opt_in = static_cast<int>(properties.sharedMemPerBlockOptin);
  const KeepDevice keep;
  make_current(d);
  check(cudaDeviceGetStreamPriorityRange(&d.least_priority, &d.greatest_priority), "cudaDeviceGetStreamPriorityRange");
  return d;
}

KeepDevice::KeepDevice() noexcept {
  const cudaError_t status = cudaGetDevice(&before_);
  if (status != cudaSuccess) before_ = -1;
  release(status, "cudaGetDevice");
}
KeepDevice::~KeepDevice() {
  if (before_ >= 0) release(cudaSetDevice(before_), "cudaSetDevice");
}

void make_current(const Device& device) { check(cudaSetDevice(device.index), "cudaSetDevice"); }

Bytes free_memory(const Device& device) {
  const KeepDevice keep;
  make_current(device);
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return Bytes(static_cast<std::int64_t>(free));
}

std::vector<DType> dtypes_of(const Device& device) {
  constexpr int ampere = 80;
  constexpr int ada = 89;
  std::vector<DType> dtypes = {DType::f64, DType::f32};
  if (device.capability() >= ampere) dtypes.push_back(DType::tf32);
  dtypes.push_back(DType::f16);
  if (device.capability() >= ampere) dtypes.push_back(DType::bf16);
  if (device.capability() >= ada) dtypes.push_back(DType::f8e4m3);
  return dtypes;
}

std::vector<Fact> library_facts() {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto blas = static_cast<int>(cublasLtGetVersion());  // 130100: 13.1.0
  const int driver = driver_version();
  return {{"cuda_driver_version", driver > 0 ? version_text(driver) : ""},
          {"cuda_runtime_version", version_text(runtime)},
          {"cuda_runtime_library", file_of(&cudaRuntimeGetVersion)},
          {"cublaslt_version", fmt::format("{}.{}.{}", blas / 10000, blas / 100 % 100, blas % 100)},
          {"cublaslt_library", file_of(&cublasLtGetVersion)},
          {"nccl_version", nccl_version_text(nccl_version())},
          {"nccl_library", file_of(&ncclGetVersion)},
          {"nccl_header_version", nccl_version_text(nccl_header_version())}};
}

}  // namespace ovl::cuda
