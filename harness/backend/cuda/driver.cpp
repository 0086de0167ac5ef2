// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/driver.hpp"

namespace ovl::cuda {
namespace {

// Versions as of the signatures in driver.hpp; green contexts came with 12.4.
constexpr unsigned int version = 12040;

template <class Function>
void fetch(const char* name, Function& function) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found);
#else
  static_assert(version <= CUDART_VERSION);
  const cudaError_t status = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
#endif
  forgive(status);  // no driver, or not this one: it stays null
  if (status == cudaSuccess && found == cudaDriverEntryPointSuccess) function = reinterpret_cast<Function>(entry);
}

Driver fetch_all() {
  Driver d;
  fetch("cuStreamWaitValue32", d.wait_value);
  fetch("cuStreamWriteValue32", d.write_value);
  fetch("cuGetErrorName", d.error_name);
  fetch("cuGetErrorString", d.error_text);
  fetch("cuCtxGetCurrent", d.get_current);
  fetch("cuCtxSetCurrent", d.set_current);
  fetch("cuDeviceGetDevResource", d.device_resource);
  fetch("cuDevSmResourceSplitByCount", d.split_sms);
  fetch("cuDevResourceGenerateDesc", d.generate_descriptor);
  fetch("cuGreenCtxCreate", d.green_create);
  fetch("cuGreenCtxDestroy", d.green_destroy);
  fetch("cuGreenCtxStreamCreate", d.green_stream);
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver fetched = fetch_all();
  return fetched;
}

}  // namespace ovl::cuda
