# SPDX-License-Identifier: Apache-2.0
# Every header stands alone. Most are the first include of the source of their name, which shows it; each of the others is
# compiled in a file of its own. It sees what the library's own sources see, since layers such as backend/host may name
# their vendor's headers. A source that comes to begin otherwise shows at the next configuring.
option(OVL_CHECK_HEADERS "Compile every header that no source of its name begins with" OFF)
# ovl_without_own_source(<variable>): leaves in the list those that no source begins with.
function(ovl_without_own_source variable)
  set(left)
  foreach(header IN LISTS ${variable})
    cmake_path(REPLACE_EXTENSION header LAST_ONLY cpp OUTPUT_VARIABLE source)
    set(first "")
    if(EXISTS ${PROJECT_SOURCE_DIR}/${source})
      file(STRINGS ${PROJECT_SOURCE_DIR}/${source} first REGEX "^#include" LIMIT_COUNT 1)
    endif()
    string(REGEX REPLACE "^(harness|tests)/" "" name ${header})
    if(NOT first STREQUAL "#include \"${name}\"")
      list(APPEND left ${header})
    endif()
  endforeach()
  set(${variable} ${left} PARENT_SCOPE)
endfunction()
# ovl_check_headers(<target> <header>...)
function(ovl_check_headers target)
  set(alone)
  foreach(header IN LISTS ARGN)
    set(source ${PROJECT_BINARY_DIR}/header_check/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
    list(APPEND alone ${source})
  endforeach()
  add_library(${target} OBJECT ${alone})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${target} PRIVATE -O0 -g0) # nothing runs them
endfunction()

if(OVL_CHECK_HEADERS)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/harness/*.hpp
       ${PROJECT_SOURCE_DIR}/kernels/*.hpp ${PROJECT_SOURCE_DIR}/tests/support/*.hpp)
  ovl_without_own_source(headers)
  set(cuda_headers ${headers})
  list(FILTER cuda_headers INCLUDE REGEX "^harness/backend/cuda/") # modules: checked where their vendor is
  list(FILTER headers EXCLUDE REGEX "^harness/backend/(cuda|mpi)/")

  ovl_check_headers(ovl_header_check ${headers})
  target_link_libraries(ovl_header_check PRIVATE ovl_options overlapbench CLI11::CLI11 benchmark::benchmark
                                                 PkgConfig::hwloc PkgConfig::openblas)
  if(TARGET GTest::gmock)
    target_link_libraries(ovl_header_check PRIVATE GTest::gtest GTest::gmock)
  endif()
  if(OVL_HAVE_CUDA AND cuda_headers)
    ovl_check_headers(ovl_header_check_cuda ${cuda_headers})
    target_link_libraries(ovl_header_check_cuda PRIVATE ovl_options overlapbench NCCL::nccl CUDA::cudart CUDA::cublasLt
                                                        ovl_cupti_headers)
  endif()
endif()
