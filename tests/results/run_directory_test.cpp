// SPDX-License-Identifier: Apache-2.0
#include "results/run_directory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "results/schema.hpp"

namespace ovl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const Schema& summary_with_bytes() {
  static const Schema schema = summary_schema({{"bytes", ColumnType::integer, "B", "size of the collective"}});
  return schema;
}

const json& provenance() {
  static const json p{{"identity", {{"bench", "pair"}, {"seed", 7}, {"cpu", {{"model", "a cpu"}, {"cores", 2}}}}},
                      {"run", {{"date", "2026-01-02T03:04:05Z"}}}};
  return p;
}

struct Case {
  std::vector<Row> samples;
  std::vector<Row> operations;
  Row row{summary_with_bytes()};
};

Case make_case(const std::string& key, std::int64_t launch = 0, std::int64_t replays = 2) {
  Case c;
  for (std::int64_t round = 0; round < replays; ++round) {
    c.samples.emplace_back(samples_schema());
    c.samples.back().set("key", key).set("launch", launch).set("round", round).set("step", 0.1);
  }
  c.operations.emplace_back(operations_schema());
  c.operations.back().set("key", key).set("launch", launch).set("lane", "ring, up");
  c.row.set("key", key).set("launch", launch).set("status", "ok").set("bytes", std::int64_t{1024});
  return c;
}

// Of a bench that looks over time.
json with_series() {
  json p = provenance();
  p["tables"]["series"] = {{"version", 1}};
  return p;
}

std::vector<Row> rows_of_series(const std::string& key) {
  std::vector<Row> rows;
  for (const double time : {0.0, 0.5}) {
    rows.emplace_back(series_schema());
    rows.back().set("key", key).set("launch", std::int64_t{0}).set("time_s", time).set("backlog", 4.0);
  }
  return rows;
}

void commit(RunDirectory& run, const Case& c) { run.commit(c.samples, c.operations, c.row); }

std::vector<std::string> keys(const std::vector<Row>& rows) {
  std::vector<std::string> all;
  for (const Row& row : rows) all.push_back(std::get<std::string>(row.at("key")));
  return all;
}

// One column of a table as it stands in the file. Fails when the file does not parse or holds half a line.
std::vector<std::string> column(const fs::path& file, const Schema& schema, const std::string& name) {
  const std::string text = read_text(file);
  EXPECT_THAT(text, EndsWith("\n"));
  std::vector<std::string> values;
  for (const auto& record : parse_csv(text)) values.push_back(record.at(schema.index_of(name)));
  EXPECT_FALSE(values.empty());
  values.erase(values.begin());
  return values;
}

// The kind and text of the Error that `action` throws.
std::pair<ErrorKind, std::string> error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// Runs `body` in a forked process and returns its wait status.
int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      ::_exit(2);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectoryTest() {
    std::string name = (fs::temp_directory_path() / "ovl-run-XXXXXX").string();
    base_ = ::mkdtemp(name.data());
    path_ = base_ / "run";
  }
  ~RunDirectoryTest() override { fs::remove_all(base_); }

  RunDirectory create() { return RunDirectory::create(path_, provenance(), summary_with_bytes()); }
  RunDirectory resume(Lock lock = Lock::take) {
    return RunDirectory::resume(path_, provenance(), summary_with_bytes(), lock);
  }

  fs::path base_;
  fs::path path_;
};

TEST_F(RunDirectoryTest, HoldsEveryTableFromTheStart) {
  const RunDirectory run = create();
  EXPECT_EQ(run.path(), path_);
  EXPECT_TRUE(run.rows().empty());
  EXPECT_EQ(read_text(path_ / "samples.csv"), csv_header(samples_schema()));
  EXPECT_EQ(read_text(path_ / "operations.csv"), csv_header(operations_schema()));
  EXPECT_EQ(read_text(path_ / "summary.csv"), csv_header(summary_with_bytes()));
  EXPECT_EQ(json::parse(read_text(path_ / "run.json")), provenance());
}

