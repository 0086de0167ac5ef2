// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "emulator.hpp"

namespace ovl::emulation {
namespace {

std::string text_setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::int64_t> number_in(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A setting that is not understood must not look like one that was obeyed.
[[noreturn]] void refuse(const std::string& setting, const std::string& form) {
  violation(setting + " is not understood; type " + form);
}

std::optional<Fault> read_fault(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const char* form = "OVL_EMULATED_FAIL=call:k[:code][:once], e.g. cudaMalloc:3; for k also <file>+0x<offset>";
  std::vector<std::string> parts = split(text, ':');
  Fault fault;
  if (parts.size() > 2 && parts.back() == "once") {
    fault.once = true;
    parts.pop_back();
  }
  if (parts.size() < 2 || parts.size() > 3) refuse("OVL_EMULATED_FAIL=" + text, form);
  fault.call = parts[0];
  if (parts[1].find("+0x") != std::string::npos) {
    fault.site = parts[1];
  } else {
    const std::optional<std::int64_t> which = number_in(parts[1]);
    if (!which || *which < 1) refuse("OVL_EMULATED_FAIL=" + text, form);
    fault.which = *which;
  }
  if (parts.size() == 3) {
    const std::optional<std::int64_t> code = number_in(parts[2]);
    if (!code) refuse("OVL_EMULATED_FAIL=" + text, form);
    fault.code = static_cast<int>(*code);
  }
  return fault;
}

// As CUDA reads it: numbers up to the first that is not a device.
std::vector<int> visible_devices(int installed) {
  std::vector<int> all(static_cast<std::size_t>(installed));
  std::iota(all.begin(), all.end(), 0);
  const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (chosen == nullptr) return all;
  std::vector<int> visible;
  for (const std::string& part : split(chosen, ',')) {
    const std::optional<std::int64_t> index = number_in(part);
    if (!index || *index < 0 || *index >= installed) break;
    visible.push_back(static_cast<int>(*index));
  }
  return visible;
}

Settings read_settings() {
  Settings read;
  read.visible = visible_devices(static_cast<int>(number_setting("OVL_EMULATED_GPUS", 1)));
  read.capability = static_cast<int>(number_setting("OVL_EMULATED_CAPABILITY", 90));
  read.sms = static_cast<int>(number_setting("OVL_EMULATED_SMS", 132));
  read.driver = static_cast<int>(number_setting("OVL_EMULATED_DRIVER", 13000));
  read.memory = static_cast<std::size_t>(number_setting("OVL_EMULATED_MEMORY", std::int64_t{1} << 31));
  read.fault = read_fault(text_setting("OVL_EMULATED_FAIL"));
  read.sites = text_setting("OVL_EMULATED_SITES");
  read.counts = text_setting("OVL_EMULATED_COUNTS");
  read.without = split(text_setting("OVL_EMULATED_WITHOUT"), ',');
  return read;
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::int64_t number_setting(const char* name, std::int64_t fallback) {
  const std::string text = text_setting(name);
  if (text.empty()) return fallback;
  const std::optional<std::int64_t> value = number_in(text);
  if (!value || *value < 0) refuse(std::string(name) + "=" + text, "a whole number");
  return *value;
}

const Settings& settings() {
  static const Settings* const read = new Settings(read_settings());  // never destroyed: read while the process ends
  return *read;
}

int devices() { return static_cast<int>(settings().visible.size()); }
int capability() { return settings().capability; }
int sms() { return settings().sms; }
int driver_version() { return settings().driver; }
bool without(const char* what) {
  const std::vector<std::string>& lacking = settings().without;
  return std::find(lacking.begin(), lacking.end(), what) != lacking.end();
}

}  // namespace ovl::emulation
