# SPDX-License-Identifier: Apache-2.0
# Every header stands alone: each is compiled in a file of its own that includes it first, and twice. It sees what the
# library's own sources see, since layers such as backend/host may name their vendor's headers.
option(OVL_CHECK_HEADERS "Compile every header on its own" OFF)
if(OVL_CHECK_HEADERS)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/harness/*.hpp
       ${PROJECT_SOURCE_DIR}/kernels/*.hpp ${PROJECT_SOURCE_DIR}/tests/support/*.hpp)
  list(FILTER headers EXCLUDE REGEX "^(harness/backend|kernels)/(cuda|mpi)/") # modules: checked where their vendor is
  set(alone)
  foreach(header IN LISTS headers)
    set(source ${PROJECT_BINARY_DIR}/header_check/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
    list(APPEND alone ${source})
  endforeach()
  add_library(ovl_header_check OBJECT ${alone})
  target_include_directories(ovl_header_check PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(ovl_header_check PRIVATE ovl_options overlapbench CLI11::CLI11 benchmark::benchmark
                                                 PkgConfig::hwloc PkgConfig::openblas)
  if(TARGET GTest::gmock)
    target_link_libraries(ovl_header_check PRIVATE GTest::gtest GTest::gmock)
  endif()
endif()
