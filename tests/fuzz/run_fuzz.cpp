// SPDX-License-Identifier: Apache-2.0
//
// Any bytes at all, read as the run directory of somebody else: compared with itself, its series found, resumed.
// Nothing crashes or hangs, what is refused is refused with a reason, what a comparison says is printable, and after
// resuming the tables are sound: read again they are the same.
//
// An input is the files one after the other, each under a line "=== NAME"; what has no such line above it is run.json.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "fuzz.hpp"
#include "results/comparison.hpp"
#include "results/consistency.hpp"
#include "results/cost_series.hpp"
#include "results/loaded_run.hpp"
#include "results/run_directory.hpp"

namespace {

namespace fs = std::filesystem;
using ovl::fuzz::is_printable;
using ovl::fuzz::must;

constexpr const char* files[] = {"run.json", "summary.csv", "samples.csv", "operations.csv", "series.csv"};

// A directory in memory, written anew for each input.
class Directory {
 public:
  Directory() {
    std::string name = fs::exists("/dev/shm") ? "/dev/shm/ovl-fuzz-XXXXXX" : "/tmp/ovl-fuzz-XXXXXX";
    must(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Directory() { fs::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  void write(std::string_view input) const {
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) fs::remove_all(entry);
    std::string_view name = files[0];
    std::map<std::string_view, std::string> texts;
    while (!input.empty()) {
      const std::size_t end = input.find('\n');
      const std::string_view line = input.substr(0, end == std::string_view::npos ? end : end + 1);
      input.remove_prefix(line.size());
      std::string_view named;
      for (const char* file : files) {
        if (line == std::string("=== ") + file + "\n") named = file;
      }
      if (named.empty()) {
        texts[name] += line;
      } else {
        name = named;
        texts[name];
      }
    }
    for (const auto& [file, text] : texts) std::ofstream(path_ / file, std::ios::binary) << text;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Few columns, so that an input is short.
const ovl::Schema& summary() {
  static const ovl::Schema schema{"summary",
                                  1,
                                  {{"key", ovl::ColumnType::text, "", ""},
                                   {"launch", ovl::ColumnType::integer, "", ""},
                                   {"status", ovl::ColumnType::text, "", ""},
                                   {"source", ovl::ColumnType::text, "", ""},
                                   {"rounds", ovl::ColumnType::integer, "", ""},
                                   {"collective", ovl::ColumnType::text, "", ""},
                                   {"dtype", ovl::ColumnType::text, "", ""},
                                   {"ranks", ovl::ColumnType::integer, "", ""},
                                   {"bytes", ovl::ColumnType::integer, "", ""},
                                   {"t_comm", ovl::ColumnType::real, "", ""}}};
  return schema;
}

void read(const fs::path& path) {
  std::vector<ovl::LoadedRun> runs;
  for (int i = 0; i < 2; ++i) runs.push_back(ovl::LoadedRun::read(path, {"samples", "series"}));
  const ovl::LoadedRun& run = runs.front();
  for (const auto& [field, value] : run.environment()) must(is_printable(value) && value.size() <= 1603);
  static_cast<void>(ovl::inconsistency(run.rows("summary"), run.rows("samples")));
  for (const ovl::LoadedSeries& series : ovl::series_in(run)) must(is_printable(ovl::series_title(series.axes)));
  const ovl::RunComparison compared = ovl::compare_runs(runs, {});
  for (const std::string& text : compared.about) must(is_printable(text));
  for (const std::string& text : compared.remarks) must(is_printable(text));
  for (const ovl::ComparedQuantity& q : compared.quantities) static_cast<void>(ovl::comparison_row(compared, q));
}

void resume(const fs::path& path) {
  const nlohmann::json about = ovl::LoadedRun::read(path, {}).about();
  nlohmann::json mine{{"identity", about.at("identity")}, {"run", {{"pid", 1}}}};
  if (about.at("tables").contains("series")) mine["tables"]["series"] = {};
  std::vector<std::string> keys;
  const auto keys_of = [&] {
    std::vector<std::string> all;
    for (const ovl::Row& row : ovl::RunDirectory::resume(path, mine, summary()).rows()) {
      all.push_back(ovl::text_in(row, "key"));
    }
    return all;
  };
  keys = keys_of();
  must(keys_of() == keys);  // what was dropped stays dropped, and nothing else
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Directory directory;
  directory.write({reinterpret_cast<const char*>(data), size});
  for (const auto& use : {read, resume}) {
    try {
      use(directory.path());
    } catch (const ovl::Error& error) {
      must(error.kind() == ovl::ErrorKind::usage || error.kind() == ovl::ErrorKind::failure);
    }
  }
  return 0;
}
