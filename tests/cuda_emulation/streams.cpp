// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "graph.hpp"
#include "table.hpp"

namespace ovl::emulation {
namespace {

using std::chrono::milliseconds;

// Who waits looks up now and then whether waiting is still worth while.
constexpr milliseconds glance{20};

struct Workers {
  std::mutex mutex;
  std::condition_variable gone;
  int count = 0;
};
Workers& workers() {
  static Workers* const workers = new Workers;
  return *workers;
}

// Guarded by books().
struct Streams {
  Table<cudaStream_t, Stream> of_program{"stream", "streams"};
  std::map<int, std::shared_ptr<Stream>> defaults;
  std::vector<std::weak_ptr<Stream>> all;
  std::vector<std::pair<std::size_t, Clock>> free_lanes;  // of streams that have ended, and what they had seen
  std::map<int, Clock> ended;                             // what they did, by device
  std::size_t lanes = 0;
  std::uint32_t ids = 0;
  Clock host;
};
Streams& streams() {
  static Streams* const streams = new Streams;
  return *streams;
}

std::map<int, std::int64_t>& clock_offsets() {
  static auto* const offsets = new std::map<int, std::int64_t>;
  return *offsets;
}
std::mutex clock_offsets_mutex;

}  // namespace

std::mutex& books() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

namespace {
constexpr std::uintptr_t first_handle = 0x7e5700000000;
std::uintptr_t given_handles = 0;
}  // namespace

std::uintptr_t next_handle() { return first_handle + 64 * given_handles++; }
bool was_handle(std::uintptr_t value) {
  return value >= first_handle && value < first_handle + 64 * given_handles && (value - first_handle) % 64 == 0;
}

void set_clock_offset(int device, std::int64_t nanoseconds) {
  const std::lock_guard lock(clock_offsets_mutex);
  clock_offsets()[device] = nanoseconds;
}

std::int64_t clock_offset(int device) {
  const std::lock_guard lock(clock_offsets_mutex);
  const auto set = clock_offsets().find(device);
  return set != clock_offsets().end() ? set->second : (device + 1) * std::int64_t{1'000'000'000'000};
}

std::uint64_t clock_now(int device) {
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(steady).count();
  return static_cast<std::uint64_t>(now + clock_offset(device));
}

// --------------------------------------------------------------------------------------------------------------- marks

void Mark::reach() {
  const std::lock_guard lock(mutex_);
  nanoseconds_ = clock_now(device_);
  reached_ = true;
  changed_.notify_all();
}

bool Mark::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

void Mark::wait() const {
  std::unique_lock lock(mutex_);
  while (!reached_ && !stopping()) changed_.wait_for(lock, glance);
}

std::uint64_t Mark::nanoseconds() const {
  const std::lock_guard lock(mutex_);
  return nanoseconds_;
}

// ------------------------------------------------------------------------------------------------------------- streams

Stream::Stream(int device, int priority, std::vector<int> sms)
    : device_(device), priority_(priority), sms_(std::move(sms)) {}

Stream::~Stream() = default;

std::shared_ptr<Stream> Stream::open(int device, int priority, std::vector<int> sms) {
  const std::shared_ptr<Stream> stream(new Stream(device, priority, std::move(sms)));
  {
    const Books lock(books());
    Streams& all = streams();
    stream->id_ = ++all.ids;
    if (all.free_lanes.empty()) {
      stream->lane_ = all.lanes++;
    } else {
      std::tie(stream->lane_, stream->order) = all.free_lanes.back();
      all.free_lanes.pop_back();
    }
    all.all.erase(std::remove_if(all.all.begin(), all.all.end(), [](const auto& old) { return old.expired(); }),
                  all.all.end());
    all.all.push_back(stream);
  }
  {
    const std::lock_guard lock(workers().mutex);
    ++workers().count;
  }
  std::thread([stream] { stream->work(); }).detach();
  return stream;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) break;
    auto [action, counted] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    action();
    action = nullptr;
    lock.lock();
    ++done_;
    if (counted) --reserved_;
    changed_.notify_all();
  }
  lock.unlock();
  {
    // Everything it did has happened: whoever takes the lane over comes after it.
    const Books held(books());
    streams().free_lanes.emplace_back(lane_, order);
    streams().ended[device_].join(order);
  }
  const std::lock_guard held(workers().mutex);
  --workers().count;
  workers().gone.notify_all();
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool Stream::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void Stream::reserve() {
  std::unique_lock lock(mutex_);
  while (reserved_ >= deepest && !stopping()) changed_.wait_for(lock, glance);
  ++reserved_;
}

