// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

namespace ovl::emulation {

// By the number of a visible device; the machine's device decides.
using DeviceUuid = std::array<unsigned char, 16>;
DeviceUuid uuid_of(int device);
int pci_bus(int device);

// Bytes of shared memory that a block may ask for.
int shared_opt_in();

// False: there is no such device.
bool make_current(int device);

}  // namespace ovl::emulation
