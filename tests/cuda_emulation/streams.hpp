// SPDX-License-Identifier: Apache-2.0
//
// A stream is a worker thread that does what was put into its queue, in order. Streams know nothing of each other but
// marks: points in one queue that another waits for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator.hpp"
#include "order.hpp"

namespace ovl::emulation {

struct Capture;

// One record of an event, or an edge between queues.
class Mark {
 public:
  Mark(int device, Clock order) : device_(device), order_(std::move(order)) {}

  void reach();
  [[nodiscard]] bool reached() const;
  void wait() const;                                // until reached, or stopping()
  [[nodiscard]] std::uint64_t nanoseconds() const;  // on its device's clock; reached only
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] const Clock& order() const { return order_; }

 private:
  const int device_;
  const Clock order_;  // what is past once this is reached
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool reached_ = false;
  std::uint64_t nanoseconds_ = 0;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static constexpr int deepest = 1022;  // pending tasks; the next one blocks its caller

  // Starts its worker. `sms` are those that its kernels may use.
  static std::shared_ptr<Stream> open(int device, int priority, std::vector<int> sms);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // No more will come: the worker ends once the queue is empty.
  void close();
  [[nodiscard]] bool closed() const;

  // Waits until there is room for one more task, and takes it; a counted action gives it back when it is done. Who
  // does not reserve has no limit.
  void reserve();
  void push(std::function<void()> action, bool counted);
  // Everything that has been pushed so far.
  [[nodiscard]] std::uint64_t pushed() const;
  [[nodiscard]] bool done(std::uint64_t pushed) const;
  void wait(std::uint64_t pushed) const;  // or stopping()

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] int priority() const { return priority_; }
  [[nodiscard]] std::uint32_t id() const { return id_; }
  [[nodiscard]] const std::vector<int>& sms() const { return sms_; }

  // Guarded by books().
  std::uint64_t tick() { return order.tick(lane_); }
  [[nodiscard]] std::size_t lane() const { return lane_; }
  Clock order;
  std::shared_ptr<Capture> capture;

 private:
  Stream(int device, int priority, std::vector<int> sms);
  void work();

  const int device_;
  const int priority_;
  const std::vector<int> sms_;
  std::uint32_t id_ = 0;
  std::size_t lane_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::pair<std::function<void()>, bool>> queue_;
  std::uint64_t pushed_ = 0;
  std::uint64_t done_ = 0;
  int reserved_ = 0;  // below 0 where nobody reserves
  bool closed_ = false;
};

// What is put into a stream, or into a graph to be put into a stream later: adds to the order and pushes. Called with
// books() held.
using Operation = std::function<void(Stream&)>;

// Live: joins what the host has waited for, then does it. Capturing: a node more.
cudaError_t submit(Stream& stream, Operation operation);

// A mark behind all that the stream has; with books() held.
std::shared_ptr<Mark> mark(Stream& stream, bool counted);
void wait_for(Stream& stream, const std::shared_ptr<Mark>& mark, bool counted);

// The host has waited for this; with books() held.
void host_passed(const Clock& order);
const Clock& host_order();

// nullptr where it is no stream. 0 is the current device's default stream. Takes books().
std::shared_ptr<Stream> find_stream(cudaStream_t handle, const char* call);
// A stream that the program owns, of a green context too. Takes books().
cudaStream_t add_stream(std::shared_ptr<Stream> stream);
// Removes it; it ends when what it has is done. nullptr where it is no stream. Takes books().
std::shared_ptr<Stream> take_stream(cudaStream_t handle, const char* call);
std::vector<int> all_sms();

// Waits for everything that has been enqueued on the device so far.
void wait_idle(int device);
// When the process ends: nothing is waited for any more; returns when the workers have gone.
void end_streams();

std::uint64_t clock_now(int device);
std::int64_t clock_offset(int device);  // to the steady clock

}  // namespace ovl::emulation
