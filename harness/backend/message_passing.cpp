// SPDX-License-Identifier: Apache-2.0
#include "backend/message_passing.hpp"

#include "base/error.hpp"

namespace ovl {
namespace {

bool has(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

// What started this process, as far as MPI is concerned.
struct MpiLauncher {
  std::string library;  // that it starts; empty: it serves several, or none
  std::string words;    // for people
};

MpiLauncher launcher_of(const Environment& environment) {
  if (has(environment, "OMPI_COMM_WORLD_SIZE")) return {open_mpi_library, "Open MPI's mpirun"};
  // Slurm speaks both languages, and some libraries speak both too.
  const bool slurm = has(environment, "SLURM_STEP_ID") || has(environment, "SLURM_STEPID");
  if (has(environment, "PMI_SIZE") && !slurm) return {mpich_library, "MPICH's mpiexec"};
  return {};
}

}  // namespace

std::string launched_library(const Environment& environment) {
  if (std::string library = launcher_of(environment).library; !library.empty()) return library;
  // What srun's --mpi= prepared the process for.
  if (has(environment, "PMI_SIZE")) return mpich_library;
  return has(environment, "PMIX_NAMESPACE") ? open_mpi_library : "";
}

std::string message_library(const Environment& environment, const std::string& wanted) {
  const std::string named = wanted == "mpi" ? "" : wanted.substr(wanted.find('-') + 1);
  const MpiLauncher launcher = launcher_of(environment);
  if (!named.empty() && !launcher.library.empty() && named != launcher.library) {
    throw usage_error("transport " + wanted + " under " + launcher.words,
                      "another library's launcher leaves every process alone",
                      "start it with mpiexec." + named + ", or type --transport mpi-" + launcher.library);
  }
  if (!named.empty()) return named;
  if (std::string library = launched_library(environment); !library.empty()) return library;
  throw usage_error("transport mpi without an MPI launcher", "its ranks are processes, which mpirun or srun starts",
                    "type for example mpirun -n 2 and then the command, or srun --mpi=pmix; --transport mpi-openmpi or "
                    "mpi-mpich names the library");
}

}  // namespace ovl
