// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4), so that a run directory names the log that it was made of as sha256sum does.
#pragma once

#include <string>
#include <string_view>

namespace ovl {

std::string sha256_hex(std::string_view text);

}  // namespace ovl