TEST_F(RunDirectoryTest, CommitsACaseToAllTables) {
  RunDirectory run = create();
  const Case c = make_case("a");
  commit(run, c);
  EXPECT_EQ(read_text(path_ / "samples.csv"),
            csv_header(samples_schema()) + csv_line(c.samples[0]) + csv_line(c.samples[1]));
  EXPECT_EQ(read_text(path_ / "operations.csv"), csv_header(operations_schema()) + csv_line(c.operations[0]));
  EXPECT_EQ(read_text(path_ / "summary.csv"), csv_header(summary_with_bytes()) + csv_line(c.row));
  EXPECT_TRUE(run.finished("a", 0));
  EXPECT_FALSE(run.finished("a", 1));
  EXPECT_FALSE(run.finished("b", 0));
}

TEST_F(RunDirectoryTest, CommitsACaseWithoutSamples) {
  RunDirectory run = create();
  Row skipped(summary_with_bytes());
  skipped.set("key", "a").set("launch", std::int64_t{0}).set("status", "skipped").set("reason", "too, \"large\"");
  run.commit({}, {}, skipped);
  EXPECT_TRUE(run.finished("a", 0));
  EXPECT_EQ(run.rows().front().at("reason"), Value{std::string("too, \"large\"")});
}

TEST_F(RunDirectoryTest, RefusesACaseTwiceAndSamplesOfAnotherCase) {
  RunDirectory run = create();
  commit(run, make_case("a"));
  EXPECT_THROW(commit(run, make_case("a")), std::logic_error);
  Case mixed = make_case("b");
  mixed.samples.push_back(make_case("c").samples.front());
  EXPECT_THROW(commit(run, mixed), std::logic_error);
  EXPECT_EQ(column(path_ / "samples.csv", samples_schema(), "key"), (std::vector<std::string>{"a", "a"}));
}

TEST_F(RunDirectoryTest, ResumesWhereItStopped) {
  {
    RunDirectory run = create();
    commit(run, make_case("a"));
    commit(run, make_case("b"));
  }
  RunDirectory run = resume();
  EXPECT_TRUE(run.finished("a", 0) && run.finished("b", 0));
  EXPECT_THAT(keys(run.rows()), ElementsAre("a", "b"));
  EXPECT_EQ(run.rows()[0].values(), make_case("a").row.values());
  commit(run, make_case("c"));
  EXPECT_THAT(keys(run.rows()), ElementsAre("a", "b", "c"));
  EXPECT_THAT(column(path_ / "summary.csv", summary_with_bytes(), "key"), ElementsAre("a", "b", "c"));
}

TEST_F(RunDirectoryTest, ARunRemembersWhenItWasResumed) {
  create();
  json later = provenance();
  later["run"]["date"] = "2026-02-03T04:05:06Z";
  RunDirectory::resume(path_, later, summary_with_bytes());
  const json run = json::parse(read_text(path_ / "run.json"));
  EXPECT_EQ(run.at("run"), provenance().at("run"));
  EXPECT_EQ(run.at("resumed"), json::array({later.at("run")}));
}

TEST_F(RunDirectoryTest, ResumeDropsACaseWithoutASummaryRowAndHalfALine) {
  {
    RunDirectory run = create();
    commit(run, make_case("a"));
  }
  const std::string samples = read_text(path_ / "samples.csv");
  AppendFile(path_ / "samples.csv").append(csv_line(make_case("b").samples[0]) + "b,0,");
  AppendFile(path_ / "operations.csv").append(csv_line(make_case("b").operations[0]));
  AppendFile(path_ / "summary.csv").append("b,pair");
  const RunDirectory run = resume();
  EXPECT_THAT(keys(run.rows()), ElementsAre("a"));
  EXPECT_EQ(read_text(path_ / "samples.csv"), samples);
  EXPECT_THAT(column(path_ / "operations.csv", operations_schema(), "key"), ElementsAre("a"));
  EXPECT_THAT(column(path_ / "summary.csv", summary_with_bytes(), "key"), ElementsAre("a"));
}

TEST_F(RunDirectoryTest, ResumeRefusesTablesThatItCannotRead) {
  create();
  replace_text(path_ / "samples.csv", "key,launch\n");
  const auto [kind, text] = error_of([&] { resume(); });
  EXPECT_EQ(kind, ErrorKind::failure);
  EXPECT_EQ(text, "cannot read " + (path_ / "samples.csv").string() +
                      ": its columns are not those that this version writes; name another --out");
}

