// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/trace.hpp"

#include <cupti.h>
#include <dlfcn.h>

#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace ovl::cuda {
namespace {

// The newest record types of the header; a library of the same major version but older gives the one before, which
// differs after what is read here.
#if CUPTI_API_VERSION >= 130000
using KernelActivity = CUpti_ActivityKernel10;
#else
using KernelActivity = CUpti_ActivityKernel9;
#endif
#if CUPTI_API_VERSION >= 26
using CopyActivity = CUpti_ActivityMemcpy6;
#else
using CopyActivity = CUpti_ActivityMemcpy5;
#endif
using PeerCopyActivity = CUpti_ActivityMemcpyPtoP4;
using SetActivity = CUpti_ActivityMemset4;

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::align_val_t buffer_alignment{8};  // ACTIVITY_RECORD_ALIGNMENT

constexpr auto tag_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

// Kernels without serialising them (CUPTI_ACTIVITY_KIND_KERNEL would).
constexpr CUpti_ActivityKind needed[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
// Copies; and the calls of both interfaces, since only with a record of a call comes one of its tag.
constexpr CUpti_ActivityKind wanted[] = {CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_DRIVER};

struct Correlated {
  std::uint32_t correlation = 0;
  KernelRecord record;
};

// CUPTI's callbacks take no argument of ours and come on a thread of its own, so what they fill is one for the process.
struct Collected {
  std::mutex mutex;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  std::vector<Correlated> records;
  std::unordered_map<std::uint32_t, std::uint64_t> tags;  // by correlation
  std::uint64_t dropped = 0;
};
Collected& collected() {
  static Collected all;
  return all;
}

void add(Collected& all, std::uint32_t correlation, KernelRecord record) {
  if (record.end_ns == 0) {  // the device's own buffers ran out: it happened, but nobody knows when
    ++all.dropped;
  } else {
    all.records.push_back({correlation, std::move(record)});
  }
}

template <class Activity>
KernelRecord copy_of(const char* name, const Activity& activity) {
  KernelRecord r;
  r.name = name;
  r.start_ns = activity.start;
  r.end_ns = activity.end;
  r.device = static_cast<int>(activity.deviceId);
  return r;
}

void read(Collected& all, const CUpti_Activity& activity) {
  const void* record = &activity;
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& k = *static_cast<const KernelActivity*>(record);
      KernelRecord r = copy_of(k.name != nullptr ? k.name : "", k);
      r.blocks = k.gridX * k.gridY * k.gridZ;
      r.threads = k.blockX * k.blockY * k.blockZ;
      r.registers = k.registersPerThread;
      r.shared_bytes = k.staticSharedMemory + k.dynamicSharedMemory;
      return add(all, k.correlationId, std::move(r));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& c = *static_cast<const CopyActivity*>(record);
      return add(all, c.correlationId, copy_of("memcpy", c));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& c = *static_cast<const PeerCopyActivity*>(record);
      return add(all, c.correlationId, copy_of("memcpy", c));
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& s = *static_cast<const SetActivity*>(record);
      return add(all, s.correlationId, copy_of("memset", s));
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& e = *static_cast<const CUpti_ActivityExternalCorrelation*>(record);
      if (e.externalKind == tag_kind) all.tags[e.correlationId] = e.externalId;
      return;
    }
    default: return;
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(::operator new(buffer_bytes, buffer_alignment, std::nothrow));
  *size = *buffer != nullptr ? buffer_bytes : 0;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t /*size*/,
                          std::size_t valid) {
  Collected& all = collected();
  const std::lock_guard lock(all.mutex);
  try {
    CUpti_Activity* activity = nullptr;
    while (valid > 0 && all.next(buffer, valid, &activity) == CUPTI_SUCCESS) read(all, *activity);
    std::size_t dropped = 0;
    if (all.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) all.dropped += dropped;
  } catch (...) {  // no memory for the records; CUPTI must not see an exception
    ++all.dropped;
  }
  ::operator delete(buffer, buffer_alignment);
}

}  // namespace

struct Trace::Library {
  void* handle = nullptr;
  std::string status;
  bool ready = false;
  bool tried = false;
  bool running = false;

