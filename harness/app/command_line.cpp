// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.hpp"

namespace ovl {
namespace {

// Google Benchmark's flags that would repeat, reorder or aggregate what the runner already does.
const std::vector<std::string> refused_flags{
    "--benchmark_repetitions", "--benchmark_min_time", "--benchmark_report_aggregates_only",
    "--benchmark_display_aggregates_only", "--benchmark_enable_random_interleaving"};

void refuse(const std::string& flag) {
  for (const std::string& refused : refused_flags) {
    if (flag.starts_with(refused)) {
      throw usage_error(refused + " does not apply", "a case already interleaves its arms and stops by its interval",
                        "use --precision, --min-samples, --max-samples or --launches");
    }
  }
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// CLI11's complaint in our words: what, why, what to type instead.
Error translated(const CLI::App& app, const CLI::ParseError& error) {
  const std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string word = what.substr(what.rfind(' ') + 1);
    const std::string dashed = word.starts_with("--") ? word.substr(0, word.find('=')) : "--" + word;
    return usage_error(
        "option " + word + " is unknown", "",
        fmt::format("did you mean {}? --help lists all", fmt::join(nearest(dashed, option_names(app), 2), " or ")));
  }
  if (dynamic_cast<const CLI::ConfigError*>(&error) != nullptr) {
    const std::string key = what.substr(what.rfind(' ') + 1);
    return usage_error("the configuration file has a key that is no option: " + key, "",
                       fmt::format("did you mean {}?", fmt::join(nearest("--" + key, option_names(app), 2), " or ")));
  }
  return usage_error(what, "", "--help lists the options");
}

}  // namespace

std::optional<std::vector<std::string>> parse_command_line(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> google_benchmark{argv[0]};
  std::vector<std::string> own;  // CLI11 takes them last first
  for (int i = argc - 1; i > 0; --i) {
    std::string word = argv[i];
    if (word.starts_with("--benchmark_")) {
      refuse(word);
      google_benchmark.push_back(std::move(word));
    } else {
      own.push_back(std::move(word));
    }
  }
  try {
    app.parse(own);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw translated(app, error);
  }
  return google_benchmark;
}

int guarded(const std::string& program, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}; this is a defect of overlapbench, please report it\n", program, error.what());
    return 1;
  }
}

}  // namespace ovl
