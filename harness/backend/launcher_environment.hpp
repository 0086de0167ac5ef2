// SPDX-License-Identifier: Apache-2.0
//
// Which process of how many this is, by what its launcher said in the environment. A pure function, so that every
// launcher is a test.
//
// The innermost launcher counts, and it is found in this order, because a process that one of them started may have
// inherited the variables of those behind it:
//
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID. Its agent
//              serves a store on MASTER_PORT where TORCHELASTIC_USE_AGENT_STORE is True: World then takes the port
//              above
//   Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; the job is PMIX_NAMESPACE
//   MPICH      PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (hydra, and Intel MPI); srun --mpi=pmi2 sets the
//              first two
//   srun       SLURM_PROCID, SLURM_STEP_NUM_TASKS (or SLURM_NTASKS), SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE. Only
//              within a step: sbatch and salloc set most of these too, for a shell that is one process
//
// A size of 1, or no launcher: one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ovl {

inline constexpr std::size_t longest_token = 4096;

using Environment = std::map<std::string, std::string>;

// This process's environment.
Environment read_environment();

struct Launched {
  std::string launcher;  // "torchrun", "Open MPI", "MPICH", "srun"; empty: none
  int process = 0;
  int size = 1;
  int local_process = 0;  // among those on this machine
  int local_size = 1;     // 0: the launcher does not say, and the processes find out when they meet
  std::string host;       // where process 0 listens; empty with one process
  int port = 0;
  std::string job;           // the same on all processes of a job; no secret
  bool job_guessed = false;  // the launcher names none, and the parent process's number stands for it

  friend bool operator==(const Launched&, const Launched&) = default;
};

// `master` is what --master says, "host:port" or empty: it wins over MASTER_ADDR and MASTER_PORT, and these over a
// default, which exists where all processes are on one machine (127.0.0.1) or srun names the step's machines (the
// first). A default's port is one of 20000 to 29999 that follows from the job, below those that systems hand out.
// `parent` is the parent process's number: on one machine it stands for a job that its launcher did not name, unless
// OVERLAPBENCH_TOKEN or OVERLAPBENCH_TOKEN_FILE is set (where a wrapper starts each process, parents differ).
// Throws Error(usage) for settings that are incomplete, contradict each other or name no place to meet.
Launched launched_by(const Environment& environment, const std::string& master, std::int64_t parent);

// What a process shows to be let in: OVERLAPBENCH_TOKEN, else the text of the file that OVERLAPBENCH_TOKEN_FILE names,
// which nobody else may read, else the job. A job is no secret: whoever can reach the port and list processes may guess
// it, so on a machine shared with people you do not trust set one of the variables. It is sent as it is: the network
// between the processes is trusted, as that of NCCL and MPI is. Throws Error(usage).
std::string job_token(const Environment& environment, const std::string& job);

// "node[07-09,11],login" -> "node07": the first machine of a Slurm node list.
std::string first_node(const std::string& node_list);

}  // namespace ovl
