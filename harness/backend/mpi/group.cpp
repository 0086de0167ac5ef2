// SPDX-License-Identifier: Apache-2.0
#include "backend/mpi/group.hpp"

#include <cstring>

#include "backend/mpi/check.hpp"
#include "base/error.hpp"

namespace ovl::mpi {
namespace {

MPI_Datatype type_of(DType dtype) {
  require(dtype == DType::f32 || dtype == DType::f64, "the host backend computes in f32 and f64");
  return dtype == DType::f64 ? MPI_DOUBLE : MPI_FLOAT;
}

class CollectiveOperation final : public MessageOperation {
 public:
  CollectiveOperation(MPI_Comm comm, const Collective& what)
      : comm_(comm), what_(what), type_(type_of(what.dtype)), element_(size_of(what.dtype).value()) {
    check(MPI_Comm_rank(comm, &me_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm, &members_), "MPI_Comm_size");
  }

  void post(std::span<std::byte* const> memory) override {
    require(memory.size() == 2, "a collective has an input and an output");
    std::byte* const in = memory[0];
    std::byte* const out = memory[1];
    const auto whole = static_cast<int>(what_.count);
    const int block = whole / members_;
    switch (what_.kind) {
      case CollectiveKind::all_reduce:
        return check(MPI_Iallreduce(in == out ? MPI_IN_PLACE : in, out, whole, type_, MPI_SUM, comm_, &request_),
                     "MPI_Iallreduce");
      case CollectiveKind::all_gather: {
        const bool in_place = in == out + std::int64_t{me_} * block * element_;
        return check(MPI_Iallgather(in_place ? MPI_IN_PLACE : in, block, type_, out, block, type_, comm_, &request_),
                     "MPI_Iallgather");
      }
      case CollectiveKind::reduce_scatter:
        return check(
            MPI_Ireduce_scatter_block(in == out ? MPI_IN_PLACE : in, out, block, type_, MPI_SUM, comm_, &request_),
            "MPI_Ireduce_scatter_block");
      case CollectiveKind::broadcast: {
        const bool root = me_ == what_.root;
        check(MPI_Ibcast(root ? in : out, whole, type_, what_.root, comm_, &request_), "MPI_Ibcast");
        // MPI leaves the root's data where they are; both sides only read them.
        if (root && in != out) std::memcpy(out, in, static_cast<std::size_t>(what_.count * element_));
        return;
      }
      case CollectiveKind::all_to_all:
        return check(MPI_Ialltoall(in, block, type_, out, block, type_, comm_, &request_), "MPI_Ialltoall");
    }
  }

  bool test() override {
    int done = 0;
    check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

 private:
  MPI_Comm comm_;
  Collective what_;
  MPI_Datatype type_;
  std::int64_t element_;
  int me_ = 0;
  int members_ = 1;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// Messages between two members meet in their order: MPI matches those of one tag so. Receives are posted first, so that
// what arrives need not be kept elsewhere.
class ExchangeOperation final : public MessageOperation {
 public:
  ExchangeOperation(MPI_Comm comm, DType dtype, std::vector<Transfer> transfers, std::vector<std::int64_t> counts)
      : comm_(comm),
        type_(type_of(dtype)),
        transfers_(std::move(transfers)),
        counts_(std::move(counts)),
        requests_(transfers_.size(), MPI_REQUEST_NULL) {}

  void post(std::span<std::byte* const> memory) override {
    require(memory.size() == transfers_.size(), "every transfer has its memory");
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      if (transfers_[i].direction != Direction::receive) continue;
      check(MPI_Irecv(memory[i], count(i), type_, transfers_[i].peer, 0, comm_, &requests_[i]), "MPI_Irecv");
    }
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      if (transfers_[i].direction != Direction::send) continue;
      check(MPI_Isend(memory[i], count(i), type_, transfers_[i].peer, 0, comm_, &requests_[i]), "MPI_Isend");
    }
  }

  bool test() override {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    return done != 0;
  }

 private:
  [[nodiscard]] int count(std::size_t i) const { return static_cast<int>(counts_[i]); }

  MPI_Comm comm_;
  MPI_Datatype type_;
  std::vector<Transfer> transfers_;
  std::vector<std::int64_t> counts_;
  std::vector<MPI_Request> requests_;
};

class BarrierOperation final : public MessageOperation {
 public:
  explicit BarrierOperation(MPI_Comm comm) : comm_(comm) {}

  void post(std::span<std::byte* const> /*memory*/) override { check(MPI_Ibarrier(comm_, &request_), "MPI_Ibarrier"); }
  bool test() override {
    int done = 0;
    check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

 private:
  MPI_Comm comm_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

Group::~Group() {
  if (!broken_) MPI_Comm_free(&comm_);
}

std::unique_ptr<MessageOperation> Group::collective(const Collective& what) {
  return std::make_unique<CollectiveOperation>(comm_, what);
}

std::unique_ptr<MessageOperation> Group::exchange(DType dtype, const std::vector<Transfer>& transfers,
                                                  const std::vector<std::int64_t>& counts) {
  return std::make_unique<ExchangeOperation>(comm_, dtype, transfers, counts);
}

std::unique_ptr<MessageOperation> make_barrier(MPI_Comm comm) { return std::make_unique<BarrierOperation>(comm); }

}  // namespace ovl::mpi
