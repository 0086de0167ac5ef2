// SPDX-License-Identifier: Apache-2.0
//
// Backends that need libraries which most machines lack are modules, loaded when somebody asks for them, so that the
// executables start everywhere.
//
// A module is overlapbench-<name>.so. It exports, as C functions,
//   const char* overlapbench_version()                        ovl::module_version, as it was compiled
// and one of
//   void overlapbench_register(ovl::BackendRegistry&)         adds its backends
//   ovl::MessagePassing* overlapbench_message_passing()       initialises its library, for
//   overlapbench-mpi-<library>.so
// and is linked to the very library that loads it: one registry, one exception type. It stays loaded.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backend/message_passing.hpp"
#include "backend/registry.hpp"

namespace ovl {

// Where modules are looked for, in order: $OVERLAPBENCH_MODULE_PATH (folders with colons between them; if it is set,
// nowhere else), lib/overlapbench beside this library in an installation, and in a build.
std::vector<std::filesystem::path> module_folders();

// The backend of that name from its module, which is loaded when it is first asked whether it is usable. Its
// `unusable` says in words when the module is not there ("this build has no cuda backend"), cannot be loaded (which
// library is missing) or is of another version.
BackendEntry module_entry(const std::string& name, int preference,
                          const std::vector<std::filesystem::path>& folders = module_folders());

// Loads the module of a message-passing library, "openmpi" or "mpich"; what comes back initialises it. Throws
// Error(impossible) with the reason where there is none.
std::function<MessagePassing&()> load_message_passing(const std::string& library,
                                                      const std::vector<std::filesystem::path>& folders);

// What `unusable` says of a module that is not there.
std::string no_module_text(const std::string& name);

// What dlopen() says of a file, shorter: "libnccl.so.2 is missing". Other texts stay.
std::string load_error_text(const std::string& error);

}  // namespace ovl
