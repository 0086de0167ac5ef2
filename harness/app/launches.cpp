// SPDX-License-Identifier: Apache-2.0
#include "app/launches.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>

#include "app/interrupt.hpp"
#include "app/report.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "results/schema.hpp"
#include "stats/student.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

bool known(const Row& row, const std::string& name) { return std::holds_alternative<double>(row.at(name)); }

// This process's, with NAME=VALUE in the place of what it has under that name.
std::vector<std::string> environment_with(const std::string& setting) {
  const std::string name = setting.substr(0, setting.find('=') + 1);  // with the '='
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (name.empty() || !std::string_view(*variable).starts_with(name)) variables.emplace_back(*variable);
  }
  if (!setting.empty()) variables.push_back(setting);
  return variables;
}

// Empty unless all rows have it.
std::vector<double> column(const std::vector<const Row*>& rows, const std::string& name) {
  std::vector<double> values;
  for (const Row* row : rows) {
    if (!known(*row, name)) return {};
    values.push_back(std::get<double>(row->at(name)));
  }
  return values;
}

// Of fewer there is no claim, and bounds that say nothing: of two Student's t is 13 to 25, and a time below 0.
constexpr std::size_t fewest_launches = 5;

void set_prediction(Row& row, const std::string& name, const std::vector<double>& values) {
  if (values.empty()) return;
  row.set(name, median(values));
  if (values.size() < fewest_launches) return;
  const Interval interval = prediction_interval(values, values.size());
  row.set(name + "_low", interval.low).set(name + "_high", interval.high);
}

std::string percent(const Row& row, std::string_view name) {
  const auto* value = std::get_if<double>(&row.at(name));
  return value == nullptr ? "?" : fmt::format("{:.1f}", 100 * *value);
}

std::string seconds(const Row& row, std::string_view name) {
  const auto* value = std::get_if<double>(&row.at(name));
  return value == nullptr ? "?" : format_seconds(Seconds(*value));
}

// Of the hidden share, or of the time of communication where a bench has no share.
std::string watched_text(const Row& row) {
  if (!known(row, "hidden_share")) {
    if (!known(row, "t_comm_low")) return seconds(row, "t_comm");
    return fmt::format("{} [{}, {}]", seconds(row, "t_comm"), seconds(row, "t_comm_low"), seconds(row, "t_comm_high"));
  }
  const std::string interval =
      known(row, "hidden_share_low")
          ? fmt::format(" [{}, {}]", percent(row, "hidden_share_low"), percent(row, "hidden_share_high"))
          : "";
  return fmt::format("{} %{}, seen {} .. {}", percent(row, "hidden_share"), interval,
                     percent(row, "hidden_share_least"), percent(row, "hidden_share_most"));
}

}  // namespace

LaunchEnd run_launch(const std::vector<std::string>& command_line, int index, const std::string& environment,
                     std::int64_t common_parent) {
  std::vector<std::string> words = command_line;
  words.emplace_back("--launch-index");
  words.push_back(std::to_string(index));
  if (!environment.empty()) {
    words.emplace_back("--launch-environment");
    words.push_back(environment);
  }
  if (common_parent > 0) {
    words.emplace_back("--launch-parent");
    words.push_back(std::to_string(common_parent));
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = environment_with(environment);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // a parent that is killed leaves nobody behind who goes on measuring
    if (getppid() == parent) execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  if (child < 0) throw failure(fmt::format("launch {} could not be started", index + 1), std::strerror(errno));
  pass_interrupts_to(child);
  int status = 0;
  pid_t done = 0;
  do {
    done = waitpid(child, &status, 0);
  } while (done < 0 && errno == EINTR);
  pass_interrupts_to(0);
  require(done == child, "a child can be waited for");
  if (WIFSIGNALED(status)) {
    return {128 + WTERMSIG(status), fmt::format("was killed by a signal: {}", strsignal(WTERMSIG(status)))};
  }
  return {WEXITSTATUS(status), fmt::format("ended with exit code {}", WEXITSTATUS(status))};
}

std::vector<Row> launch_rows(const std::vector<Row>& summary) {
  std::vector<std::string> keys;  // in the order of the cases
  std::map<std::string, std::vector<const Row*>> by_key;
  for (const Row& row : summary) {
    if (!known(row, "t_comm")) continue;
    const auto& key = std::get<std::string>(row.at("key"));
    if (!by_key.contains(key)) keys.push_back(key);
    by_key[key].push_back(&row);
  }
  std::vector<Row> rows;
  for (const std::string& key : keys) {
    const std::vector<const Row*>& launches = by_key[key];
    const std::vector<double> shares = column(launches, "hidden_share");
    const std::vector<double> watched = shares.empty() ? column(launches, "t_comm") : shares;
    Row& row = rows.emplace_back(launches_schema());
    row.set("key", key).set("launches", static_cast<std::int64_t>(launches.size()));
    for (const char* time : {"t_compute", "t_comm", "t_step"}) set_prediction(row, time, column(launches, time));
    set_prediction(row, "hidden_share", shares);
    if (!shares.empty()) {
      row.set("hidden_share_least", quantile(shares, 0)).set("hidden_share_most", quantile(shares, 1));
    }
    const std::size_t agree = agreeing(watched);
    row.set("agree", static_cast<std::int64_t>(agree));
    const std::string verdict =
        watched.size() < fewest_launches
            ? "fewer than five launches: no claim between runs"
            : fmt::format("{} of {} launches lie where the others predict", agree, watched.size());
    row.set("verdict", verdict);
  }
  return rows;
}

std::string launches_text(const std::vector<Row>& launches) {
  const bool shares =
      std::any_of(launches.begin(), launches.end(), [](const Row& row) { return known(row, "hidden_share"); });
  std::string text =
      fmt::format("Between launches ({}, and where as many further launches all lie in 95 % of cases):\n",
                  shares ? "hidden share" : "time of communication, idle");
  std::vector<std::string> keys;
  for (const Row& row : launches) keys.push_back(std::get<std::string>(row.at("key")));
  const std::vector<std::string> names = distinguishing_names(keys);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    text += fmt::format("  {}: {}, {}\n", names[i], watched_text(launches[i]),
                        std::get<std::string>(launches[i].at("verdict")));
  }
  return text;
}

}  // namespace ovl
