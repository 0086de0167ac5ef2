# SPDX-License-Identifier: Apache-2.0
# Everything comes from the system's packages (scripts/quickstart installs them). CUDA and MPI are probed: AUTO takes what
# is there, ON is an error where it cannot be met, OFF does not look.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(benchmark REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
endif()

set(OVL_MPI AUTO CACHE STRING "MPI: AUTO, ON or OFF")
set(OVL_CUDA AUTO CACHE STRING "CUDA: AUTO, ON or OFF")
foreach(option OVL_MPI OVL_CUDA)
  set_property(CACHE ${option} PROPERTY STRINGS AUTO ON OFF)
  if(NOT ${option} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${option} is \"${${option}}\"; type AUTO, ON or OFF")
  endif()
endforeach()

# ovl_unmet(<option> <reason> <instead>): what was asked for with ON cannot be had; AUTO goes on without it.
function(ovl_unmet option reason instead)
  if(${option} STREQUAL ON)
    message(FATAL_ERROR "${option}=ON cannot be met: ${reason}; ${instead}")
  endif()
  message(STATUS "${option}=${${option}}: ${reason}")
endfunction()

# CUDA: sets OVL_HAVE_CUDA when a compiler, cuBLAS and NCCL are there and this tree has the backend. The language is not
# enabled here: only the backend's own folder does that, so the rest never needs nvcc.
set(OVL_HAVE_CUDA FALSE)
if(NOT OVL_CUDA STREQUAL OFF)
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit 12.4 QUIET)
  find_package(NCCL QUIET)
  # Only its headers: the library is loaded at run time where it is. Some toolkits keep them apart.
  find_path(OVL_CUPTI_INCLUDE_DIR cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES ../extras/CUPTI/include
                                                                                         ../../../extras/CUPTI/include)
  mark_as_advanced(OVL_CUPTI_INCLUDE_DIR)
  # A target, so that its folder, which may hold another nccl.h, comes after NCCL's in the order of linking.
  add_library(ovl_cupti_headers INTERFACE IMPORTED)
  if(OVL_CUPTI_INCLUDE_DIR)
    target_include_directories(ovl_cupti_headers INTERFACE ${OVL_CUPTI_INCLUDE_DIR})
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    ovl_unmet(OVL_CUDA "no CUDA compiler" "install the CUDA toolkit 12.4 or later and put nvcc on PATH, or type -DOVL_CUDA=OFF")
  elseif(NOT TARGET CUDA::cublasLt)
    ovl_unmet(OVL_CUDA "${CMAKE_CUDA_COMPILER} comes without a toolkit of 12.4 or later that has cuBLAS"
              "install libcublas-dev of the toolkit, or type -DCUDAToolkit_ROOT=<toolkit>")
  elseif(NOT OVL_CUPTI_INCLUDE_DIR)
    ovl_unmet(OVL_CUDA "CUDA toolkit ${CUDAToolkit_VERSION} found, but no CUPTI headers"
              "install cuda-cupti-dev of the toolkit, or type -DOVL_CUPTI_INCLUDE_DIR=<folder of cupti.h>")
  elseif(NOT NCCL_FOUND)
    ovl_unmet(OVL_CUDA "CUDA toolkit ${CUDAToolkit_VERSION} found, but no NCCL"
              "install libnccl-dev, or set NCCL_HOME to the folder that holds include/nccl.h and lib/")
  elseif(NOT EXISTS ${PROJECT_SOURCE_DIR}/harness/backend/cuda/CMakeLists.txt)
    ovl_unmet(
      OVL_CUDA
      "CUDA toolkit ${CUDAToolkit_VERSION} and NCCL ${NCCL_VERSION} found; the cuda backend is not part of this version"
      "type -DOVL_CUDA=AUTO to build without it")
  else()
    message(STATUS "CUDA toolkit ${CUDAToolkit_VERSION} and NCCL ${NCCL_VERSION} found")
    set(OVL_HAVE_CUDA TRUE)
  endif()
endif()

# MPI: sets OVL_MPI_LIBRARIES to those of openmpi and mpich that are there, each with a target ovl_mpi_<library>. A module is
# built for each; nothing else of the suite links one. pkg-config knows several beside each other; else the one whose
# compiler wrapper is on PATH is taken.
set(OVL_MPI_LIBRARIES "")
if(NOT OVL_MPI STREQUAL OFF)
  pkg_check_modules(openmpi QUIET IMPORTED_TARGET ompi-c)
  pkg_check_modules(mpich QUIET IMPORTED_TARGET mpich)
  foreach(library openmpi mpich)
    if(${library}_FOUND)
      message(STATUS "MPI: ${library} ${${library}_VERSION} found")
      list(APPEND OVL_MPI_LIBRARIES ${library})
      add_library(ovl_mpi_${library} ALIAS PkgConfig::${library})
    endif()
  endforeach()
  if(NOT OVL_MPI_LIBRARIES)
    include(CheckLanguage)
    check_language(C)
    if(CMAKE_C_COMPILER)
      enable_language(C) # FindMPI asks the C compiler about the C interface
      find_package(MPI QUIET COMPONENTS C)
    endif()
    if(MPI_C_FOUND)
      include(CheckSymbolExists)
      set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
      check_symbol_exists(OPEN_MPI mpi.h OVL_MPI_IS_OPEN_MPI)
      unset(CMAKE_REQUIRED_LIBRARIES)
      set(OVL_MPI_LIBRARIES mpich) # and what descends from it
      if(OVL_MPI_IS_OPEN_MPI)
        set(OVL_MPI_LIBRARIES openmpi)
      endif()
      message(STATUS "MPI: ${OVL_MPI_LIBRARIES} found, MPI ${MPI_C_VERSION}: ${MPI_C_LIBRARIES}")
      add_library(ovl_mpi_${OVL_MPI_LIBRARIES} ALIAS MPI::MPI_C)
    else()
      ovl_unmet(OVL_MPI "no MPI with a C interface" "install libopenmpi-dev and openmpi-bin, or mpich and libmpich-dev, or type -DOVL_MPI=OFF")
    endif()
  endif()
endif()
