// SPDX-License-Identifier: Apache-2.0
//
// Any bytes at all, read as a machine description: nothing crashes or hangs, what is refused is refused with a usage
// error in printable words, and what is taken is read again as it is written.
#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "fuzz.hpp"
#include "results/machine.hpp"

using ovl::fuzz::is_printable;
using ovl::fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const ovl::Machine machine = ovl::parse_machine(text);
    const std::string written = ovl::machine_json(machine);
    must(ovl::machine_json(ovl::parse_machine(written)) == written);
  } catch (const ovl::Error& error) {
    must(error.kind() == ovl::ErrorKind::usage);
    must(is_printable(error.what()));
  }
  return 0;
}
