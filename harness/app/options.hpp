// SPDX-License-Identifier: Apache-2.0
//
// The command line that all benches share. Everything is checked before anything is opened or written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/bench.hpp"
#include "measure/runner.hpp"

namespace ovl {

enum class Format { text, csv, json };
template <>
struct EnumNames<Format> {
  static constexpr std::string_view axis = "format";
  static constexpr std::pair<Format, std::string_view> table[] = {
      {Format::text, "text"}, {Format::csv, "csv"}, {Format::json, "json"}};
};

struct Options {
  std::string backend = "auto";
  std::string transport;  // empty: the backend's first
  int ranks = 0;          // 0: the backend's default; of a bench with an axis ranks the largest
  std::vector<int>
      units;        // model: ranks of a node, of a rack ..., as --ranks 8x16x8 asks for; empty: as the machine has
  double skew = 0;  // model: by how much the ranks' computing differs, a share
  std::vector<int> cores;
  std::string machine;   // model: a machine description; empty: none
  std::string master;    // host:port where the processes of a job meet; empty: what the launcher says
  std::string out;       // empty: no run directory
  bool scratch = false;  // out is for this process and those that it starts only, and goes with it
  bool resume = false;
  bool allow_debug = false;
  int launches = 1;
  std::optional<int> launch_index;  // this process is one of several launches that a parent started
  std::string launch_environment;   // then: the cases that it measures are those that want this; empty: nothing else
  std::int64_t launch_parent = 0;   // then: the parent of that parent, which all of its machine share; 0: unknown
  MeasureOptions measure;
  bool timeline = false;
  Format format = Format::text;
  bool fit = false;  // csv and json hold the fits
  bool list = false;
  bool dry_run = false;
  AxisValues axes;
  std::vector<std::string> google_benchmark;  // --benchmark_* flags, argv[0] first
  std::vector<std::string> command_line;
};

// nullopt: --help or --version was printed. Throws Error(usage).
std::optional<Options> parse_options(const Bench& bench, int argc, char** argv);

// Splits what a user types as a list; empty elements are an error.
std::vector<std::string> split_list(const std::string& option, const std::string& text);

// "0,1", of --cores. Throws Error(usage).
std::vector<int> parse_cores(const std::string& text);

}  // namespace ovl
