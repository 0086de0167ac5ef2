// SPDX-License-Identifier: Apache-2.0
//
// Is the shm transport as good as it should be? Its out-of-place f32 all_reduce of two ranks beside MPI's blocking
// MPI_Allreduce on the same two cores in the same run:
//
//   MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=8589934592 mpirun -np 2 --bind-to core shm_vs_mpi
//
// The two settings keep MPI's temporaries mapped; without them 32 MiB and above compare allocators. MPI's rank 0 runs
// our session while its rank 1 sleeps. Sizes and sides are measured in random order, round by round; a row gives n/t in
// GB/s, median (min .. max) over the rounds, and the ratio within each round.
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "backend/host/host.hpp"
#include "base/random.hpp"
#include "program/builder.hpp"

namespace ovl {
namespace {

constexpr std::array<std::int64_t, 6> sizes{1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
constexpr int rounds = 9;
// Bytes that one measurement reduces, so that each takes tens of milliseconds.
constexpr std::int64_t bytes_a_measurement = std::int64_t{128} << 20;

int calls_for(std::int64_t size) { return static_cast<int>(std::clamp(bytes_a_measurement / size, {4}, {1000})); }

// A barrier that does not keep the waiting process's core busy.
void sleepy_barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) usleep(500);
  }
}

double mpi_time(const std::vector<float>& in, std::vector<float>& out, std::int64_t size) {
  const int count = static_cast<int>(size / 4);
  const int calls = calls_for(size);
  MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return (MPI_Wtime() - begin) / calls;
}

std::unique_ptr<Prepared> prepare(Backend& host, std::int64_t size) {
  ProgramBuilder p("all_reduce", 2);
  const LaneId lane =
      p.lane({.name = "comm", .role = Role::communication, .partition = Partition::by_rank, .waiting = Waiting::spin});
  const CommId comm = p.world("world", "shm", 1);
  const BufferId in = p.buffer({.name = "in", .count = size / 4});
  const BufferId out = p.buffer({.name = "out", .count = size / 4});
  ClassBuilder all = p.all_ranks();
  all.prologue(lane, Fill{}, {}, {p.whole(in)});
  for (int i = 0; i < calls_for(size); ++i) {
    all.body(lane, Collective{CollectiveKind::all_reduce, comm, DType::f32, size / 4, 0}, {p.whole(in)},
             {p.whole(out)});
  }
  std::vector<Program> arms;
  arms.push_back(std::move(p).finish());
  return host.prepare(std::move(arms), Data::random, 1);
}

double shm_time(Prepared& prepared, std::int64_t size) { return prepared.run(0, {}).step().value() / calls_for(size); }

std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%6.2f (%6.2f .. %6.2f)", values[values.size() / 2], values.front(),
                values.back());
  return text.data();
}

void allow(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  sched_setaffinity(0, sizeof set, &set);
}

void compare(int rank) {
  const int core = sched_getcpu();  // bound by mpirun
  std::array<int, 2> cores{};
  MPI_Gather(&core, 1, MPI_INT, cores.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  const auto world = make_solo_world();
  std::unique_ptr<Backend> host;
  std::vector<std::unique_ptr<Prepared>> prepared;
  if (rank == 0) {
    // Our two ranks need both cores for as long as the session looks which ones it may use.
    allow({cores[0], cores[1]});
    host = open_host(*world, {.ranks = 2, .cores = {cores[0], cores[1]}}, {});
    for (const std::int64_t size : sizes) prepared.push_back(prepare(*host, size));
    allow({core});
  }

  std::vector<float> in(static_cast<std::size_t>(sizes.back() / 4), 1.0F);
  std::vector<float> out(in.size(), 0.0F);
  std::array<std::vector<double>, sizes.size()> ours;
  std::array<std::vector<double>, sizes.size()> theirs;
  Random random(1);  // the same on both processes
  for (int round = 0; round < rounds; ++round) {
    for (const std::size_t job : random.permutation(2 * sizes.size())) {
      const std::size_t s = job / 2;
      sleepy_barrier();
      const auto rate = [&](double time) { return static_cast<double>(sizes[s]) / time * 1e-9; };
      if (job % 2 == 0) {
        theirs[s].push_back(rate(mpi_time(in, out, sizes[s])));
      } else if (rank == 0) {
        shm_time(*prepared[s], sizes[s]);
        ours[s].push_back(rate(shm_time(*prepared[s], sizes[s])));
      }
    }
  }
  if (rank != 0) return;
  std::printf("%10s  %-26s  %-26s  %s\n", "size", "shm GB/s", "MPI GB/s", "ratio");
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    std::vector<double> ratio;
    for (std::size_t r = 0; r < ours[s].size(); ++r) ratio.push_back(ours[s][r] / theirs[s][r]);
    std::printf("%10s  %-26s  %-26s  %s\n", format_bytes(Bytes(sizes[s])).c_str(), spread(ours[s]).c_str(),
                spread(theirs[s]).c_str(), spread(ratio).c_str());
  }
}

}  // namespace
}  // namespace ovl

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ovl::compare(rank);
  MPI_Finalize();
}