TEST_F(RunDirectoryTest, ResumeRefusesARowWithoutAKey) {
  {
    RunDirectory run = create();
    commit(run, make_case("a"));
  }
  const std::string text = read_text(path_ / "summary.csv");
  replace_text(path_ / "summary.csv", text + text.substr(text.find(',', text.find('\n'))));
  const auto [kind, what] = error_of([&] { resume(); });
  EXPECT_EQ(kind, ErrorKind::failure);
  EXPECT_THAT(what, HasSubstr("/summary.csv: a row has no key or no launch: row 2"));
}

// Whoever resumes a directory of somebody else writes to its own files and to no others.
TEST_F(RunDirectoryTest, ALinkOrAPipeInThePlaceOfAFileIsRefused) {
  { create(); }
  const fs::path elsewhere = path_.parent_path() / "elsewhere";
  for (const char* name : {"lock", "samples.csv", "operations.csv", "summary.csv"}) {
    const std::string text = read_text(path_ / name);
    replace_text(elsewhere, text);
    fs::remove(path_ / name);
    fs::create_symlink(elsewhere, path_ / name);
    const auto [kind, what] = error_of([&] { resume(); });
    EXPECT_EQ(kind, ErrorKind::failure);
    EXPECT_THAT(what, AllOf(HasSubstr(name), HasSubstr("it is a link, which may lead anywhere")));
    EXPECT_EQ(read_text(elsewhere), text) << name;
    fs::remove(path_ / name);
    ASSERT_EQ(::mkfifo((path_ / name).c_str(), 0600), 0);
    EXPECT_THAT(error_of([&] { resume(); }).second, HasSubstr("it is no file")) << name;
    fs::remove(path_ / name);
    replace_text(path_ / name, text);
  }
  fs::create_directory(elsewhere.string() + "-folder");
  fs::create_directory_symlink(elsewhere.string() + "-folder", path_ / "timeline");
  RunDirectory run = resume();
  EXPECT_THAT(error_of([&] { run.write_json("timeline/a.json", json::object()); }).second,
              HasSubstr("its folder is a link"));
}

TEST_F(RunDirectoryTest, ADerivedTableAndJsonAreReplacedWhole) {
  RunDirectory run = create();
  Row row(launches_schema());
  row.set("key", "a").set("launches", std::int64_t{5});
  run.write_table(launches_schema(), {row, row});
  run.write_table(launches_schema(), {row});
  EXPECT_EQ(read_text(path_ / "launches.csv"), csv_header(launches_schema()) + csv_line(row));
  run.write_json("timeline/a.json", {{"traceEvents", json::array()}});
  EXPECT_EQ(json::parse(read_text(path_ / "timeline" / "a.json")), (json{{"traceEvents", json::array()}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(path_ / "timeline"), fs::directory_iterator{}), 1);
}

// ---- where a run may begin -----------------------------------------------------------------------------------------

TEST_F(RunDirectoryTest, BeginsInAnEmptyDirectoryAndMakesMissingOnes) {
  fs::create_directories(path_);
  create();
  path_ = base_ / "deep" / "er" / "run";
  create();
  EXPECT_TRUE(fs::exists(path_ / "summary.csv"));
}

TEST_F(RunDirectoryTest, BeginsAgainWhereAProcessDiedBeforeItsRunHadAName) {
  fs::create_directories(path_);
  replace_text(path_ / "lock", "123\n");
  replace_text(path_ / ".run.json.new", "{");
  create();
  EXPECT_TRUE(fs::exists(path_ / "run.json"));
}

TEST_F(RunDirectoryTest, RefusesADirectoryThatHoldsAnotherRun) {
  create();
  const auto [kind, text] = error_of([&] { create(); });
  EXPECT_EQ(kind, ErrorKind::usage);
  EXPECT_EQ(text, "--out " + path_.string() +
                      " holds another run: it has operations.csv, run.json, samples.csv, summary.csv; add --resume to "
                      "continue that run, or name another --out");
}

TEST_F(RunDirectoryTest, RefusesADirectoryOfTheUserAndLeavesItAlone) {
  fs::create_directories(path_);
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) replace_text(path_ / name, "mine");
  const auto [kind, text] = error_of([&] { create(); });
  EXPECT_EQ(kind, ErrorKind::usage);
  EXPECT_EQ(text, "--out " + path_.string() + " is not empty: it has a, b, c, d and 2 more; name another --out");
  EXPECT_FALSE(fs::exists(path_ / "lock"));
}

