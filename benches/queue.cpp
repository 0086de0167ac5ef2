// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a backlog of collectives when they are submitted faster, or slower, than they are served?
//
// Varies: the arrival rate as a part of the service rate, the plan of arrivals, and over how many lanes (communicators)
// the same total is spread. Held: the operation, what is queued at the beginning, one plan for all ranks. What would
// prove the harness wrong: a backlog that grows below a load of 1, a slope beside the fluid line's where arrivals are
// constant, or averages of one replay that break Little's law.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/bench.hpp"
#include "app/command_line.hpp"
#include "app/queue_report.hpp"
#include "base/error.hpp"
#include "measure/queue.hpp"
#include "schedule/models.hpp"

namespace {

using namespace ovl;

// What a user typed for one case, as typed: names and key are made of it.
struct Asked {
  std::string collective, bytes, dtype, arrivals, backlog, lanes, duration, step, waiting, channels, buffers, load,
      arrival_rate, service_rate;
};

const std::string unset = "default";
const std::string measured = "measured";
const std::string by_itself = "auto";

std::vector<Asked> product(const AxisValues& axes) {
  std::vector<Asked> all{{}};
  const auto multiply = [&](const char* axis, std::string Asked::*member) {
    all = multiplied(all, axes[axis], member);
  };
  multiply("collective", &Asked::collective);
  std::vector<std::string> sizes;
  for (const std::string& list : axes["bytes"]) {
    for (const Bytes bytes : parse_byte_list(list)) sizes.push_back(format_bytes(bytes));
  }
  all = multiplied(all, sizes, &Asked::bytes);
  multiply("dtype", &Asked::dtype);
  multiply("arrivals", &Asked::arrivals);
  multiply("backlog", &Asked::backlog);
  multiply("duration", &Asked::duration);
  multiply("step", &Asked::step);
  multiply("waiting", &Asked::waiting);
  multiply("channels", &Asked::channels);
  multiply("buffers", &Asked::buffers);
  multiply("service-rate", &Asked::service_rate);
  multiply("arrival-rate", &Asked::arrival_rate);
  multiply("load", &Asked::load);
  multiply("lanes", &Asked::lanes);
  return all;
}

// Also "nan" and "inf", which the queue itself refuses with its own words.
double parse_number(const std::string& axis, const std::string& text, const std::string& example) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number);
  if (ec != std::errc{} || rest != end || text.empty()) {
    throw usage_error(fmt::format("--{} \"{}\" is not a number", axis, text), "",
                      fmt::format("type for example --{} {}", axis, example));
  }
  return number;
}

// Refused here rather than as the duration that it would be.
WorkUnitsPerSecond parse_service_rate(const std::string& text) {
  const WorkUnitsPerSecond rate(parse_number("service-rate", text, "3"));
  static_cast<void>(utilization(WorkUnitsPerSecond(1), rate));
  return rate;
}

double parse_load(const std::string& text) {
  const double load = parse_number("load", text, "0.5,1.33");
  if (!(load > 0) || !std::isfinite(load)) {
    throw usage_error(fmt::format("load {} is not possible", text),
                      "it is the arrival rate as a part of the service rate, a finite number above 0",
                      "type for example --load 0.5,1.33");
  }
  return load;
}

std::int64_t parse_backlog(const std::string& text) {
  if (text == "0") return 0;
  const double number = parse_number("backlog", text, "4");
  static_cast<void>(drain_time({WorkUnitsPerSecond(1), WorkUnitsPerSecond(1), WorkUnits(number)}));
  if (number != std::floor(number)) {
    throw usage_error(fmt::format("--backlog \"{}\" is no whole number", text), "operations are queued whole",
                      "type for example --backlog 4");
  }
  if (number > static_cast<double>(most_queued)) {
    throw usage_error(fmt::format("--backlog {} is too many", text),
                      fmt::format("it is a whole number from 0 to {}", most_queued), "type for example --backlog 30");
  }
  return static_cast<std::int64_t>(number);
}

void parse_arrivals(const std::string& text, QueueQuestion& question) {
  const std::size_t colon = text.find(':');
  question.arrivals = parse_enum<Arrivals>(text.substr(0, colon));
  if (colon == std::string::npos) return;
  if (question.arrivals == Arrivals::constant) {
    throw usage_error(fmt::format("--arrivals \"{}\" has a seed", text), "constant arrivals draw nothing",
                      "type --arrivals constant, or poisson:7");
  }
  constexpr std::uint64_t most = 1'000'000'000;
  const std::string seed = text.substr(colon + 1);
  const char* const end = seed.data() + seed.size();
  const auto [rest, ec] = std::from_chars(seed.data(), end, question.seed);
  if (ec != std::errc{} || rest != end || question.seed < 1 || question.seed > most) {
    throw usage_error(fmt::format("--arrivals \"{}\" has no seed after its colon", text),
                      fmt::format("a seed is a whole number from 1 to {}", most),
                      "type for example --arrivals poisson:7");
  }
}

QueueQuestion parse_question(const Asked& asked, const CaseContext& context) {
  QueueQuestion question;
  parse_arrivals(asked.arrivals, question);
  QueueSpec& queue = question.queue;
  queue.ranks = context.ranks;
  queue.kind = parse_enum<CollectiveKind>(asked.collective);
  queue.dtype = parse_enum<DType>(asked.dtype);
  queue.bytes = parse_size(asked.bytes, queue.dtype);
  queue.lanes = static_cast<int>(parse_count("lanes", asked.lanes, 16));
  queue.backlog = parse_backlog(asked.backlog);
  queue.transport = context.transport;
  queue.channels = parse_channels(asked.channels);
  queue.waiting = parse_enum<Waiting>(asked.waiting);
  queue.memory = parse_enum<Memory>(asked.buffers);
  queue.rotate_over = context.backend.last_level_cache * 2;
  if (asked.service_rate != measured) queue.given = WorkUnits(1) / parse_service_rate(asked.service_rate);
  if (asked.arrival_rate != unset) {
    question.arrival = WorkUnitsPerSecond(parse_number("arrival-rate", asked.arrival_rate, "4"));
  } else {
    question.load = parse_load(asked.load);
  }
  if (asked.duration != by_itself) question.duration = parse_duration("--duration", asked.duration);
  if (asked.step != by_itself) question.step = parse_duration("--step", asked.step);
  question.fluid_only = queue.given && context.backend.backend == "model";
  question.queue_depth = context.backend.queue_depth;
  return question;
}

