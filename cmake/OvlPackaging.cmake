# SPDX-License-Identifier: Apache-2.0
install(TARGETS overlapbench)
set(CPACK_GENERATOR TGZ)
include(CPack)
