// SPDX-License-Identifier: Apache-2.0
//
// What every executable of ours does with its command line and its exceptions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ovl {

// Parses with CLI11. --benchmark_* words are left out and returned for Google Benchmark, argv[0] first; those that
// would repeat or reorder are refused. nullopt: --help or --version was printed. Throws Error(usage).
std::optional<std::vector<std::string>> parse_command_line(CLI::App& app, int argc, char** argv);

// Runs `body` and turns what it throws into one line on standard error and an exit code.
int guarded(const std::string& program, const std::function<int()>& body);

}  // namespace ovl