CaseSpec make_case(const Asked& asked, const CaseContext& context) {
  const QueueQuestion question = parse_question(asked, context);
  const bool given = question.queue.given.has_value();
  const std::string rates = asked.arrival_rate != unset ? "arrival_rate=" + asked.arrival_rate : "load=" + asked.load;
  const std::string what = given
                               ? "service_rate=" + asked.service_rate
                               : fmt::format("collective={} bytes={} dtype={} channels={} buffers={}", asked.collective,
                                             asked.bytes, asked.dtype, asked.channels, asked.buffers);
  CaseSpec spec;
  spec.key =
      fmt::format("queue {} arrivals={} {} backlog={} lanes={} duration={} step={} waiting={} ranks={} transport={}",
                  what, asked.arrivals, rates, asked.backlog, asked.lanes, asked.duration, asked.step, asked.waiting,
                  question.queue.ranks, context.transport);
  spec.name =
      fmt::format("queue/{}/{}/{}/{}/b{}/l{}/{}/{}/{}/c{}/{}",
                  given ? "mu" + asked.service_rate : asked.collective + "/" + asked.bytes, asked.dtype, asked.arrivals,
                  asked.arrival_rate != unset ? "lambda" + asked.arrival_rate : "rho" + asked.load, asked.backlog,
                  asked.lanes, asked.duration, asked.step, asked.waiting, asked.channels, asked.buffers);
  spec.placement_name = "concurrent";
  spec.placement = parse_placement(spec.placement_name);
  spec.asked = {{"arrivals", asked.arrivals},
                {"lanes", std::int64_t{question.queue.lanes}},
                {"backlog", question.queue.backlog},
                {"recording", "operations"}};
  if (!given) {
    spec.asked.insert(
        spec.asked.end(),
        {{"collective", asked.collective}, {"bytes", question.queue.bytes.value()}, {"dtype", asked.dtype}});
  }
  ask_about_queue(spec, question);
  return spec;
}

std::vector<Column> columns() {
  std::vector<Column> all{
      {"collective", ColumnType::text, "", "what is queued; empty: operations of a given duration"},
      {"bytes", ColumnType::integer, "B", "the whole array of each"},
      {"dtype", ColumnType::text, "", "of the collective"},
      {"arrivals", ColumnType::text, "", "constant or poisson, with its seed: one plan for all ranks and replays"},
      {"lanes", ColumnType::integer, "1", "that serve, each with a communicator"},
      {"backlog", ColumnType::integer, "1", "Q0: operations queued at time 0"},
      {"recording", ColumnType::text, "", "operations: every replay of every arm has a stamp for each"}};
  for (Column& column : queue_columns()) all.push_back(std::move(column));
  return all;
}

std::vector<CaseSpec> cases(const AxisValues& axes, const CaseContext& context) {
  const bool by_rate = axes["arrival-rate"] != std::vector{unset};
  const bool by_load = axes["load"] != std::vector{unset};
  if (by_rate && by_load) {
    throw usage_error("--arrival-rate and --load both say how much arrives",
                      "the load is the rate over the service rate", "leave one of them out");
  }
  AxisValues chosen = axes;
  if (!by_rate && !by_load) chosen.set("load", {"0.5", "0.67", "0.9", "1", "1.1", "1.33", "1.5"});
  std::vector<CaseSpec> specs;
  for (const Asked& asked : product(chosen)) specs.push_back(make_case(asked, context));
  return specs;
}

const Bench bench{
    .name = "queue",
    .question =
        "What becomes of a backlog of collectives when they are submitted faster, or slower, than they are served?",
    .axes = {{"load", "arrival rates as parts of what one lane serves; default: 0.5,0.67,0.9,1,1.1,1.33,1.5", unset},
             {"arrival-rate", "instead of loads: operations a second, for example 4; default: none", unset},
             {"service-rate",
              "operations a second in place of a collective, each keeps its lane busy; with --backend auto it is then "
              "the model that plays them, and csv holds the fluid line",
              measured},
             {"arrivals", "constant, poisson, or with another seed poisson:7", "constant"},
             {"backlog", "operations queued at time 0", "30"},
             {"lanes", "over how many lanes, a communicator each, the same total is spread: for example 1,2,4", "1"},
             {"duration", "in which arrivals come; auto: 120 times what one operation takes alone", by_itself},
             {"step", "between two points of the series; auto: a 120th of the duration", by_itself},
             collective_axis("all_reduce"),
             {"bytes", "size of each: 64KiB, ranges, or names: bucket:ddp-default ...", "16MiB"},
             dtype_axis("f32"),
             waiting_axis(),
             channels_axis(),
             buffers_axis()},
    .columns = columns(),
    .cases = cases,
    .table = queue_table_text,
    .over_time = true,
    .all_given = [](const AxisValues& axes) {
      const std::vector<std::string>& rates = axes["service-rate"];
      return std::find(rates.begin(), rates.end(), measured) == rates.end();
    }};

}  // namespace

int main(int argc, char** argv) { return ovl::run_bench(bench, argc, argv); }
