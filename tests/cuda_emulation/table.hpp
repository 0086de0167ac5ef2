// SPDX-License-Identifier: Apache-2.0
//
// The one lock of the emulator's books, and tables of handles that are never given out twice, so that the use of a
// destroyed one is known for what it is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "emulator.hpp"

namespace ovl::emulation {

// Guards every table, clock and allocation. Nobody waits for a device while holding it.
std::mutex& books();
using Books = std::lock_guard<std::mutex>;

// Handles of all kinds come from one row of numbers.
std::uintptr_t next_handle();
bool was_handle(std::uintptr_t value);

template <class Handle, class Object>
class Table {
 public:
  Table(const char* one, const char* many) : one_(one), many_(many) {}

  Handle add(std::shared_ptr<Object> object) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA's handles are pointers, these are numbers
    Handle handle = reinterpret_cast<Handle>(next_handle());
    objects_.emplace(handle, std::move(object));
    count_live(many_, 1);
    return handle;
  }
  // nullptr: never was a handle. One that was destroyed is a violation.
  std::shared_ptr<Object> find(Handle handle, const char* call) const {
    const auto found = objects_.find(handle);
    if (found != objects_.end()) return found->second;
    if (was_handle(reinterpret_cast<std::uintptr_t>(handle))) {
      violation(std::string(call) + ": the " + one_ + " was destroyed, or is something else");
    }
    return nullptr;
  }
  std::shared_ptr<Object> take(Handle handle, const char* call) {
    std::shared_ptr<Object> object = find(handle, call);
    if (object != nullptr) {
      objects_.erase(handle);
      count_live(many_, -1);
    }
    return object;
  }

 private:
  const char* one_;
  const char* many_;
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace ovl::emulation
