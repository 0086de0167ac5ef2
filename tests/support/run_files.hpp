// SPDX-License-Identifier: Apache-2.0
//
// Run directories for tests of their readers: a few columns, every number chosen.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ovl {

class RunFiles {
 public:
  RunFiles();  // an empty folder of its own, removed in the end
  ~RunFiles();
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  // A run directory. `columns` are "name:t" (text), "name:i" (integer) or "name:r" (real); rows are CSV lines.
  std::filesystem::path run(const std::string& name, const nlohmann::json& identity, const std::string& columns,
                            const std::vector<std::string>& rows, int version = 1) const;

  // A run of collectives: t = alpha + beta · bytes at each of `sizes`, all_reduce f32 on 8 ranks. With an interval of
  // ± `spread`, as a share; without one for 0.
  std::filesystem::path collectives(const std::string& name, double alpha, double beta, double spread,
                                    const std::vector<double>& sizes, const nlohmann::json& identity = {}) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace ovl
