// SPDX-License-Identifier: Apache-2.0
#include "support/run_files.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace ovl {

namespace fs = std::filesystem;
using nlohmann::json;

RunFiles::RunFiles() {
  std::string pattern = (fs::temp_directory_path() / "ovl-runs-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
}

RunFiles::~RunFiles() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

fs::path RunFiles::run(const std::string& name, const json& identity, const std::string& columns,
                       const std::vector<std::string>& rows, int version) const {
  json schema = json::array();
  std::string header;
  std::istringstream words(columns);
  for (std::string word; words >> word;) {
    const std::string column = word.substr(0, word.find(':'));
    const char kind = word.back();
    schema.push_back({{"name", column}, {"type", kind == 't' ? "text" : kind == 'i' ? "integer" : "real"}});
    header += (header.empty() ? "" : ",") + column;
  }
  const fs::path path = folder_ / name;
  fs::create_directories(path);
  const json about{{"identity", identity},
                   {"run", {{"date", "2000-01-01T00:00:00Z"}}},
                   {"tables", {{"summary", {{"version", version}, {"columns", schema}}}}}};
  std::ofstream(path / "run.json") << about.dump(1) << "\n";
  std::ofstream table(path / "summary.csv");
  table << header << "\n";
  for (const std::string& row : rows) table << row << "\n";
  return path;
}

fs::path RunFiles::collectives(const std::string& name, double alpha, double beta, double spread,
                               const std::vector<double>& sizes, const json& more) const {
  json identity{{"bench", "collective"}, {"backend", {{"name", "host"}, {"device", "a device"}}}};
  if (!more.is_null()) identity.update(more);
  std::vector<std::string> rows;
  for (const double bytes : sizes) {
    const double time = alpha + beta * bytes;
    const std::string ends = spread > 0 ? fmt::format("{},{}", time * (1 - spread), time * (1 + spread)) : ",";
    rows.push_back(fmt::format("collective bytes={0},0,ok,measured,shm,8,all_reduce,f32,0,{0},{1},{2},{3}", bytes, time,
                               ends, 1.75 * bytes / time));
  }
  return run(name, identity,
             "key:t launch:i status:t source:t transport:t ranks:i collective:t dtype:t in_place:i bytes:i t_comm:r "
             "t_comm_low:r t_comm_high:r bus_bandwidth:r",
             rows);
}

}  // namespace ovl
