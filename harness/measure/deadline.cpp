// SPDX-License-Identifier: Apache-2.0
#include "measure/deadline.hpp"

#include <fmt/format.h>

#include <chrono>

#include "program/print.hpp"

namespace ovl {
namespace {

std::string operation_text(const Program& program, Rank rank, OpId id) {
  if (!id.valid()) return "nothing";
  for (const Operation& op : program.class_of(rank).body) {
    if (op.id == id) return fmt::format("%{} {}", id.value, describe(op));
  }
  return fmt::format("%{}", id.value);
}

}  // namespace

std::string progress_text(const Program& program, const std::vector<LaneProgress>& progress) {
  std::string text;
  for (const LaneProgress& p : progress) {
    text += fmt::format("{}rank {} {}: enqueued {}, completed {}", text.empty() ? "" : "; ", p.rank.value,
                        program.lanes.at(p.lane.index()).name, operation_text(program, p.rank, p.enqueued),
                        operation_text(program, p.rank, p.completed));
  }
  return text;
}

Deadline::Deadline(Backend& backend, Seconds limit) : backend_(backend), limit_(limit), thread_([this] { watch(); }) {}

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
    changed_.wait_for(lock, std::chrono::duration<double>(limit_.value()), [this] { return stop_; });
    if (stop_ || program_ == nullptr || replay_ != watched) continue;
    report_ = progress_text(*program_, backend_.progress());
    backend_.abort();
    changed_.wait(lock, [this] { return stop_; });
  }
}

}  // namespace ovl
