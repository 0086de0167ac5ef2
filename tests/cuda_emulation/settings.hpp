// SPDX-License-Identifier: Apache-2.0
//
// OVL_EMULATED_*, read once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ovl::emulation {

struct Fault {
  std::string call;        // "*": any
  std::int64_t which = 0;  // 0: the first from `site`
  std::string site;        // "<file>+0x<offset>", as OVL_EMULATED_SITES has it
  std::optional<int> code;
  bool once = false;
};

struct Settings {
  std::vector<int> visible;  // the machine's numbers of the devices, as CUDA_VISIBLE_DEVICES has them
  int capability = 90;
  int sms = 132;
  int driver = 13000;
  std::size_t memory = 0;
  std::optional<Fault> fault;
  std::string sites;
  std::string counts;
  std::vector<std::string> without;
};

const Settings& settings();

// Where it is not in the environment or not a number: the default.
std::int64_t number_setting(const char* name, std::int64_t fallback);
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace ovl::emulation
