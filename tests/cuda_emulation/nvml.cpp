// SPDX-License-Identifier: Apache-2.0
//
// The management library, with constants from the environment:
//   OVL_EMULATED_SM_MHZ=1980  OVL_EMULATED_MEMORY_MHZ=3201  OVL_EMULATED_POWER_MW=350000  OVL_EMULATED_CELSIUS=45
//   OVL_EMULATED_ENERGY_MJ=1000000  OVL_EMULATED_CLOCK_REASONS=0  OVL_EMULATED_PROCESSES=1
// A toolkit need not have its header: what is used of it is declared here.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "device.hpp"
#include "emulator.hpp"
#include "settings.hpp"

namespace ovl::emulation {
namespace {

enum Code : int {
  success = 0,
  invalid_argument = 2,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  unknown = 999,
};
constexpr int clock_sm = 1;
constexpr int clock_memory = 2;

// A device's handle points to its number.
using Device = const int*;
const std::array<int, 16>& numbers() {
  static constexpr std::array<int, 16> numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return numbers;
}

template <class Body>
int entry_point(const char* call, void* site, Body body) {
  int code = success;
  if (fails(call, site, unknown, &code)) return code;
  if (without("nvml") || driver_version() == 0) return driver_not_loaded;
  return body();
}

std::string uuid_text(int device) {
  const DeviceUuid uuid = uuid_of(device);
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned int>(uuid[i]));
    text += hex.data();
  }
  return text;
}

template <class Value>
int tell(const char* call, void* site, Value* value, const char* setting, std::int64_t usual) {
  return entry_point(call, site, [&] {
    *value = static_cast<Value>(number_setting(setting, usual));
    return success;
  });
}

}  // namespace
}  // namespace ovl::emulation

using ovl::emulation::entry_point;
using ovl::emulation::tell;

extern "C" {

int nvmlInit_v2() {
  return entry_point(__func__, __builtin_return_address(0), [] { return ovl::emulation::success; });
}

int nvmlShutdown() {
  return entry_point(__func__, __builtin_return_address(0), [] { return ovl::emulation::success; });
}

int nvmlSystemGetDriverVersion(char* text, unsigned int length) {
  return entry_point(__func__, __builtin_return_address(0), [&]() -> int {
    const int needed = std::snprintf(text, length, "580.0-emulated");
    return needed < static_cast<int>(length) ? ovl::emulation::success : ovl::emulation::insufficient_size;
  });
}

int nvmlDeviceGetHandleByUUID(const char* uuid, const int** device) {
  return entry_point(__func__, __builtin_return_address(0), [&]() -> int {
    for (int i = 0; i < ovl::emulation::devices(); ++i) {
      if (ovl::emulation::uuid_text(i) != uuid) continue;
      *device = &ovl::emulation::numbers().at(static_cast<std::size_t>(i));
      return ovl::emulation::success;
    }
    return ovl::emulation::not_found;
  });
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* /*bus*/, const int** /*device*/) {
  return entry_point(__func__, __builtin_return_address(0), [] { return ovl::emulation::not_found; });
}

int nvmlDeviceGetClockInfo(ovl::emulation::Device /*device*/, int type, unsigned int* mhz) {
  void* site = __builtin_return_address(0);
  if (type == ovl::emulation::clock_sm) return tell(__func__, site, mhz, "OVL_EMULATED_SM_MHZ", 1980);
  if (type == ovl::emulation::clock_memory) return tell(__func__, site, mhz, "OVL_EMULATED_MEMORY_MHZ", 3201);
  return ovl::emulation::invalid_argument;
}

int nvmlDeviceGetCurrentClocksEventReasons(ovl::emulation::Device /*device*/, unsigned long long* reasons) {
  return tell(__func__, __builtin_return_address(0), reasons, "OVL_EMULATED_CLOCK_REASONS", 0);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(ovl::emulation::Device /*device*/, unsigned long long* reasons) {
  return tell(__func__, __builtin_return_address(0), reasons, "OVL_EMULATED_CLOCK_REASONS", 0);
}

int nvmlDeviceGetPowerUsage(ovl::emulation::Device /*device*/, unsigned int* milliwatts) {
  return tell(__func__, __builtin_return_address(0), milliwatts, "OVL_EMULATED_POWER_MW", 350000);
}

int nvmlDeviceGetTemperature(ovl::emulation::Device /*device*/, int /*sensor*/, unsigned int* celsius) {
  return tell(__func__, __builtin_return_address(0), celsius, "OVL_EMULATED_CELSIUS", 45);
}

int nvmlDeviceGetTotalEnergyConsumption(ovl::emulation::Device /*device*/, unsigned long long* millijoules) {
  return tell(__func__, __builtin_return_address(0), millijoules, "OVL_EMULATED_ENERGY_MJ", 1000000);
}

// Tells only how many there are.
int nvmlDeviceGetComputeRunningProcesses_v3(ovl::emulation::Device /*device*/, unsigned int* count, void* /*list*/) {
  return tell(__func__, __builtin_return_address(0), count, "OVL_EMULATED_PROCESSES", 1);
}

}  // extern "C"
