# SPDX-License-Identifier: Apache-2.0
# OVL_UNITY: the files of a folder are compiled a few together, since headers and what is made of their templates take most
# of the time. scripts/ builds so. What is local to a file is then local to its folder, so names there are unique; and
# names of other files are around, so a local one may shadow them.
option(OVL_UNITY "Compile the files of a folder a few together: two to three times as quick from scratch" OFF)

# ovl_unity(<target> [<file that stays alone>...])
function(ovl_unity target)
  if(NOT OVL_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(GET source FILENAME file)
    if(NOT source MATCHES "\\.cpp$" OR NOT EXISTS ${source} OR file IN_LIST ARGN)
      continue()
    endif()
    cmake_path(GET source PARENT_PATH path)
    cmake_path(GET path FILENAME folder)
    file(SIZE ${source} bytes)
    if(NOT DEFINED size_${folder} OR size_${folder} GREATER 70000) # a unit is full
      math(EXPR unit_${folder} "0${unit_${folder}} + 1")
      set(size_${folder} 0)
    endif()
    math(EXPR size_${folder} "${size_${folder}} + ${bytes}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}${unit_${folder}})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
