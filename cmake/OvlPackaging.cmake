# SPDX-License-Identifier: Apache-2.0
# cmake --install <build> --prefix <folder>, and cpack -G TGZ in the build folder. Binaries find the library beside them
# ($ORIGIN/../lib), so the folder may be moved. What they need beyond it (OpenBLAS, hwloc, fmt; for the cuda module cudart,
# cuBLAS and NCCL; for those of MPI that MPI) comes from the system or LD_LIBRARY_PATH.
install(TARGETS overlapbench)
if(OVL_HAVE_CUDA)
  install(TARGETS overlapbench-cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/overlapbench)
endif()
foreach(library IN LISTS OVL_MPI_LIBRARIES)
  install(TARGETS overlapbench-mpi-${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/overlapbench)
endforeach()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/overlapbench OPTIONAL)
install(
  DIRECTORY plots configs
  DESTINATION ${CMAKE_INSTALL_DATADIR}/overlapbench
  OPTIONAL
  PATTERN tests EXCLUDE
  PATTERN __pycache__ EXCLUDE
  PATTERN "*.egg-info" EXCLUDE
  PATTERN ".*_cache" EXCLUDE)

set(CPACK_GENERATOR TGZ)
set(CPACK_SYSTEM_NAME ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_VENDOR overlapbench)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES TRUE)
include(CPack)
