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
endif()

set(OVL_MPI AUTO CACHE STRING "MPI: AUTO, ON or OFF")
set(OVL_CUDA AUTO CACHE STRING "CUDA: AUTO, ON or OFF")
foreach(option OVL_MPI OVL_CUDA)
  set_property(CACHE ${option} PROPERTY STRINGS AUTO ON OFF)
  if(NOT ${option} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${option} is \"${${option}}\"; type AUTO, ON or OFF")
  endif()
endforeach()
