# SPDX-License-Identifier: Apache-2.0
# Enables the CUDA language for the including folder. One fat binary for every architecture from Turing on that the toolkit
# knows: machine code for each, and the last also as PTX for what comes later.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES) # must precede enable_language, which would set it to the compiler's default
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real)
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 90-real 100-real 120)
  else()
    list(APPEND CMAKE_CUDA_ARCHITECTURES 90)
  endif()
endif()
# The host pass must agree with the rest of the module about the standard library and the sanitizers.
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
enable_language(CUDA)
