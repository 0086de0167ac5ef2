# SPDX-License-Identifier: Apache-2.0
# libnccl and libcublasLt on the emulated device, and their tests. Included by CMakeLists.txt of this folder.
# NCCL's newest header: the library has what it declares, and refuses what the version that it pretends to be lacks.
set(nccl_header ${NCCL_INCLUDE_DIR})
if(OVL_SECOND_NCCL)
  set(nccl_header ${OVL_SECOND_NCCL}/include)
endif()
ovl_emulated_library(ovl_emulated_nccl nccl 2 nccl.map nccl.cpp nccl_communicator.cpp nccl_config.cpp nccl_launch.cpp
                     nccl_transport.cpp)
target_include_directories(ovl_emulated_nccl SYSTEM BEFORE PRIVATE ${nccl_header})
target_include_directories(ovl_emulated_nccl PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(ovl_emulated_nccl PRIVATE ovl_emulated_cudart)

ovl_emulated_library(ovl_emulated_cublaslt cublasLt ${CUDAToolkit_VERSION_MAJOR} cublaslt.map cublaslt.cpp
                     cublaslt_gemm.cpp)
target_include_directories(ovl_emulated_cublaslt PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(ovl_emulated_cublaslt PRIVATE ovl_emulated_cudart)

# What needs no device: the pure parts, compiled into their tests.
add_executable(test_cuda_emulation_parts nccl_config.cpp nccl_config_test.cpp nccl_transport.cpp nccl_transport_test.cpp
                                         cublaslt_gemm.cpp cublaslt_gemm_test.cpp)
target_link_libraries(test_cuda_emulation_parts PRIVATE ovl_test_options GTest::gtest_main)

# The libraries through their public interfaces. The helper is one rank in a process of its own.
add_executable(ovl_emulated_nccl_rank nccl_rank.cpp)
add_executable(test_cuda_emulation_libraries cublaslt_test.cpp nccl_process_test.cpp nccl_test.cpp)
target_link_libraries(test_cuda_emulation_libraries PRIVATE ovl_test_options GTest::gtest_main)
target_compile_definitions(test_cuda_emulation_libraries
                           PRIVATE OVL_NCCL_RANK="$<TARGET_FILE:ovl_emulated_nccl_rank>")
add_dependencies(test_cuda_emulation_libraries ovl_emulated_nccl_rank)

foreach(target test_cuda_emulation_parts ovl_emulated_nccl_rank test_cuda_emulation_libraries)
  target_link_libraries(${target} PRIVATE ovl_options Threads::Threads)
  target_include_directories(${target} SYSTEM PRIVATE ${nccl_header} ${CUDAToolkit_INCLUDE_DIRS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${target} PRIVATE -Wno-pedantic)
  if(NOT target STREQUAL test_cuda_emulation_parts)
    target_link_libraries(${target} PRIVATE ovl_emulated_cudart ovl_emulated_cublaslt ovl_emulated_nccl)
    set_target_properties(${target} PROPERTIES BUILD_RPATH ${OVL_EMULATION_DIR})
  endif()
endforeach()

include(GoogleTest)
foreach(target test_cuda_emulation_parts test_cuda_emulation_libraries)
  gtest_discover_tests(
    ${target}
    TEST_PREFIX cuda_emulation/
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS cuda_emulation TIMEOUT 300)
endforeach()
