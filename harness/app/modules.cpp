// SPDX-License-Identifier: Apache-2.0
#include "app/modules.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/error.hpp"

namespace ovl {
namespace {

using Path = std::filesystem::path;

constexpr const char* module_path_variable = "OVERLAPBENCH_MODULE_PATH";

bool is_file(const Path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// The folder of the library that holds this function.
Path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const Path library = std::filesystem::canonical(info.dli_fname, error);
  return error ? Path() : library.parent_path();
}

// What was asked for and is not there is told with the place; what this build never had is not.
std::string missing_text(const std::string& name, const std::string& file, const std::vector<Path>& folders) {
  std::string places;
  for (const Path& folder : folders) places += (places.empty() ? "" : ", ") + folder.string();
  if (std::getenv(module_path_variable) == nullptr) {
    return no_module_text(name) + (places.empty() ? "" : " (no " + file + " in " + places + ")");
  }
  return file + " is not in " + places + ", where " + module_path_variable +
         " has it looked for: name its folder, or unset the variable";
}

// A module that is loaded and of this version, or why there is none.
struct Opened {
  std::string problem;
  void* handle = nullptr;
};

Opened open(const std::string& name, const std::vector<Path>& folders) {
  const std::string file = "overlapbench-" + name + ".so";
  const auto folder =
      std::find_if(folders.begin(), folders.end(), [&](const Path& candidate) { return is_file(candidate / file); });
  if (folder == folders.end()) return {missing_text(name, file, folders)};

  void* const module = ::dlopen((*folder / file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return {"its module cannot be loaded: " + load_error_text(::dlerror())};
  // It stays loaded also when it is refused: libraries that it brought along may not survive to be unloaded.
  const auto version = reinterpret_cast<const char* (*)()>(::dlsym(module, "overlapbench_version"));
  if (version == nullptr) return {file + " is no module of overlapbench"};
  if (std::string_view(version()) != module_version) {
    return {file + " is of version " + version() + ", and this is " + module_version};
  }
  return {"", module};
}

// What came of loading a backend's module.
struct Loaded {
  std::string problem;  // why there is none
  std::optional<BackendEntry> entry;
};

Loaded load(const std::string& name, const std::vector<Path>& folders) {
  const Opened module = open(name, folders);
  if (module.handle == nullptr) return {module.problem, {}};
  const auto add = reinterpret_cast<void (*)(BackendRegistry&)>(::dlsym(module.handle, "overlapbench_register"));
  BackendRegistry registry;
  if (add != nullptr) add(registry);
  const BackendEntry* entry = registry.find(name);
  if (entry == nullptr) return {"overlapbench-" + name + ".so has no " + name + " backend", {}};
  return {"", *entry};
}

// Loads at most once.
class Module {
 public:
  Module(std::string name, std::vector<Path> folders) : name_(std::move(name)), folders_(std::move(folders)) {}

  const Loaded& get() {
    std::call_once(once_, [this] { loaded_ = load(name_, folders_); });
    return loaded_;
  }

 private:
  std::string name_;
  std::vector<Path> folders_;
  std::once_flag once_;
  Loaded loaded_;
};

}  // namespace

std::vector<Path> module_folders() {
  std::vector<Path> folders;
  if (const char* asked = std::getenv(module_path_variable); asked != nullptr && *asked != '\0') {
    std::istringstream stream(asked);
    for (std::string folder; std::getline(stream, folder, ':');) {
      if (!folder.empty()) folders.emplace_back(folder);
    }
    return folders;
  }
  const Path own = own_folder();
  if (own.empty()) return folders;
  folders.push_back(own / "overlapbench");                        // <prefix>/lib/overlapbench
  folders.push_back(own.parent_path() / "lib" / "overlapbench");  // <build>/lib/overlapbench, from <build>/harness
  return folders;
}

std::string no_module_text(const std::string& name) { return "this build has no " + name + " backend"; }

std::string load_error_text(const std::string& error) {
  // "libnccl.so.2: cannot open shared object file: No such file or directory"
  constexpr std::string_view missing = ": cannot open shared object file: No such file or directory";
  if (!error.ends_with(missing)) return error;
  return error.substr(0, error.size() - missing.size()) + " is missing";
}

BackendEntry module_entry(const std::string& name, int preference, const std::vector<Path>& folders) {
  const auto module = std::make_shared<Module>(name, folders);
  return {name, preference,
          [module] {
            const Loaded& loaded = module->get();
            return loaded.entry ? loaded.entry->unusable() : loaded.problem;
          },
          [module](World& world, const SessionOptions& options) { return module->get().entry->open(world, options); }};
}

std::function<MessagePassing&()> load_message_passing(const std::string& library, const std::vector<Path>& folders) {
  const std::string name = "mpi-" + library;
  Opened module = open(name, folders);
  const auto initialise =
      module.handle == nullptr
          ? nullptr
          : reinterpret_cast<MessagePassing* (*)()>(::dlsym(module.handle, "overlapbench_message_passing"));
  if (initialise == nullptr) {
    if (module.problem.empty()) module.problem = "its module passes no messages";
    throw impossible_error("the transport " + name + " cannot be used here", module.problem,
                           "build where this MPI is installed, or type --transport shm in one process");
  }
  return [initialise]() -> MessagePassing& { return *initialise(); };
}

}  // namespace ovl
