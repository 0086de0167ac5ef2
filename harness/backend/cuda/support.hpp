// SPDX-License-Identifier: Apache-2.0
//
// Why a program cannot run here: a pure function of the program and of what the devices can.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/residents.hpp"
#include "program/program.hpp"

namespace ovl::cuda {

struct Capabilities {
  int ranks = 1;                   // that can be placed
  bool several_processes = false;  // then a program has exactly that many
  std::vector<DType> dtypes;       // on every local device
  std::vector<Device> devices;     // by local rank
  std::vector<Bytes> free;         // by local rank
  bool green_contexts = false;     // the driver has them
  bool words = false;              // a stream can write one (cuStreamWriteValue32)
  bool shared_devices = false;     // two ranks on one
  Residents residents;
  Bytes workspace;  // of a lane that multiplies
};

// SMs of the communication lanes where lanes are partitioned by role: as many as the most CTAs of a communicator, since
// one that is not resident would be waited for by its peers, with those that these lanes hold and stream on, and not
// less than a green context can have. 0: there is no such partition.
int partition_comm_sms(const Program& program);

// Empty: it can run, as far as can be known before it is prepared.
std::string unsupported_reason(const Program& program, const Capabilities& here);

}  // namespace ovl::cuda
