# SPDX-License-Identifier: Apache-2.0
# ovl_options: what every target of ours is compiled with. Warnings are errors only when this is the top-level project.
set(OVL_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")

add_library(ovl_options INTERFACE)
target_compile_features(ovl_options INTERFACE cxx_std_20)
# For the host compiler, when it compiles C++. nvcc's own passes take none of these: what its host pass makes of our kernels
# is its code, so it only reports what the device compiler and the two general groups find.
set(cxx_warnings
    -Wall
    -Wextra
    -Wpedantic
    # A shadowed name is read wrongly. In a unit of several files those of others are around (OvlUnity).
    $<IF:$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>,-Wshadow=local,-Wshadow>
    -Wconversion          # sizes are signed 64 bit; a silent narrowing is a wrong size
    -Wsign-conversion
    -Wnon-virtual-dtor
    -Woverloaded-virtual
    -Wold-style-cast
    -Wcast-align
    -Wno-missing-field-initializers # designated initialisers rely on the defaults
    # ... and what a header must not have, a class with members of a type that is local to the file, may stand in a source.
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>            # GCC 12 invents overlaps in std::string (bug 105651)
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> # ... and unset members in a moved std::variant (bug 105562)
    $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas> # `GCC ivdep` is for the other compiler
    $<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Werror>)
set(cuda_warnings -Xcompiler=-Wall,-Wextra,-Wshadow
                  $<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Werror=all-warnings> $<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Xcompiler=-Werror>)
target_compile_options(ovl_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_warnings}>"
                                             "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings}>")
target_include_directories(ovl_options INTERFACE ${PROJECT_SOURCE_DIR}/harness ${PROJECT_SOURCE_DIR})
if(OVL_SANITIZE)
  set(sanitize -fsanitize=${OVL_SANITIZE} -fno-omit-frame-pointer -g1)
  if(OVL_SANITIZE MATCHES undefined)
    list(APPEND sanitize -fno-sanitize-recover=undefined)
  endif()
  # To the host compiler, which nvcc passes lists to with a comma between the entries.
  string(REPLACE "," "\\," cuda_sanitize "${sanitize}")
  list(TRANSFORM cuda_sanitize PREPEND -Xcompiler=)
  target_compile_options(ovl_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${sanitize}>"
                                               "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_sanitize}>")
  target_link_options(ovl_options INTERFACE -fsanitize=${OVL_SANITIZE})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
