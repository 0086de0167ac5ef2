// SPDX-License-Identifier: Apache-2.0
//
// Injected faults, ignored errors, violations, and what must not be left when the process ends.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "emulator.hpp"
#include "entry.hpp"
#include "settings.hpp"
#include "streams.hpp"
#include "table.hpp"

namespace ovl::emulation {
namespace {

struct Calls {
  std::mutex mutex;
  std::map<std::string, std::int64_t> of;
  std::int64_t all = 0;
  std::set<std::pair<std::string, void*>> sites;
};
Calls& calls() {
  static Calls* const calls = new Calls;
  return *calls;
}

struct Live {
  std::mutex mutex;
  std::map<std::string, std::int64_t> count;
};
Live& live() {
  static Live* const live = new Live;
  return *live;
}

std::atomic<bool> ending{false};
std::atomic<int> broken{cudaSuccess};

struct Ignored {
  const char* call = nullptr;
  int code = 0;
};
thread_local Ignored unread;
thread_local cudaError_t last = cudaSuccess;

// "<file>+0x<offset>".
std::string site_text(void* site) {
  Dl_info info{};
  const char* file = "?";
  std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(site);
  if (dladdr(site, &info) != 0 && info.dli_fname != nullptr) {
    const std::string name = info.dli_fname;
    file = info.dli_fname + (name.find_last_of('/') == std::string::npos ? 0 : name.find_last_of('/') + 1);
    offset -= reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  }
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), "%s+0x%" PRIxPTR, file, offset);
  return text.data();
}

void write_site(const char* call, std::int64_t which, const std::string& site) {
  const std::string line = std::string(call) + " " + std::to_string(which) + " " + site + "\n";
  // One write of one line: several processes may share the file.
  const int out = open(settings().sites.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0 || write(out, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    violation("OVL_EMULATED_SITES=" + settings().sites + " cannot be written");
  }
  close(out);
}

void write_counts() {
  if (settings().counts.empty()) return;
  std::FILE* const out = std::fopen(settings().counts.c_str(), "we");
  if (out == nullptr) violation("OVL_EMULATED_COUNTS=" + settings().counts + " cannot be written");
  const std::lock_guard lock(calls().mutex);
  for (const auto& [call, count] : calls().of) std::fprintf(out, "%s %" PRIi64 "\n", call.c_str(), count);
  std::fclose(out);
}

bool stays(const char* call, int code) {
  const bool of_cuda = std::string(call).rfind("cu", 0) == 0 && std::string(call).rfind("cublas", 0) != 0;
  return of_cuda && code >= 700 && code < 800 && code != cudaErrorLaunchOutOfResources &&
         code != cudaErrorPeerAccessAlreadyEnabled && code != cudaErrorPeerAccessNotEnabled &&
         code != cudaErrorSetOnActiveProcess && code != cudaErrorContextIsDestroyed;
}

// Runs after all other destructors: the owners of what was allocated have had their turn.
__attribute__((destructor)) void at_exit() {
  write_counts();
  std::string leaks;
  {
    const std::lock_guard lock(live().mutex);
    for (const auto& [what, count] : live().count) {
      if (count != 0) leaks += (leaks.empty() ? "" : ", ") + std::to_string(count) + " live " + what;
    }
  }
  if (!leaks.empty()) violation("leak: " + leaks);
  ending = true;
  end_streams();
}

}  // namespace

void violation(const std::string& what) {
  std::fprintf(stderr, "cuda_emulation: %s\n", what.c_str());
  std::fflush(nullptr);
  _exit(86);
}

bool fails(const char* call, void* site, int usual, int* code) {
  std::int64_t which = 0;
  std::int64_t of_all = 0;
  bool first_here = false;
  {
    const std::lock_guard lock(calls().mutex);
    which = ++calls().of[call];
    of_all = ++calls().all;
    first_here = calls().sites.emplace(call, site).second;
    if (first_here && !settings().sites.empty()) write_site(call, which, site_text(site));
  }
  const std::optional<Fault>& fault = settings().fault;
  if (!fault) return false;
  if (!fault->site.empty()) {
    if (!first_here || fault->call != call || site_text(site) != fault->site) return false;
  } else if (!(fault->call == "*" ? of_all == fault->which : fault->call == call && which == fault->which)) {
    return false;
  }
  *code = fault->code.value_or(usual);
  if (!fault->once && stays(call, *code)) break_context(static_cast<cudaError_t>(*code));
  return true;
}

void failed(const char* call, int code) { unread = {call, code}; }

void read_error() { unread = {}; }

void must_have_read_error(const char* call) {
  if (unread.call == nullptr) return;
  violation(std::string("ignored error: ") + unread.call + " returned " + std::to_string(unread.code) +
            ", nobody read it, and the thread went on to " + call);
}

cudaError_t sticky_error() { return static_cast<cudaError_t>(broken.load()); }

void break_context(cudaError_t error) {
  int none = cudaSuccess;
  broken.compare_exchange_strong(none, error);
}

bool stopping() { return ending || broken != cudaSuccess; }

void count_live(const char* what, int change) {
  const std::lock_guard lock(live().mutex);
  live().count[what] += change;
}

void remember(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return;
  last = error;
  if (error != cudaErrorNotReady) failed(call, error);
}

cudaError_t last_error(bool clear) {
  read_error();
  const cudaError_t error = sticky_error() != cudaSuccess ? sticky_error() : last;
  if (clear) last = cudaSuccess;
  return error;
}

cudaError_t no_device() {
  if (driver_version() == 0) return cudaErrorInsufficientDriver;
  return devices() == 0 ? cudaErrorNoDevice : cudaSuccess;
}

}  // namespace ovl::emulation
