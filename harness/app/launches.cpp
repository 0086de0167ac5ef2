// SPDX-License-Identifier: Apache-2.0
#include "app/launches.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>

#include "app/interrupt.hpp"
#include "app/report.hpp"
#include "base/error.hpp"
#include "results/schema.hpp"
#include "stats/student.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

std::vector<double> column(const std::vector<const Row*>& rows, const std::string& name) {
  std::vector<double> values;
  for (const Row* row : rows) values.push_back(std::get<double>(row->at(name)));
  return values;
}

void set_prediction(Row& row, const std::string& name, const std::vector<double>& values) {
  const Interval interval = prediction_interval(values);
  row.set(name, median(values)).set(name + "_low", interval.low).set(name + "_high", interval.high);
}

// Launches whose value the others predict.
std::int64_t agreeing(const std::vector<double>& values) {
  std::int64_t agree = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<double> others = values;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (prediction_interval(others).contains(values[i])) ++agree;
  }
  return agree;
}

std::string number(const Row& row, std::string_view name) {
  const auto* value = std::get_if<double>(&row.at(name));
  return value == nullptr ? "?" : fmt::format("{:.1f}", 100 * *value);
}

}  // namespace

LaunchEnd run_launch(const std::vector<std::string>& command_line, int index) {
  std::vector<std::string> words = command_line;
  words.emplace_back("--launch-index");
  words.push_back(std::to_string(index));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // a parent that is killed leaves nobody behind who goes on measuring
    if (getppid() == parent) execv("/proc/self/exe", argv.data());
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
    if (!std::holds_alternative<double>(row.at("hidden_share"))) continue;
    const auto& key = std::get<std::string>(row.at("key"));
    if (!by_key.contains(key)) keys.push_back(key);
    by_key[key].push_back(&row);
  }
  std::vector<Row> rows;
  for (const std::string& key : keys) {
    const std::vector<const Row*>& launches = by_key[key];
    const std::vector<double> shares = column(launches, "hidden_share");
    Row& row = rows.emplace_back(launches_schema());
    row.set("key", key).set("launches", static_cast<std::int64_t>(launches.size()));
    for (const char* time : {"t_compute", "t_comm", "t_step"}) set_prediction(row, time, column(launches, time));
    set_prediction(row, "hidden_share", shares);
    row.set("hidden_share_least", quantile(shares, 0)).set("hidden_share_most", quantile(shares, 1));
    const std::int64_t agree = agreeing(shares);
    row.set("agree", agree);
    const std::string verdict =
        shares.size() < 5 ? "fewer than five launches: no claim between runs"
                          : fmt::format("{} of {} launches lie where the others predict", agree, shares.size());
    row.set("verdict", verdict);
  }
  return rows;
}

std::string launches_text(const std::vector<Row>& launches) {
  std::string text = "Between launches (hidden share, and where 95 % of further launches lie):\n";
  std::vector<std::string> keys;
  for (const Row& row : launches) keys.push_back(std::get<std::string>(row.at("key")));
  const std::vector<std::string> names = distinguishing_names(keys);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Row& row = launches[i];
    text += fmt::format("  {}: {} % [{}, {}], seen {} .. {}, {}\n", names[i], number(row, "hidden_share"),
                        number(row, "hidden_share_low"), number(row, "hidden_share_high"),
                        number(row, "hidden_share_least"), number(row, "hidden_share_most"),
                        std::get<std::string>(row.at("verdict")));
  }
  return text;
}

}  // namespace ovl
