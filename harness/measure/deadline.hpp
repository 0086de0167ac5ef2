// SPDX-License-Identifier: Apache-2.0
//
// A replay that does not come back is a hang: one thread watches, says where every lane stands and aborts the backend,
// so that the replay throws instead of waiting for ever.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend/backend.hpp"

namespace ovl {

class Deadline {
 public:
  // Told what report() will say, before the backend is aborted: an abort may itself not come back.
  using OnHang = std::function<void(const std::string& report)>;

  // One replay may take `limit` of real time; a hang is noticed after one to two of them.
  Deadline(Backend& backend, Seconds limit, OnHang on_hang = {});
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline();

  // Arms the watch for the lifetime of the returned object. `program` names the operations in the report.
  class Watch {
   public:
    Watch(Deadline& deadline, const Program& program);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();

   private:
    Deadline& deadline_;
  };

  // What every lane had enqueued and completed when the limit passed; empty as long as it has not.
  [[nodiscard]] std::string report() const;

 private:
  void watch();

  Backend& backend_;
  Seconds limit_;
  OnHang on_hang_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const Program* program_ = nullptr;  // of the replay under way
  std::uint64_t replay_ = 0;
  bool idle_ = false;  // the watcher waits for a replay, not for time
  bool stop_ = false;
  std::string report_;
  std::thread thread_;
};

}  // namespace ovl
