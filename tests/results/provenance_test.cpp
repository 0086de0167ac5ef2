// SPDX-License-Identifier: Apache-2.0
#include "results/provenance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "results/build_info.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

ProvenanceInput input() {
  return {.bench = "pair",
          .seed = 18446744073709551615ULL,
          .command_line = {"overlap-pair", "--gemm", "64x64x64"},
          .settings = {{"precision", "0.02"}},
          .backend = {.backend = "host", .device = "2 cores", .facts = {{"openblas", "0.3.21 SkylakeX"}}},
          .tables = {samples_schema(), summary_schema({})}};
}

// Sets a variable for the length of a test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Provenance, IdentitySaysWhatRowsOfOneTableShare) {
  const json identity = collect_provenance(input()).at("identity");
  EXPECT_EQ(identity.at("bench"), "pair");
  EXPECT_EQ(identity.at("seed").get<std::uint64_t>(), 18446744073709551615ULL);
  EXPECT_EQ(identity.at("settings"), (json{{"precision", "0.02"}}));
  EXPECT_EQ(identity.at("backend"),
            (json{{"name", "host"}, {"device", "2 cores"}, {"facts", {{"openblas", "0.3.21 SkylakeX"}}}}));
  EXPECT_EQ(identity.at("build").at("version"), std::string(build_info().version));
  EXPECT_EQ(identity.at("machine").at("logical_cpus"), ::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_EQ(identity.at("machine").at("kernel").get<std::string>().substr(0, 6), "Linux ");
}

TEST(Provenance, RunSaysWhatDiffersFromStartToStart) {
  const json run = collect_provenance(input()).at("run");
  EXPECT_EQ(run.at("command_line"), (json{"overlap-pair", "--gemm", "64x64x64"}));
  EXPECT_EQ(run.at("pid"), ::getpid());
  EXPECT_GT(run.at("memory").get<std::int64_t>(), std::int64_t{1} << 20);
  EXPECT_THAT(run.at("date").get<std::string>(),
              MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z"));
}

TEST(Provenance, TwoCollectionsOfOneProcessAreTheSameRun) {
  ProvenanceInput later = input();
  later.command_line.emplace_back("--resume");
  EXPECT_EQ(collect_provenance(input()).at("identity"), collect_provenance(later).at("identity"));
}

TEST(Provenance, TakesAllowedVariablesAndNoOthers) {
  const Environment algorithm("NCCL_ALGO", "Ring=1");
  const Environment empty("OPENBLAS_CORETYPE", "");
  const Environment job("SLURM_JOB_ID", "12");
  const Environment rank("OMPI_COMM_WORLD_RANK", "0");
  const Environment chosen("OMPI_MCA_btl", "self,vader");
  const Environment secret("MY_TOKEN", "secret-value");
  const Environment key("OMPI_MCA_orte_precondition_transports", "secret-value");
  const Environment alike("XNCCL_ALGO", "secret-value");
  const json all = collect_provenance(input());
  EXPECT_EQ(all.at("identity").at("environment").at("NCCL_ALGO"), "Ring=1");
  EXPECT_EQ(all.at("identity").at("environment").at("OPENBLAS_CORETYPE"), "");
  EXPECT_FALSE(all.at("identity").at("environment").contains("SLURM_JOB_ID"));
  EXPECT_EQ(all.at("run").at("environment").at("SLURM_JOB_ID"), "12");
  EXPECT_EQ(all.at("run").at("environment").at("OMPI_COMM_WORLD_RANK"), "0");
  EXPECT_EQ(all.at("run").at("environment").at("OMPI_MCA_btl"), "self,vader");
  EXPECT_THAT(all.dump(), Not(HasSubstr("secret-value")));
}

TEST(Provenance, DescribesEveryColumnOfEveryTable) {
  const json tables = collect_provenance(input()).at("tables");
  const Schema summary = summary_schema({});
  ASSERT_EQ(tables.at("summary").at("columns").size(), summary.columns.size());
  const json& column = tables.at("summary").at("columns").at(summary.index_of("t_step"));
  EXPECT_EQ(
      column,
      (json{
          {"name", "t_step"}, {"type", "real"}, {"unit", "s"}, {"description", "median step of the overlapped arm"}}));
  EXPECT_EQ(tables.at("samples").at("version"), samples_schema().version);
}

TEST(Provenance, AnotherColumnIsAnotherIdentity) {
  ProvenanceInput other = input();
  other.tables.back().columns.back().unit = "ms";
  EXPECT_NE(collect_provenance(input()).at("identity").at("schemas").at("summary"),
            collect_provenance(other).at("identity").at("schemas").at("summary"));
}

TEST(Provenance, ProcessesShareAllOfTheIdentityButTheMachine) {
  const std::string shared = shared_identity(collect_provenance(input()));
  EXPECT_THAT(shared, HasSubstr("\nbackend/facts/openblas = \"0.3.21 SkylakeX\"\n"));
  EXPECT_THAT(shared, HasSubstr("\nseed = 18446744073709551615\n"));
  EXPECT_THAT(shared, Not(HasSubstr("hostname")));
}

// A launcher gives each process a device of its own.
TEST(Provenance, ProcessesMaySeeDifferentDevices) {
  const Environment devices("CUDA_VISIBLE_DEVICES", "3");
  const Environment algorithm("NCCL_ALGO", "Ring=1");
  const json all = collect_provenance(input());
  EXPECT_EQ(all.at("identity").at("environment").at("CUDA_VISIBLE_DEVICES"), "3");
  EXPECT_THAT(shared_identity(all), Not(HasSubstr("CUDA_VISIBLE_DEVICES")));
  EXPECT_THAT(shared_identity(all), HasSubstr("NCCL_ALGO"));
}

TEST(Provenance, NamesTheProcessesOfARun) {
  EXPECT_EQ(collect_provenance(input()).at("run").at("processes"), json::array());
  EXPECT_TRUE(collect_provenance(input()).at("run").at("launcher").is_null());
  ProvenanceInput several = input();
  several.launcher = "srun";
  several.processes = {{{"host", "a"}, {"uuid", "GPU-1"}}, {{"host", "b"}, {"uuid", "GPU-2"}}};
  const json run = collect_provenance(several).at("run");
  EXPECT_EQ(run.at("launcher"), "srun");
  EXPECT_EQ(run.at("processes"), (json{{{"host", "a"}, {"uuid", "GPU-1"}}, {{"host", "b"}, {"uuid", "GPU-2"}}}));
}

TEST(BuildInfo, OnlyAnOptimisedBuildWithoutChecksIsARelease) {
  const BuildInfo release{.build_type = "Release", .sanitizers = "", .assertions = false};
  EXPECT_TRUE(release_build(release));
  EXPECT_FALSE(release_build({.build_type = "RelWithDebInfo"}));
  EXPECT_FALSE(release_build({.build_type = "Release", .sanitizers = "thread"}));
  EXPECT_FALSE(release_build({.build_type = "Release", .assertions = true}));
}

TEST(BuildInfo, IsStamped) {
  EXPECT_THAT(std::string(build_info().version), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(std::string(build_info().git_revision), MatchesRegex("unknown|[0-9a-f]+"));
  EXPECT_THAT(std::string(build_info().git_state), MatchesRegex("unknown|clean|dirty"));
  EXPECT_THAT(std::string(build_info().compiler), MatchesRegex("[A-Za-z]+ [0-9.]+"));
}

}  // namespace
}  // namespace ovl
