// SPDX-License-Identifier: Apache-2.0
//
// What every executable of ours does with its command line, its output and its exceptions.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace CLI {
class App;
}

namespace ovl {

// One group of options in --help. Every value is read here, not by CLI11, so that every complaint says what was wrong
// and what to type instead. Of an option given twice the last one counts. What a target holds before is its default,
// and the example of a complaint.
class OptionGroup {
 public:
  using Read = std::function<void(const std::string& text)>;

  OptionGroup(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  void value(const std::string& option, const std::string& help, const Read& read) const;
  void list(const std::string& option, std::vector<std::string>& target, const std::string& help) const;
  void text(const std::string& option, std::string& target, const std::string& help) const;
  void flag(const std::string& option, bool& target, const std::string& help) const;
  void real(const std::string& option, double& target, double low, double high, const std::string& help) const;
  void duration(const std::string& option, Seconds& target, const std::string& help) const;
  template <std::integral Whole>
  void whole(const std::string& option, Whole& target, std::int64_t low, std::int64_t high,
             const std::string& help) const {
    const auto example = static_cast<std::int64_t>(target);
    value(option, help, [&target, option, low, high, example](const std::string& text) {
      target = static_cast<Whole>(parse_whole(option, text, low, high, example));
    });
  }
  static std::int64_t parse_whole(const std::string& option, const std::string& text, std::int64_t low,
                                  std::int64_t high, std::int64_t example);

 private:
  CLI::App& app_;
  std::string name_;
};

// As people type it: 500us, 20ms, 8s, 2min. A number without a unit is seconds. `zero`: that is one too. `what` is the
// option for the complaint. Throws Error(usage).
Seconds parse_duration(const std::string& what, const std::string& text, bool zero = false);

// A share, as "5%": a number without the sign could be a share as well and is not guessed. Above 0 and at most `most`
// percent. Throws Error(usage).
double parse_percent(const std::string& option, const std::string& text, double most);

// Adds --config: a TOML file of the same options, without sections. Call it after the last option.
void add_config_file(CLI::App& app);

// Parses with CLI11. --benchmark_* words are left out and returned for Google Benchmark, argv[0] first; those that
// would repeat or reorder are refused. nullopt: --help or --version was printed. Throws Error(usage).
std::optional<std::vector<std::string>> parse_command_line(CLI::App& app, int argc, char** argv);

// Words on standard output. What cannot be written is noticed by guarded(), when the work is done.
void print_out(const std::string& text);
// A line on standard error. What cannot be written is lost: nobody reading must not end a run.
void print_message(const std::string& text);

// The words as one types them in a shell.
std::string shell_line(const std::vector<std::string>& words);

// Runs `body` and turns what it throws into one line on standard error and an exit code.
int guarded(const std::string& program, const std::function<int()>& body);

}  // namespace ovl
