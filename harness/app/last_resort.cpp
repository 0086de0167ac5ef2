// SPDX-License-Identifier: Apache-2.0
#include "app/last_resort.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "app/command_line.hpp"
#include "base/error.hpp"

namespace ovl {

LastResort::LastResort(Seconds patience, End end)
    : patience_(patience), end_(std::move(end)), thread_([this] { watch(); }) {}

LastResort::~LastResort() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LastResort::expect_end(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (expected_) return;
    expected_ = true;
    try {
      reason_ = reason;
    } catch (...) {  // no memory for the words
    }
  }
  changed_.notify_all();
}

void LastResort::words(Words words) {
  const std::lock_guard lock(speaking_);
  words_ = std::move(words);
}

void LastResort::watch() {
  std::string reason;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return expected_ || ended_; });
    changed_.wait_for(lock, std::chrono::duration<double>(patience_.value()), [this] { return ended_; });
    if (ended_) return;
    reason = reason_;
  }
  std::string text = reason;
  try {
    const std::lock_guard lock(speaking_);
    if (words_) text = words_(reason);
  } catch (const std::exception& error) {  // a full disk, say: the reason is still to be told
    text += std::string("; ") + error.what();
  }
  end_(text);
}

void end_process(const std::string& text) {
  print_message(text);
  std::fflush(nullptr);
  ::_exit(static_cast<int>(ErrorKind::failure));
}

}  // namespace ovl
