// SPDX-License-Identifier: Apache-2.0
//
// For LD_AUDIT: a machine without the library whose file name is in OVL_HIDDEN_LIBRARY, however many are installed. The
// loader is sent where there is none from each place where it looks; the name that was asked for stays in its
// complaint.
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

unsigned int la_version(unsigned int offered) { return offered; }

char* la_objsearch(const char* name, std::uintptr_t* /*cookie*/, unsigned int flag) {
  static char nowhere[] = "/nonexistent/hidden";
  const char* hidden = std::getenv("OVL_HIDDEN_LIBRARY");
  const char* slash = std::strrchr(name, '/');
  const char* file = slash == nullptr ? name : slash + 1;
  if (flag != LA_SER_ORIG && hidden != nullptr && std::strcmp(file, hidden) == 0) return nowhere;
  return const_cast<char*>(name);
}

}  // extern "C"
