// SPDX-License-Identifier: Apache-2.0
//
// Driver entry points, fetched at run time so that nothing links libcuda: a machine without a driver still loads us.
#pragma once

#include "backend/cuda/api.hpp"

namespace ovl::cuda {

// Null where this driver lacks it.
struct Driver {
  CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned int) = nullptr;
  CUresult (*error_name)(CUresult, const char**) = nullptr;
  CUresult (*error_text)(CUresult, const char**) = nullptr;
  CUresult (*get_current)(CUcontext*) = nullptr;
  CUresult (*set_current)(CUcontext) = nullptr;
  // green contexts, CUDA 12.4
  CUresult (*device_resource)(CUdevice, CUdevResource*, CUdevResourceType) = nullptr;
  CUresult (*split_sms)(CUdevResource*, unsigned int*, const CUdevResource*, CUdevResource*, unsigned int,
                        unsigned int) = nullptr;
  CUresult (*generate_descriptor)(CUdevResourceDesc*, CUdevResource*, unsigned int) = nullptr;
  CUresult (*green_create)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned int) = nullptr;
  CUresult (*green_destroy)(CUgreenCtx) = nullptr;
  CUresult (*green_stream)(CUstream*, CUgreenCtx, unsigned int, int) = nullptr;
  // ends what lasts until an event
  CUresult (*write_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned int) = nullptr;

  [[nodiscard]] bool has_green_contexts() const {
    return device_resource != nullptr && split_sms != nullptr && generate_descriptor != nullptr &&
           green_create != nullptr && green_destroy != nullptr && green_stream != nullptr;
  }
};

const Driver& driver();

}  // namespace ovl::cuda