void Stream::push(std::function<void()> action, bool counted) {
  const std::lock_guard lock(mutex_);
  queue_.emplace_back(std::move(action), counted);
  ++pushed_;
  changed_.notify_all();
}

std::uint64_t Stream::pushed() const {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

bool Stream::done(std::uint64_t pushed) const {
  const std::lock_guard lock(mutex_);
  return done_ >= pushed;
}

void Stream::wait(std::uint64_t pushed) const {
  std::unique_lock lock(mutex_);
  while (done_ < pushed && !stopping()) changed_.wait_for(lock, glance);
}

// ------------------------------------------------------------------------------------------------------------ ordering

cudaError_t submit(Stream& stream, Operation operation) {
  {
    const Books lock(books());
    if (stream.capture != nullptr) return add_node(stream, std::move(operation));
  }
  stream.reserve();
  const Books lock(books());
  stream.order.join(streams().host);
  operation(stream);
  return cudaSuccess;
}

std::shared_ptr<Mark> mark(Stream& stream, bool counted) {
  auto made = std::make_shared<Mark>(stream.device(), stream.order);
  stream.push([made] { made->reach(); }, counted);
  return made;
}

void wait_for(Stream& stream, const std::shared_ptr<Mark>& mark, bool counted) {
  stream.order.join(mark->order());
  stream.push([mark] { mark->wait(); }, counted);
}

void host_passed(const Clock& order) { streams().host.join(order); }
const Clock& host_order() { return streams().host; }

std::vector<int> all_sms() {
  std::vector<int> all(static_cast<std::size_t>(sms()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::shared_ptr<Stream> find_stream(cudaStream_t handle, const char* call) {
  if (handle == cudaStreamPerThread) violation(std::string(call) + ": the per-thread default stream is not emulated");
  if (handle != nullptr && handle != cudaStreamLegacy) {
    const Books lock(books());
    return streams().of_program.find(handle, call);
  }
  const int device = current_device();
  {
    const Books lock(books());
    const auto found = streams().defaults.find(device);
    if (found != streams().defaults.end()) return found->second;
  }
  std::shared_ptr<Stream> made = Stream::open(device, 0, all_sms());
  const Books lock(books());
  const auto [place, first] = streams().defaults.emplace(device, made);
  if (!first) made->close();  // another thread was quicker
  return place->second;
}

cudaStream_t add_stream(std::shared_ptr<Stream> stream) {
  const Books lock(books());
  return streams().of_program.add(std::move(stream));
}

std::shared_ptr<Stream> take_stream(cudaStream_t handle, const char* call) {
  std::shared_ptr<Stream> taken;
  {
    const Books lock(books());
    taken = streams().of_program.take(handle, call);
  }
  if (taken != nullptr) taken->close();
  return taken;
}

void wait_idle(int device) {
  std::vector<std::pair<std::shared_ptr<Stream>, std::uint64_t>> busy;
  std::vector<Clock> orders;
  {
    const Books lock(books());
    for (const std::weak_ptr<Stream>& weak : streams().all) {
      std::shared_ptr<Stream> stream = weak.lock();
      if (stream == nullptr || stream->device() != device) continue;
      orders.push_back(stream->order);
      const std::uint64_t pushed = stream->pushed();
      busy.emplace_back(std::move(stream), pushed);
    }
  }
  for (const auto& [stream, pushed] : busy) stream->wait(pushed);
  const Books lock(books());
  for (const Clock& order : orders) host_passed(order);
  host_passed(streams().ended[device]);
}

void end_streams() {
  {
    const Books lock(books());
    for (const auto& [device, stream] : streams().defaults) stream->close();
  }
  std::unique_lock lock(workers().mutex);
  // A bound for a hang: tasks that wait look at stopping().
  if (!workers().gone.wait_for(lock, std::chrono::seconds(20), [] { return workers().count == 0; })) {
    violation("a task does not end although the process does");
  }
}

}  // namespace ovl::emulation
