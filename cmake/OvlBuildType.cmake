# SPDX-License-Identifier: Apache-2.0
# Results are only written by a Release build, so that is what a plain configure gives.
get_property(ovl_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT ovl_multi_config)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
