// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/nvml.hpp"

#include <dlfcn.h>

#include <array>

namespace ovl::cuda {
namespace {

// NVML comes with the driver, its header with a toolkit that need not be there: these few are declared here.
using NvmlDevice = void*;
constexpr int success = 0;
constexpr int clock_sm = 1;
constexpr int clock_memory = 2;
constexpr int sensor_gpu = 0;
struct NvmlProcess {
  unsigned int pid;
  unsigned long long memory;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

// Clocks event reasons: software power cap, hardware slowdown, software and hardware thermal, power brake.
constexpr unsigned long long held_down = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

constexpr const char* file = "libnvidia-ml.so.1";

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  std::string status;
  bool ready = false;

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned int) = nullptr;
  int (*by_uuid)(const char*, NvmlDevice*) = nullptr;
  int (*by_pci)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned int*) = nullptr;
  int (*power)(NvmlDevice, unsigned int*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned int*) = nullptr;
  int (*energy)(NvmlDevice, unsigned long long*) = nullptr;
  int (*reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*processes)(NvmlDevice, unsigned int*, NvmlProcess*) = nullptr;

  template <class Function>
  void fetch(const char* name, Function& function) {
    if (function == nullptr) function = reinterpret_cast<Function>(dlsym(handle, name));
  }

  Library() {
    handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      status = "not loaded: no " + std::string(file);
      return;
    }
    fetch("nvmlInit_v2", init);
    fetch("nvmlShutdown", shutdown);
    fetch("nvmlSystemGetDriverVersion", driver_version);
    fetch("nvmlDeviceGetHandleByUUID", by_uuid);
    fetch("nvmlDeviceGetHandleByPciBusId_v2", by_pci);
    fetch("nvmlDeviceGetClockInfo", clock);
    fetch("nvmlDeviceGetPowerUsage", power);
    fetch("nvmlDeviceGetTemperature", temperature);
    fetch("nvmlDeviceGetTotalEnergyConsumption", energy);
    fetch("nvmlDeviceGetCurrentClocksEventReasons", reasons);
    fetch("nvmlDeviceGetCurrentClocksThrottleReasons", reasons);  // its name before driver 535
    fetch("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    const int code = init != nullptr ? init() : -1;
    ready = code == success;
    if (!ready) {
      status = "not usable: nvmlInit_v2 gave " + std::to_string(code);
      return;
    }
    std::array<char, 96> version = {};
    if (driver_version != nullptr) driver_version(version.data(), static_cast<unsigned int>(version.size()));
    status = "loaded, driver version " + std::string(version[0] != '\0' ? version.data() : "unknown");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (ready && shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }

  // CUDA_VISIBLE_DEVICES renumbers what CUDA counts, so a device is found by what it is. A slice of one has no such
  // UUID.
  [[nodiscard]] NvmlDevice find(const Device& device) const {
    NvmlDevice found = nullptr;
    if (!ready) return nullptr;
    if (by_uuid != nullptr && by_uuid(device.uuid.c_str(), &found) == success) return found;
    if (by_pci != nullptr && by_pci(device.pci.c_str(), &found) == success) return found;
    return nullptr;
  }
};

Nvml::Nvml() : library_(std::make_unique<Library>()) {}
Nvml::~Nvml() = default;

std::string Nvml::status() const { return library_->status; }

std::vector<Reading> Nvml::readings(const Device& device) const {
  const Library& nvml = *library_;
  Reading sm_clock{.name = "sm_clock", .unit = "Hz"};
  Reading memory_clock{.name = "memory_clock", .unit = "Hz"};
  Reading power{.name = "power", .unit = "W"};
  Reading temperature{.name = "temperature", .unit = "C"};
  Reading energy{.name = "energy", .unit = "J"};
  Reading throttle{.name = "throttle", .unit = "1", .limit = 0};
  Reading processes{.name = "gpu_processes", .unit = "1", .limit = 1};
  if (const NvmlDevice found = nvml.find(device); found != nullptr) {
    unsigned int value = 0;
    unsigned long long wide = 0;
    if (nvml.clock != nullptr && nvml.clock(found, clock_sm, &value) == success) sm_clock.value = 1e6 * value;
    if (nvml.clock != nullptr && nvml.clock(found, clock_memory, &value) == success) memory_clock.value = 1e6 * value;
    if (nvml.power != nullptr && nvml.power(found, &value) == success) power.value = 1e-3 * value;
    if (nvml.temperature != nullptr && nvml.temperature(found, sensor_gpu, &value) == success) {
      temperature.value = value;
    }
    if (nvml.energy != nullptr && nvml.energy(found, &wide) == success) energy.value = 1e-3 * static_cast<double>(wide);
    if (nvml.reasons != nullptr && nvml.reasons(found, &wide) == success) throttle.value = (wide & held_down) != 0;
    std::array<NvmlProcess, 64> list = {};
    auto count = static_cast<unsigned int>(list.size());
    if (nvml.processes != nullptr && nvml.processes(found, &count, list.data()) == success) processes.value = count;
  }
  return {sm_clock, memory_clock, power, temperature, energy, throttle, processes};
}

}  // namespace ovl::cuda
