// SPDX-License-Identifier: Apache-2.0
//
// A call of a library that never returns cannot be made to: NCCL waits without end for a rank that failed, a device for
// a kernel. So when a run should end and does not come to its end, its process says why and ends.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/units.hpp"

namespace ovl {

class LastResort {
 public:
  using Words = std::function<std::string(const std::string& reason)>;
  using End = std::function<void(const std::string& text)>;

  // `end` says the text and does not return; it is a test that has another. Ends nothing before expect_end().
  LastResort(Seconds patience, End end);
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;
  // The run came to its end.
  ~LastResort();

  // From now on the run has `patience` to come to its end; the first reason stays. From any thread; does not block.
  void expect_end(const std::string& reason) noexcept;
  // What is done and said then in place of the reason alone, on another thread; an empty function takes it back.
  void words(Words words);

 private:
  void watch();

  Seconds patience_;
  End end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool expected_ = false;
  bool ended_ = false;
  std::string reason_;
  std::mutex speaking_;  // of words_; held while they are found
  Words words_;
  std::thread thread_;
};

// Says the text on standard error and ends the process with exit code 1, whatever its other threads are in.
[[noreturn]] void end_process(const std::string& text);

}  // namespace ovl
