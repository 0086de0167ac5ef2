// SPDX-License-Identifier: Apache-2.0
#include "app/interrupt.hpp"

#include <unistd.h>

#include <csignal>

#include "base/error.hpp"

namespace ovl {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<pid_t> child_to_tell{0};
std::atomic<const std::string*> last_line{nullptr};  // while nothing has begun: what the process ends with
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free &&
                  std::atomic<const std::string*>::is_always_lock_free,
              "a signal handler uses them");

extern "C" void on_signal(int signal) {
  if (const std::string* line = last_line.load(); line != nullptr) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line->data(), line->size());
    _exit(static_cast<int>(ErrorKind::interrupted));
  }
  const pid_t child = child_to_tell.load();
  if (child > 0) kill(child, signal);
  if (interrupted.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

const std::atomic<bool>& watch_for_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  return interrupted;
}

NothingBegun::NothingBegun(const std::string& program) {
  last_line = new std::string(program + ": interrupted: nothing was begun\n");
}

NothingBegun::~NothingBegun() { delete last_line.exchange(nullptr); }

void pass_interrupts_to(pid_t child) {
  child_to_tell = child;
  if (interrupted && child > 0) kill(child, SIGTERM);  // the signal came before there was a child
}

}  // namespace ovl
