// SPDX-License-Identifier: Apache-2.0
//
// A communicator and its operations: nonblocking collectives, and Isend and Irecv for exchanges.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <vector>

#include "backend/message_passing.hpp"

namespace ovl::mpi {

// Takes the communicator over. It is freed unless `broken` says that something is still under way.
class Group final : public MessageGroup {
 public:
  Group(MPI_Comm comm, const std::atomic<bool>& broken) : comm_(comm), broken_(broken) {}
  ~Group() override;

  [[nodiscard]] std::unique_ptr<MessageOperation> collective(const Collective& what) override;
  [[nodiscard]] std::unique_ptr<MessageOperation> exchange(DType dtype, const std::vector<Transfer>& transfers,
                                                           const std::vector<std::int64_t>& counts) override;

 private:
  MPI_Comm comm_;
  const std::atomic<bool>& broken_;
};

std::unique_ptr<MessageOperation> make_barrier(MPI_Comm comm);

}  // namespace ovl::mpi
