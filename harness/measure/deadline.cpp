// SPDX-License-Identifier: Apache-2.0
#include "measure/deadline.hpp"

#include <chrono>
#include <utility>

#include "backend/progress.hpp"

namespace ovl {
namespace {

// Until `stop`, or until this process has run for so long: time that it stands still (Ctrl-Z, a frozen container)
// passes for the replay as little as for the watcher, so a part of the limit that takes far longer than it should does
// not count.
void wait_for(Seconds limit, std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const bool& stop) {
  using clock = std::chrono::steady_clock;
  constexpr int parts = 4;
  const std::chrono::duration<double> part(limit.value() / parts);
  for (int counted = 0; counted < parts;) {
    const clock::time_point began = clock::now();
    if (changed.wait_for(lock, part, [&] { return stop; })) return;
    if (clock::now() - began < 2 * part + std::chrono::milliseconds(100)) ++counted;
  }
}

}  // namespace

Deadline::Deadline(Backend& backend, Seconds limit, OnHang on_hang)
    : backend_(backend), limit_(limit), on_hang_(std::move(on_hang)), thread_([this] { watch(); }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Deadline::Watch::Watch(Deadline& deadline, const Program& program) : deadline_(deadline) {
  const std::lock_guard lock(deadline_.mutex_);
  deadline_.program_ = &program;
  ++deadline_.replay_;
  // A watcher that is already timing an earlier replay looks again when its time is up: no wake-up beside a
  // measurement.
  if (deadline_.idle_) deadline_.changed_.notify_all();
}

Deadline::Watch::~Watch() {
  const std::lock_guard lock(deadline_.mutex_);
  deadline_.program_ = nullptr;
}

std::string Deadline::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void Deadline::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (program_ == nullptr) {
      idle_ = true;
      changed_.wait(lock, [this] { return stop_ || program_ != nullptr; });
      idle_ = false;
      continue;
    }
    const std::uint64_t watched = replay_;
    wait_for(limit_, lock, changed_, stop_);
    if (stop_ || program_ == nullptr || replay_ != watched) continue;
    report_ = progress_text(*program_, backend_.progress());
    if (report_.empty()) report_ = "no lane had begun";
    if (on_hang_) on_hang_(report_);
    backend_.abort();
    changed_.wait(lock, [this] { return stop_; });
  }
}

}  // namespace ovl
