# SPDX-License-Identifier: Apache-2.0
# ovl_stamp_version(<target>): every build writes generated/ovl_version.cpp, what run.json says of the build, and adds it
# to the target. It is rewritten, and compiled, only when it changes: a new commit, the first edit after one, other flags.
if(CMAKE_SCRIPT_MODE_FILE)
  set(OVL_GIT_REVISION unknown)
  set(OVL_GIT_STATE unknown)
  find_program(git git)
  if(git)
    set(run_git ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 ${git} -C ${OVL_SOURCE_DIR})
    # A release tarball may lie within another project's checkout: that one's revision is not ours.
    execute_process(COMMAND ${run_git} rev-parse --show-prefix HEAD OUTPUT_VARIABLE answer ERROR_QUIET
                    RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed AND answer MATCHES "^\n([0-9a-f]+)$")
      set(OVL_GIT_REVISION ${CMAKE_MATCH_1})
      execute_process(COMMAND ${run_git} status --porcelain OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE failed)
      if(NOT failed)
        set(OVL_GIT_STATE clean)
        if(changes)
          set(OVL_GIT_STATE dirty)
        endif()
      endif()
    endif()
  endif()
  configure_file(${CMAKE_CURRENT_LIST_DIR}/ovl_version.cpp.in ${OVL_OUTPUT} @ONLY)
  return()
endif()

set(OVL_VERSION_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(ovl_stamp_version target)
  set(output ${PROJECT_BINARY_DIR}/generated/ovl_version.cpp)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
  add_custom_target(
    ovl_version
    COMMAND
      ${CMAKE_COMMAND} -DOVL_SOURCE_DIR=${PROJECT_SOURCE_DIR} -DOVL_OUTPUT=${output} -DOVL_VERSION=${PROJECT_VERSION}
      -DOVL_BUILD_TYPE=$<CONFIG> "-DOVL_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
      "-DOVL_FLAGS=${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}}" -DOVL_SANITIZE=${OVL_SANITIZE} -P
      ${OVL_VERSION_SCRIPT}
    BYPRODUCTS ${output}
    COMMENT "Stamping the version"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
  add_dependencies(${target} ovl_version)
endfunction()
