// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/partition.hpp"

#include <array>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "backend/cuda/driver.hpp"
#include "backend/cuda/memory.hpp"
#include "base/error.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace ovl::cuda {
namespace {

// Blocks of a census are resident within microseconds; one that finds no SM of its own ends it here.
constexpr std::uint64_t census_timeout_ns = 2'000'000;

constexpr const char* instead = "leave out the placement partitioned";

Error refused(const std::string& why) { return impossible_error("the SMs cannot be partitioned", why, instead); }

// Who says which SM its blocks were given.
class Census {
 public:
  Census(const Stream& stream, const Device& device, int sms)
      : stream_(&stream),
        blocks_(static_cast<std::uint32_t>(sms)),
        stamps_(Bytes(static_cast<std::int64_t>(sizeof(kernels::Stamp)) * sms)),
        arrived_(Bytes(sizeof(std::uint32_t))),
        shared_bytes_(static_cast<std::size_t>(device.shared_bytes_opt_in)) {}

  void start() {
    check(cudaMemsetAsync(arrived_.get(), 0, sizeof(std::uint32_t), stream_->get()), "cudaMemsetAsync (census)");
    const kernels::CensusArgs args{.stamps = reinterpret_cast<kernels::Stamp*>(stamps_.device()),
                                   .arrived = reinterpret_cast<std::uint32_t*>(arrived_.get()),
                                   .blocks = blocks_,
                                   .timeout_ns = census_timeout_ns};
    check(static_cast<cudaError_t>(kernels::launch_census(args, shared_bytes_, stream_->get())),
          "cudaLaunchKernelExC (census)");
  }

  std::set<std::uint64_t> finish() {
    check(cudaStreamSynchronize(stream_->get()), "cudaStreamSynchronize (census)");
    std::set<std::uint64_t> sms;
    for (std::uint32_t i = 0; i < blocks_; ++i) {
      kernels::Stamp stamp = {};
      std::memcpy(&stamp, stamps_.host() + sizeof(stamp) * i, sizeof(stamp));
      sms.insert(stamp.sm);
    }
    return sms;
  }

 private:
  const Stream* stream_;
  std::uint32_t blocks_;
  MappedMemory stamps_;
  DeviceMemory arrived_;
  std::size_t shared_bytes_;
};

}  // namespace

struct SmPartition::Contexts {
  struct Part {
    CUgreenCtx context = nullptr;
    int sms = 0;
  };
  std::array<Part, 2> parts;  // by Role

  Contexts() = default;
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;
  ~Contexts() {
    for (const Part& part : parts) {
      if (part.context != nullptr) release(driver().green_destroy(part.context), "cuGreenCtxDestroy");
    }
  }

  Part& of(Role role) { return parts.at(static_cast<std::size_t>(role)); }

  void make(Role role, const Device& device, CUdevResource& resource) {
    CUdevResourceDesc descriptor = nullptr;
    check(driver().generate_descriptor(&descriptor, &resource, 1), "cuDevResourceGenerateDesc");
    check(driver().green_create(&of(role).context, descriptor, device.index, CU_GREEN_CTX_DEFAULT_STREAM),
          "cuGreenCtxCreate");
    of(role).sms = static_cast<int>(resource.sm.smCount);
  }
};

SmPartition::SmPartition(const Device& device, int comm_sms) : contexts_(std::make_unique<Contexts>()) {
  if (!driver().has_green_contexts()) {
    throw impossible_error("the SMs cannot be partitioned", "this driver has no green contexts",
                           "install a driver for CUDA 12.4 or later, or leave out the placement partitioned");
  }
  // Green contexts share the device's primary context, which must be there first. None is ever made current: libraries
  // that work in the primary one would not find themselves.
  make_current(device);

  CUdevResource all = {};
  check(driver().device_resource(device.index, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  const auto asked = static_cast<unsigned int>(comm_sms);
  if (comm_sms < 1 || asked >= all.sm.smCount) {
    throw refused(fmt::format("{} SMs for communication of {} leave none for compute", comm_sms, all.sm.smCount));
  }
  CUdevResource comm = {};
  CUdevResource rest = {};
  unsigned int groups = 1;
  check(driver().split_sms(&comm, &groups, &all, &rest, 0, asked), "cuDevSmResourceSplitByCount");
  if (groups != 1 || rest.type != CU_DEV_RESOURCE_TYPE_SM || rest.sm.smCount == 0) {
    throw refused(fmt::format("the device does not split {} SMs into {} and a rest", all.sm.smCount, comm_sms));
  }
  contexts_->make(Role::communication, device, comm);
  contexts_->make(Role::compute, device, rest);

  // Both at once: a stream that may use all SMs would be seen on the other's.
  const Stream compute_stream = stream(Role::compute, device.least_priority);
  const Stream comm_stream = stream(Role::communication, device.least_priority);
  Census compute_census(compute_stream, device, sms(Role::compute));
  Census comm_census(comm_stream, device, sms(Role::communication));
  compute_census.start();
  comm_census.start();
  const std::set<std::uint64_t> compute_ids = compute_census.finish();
  const std::set<std::uint64_t> comm_ids = comm_census.finish();
  for (const std::uint64_t id : comm_ids) {
    if (compute_ids.contains(id)) throw refused(fmt::format("kernels of both parts ran on SM {}", id));
  }
  const std::size_t seen = compute_ids.size() + comm_ids.size();
  const int expected = sms(Role::compute) + sms(Role::communication);
  if (seen != static_cast<std::size_t>(expected)) {
    throw refused(fmt::format("a census saw {} of {} SMs, which proves nothing of the others", seen, expected));
  }
  text_ = fmt::format("compute {} SMs, comm {} SMs, proven by {} SM ids", sms(Role::compute), sms(Role::communication),
                      seen);
}

SmPartition::~SmPartition() = default;

Stream SmPartition::stream(Role role, int priority) const {
  CUstream made = nullptr;
  check(driver().green_stream(&made, contexts_->of(role).context, CU_STREAM_NON_BLOCKING, priority),
        "cuGreenCtxStreamCreate");
  return Stream(made);
}

int SmPartition::sms(Role role) const { return contexts_->of(role).sms; }

}  // namespace ovl::cuda