TEST_F(RunDirectoryTest, RefusesAFile) {
  replace_text(path_, "mine");
  const auto [kind, text] = error_of([&] { create(); });
  EXPECT_EQ(kind, ErrorKind::usage);
  EXPECT_EQ(text, "--out " + path_.string() + " is not a directory; name another --out");
}

TEST_F(RunDirectoryTest, RefusesToResumeWhatIsNoRun) {
  const auto [kind, text] = error_of([&] { resume(); });
  EXPECT_EQ(kind, ErrorKind::usage);
  EXPECT_EQ(text,
            "there is no run to resume in " + path_.string() + ": it has no run.json; leave out --resume to begin one");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(RunDirectoryTest, RefusesToResumeElsewhereAndNamesEveryDifference) {
  create();
  json other = provenance();
  other["identity"]["seed"] = 8;
  other["identity"]["cpu"]["model"] = "another cpu";
  other["identity"]["cpu"].erase("cores");
  other["identity"]["driver"] = "560.1";
  other["run"]["date"] = "any";
  const auto [kind, text] = error_of([&] { RunDirectory::resume(path_, other, summary_with_bytes()); });
  EXPECT_EQ(kind, ErrorKind::usage);
  EXPECT_EQ(text, "cannot resume the run in " + path_.string() +
                      ": cpu.cores: was 2, is absent; cpu.model: was \"a cpu\", is \"another cpu\"; driver: was "
                      "absent, is \"560.1\"; seed: was 7, is 8; continue it as it began, or name another --out");
}

// ---- one process at a time -----------------------------------------------------------------------------------------

TEST_F(RunDirectoryTest, ASecondProcessIsRefusedWithTheHolder) {
  const RunDirectory run = create();
  const auto [kind, text] = error_of([&] { resume(); });
  EXPECT_EQ(kind, ErrorKind::failure);
  EXPECT_EQ(text, "another process writes to " + path_.string() + ": process " + std::to_string(::getpid()) +
                      " holds the lock; wait for it to end or name another --out");
}

TEST_F(RunDirectoryTest, ChildrenWriteWhileTheParentHoldsTheLock) {
  RunDirectory run = create();
  for (std::int64_t launch = 0; launch < 3; ++launch) {
    const int status = in_child([&] {
      RunDirectory child = resume(Lock::inherited);
      commit(child, make_case("a", launch));
    });
    ASSERT_EQ(status, 0);
  }
  EXPECT_TRUE(run.rows().empty());
  run.reload();
  EXPECT_THAT(keys(run.rows()), ElementsAre("a", "a", "a"));
  EXPECT_TRUE(run.finished("a", 2));
  commit(run, make_case("b"));
  EXPECT_THAT(column(path_ / "summary.csv", summary_with_bytes(), "launch"), ElementsAre("0", "1", "2", "0"));
  EXPECT_FALSE(json::parse(read_text(path_ / "run.json")).contains("resumed"));
}

TEST_F(RunDirectoryTest, AParentThatForgetsToReloadIsRefused) {
  RunDirectory run = create();
  ASSERT_EQ(in_child([&] {
              RunDirectory child = resume(Lock::inherited);
              commit(child, make_case("a"));
            }),
            0);
  const auto [kind, text] = error_of([&] { commit(run, make_case("b")); });
  EXPECT_EQ(kind, ErrorKind::failure);
  EXPECT_THAT(text, HasSubstr("samples.csv: another process has changed it"));
}

TEST_F(RunDirectoryTest, AChildIsRefusedWhenNobodyHoldsTheLock) {
  create();
  const auto [kind, text] = error_of([&] { resume(Lock::inherited); });
  EXPECT_EQ(kind, ErrorKind::failure);
  EXPECT_THAT(text, StartsWith("no process holds the lock of " + path_.string()));
}

TEST_F(RunDirectoryTest, AChildKeepsTheLockWhenItsParentDies) {
  create();
  int ready[2];
  int done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const int status = in_child([&] {  // the parent: locks, starts a process and dies
    const RunDirectory parent = resume();
    if (::fork() == 0) {
      char byte = 0;
      ::close(done[1]);
      static_cast<void>(::write(ready[1], "", 1));
      static_cast<void>(::read(done[0], &byte, 1));  // until this test closes its end
      ::_exit(0);
    }
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(error_of([&] { resume(); }).second, HasSubstr("holds the lock"));
  for (const int fd : {ready[0], ready[1], done[0], done[1]}) ::close(fd);
}

// ---- kill -9 at any moment -----------------------------------------------------------------------------------------

// After a kill: the tables parse, and resume() finds the first cases that were committed, each whole and once.
// Returns how many.
std::size_t require_whole(RunDirectory& run, std::int64_t replays) {
  const std::vector<std::string> finished = keys(run.rows());
  for (std::size_t i = 0; i < finished.size(); ++i) EXPECT_EQ(finished[i], "case " + std::to_string(i));
  EXPECT_EQ(column(run.path() / "summary.csv", summary_with_bytes(), "key"), finished);
  std::vector<std::string> every_sample;
  for (const std::string& key : finished) {
    every_sample.insert(every_sample.end(), static_cast<std::size_t>(replays), key);
  }
  EXPECT_EQ(column(run.path() / "samples.csv", samples_schema(), "key"), every_sample);
  EXPECT_EQ(column(run.path() / "operations.csv", operations_schema(), "key"), finished);
  return finished.size();
}

TEST_F(RunDirectoryTest, SurvivesAKillAfterAnyByte) {
  // The writes of one commit, in order, cut off after each of 100 evenly spread byte counts: what a kill leaves.
  {
    RunDirectory run = create();
    commit(run, make_case("case 0"));
  }
  const Case next = make_case("case 1");
  const std::vector<std::pair<fs::path, std::string>> writes{
      {path_ / "samples.csv", csv_line(next.samples[0]) + csv_line(next.samples[1])},
      {path_ / "operations.csv", csv_line(next.operations[0])},
      {path_ / "summary.csv", csv_line(next.row)}};
  std::size_t total = 0;
  for (const auto& [file, text] : writes) total += text.size();
  const fs::path pristine = base_ / "pristine";
  fs::copy(path_, pristine);
  constexpr std::size_t points = 100;
  for (std::size_t point = 0; point <= points; ++point) {
    fs::remove_all(path_);
    fs::copy(pristine, path_);
    std::size_t left = total * point / points;
    for (const auto& [file, text] : writes) {
      AppendFile(file).append(text.substr(0, left));
      left -= std::min(left, text.size());
    }
    RunDirectory run = resume();
    EXPECT_EQ(require_whole(run, 2), point == points ? 2U : 1U) << "after " << total * point / points << " bytes";
    if (point == points) continue;
    commit(run, next);
    EXPECT_EQ(require_whole(run, 2), 2U);
  }
}

TEST_F(RunDirectoryTest, SurvivesAKilledProcess) {
  // A child commits cases, saying so after each; it is killed at a random moment after a random number of them.
  constexpr std::int64_t replays = 40;
  create();
  Random random(3);
  std::size_t committed = 0;
  for (int kill = 0; kill < 30; ++kill) {
    int said[2];
    ASSERT_EQ(::pipe(said), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        RunDirectory run = resume();
        for (std::size_t i = run.rows().size();; ++i) {
          commit(run, make_case("case " + std::to_string(i), 0, replays));
          if (::write(said[1], "", 1) != 1) break;
        }
      } catch (...) {
      }
      ::_exit(2);
    }
    ::close(said[1]);
    char byte = 0;
    for (std::uint64_t wait = 1 + random.below(3); wait > 0 && ::read(said[0], &byte, 1) == 1; --wait) ++committed;
    ::usleep(static_cast<useconds_t>(random.below(3000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    while (::read(said[0], &byte, 1) == 1) ++committed;
    ::close(said[0]);
    RunDirectory run = resume();
    const std::size_t whole = require_whole(run, replays);
    // The row may be there while the word that it is did not come out any more.
    ASSERT_TRUE(whole == committed || whole == committed + 1) << whole << " found, " << committed << " committed";
    committed = whole;
  }
}

// ---- disks that refuse ---------------------------------------------------------------------------------------------

// No file of this process may grow past `bytes` while this is alive: write() then fails as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

TEST_F(RunDirectoryTest, AFullDiskKeepsTheFinishedCases) {
  RunDirectory run = create();
  commit(run, make_case("a"));
  const std::string samples = read_text(path_ / "samples.csv");
  const std::string rows = read_text(path_ / "summary.csv");
  {
    // Room for the whole samples but not for the summary's row: the samples must go again.
    const FileSizeLimit limit(rows.size() + 10);
    ASSERT_LT(samples.size() + csv_line(make_case("b").samples[0]).size() * 2, rows.size());
    const auto [kind, text] = error_of([&] { commit(run, make_case("b")); });
    EXPECT_EQ(kind, ErrorKind::failure);
    EXPECT_EQ(text, "cannot write " + (path_ / "summary.csv").string() +
                        ": File too large; make room and type the same command with --resume: what was finished is "
                        "kept");
  }
  EXPECT_EQ(read_text(path_ / "samples.csv"), samples);
  EXPECT_EQ(read_text(path_ / "summary.csv"), rows);
  EXPECT_FALSE(run.finished("b", 0));
  commit(run, make_case("b"));  // there is room again
  EXPECT_THAT(keys(run.rows()), ElementsAre("a", "b"));
}

TEST_F(RunDirectoryTest, AWriteWithoutRoomLeavesTheOldFile) {
  RunDirectory run = create();
  run.write_json("fits.json", {{"old", true}});
  {
    const FileSizeLimit limit(100);
    const auto [kind, text] = error_of([&] { run.write_json("fits.json", {{"new", std::string(1000, 'x')}}); });
    EXPECT_EQ(kind, ErrorKind::failure);
    EXPECT_THAT(text, HasSubstr("fits.json: File too large"));
  }
  EXPECT_EQ(json::parse(read_text(path_ / "fits.json")), (json{{"old", true}}));
  EXPECT_FALSE(fs::exists(path_ / ".fits.json.new"));
}

TEST_F(RunDirectoryTest, ADirectoryThatCannotBeWrittenIsAFailure) {
  // Root may write anywhere, so that the refusal comes from what is no directory, and for others from the permission.
  const fs::path locked = base_ / "locked";
  fs::create_directory(locked);
  ::chmod(locked.c_str(), 0555);
  path_ = ::geteuid() == 0 ? fs::path("/proc/ovl-run") : locked / "run";
  const auto [kind, text] = error_of([&] { create(); });
  EXPECT_EQ(kind, ErrorKind::failure);
  EXPECT_THAT(text, AllOf(StartsWith("cannot create " + path_.string() + ": "),
                          EndsWith("; name a directory that you may write to with --out")));
}

// ---- over time -----------------------------------------------------------------------------------------------------

TEST_F(RunDirectoryTest, WhatHappenedOverTimeIsCommittedWithItsCase) {
  {
    RunDirectory run = RunDirectory::create(path_, with_series(), summary_with_bytes());
    const Case c = make_case("a");
    run.commit(c.samples, c.operations, c.row, rows_of_series("a"));
  }
  // Of a case that died before its summary row was there.
  std::string torn = read_text(path_ / "series.csv");
  for (const Row& row : rows_of_series("b")) torn += csv_line(row);
  replace_text(path_ / "series.csv", torn + "0.5,4");
  RunDirectory run = RunDirectory::resume(path_, with_series(), summary_with_bytes());
  EXPECT_THAT(column(path_ / "series.csv", series_schema(), "key"), ElementsAre("a", "a"));
  const Case c = make_case("b");
  run.commit(c.samples, c.operations, c.row, rows_of_series("b"));
  EXPECT_THAT(column(path_ / "series.csv", series_schema(), "time_s"), ElementsAre("0", "0.5", "0", "0.5"));
}

TEST_F(RunDirectoryTest, OtherRunsHaveNoSeries) {
  RunDirectory run = create();
  const Case c = make_case("a");
  EXPECT_THROW(run.commit(c.samples, c.operations, c.row, rows_of_series("a")), std::logic_error);
  commit(run, c);
  EXPECT_FALSE(fs::exists(path_ / "series.csv"));
}

}  // namespace
}  // namespace ovl