  decltype(&cuptiGetVersion) version = nullptr;
  decltype(&cuptiGetResultString) text = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop = nullptr;

  template <class Function>
  bool fetch(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
  }

  Library() {
    const std::string file = fmt::format("libcupti.so.{}", CUDART_VERSION / 1000);
    handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      status = "not loaded: no " + file;
      return;
    }
    decltype(Collected::next) next = nullptr;
    decltype(Collected::dropped_records) dropped_records = nullptr;
    ready = fetch("cuptiGetVersion", version) && fetch("cuptiGetResultString", text) &&
            fetch("cuptiActivityRegisterCallbacks", register_callbacks) && fetch("cuptiActivityEnable", enable) &&
            fetch("cuptiActivityDisable", disable) && fetch("cuptiActivityFlushAll", flush) &&
            fetch("cuptiActivityPushExternalCorrelationId", push) &&
            fetch("cuptiActivityPopExternalCorrelationId", pop) && fetch("cuptiActivityGetNextRecord", next) &&
            fetch("cuptiActivityGetNumDroppedRecords", dropped_records);
    if (!ready) {
      status = "not usable: " + file + " lacks a function";
      return;
    }
    {
      Collected& all = collected();
      const std::lock_guard lock(all.mutex);
      all.next = next;
      all.dropped_records = dropped_records;
    }
    std::uint32_t number = 0;
    if (accept(version(&number), "cuptiGetVersion")) status = fmt::format("loaded, version {}", number);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  // The library stays loaded: once it has traced, the driver calls into it until the process ends.
  ~Library() = default;

  // False, and never tried again, where CUPTI refuses: another profiler may have it.
  bool accept(CUptiResult result, const char* call) {
    if (result == CUPTI_SUCCESS) return true;
    const char* why = nullptr;
    text(result, &why);
    status = fmt::format("not usable: {} gave {}", call, why != nullptr ? why : std::to_string(result));
    ready = false;
    return false;
  }

  void stop_kinds() {
    for (const CUpti_ActivityKind kind : needed) disable(kind);
    for (const CUpti_ActivityKind kind : wanted) disable(kind);
  }
};

Trace::Trace() : library_(std::make_unique<Library>()) {}

Trace::~Trace() {
  if (library_->running) library_->stop_kinds();
}

bool Trace::available() {
  Library& cupti = *library_;
  if (!std::exchange(cupti.tried, true) && cupti.ready) {
    start();
    if (cupti.running) static_cast<void>(stop());
  }
  return cupti.ready;
}
std::string Trace::status() const { return library_->status; }

void Trace::start() {
  Library& cupti = *library_;
  if (!cupti.ready || cupti.running) return;
  {
    Collected& all = collected();
    const std::lock_guard lock(all.mutex);
    all.records.clear();
    all.tags.clear();
    all.dropped = 0;
  }
  if (!cupti.accept(cupti.register_callbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks")) return;
  for (const CUpti_ActivityKind kind : needed) {
    if (!cupti.accept(cupti.enable(kind), "cuptiActivityEnable")) return cupti.stop_kinds();
  }
  for (const CUpti_ActivityKind kind : wanted) cupti.enable(kind);
  cupti.running = true;
}

std::vector<KernelRecord> Trace::stop() {
  Library& cupti = *library_;
  if (!cupti.running) return {};
  cupti.running = false;
  const bool flushed = cupti.accept(cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  cupti.stop_kinds();
  if (!flushed) return {};
  Collected& all = collected();
  const std::lock_guard lock(all.mutex);
  if (all.dropped > 0) {
    cupti.status = fmt::format("lost {} records: what is left proves nothing", all.dropped);
    return {};
  }
  std::vector<KernelRecord> records;
  records.reserve(all.records.size());
  for (Correlated& c : all.records) {
    const auto tag = all.tags.find(c.correlation);
    if (tag != all.tags.end()) c.record.tag = tag->second;
    records.push_back(std::move(c.record));
  }
  all.records.clear();
  return records;
}

void Trace::push(std::uint64_t tag) const {
  if (library_->running) library_->push(tag_kind, tag);
}

void Trace::pop() const {
  std::uint64_t last = 0;
  if (library_->running) library_->pop(tag_kind, &last);
}

}  // namespace ovl::cuda
