// SPDX-License-Identifier: Apache-2.0
#include "backend/launcher_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"

namespace ovl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

Launched launched(const Environment& environment, const std::string& master = "") {
  return launched_by(environment, master, 4711);
}

std::string complaint(const Environment& environment, const std::string& master = "") {
  try {
    launched(environment, master);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "none";
}

// The second process of the second of two nodes, as each launcher says it.
const Environment torchrun{{"RANK", "3"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "node01"},
                           {"MASTER_PORT", "29500"},
                           {"TORCHELASTIC_RUN_ID", "job7"},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment open_mpi{{"OMPI_COMM_WORLD_RANK", "3"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "prterun-node01-99@1"}};
const Environment mpich{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Environment srun{{"SLURM_PROCID", "3"},    {"SLURM_NTASKS", "4"},  {"SLURM_STEP_NUM_TASKS", "4"},
                       {"SLURM_LOCALID", "1"},   {"SLURM_NODEID", "1"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                       {"SLURM_JOB_ID", "1234"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "node[01-02]"}};

TEST(LaunchedBy, NobodyIsOneProcess) {
  EXPECT_EQ(launched({}), Launched{});
  EXPECT_EQ(launched({{"PATH", "/bin"}, {"RANK", ""}}), Launched{});
}

// Its agent has MASTER_PORT: the port above is ours.
TEST(LaunchedBy, Torchrun) {
  EXPECT_EQ(launched(torchrun), (Launched{"torchrun", 3, 4, 1, 2, "node01", 29501, "job7"}));
  EXPECT_EQ(launched(with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).port, 29500);
  EXPECT_EQ(launched(with(torchrun, {{"MASTER_PORT", "65535"}})).port, 65534) << "there is none above";
}

TEST(LaunchedBy, OpenMpi) {
  EXPECT_EQ(launched(open_mpi, "node01:29600"),
            (Launched{"Open MPI", 3, 4, 1, 2, "node01", 29600, "prterun-node01-99@1"}));
}

TEST(LaunchedBy, Mpich) {
  const Launched l = launched(mpich, "node01:29600");
  EXPECT_EQ(std::tuple(l.launcher, l.process, l.size, l.local_process, l.local_size), std::tuple("MPICH", 3, 4, 1, 2));
}

// Process 0 is on the first node of the step, so that nothing has to be typed.
TEST(LaunchedBy, Srun) {
  const Launched l = launched(srun);
  EXPECT_EQ(l, (Launched{"srun", 3, 4, 1, 2, "node01", l.port, "1234.0"}));
  EXPECT_GE(l.port, 20000);
  EXPECT_LT(l.port, 30000);
  EXPECT_NE(launched(with(srun, {{"SLURM_STEP_ID", "1"}})).port, l.port) << "two steps of a job do not meet";
}

// sbatch and salloc set the size of the allocation, and for the shell even a number.
TEST(LaunchedBy, AShellWithinASlurmJobIsOneProcess) {
  const Environment batch{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "1"}};
  EXPECT_EQ(launched(batch).size, 1);
  EXPECT_EQ(launched(with(batch, {{"SLURM_STEP_ID", "4294967291"}})).size, 1) << "the batch step";
  EXPECT_EQ(launched(with(batch, {{"SLURM_STEP_ID", "4294967290"}})).size, 1) << "salloc's interactive step";
  EXPECT_EQ(launched(with(batch, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})).size, 1)
      << "srun -n1 --pty bash";
}

TEST(LaunchedBy, ASizeOfOneIsOneProcess) {
  EXPECT_EQ(launched({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), Launched{.launcher = "torchrun"});
}

// On one machine nothing has to be typed either: 127.0.0.1 and a port that follows from the job.
TEST(LaunchedBy, OneMachineNeedsNoPlace) {
  const Environment one = with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(launched(one).host, "127.0.0.1");
  EXPECT_NE(launched(one).port, launched(with(one, {{"PMIX_NAMESPACE", "another"}})).port);
  // A launcher that names no job: its processes have the same parent.
  const Environment nameless = with(mpich, {{"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}});
  EXPECT_EQ(launched_by(nameless, "", 7), launched_by(nameless, "", 7));
  EXPECT_NE(launched_by(nameless, "", 7).port, launched_by(nameless, "", 8).port);
}

// By hand: the machines are counted when the processes meet.
TEST(LaunchedBy, WhoSharesAMachineMayBeOpen) {
  const Environment hand{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(launched(hand), (Launched{"torchrun", 1, 2, 0, 0, "::1", 29500, ""}));
}

TEST(LaunchedBy, MasterOnTheCommandLineWins) {
  EXPECT_EQ(launched(torchrun, "other:1").host, "other");
  EXPECT_EQ(launched(torchrun, "[fe80::1]:29600").host, "fe80::1");
  EXPECT_EQ(launched(with(srun, {{"MASTER_ADDR", "node09"}, {"MASTER_PORT", "7"}})).host, "node09");
}

// torchrun once a node by srun, mpirun inside of sbatch or of a step.
TEST(LaunchedBy, TheInnermostLauncherCounts) {
  const Environment outer = with(srun, {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_EQ(launched(with(outer, torchrun)).launcher, "torchrun");
  EXPECT_EQ(launched(with(outer, open_mpi), "a:1").launcher, "Open MPI");
  EXPECT_EQ(launched(with(outer, mpich), "a:1").launcher, "MPICH");
}

// srun --mpi=pmi2: the same processes, counted twice.
TEST(LaunchedBy, SlurmTellsMpichWhoSharesAMachine) {
  const Environment both = with(srun, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
  const Launched l = launched(both, "a:1");
  EXPECT_EQ(std::tuple(l.local_process, l.local_size, l.job), std::tuple(1, 2, "1234.0"));
}

TEST(LaunchedBy, SaysWhatIsIncompleteOrContradictsItself) {
  EXPECT_EQ(
      complaint({{"RANK", "0"}}),
      "RANK is set and WORLD_SIZE is not: torchrun sets both; start with torchrun, srun or mpirun, or unset RANK");
  EXPECT_THAT(complaint({{"PMI_SIZE", "2"}}), StartsWith("PMI_SIZE is set and PMI_RANK is not"));
  EXPECT_THAT(complaint({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
              StartsWith("RANK=2 with WORLD_SIZE=2: processes are numbered from 0"));
  EXPECT_THAT(complaint({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), StartsWith("RANK=\"x\" is no number of processes"));
  EXPECT_THAT(complaint({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), StartsWith("RANK=\"-1\" is no number"));
  EXPECT_THAT(complaint({{"RANK", "0"}, {"WORLD_SIZE", "99999999999999999999"}}), HasSubstr("is no number"));
  EXPECT_THAT(complaint(with(torchrun, {{"LOCAL_RANK", "2"}})), StartsWith("LOCAL_RANK=2 with LOCAL_WORLD_SIZE=2"));
  EXPECT_THAT(complaint(with(torchrun, {{"LOCAL_WORLD_SIZE", "5"}})),
              StartsWith("LOCAL_WORLD_SIZE=4 with WORLD_SIZE=4"));
  EXPECT_THAT(complaint(with(torchrun, {{"LOCAL_WORLD_SIZE", ""}})),
              StartsWith("LOCAL_RANK is set and LOCAL_WORLD_SIZE is not"));
  EXPECT_EQ(
      complaint(with(torchrun, {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}})),
      "torchrun says that this is process 3 of 4, Open MPI says process 1: their variables contradict each other; "
      "unset those of the one that did not start it");
}

TEST(LaunchedBy, SaysWhereNothingSaysWhereTheyMeet) {
  EXPECT_EQ(
      complaint(open_mpi),
      "Open MPI started 4 processes and nothing says where they meet: process 0 listens at an address that all can "
      "reach; type --master host:port with the machine of process 0 and a free port");
}

TEST(LaunchedBy, SaysWhatIsNoPlace) {
  for (const char* place : {"node01", "node01:", ":29500", "node01:0", "node01:65536", "node01:x", "node01:-1"}) {
    EXPECT_EQ(complaint(torchrun, place), std::string("--master \"") + place +
                                              "\" is not host:port: process 0 listens there, the others connect; type "
                                              "for example --master node01:29600");
  }
  EXPECT_THAT(complaint(torchrun, "fe80::1:29500"), HasSubstr("write an IPv6 address in brackets"));
  EXPECT_THAT(complaint({}, "node01:29500"), AllOf(HasSubstr("with one process"), HasSubstr("WORLD_SIZE")));
}

TEST(FirstNode, OfANodeList) {
  EXPECT_EQ(first_node("node07"), "node07");
  EXPECT_EQ(first_node("node07,node08"), "node07");
  EXPECT_EQ(first_node("node[07-09,11],login"), "node07");
  EXPECT_EQ(first_node("node[7,9]"), "node7");
  EXPECT_EQ(first_node("rack[1-2]n[03-04]"), "rack1n03");
  EXPECT_EQ(first_node("node[07-09].cluster,x"), "node07.cluster");
  EXPECT_EQ(first_node(""), "");
  EXPECT_EQ(first_node("node[07"), "");
}

class TokenFile : public testing::Test {
 protected:
  ~TokenFile() override { std::filesystem::remove(path_); }
  std::string token_of(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    EXPECT_EQ(::chmod(path_.c_str(), mode), 0);
    try {
      return job_token({{"OVERLAPBENCH_TOKEN_FILE", path_}}, "job");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
  }

 private:
  std::string path_ =
      testing::TempDir() + "token_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".txt";
};

TEST_F(TokenFile, IsReadWhereOnlyItsOwnerMay) {
  EXPECT_EQ(token_of("s3cret\nmore\n", 0600), "s3cret");
  EXPECT_THAT(token_of("s3cret\n", 0640), HasSubstr("others may read or write it; name a file"));
  EXPECT_THAT(token_of("s3cret\n", 0602), HasSubstr("others may read or write it"));
}
TEST_F(TokenFile, HasALine) { EXPECT_THAT(token_of("\n", 0600), HasSubstr("its first line is empty")); }

TEST(JobToken, IsTheEnvironmentsOrTheJob) {
  EXPECT_EQ(job_token({}, "job"), "job");
  EXPECT_EQ(job_token({{"OVERLAPBENCH_TOKEN", "t"}, {"OVERLAPBENCH_TOKEN_FILE", "none"}}, "job"), "t");
  EXPECT_THROW(job_token({{"OVERLAPBENCH_TOKEN_FILE", "no such file"}}, "job"), Error);
  EXPECT_THROW(job_token({{"OVERLAPBENCH_TOKEN", std::string(longest_token + 1, 'x')}}, "job"), Error);
}

// Where a wrapper starts each process, their parents differ: a token that the user sets names the job then.
TEST(LaunchedBy, AJobWithoutANameIsThatOfTheTokenOrOfTheParent) {
  const Environment one_machine{
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const Launched guessed = launched(one_machine);
  EXPECT_EQ(guessed.job, "child of 4711");
  EXPECT_TRUE(guessed.job_guessed);
  const Environment named = with(one_machine, {{"OVERLAPBENCH_TOKEN", "my secret"}});
  const Launched one = launched_by(named, "", 1);
  const Launched other = launched_by(named, "", 2);
  EXPECT_FALSE(one.job_guessed);
  EXPECT_EQ(one, other) << "they meet at the same port whatever their parents are";
  EXPECT_EQ(one.job.find("secret"), std::string::npos) << "a job is no secret";
  EXPECT_NE(launched(with(one_machine, {{"OVERLAPBENCH_TOKEN_FILE", "/run/token"}})).job, guessed.job);
  EXPECT_FALSE(launched(torchrun).job_guessed);
}

}  // namespace
}  // namespace ovl
