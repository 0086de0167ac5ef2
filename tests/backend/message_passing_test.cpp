// SPDX-License-Identifier: Apache-2.0
#include "backend/message_passing.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace ovl {
namespace {

const Environment by_open_mpi{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "1234.1"}};
const Environment by_hydra{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "8"}};
const Environment by_srun_pmix{{"SLURM_STEP_ID", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}};
const Environment by_srun_pmi2{{"SLURM_STEP_ID", "0"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
const Environment by_torchrun{{"RANK", "0"}, {"WORLD_SIZE", "2"}};

std::string error_of(const Environment& environment, const std::string& wanted) {
  try {
    return "chose " + message_library(environment, wanted);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
}

TEST(MessageLibrary, IsThatOfTheLauncher) {
  EXPECT_EQ(message_library(by_open_mpi, "mpi"), "openmpi");
  EXPECT_EQ(message_library(by_hydra, "mpi"), "mpich");
  EXPECT_EQ(message_library(by_srun_pmix, "mpi"), "openmpi");
  EXPECT_EQ(message_library(by_srun_pmi2, "mpi"), "mpich");
}

TEST(MessageLibrary, ThatIsNamedIsTakenWhereTheLauncherDoesNotContradict) {
  EXPECT_EQ(message_library(by_open_mpi, "mpi-openmpi"), "openmpi");
  EXPECT_EQ(message_library(by_hydra, "mpi-mpich"), "mpich");
  // Slurm starts either, whatever the language that it was told to speak.
  EXPECT_EQ(message_library(by_srun_pmi2, "mpi-openmpi"), "openmpi");
  EXPECT_EQ(message_library(by_srun_pmix, "mpi-mpich"), "mpich");
  EXPECT_EQ(message_library({}, "mpi-mpich"), "mpich");
}

TEST(MessageLibrary, OfAnotherLauncherWouldBeAloneInEveryProcess) {
  EXPECT_EQ(error_of(by_hydra, "mpi-openmpi"),
            "transport mpi-openmpi under MPICH's mpiexec: another library's launcher leaves every process alone; start "
            "it with mpiexec.openmpi, or type --transport mpi-mpich");
  EXPECT_EQ(error_of(by_open_mpi, "mpi-mpich"),
            "transport mpi-mpich under Open MPI's mpirun: another library's launcher leaves every process alone; start "
            "it with mpiexec.mpich, or type --transport mpi-openmpi");
}

TEST(MessageLibrary, CannotBeGuessedWithoutALauncher) {
  for (const Environment& environment : {Environment{}, by_torchrun}) {
    EXPECT_EQ(error_of(environment, "mpi"),
              "transport mpi without an MPI launcher: its ranks are processes, which mpirun or srun starts; type for "
              "example mpirun -n 2 and then the command, or srun --mpi=pmix; --transport mpi-openmpi or mpi-mpich "
              "names the library");
    EXPECT_EQ(launched_library(environment), "");
  }
}

}  // namespace
}  // namespace ovl
