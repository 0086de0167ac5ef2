// SPDX-License-Identifier: Apache-2.0
#include "app/backends.hpp"

#include <filesystem>
#include <system_error>

#include "app/modules.hpp"
#include "backend/host/host.hpp"
#include "backend/model/model.hpp"

namespace ovl {
BackendRegistry known_backends() {
  BackendRegistry registry;
  registry.add(module_entry("cuda", 2));
  registry.add(host_entry([](const std::string& library) { return load_message_passing(library, module_folders()); }));
  registry.add(model_entry());
  return registry;
}

std::string unused_gpu(const BackendRegistry& backends, const std::string& chosen, const std::string& driver) {
  const BackendEntry* cuda = backends.find("cuda");
  std::error_code error;
  if (chosen == "cuda" || cuda == nullptr || !std::filesystem::exists(driver, error)) return {};
  const std::string reason = cuda->unusable();
  if (reason.empty() || reason.starts_with(no_module_text("cuda"))) return {};
  return "a GPU driver is loaded here, but the cuda backend cannot be used: " + reason;
}

}  // namespace ovl
