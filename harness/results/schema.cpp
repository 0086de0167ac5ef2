// SPDX-License-Identifier: Apache-2.0
#include "results/schema.hpp"

#include <set>

#include "base/error.hpp"

namespace ovl {
namespace {

Column text(std::string name, std::string description) {
  return {std::move(name), ColumnType::text, "", std::move(description)};
}
Column integer(std::string name, std::string unit, std::string description) {
  return {std::move(name), ColumnType::integer, std::move(unit), std::move(description)};
}
Column real(std::string name, std::string unit, std::string description) {
  return {std::move(name), ColumnType::real, std::move(unit), std::move(description)};
}

void with_interval(std::vector<Column>& columns, const std::string& name, const std::string& unit,
                   const std::string& description) {
  columns.push_back(real(name, unit, description));
  columns.push_back(real(name + "_low", unit, "lower end of the 95 % interval of " + name));
  columns.push_back(real(name + "_high", unit, "upper end of the 95 % interval of " + name));
}

std::vector<Column> common() {
  std::vector<Column> c{
      text("key", "the requested options of the case: its identity for resume"),
      text("bench", "which question was asked"),
      integer("launch", "1", "index of the process launch"),
      text("status", "ok, noisy, skipped, unsupported, failed_verify or timeout"),
      text("reason", "why, when the status is not ok"),
      text("source", "measured, imported, model, proxy or emulated: what kind of number this row holds"),
      text("backend", "what replayed the program"),
      text("transport", "what moved the bytes of the collectives"),
      integer("ranks", "1", "ranks of the program"),
      text("placement", "the axes of order, priority, partition and replay"),
      text("program_hash", "hash of the printed program, all arms"),
      // asked for and observed
      text("waiting", "how host lanes wait: spin, yield or block; device: lanes that do not wait on the host"),
      text("progress",
           "who moves messages on while a rank computes: none, poll:<interval>, thread; auto: the transport"),
      integer("channels_asked", "1", "channels or CTAs asked for; 0: the library's choice"),
      integer("channels_observed", "1", "channels or CTAs that ran"),
      text(
          "comm_path",
          "what moved the bytes, as observed: kernel, symmetric kernel, copy engine, the MPI library; empty: not seen"),
      text("gemm_algorithm", "what the GEMM library was told to run, in all arms"),
      integer("partial", "1", "1: the gate opened before everything was enqueued"),
      text("layout", "which core or SM set each lane ran on"),
      integer("oversubscribed", "1", "1 when there were fewer cores than busy lanes, else 0"),
      text("launch_mode", "gated: all work enqueued before the clock starts; live: launch inside the window"),
      text("launch_order", "which role began first, as observed; unverified where it cannot be seen"),
      text("buffers", "plain, registered or symmetric"),
      integer("buffer_copies", "1", "copies that the replays rotate through"),
      text("verify",
           "exact+random, random (and why exact data cannot tell), off, not_applicable (a model, given durations), "
           "exact failed, random failed, serial failed; serial+ before it, exact+serial or serial: and every result "
           "equal to a serial replay; empty: nothing was verified"),
      // how it was measured
      text("interleave", "sample: every arm once a round, in random order; block: seconds on each arm"),
      integer("repeats", "1", "operations of each kind in one timed window; times are per operation"),
      integer("rounds", "1", "rounds used, each with all arms once"),
      integer("rounds_spoilt", "1", "rounds measured in noisy blocks, kept in samples.csv with used = 0"),
      integer("blocks", "1", "blocks of rounds with conditions read around each"),
      text("stop_rule", "precision, max_samples, max_time or interrupted"),
      real("precision", "1", "width of the 95 % interval that stops the case"),
      real("t_measure", "s", "wall time spent on the case"),
  };
  with_interval(c, "t_empty", "s", "median step of the empty arm: the cost of the harness itself, per window");
  with_interval(c, "t_compute", "s", "median step of the compute arm, alone");
  with_interval(c, "t_comm", "s", "median step of the comm arm, alone");
  with_interval(c, "t_serial", "s", "median step of the serial arm");
  with_interval(c, "t_step", "s", "median step of the overlapped arm");
  c.push_back(real("t_ideal", "s", "max(t_compute, t_comm)"));
  c.push_back(real("speedup_bound", "1", "(t_compute + t_comm) / t_ideal"));
  c.push_back(real("t_overlap", "s", "t_compute + t_comm - t_step, signed"));
  with_interval(c, "t_exposed", "s", "t_step - t_compute: communication left on the wall clock, signed");
  with_interval(c, "hidden_share", "1",
                "t_overlap / min(t_compute, t_comm): 1 perfect, 0 serial, below 0 worse than serial");
  c.push_back(real("hidden_fraction", "1", "t_overlap / t_comm"));
  with_interval(c, "speedup", "1", "(t_compute + t_comm) / t_step");
  c.push_back(real("speedup_measured", "1", "t_serial / t_step"));
  c.push_back(real("serial_gap", "s", "t_serial - (t_compute + t_comm)"));
  c.push_back(real("t_path", "s",
                   "longest path through the overlapped program, operations at their parts of t_compute and t_comm"));
  c.push_back(real("compute_stretch", "1", "span of the compute lanes overlapped / alone"));
  c.push_back(real("comm_stretch", "1", "span of the comm lanes overlapped / alone"));
  c.push_back(real("compute_slowdown", "1", "slowdown of compute while both run"));
  c.push_back(real("comm_slowdown", "1", "slowdown of communication while both run"));
  c.push_back(text("slowdown_source", "covered: an aggressor covered the victim; fluid: inverted from the spans"));
  c.push_back(real("exposed_transfer", "s", "model: of t_exposed, waiting for communication as fast as it is alone"));
  c.push_back(real("exposed_peer", "s", "model: of t_exposed, waiting for a rank that comes later"));
  c.push_back(
      real("exposed_shared", "s",
           "model: of t_exposed, what sharing memory or links costs communication that is waited for, or compute"));
  c.push_back(real("exposed_units", "s", "model: of t_exposed, what units (SMs) cost that others hold"));
  c.push_back(real("exposed_launch", "s", "model: of t_exposed, waiting for the host beyond what compute alone does"));
  c.push_back(text("exposed_by", "model: t_exposed in parts, operation@lane:cause(beside)=seconds, the largest first"));
  c.push_back(text("verdict", "the row in words"));
  // conditions
  c.push_back(real("align_skew", "s", "median spread of the ranks' origins"));
  c.push_back(real("observer_ratio", "1", "median step with per-operation stamps / without"));
  c.push_back(real("core_distance", "s", "host: median one-way core-to-core latency over the blocks used"));
  c.push_back(real("core_distance_low", "s", "smallest reading"));
  c.push_back(real("core_distance_high", "s", "largest reading"));
  c.push_back(
      real("busy_core_slowdown", "1", "host: time of fixed work while the other cores are busy / alone, median"));
  c.push_back(real("steal_share", "1", "host: stolen CPU time / elapsed, largest over the blocks used"));
  c.push_back(
      real("foreign_cpu_share", "1", "host: CPU time of other processes / elapsed, largest over the blocks used"));
  return c;
}

}  // namespace

const Schema& samples_schema() {
  static const Schema schema{
      "samples",
      1,
      {
          text("key", "the case"),
          integer("launch", "1", "index of the process launch"),
          integer("block", "1", "block of rounds between two readings of the conditions"),
          integer("round", "1", "round within the case"),
          integer("position", "1", "position of the arm within its round"),
          text("arm",
               "empty, compute, comm, serial, overlapped, or an arm that the bench names (loaded, compute_loaded ...)"),
          integer("rank", "1", "rank whose own time this is"),
          integer("slot", "1", "copy of the rotating buffers"),
          integer("repeats", "1", "operations of each kind within the window"),
          real("step", "s", "latest end - latest origin over all ranks, whole window; the same in all ranks' rows"),
          real("own", "s", "end - origin of this rank, whole window"),
          real("compute_span", "s", "first start to last end on this rank's compute lanes"),
          real("comm_span", "s", "first start to last end on this rank's comm lanes"),
          real("compute_start", "s", "when that compute began, from the latest origin"),
          real("comm_start", "s", "when that communication began, from the latest origin"),
          real("pace", "B/s", "read and written by this rank's streams while they ran; empty without any"),
          real("align_skew", "s", "spread of the ranks' origins in this replay"),
          text("launch_order", "which role began first in this replay"),
          integer("used", "1", "1 when the summary uses this sample; 0 when its block was spoilt"),
          text("noise", "what spoilt the block, when used = 0 or the case is noisy"),
      }};
  return schema;
}

const std::vector<Column>& common_summary_columns() {
  static const std::vector<Column> columns = common();
  return columns;
}

Schema summary_schema(const std::vector<Column>& own) {
  Schema schema{"summary", 1, common_summary_columns()};
  schema.columns.insert(schema.columns.end(), own.begin(), own.end());
  std::set<std::string> names;
  for (const Column& column : schema.columns) {
    require(names.insert(column.name).second, "summary.csv has one column " + column.name);
  }
  return schema;
}

const Schema& operations_schema() {
  static const Schema schema{
      "operations",
      1,
      {
          text("key", "the case"),
          integer("launch", "1", "index of the process launch"),
          text("arm", "which arm was instrumented"),
          integer("replay", "1", "replay within the instrumented pass"),
          integer("rank", "1", "rank"),
          text("lane", "name of the lane"),
          integer("op", "1", "id of the operation, the same in every arm"),
          text("kind", "gemm, all_reduce, ..."),
          integer("nth", "1", "of its kind on its lane, from 0: the bucket of an all_reduce, in a window's first step"),
          integer("bytes", "B", "the whole array of a collective; empty for others"),
          text("role", "compute or comm"),
          real("enqueued", "s", "handed to the lane, from the common origin"),
          real("eligible", "s", "all that wrote what a communication reads had finished: a bucket's last gradient"),
          real("ready", "s", "its predecessors had finished, those on its own lane too (derived)"),
          real("start", "s", "began, where it can be seen"),
          real("end", "s", "finished"),
          real("host_return", "s", "the host call came back"),
          real("proceeded", "s",
               "what first reads its result on another lane began, or was ready where starts are not seen"),
          real("exposed", "s", "model: its part of the step's t_exposed, whole window; empty: it has none"),
          text("cause", "model: of the largest part of that: transfer, peer, shared, units or launch"),
          text("start_source", "where start comes from; empty: unknown"),
          real("kept_until", "s", "operations that began at or after it are left out, on every lane; empty: none"),
          text("step", "what the schedule calls the part that it belongs to; empty: it has no name"),
      }};
  return schema;
}

const Schema& series_schema() {
  static const Schema schema{
      "series",
      1,
      {
          real("time_s", "s", "since the queue began"),
          real("backlog", "1", "submitted and not completed, in operations"),
          real("growth_rate", "1/s",
               "fluid: arrivals - services a second; replay: slope of the line through its backlog"),
          real("drain_time_s", "s",
               "fluid: empty from then on, inf: never; replay: first empty then, no field: not seen"),
          real("submitted", "1", "operations so far, those queued at time 0 among them"),
          real("completed", "1", "operations so far"),
          real("fluid_backlog", "1", "what the fluid line says of the time"),
          real("output_rate", "1/s", "fluid: what completes a second at the time; no field in a replay"),
          text("kind", "fluid: the closed form; replay: what a replay did"),
          integer("round", "1", "of the replay; no field: the closed form"),
          text("key", "the case"),
          integer("launch", "1", "index of the process launch"),
          text("source", "measured, model or emulated: what kind of numbers the case holds"),
      }};
  return schema;
}

const Schema& fits_schema() {
  static const Schema schema = [] {
    std::vector<Column> c{
        text("file", "the foreign log; empty for a measured run"),
        text("series", "key of the rows of summary.csv that were fitted, without their sizes"),
        text("source", "measured, imported, emulated ...: what kind of numbers were fitted"),
        text("collective", "what was fitted"),
        text("dtype", "element type"),
        text("op", "reduction, as a foreign log spells it; empty for a measured run, which sums"),
        integer("ranks", "1", "ranks that took part"),
        integer("in_place", "1", "1 in place, 0 out of place"),
        text("load", "idle: alone; loaded: beside GEMMs that cover it; empty: a foreign log does not say"),
        text("method", "relative: least squares of relative errors, the headline; ordinary; theil_sen"),
        integer("segments", "1", "lines of this fit, one row each"),
        integer("breakpoint_bytes", "B", "size from which this line holds; empty for the first"),
        real("alpha_s", "s", "time of this line at size 0, signed"),
        real("beta_s_per_byte", "s/B", "slope of this line, signed"),
        real("bus_bandwidth", "B/s",
             "bus factor / beta: what the line tends to; no wire speed in hierarchies and switches"),
        real("median_relative_error", "1", "|predicted - measured| / measured, half of the points of the whole fit"),
        real("max_relative_error", "1", "the largest of the whole fit"),
        integer("points", "1", "points of the whole fit"),
        integer("chosen", "1", "1: as many segments as pay, by an information criterion; else 0"),
        real("held_out_median_relative_error", "1", "the same of sizes that the fit has not seen, each left out once"),
        real("held_out_max_relative_error", "1", "the largest of them"),
        real("half_performance_bytes", "B", "size from which half of the last line's bandwidth is reached"),
        integer("launches", "1", "process launches whose points were fitted together; empty for a foreign log"),
    };
    const auto interval = [&](const std::string& name, const std::string& unit) {
      c.push_back(real(name + "_low", unit, "lower end of the 95 % interval of " + name + ", launches resampled"));
      c.push_back(real(name + "_high", unit, "upper end of it; of several lines in the one whose " + name + " it is"));
    };
    interval("alpha_s", "s");
    interval("beta_s_per_byte", "s/B");
    interval("half_performance_bytes", "B");
    c.push_back(integer("alpha_agree", "1", "launches whose own alpha lies where the others predict"));
    c.push_back(integer("beta_agree", "1", "launches whose own beta lies where the others predict"));
    c.push_back(text("verdict", "whether the fit stands for its points, and whether the launches agree"));
    return Schema{"fits", 1, c};
  }();
  return schema;
}

const Schema& imported_schema() {
  static const Schema schema{
      "imported",
      1,
      {
          text("file", "the foreign log"),
          text("collective", "our name where there is one"),
          text("dtype", "as the log spells it"),
          text("op", "as the log spells it"),
          integer("bytes", "B", "the whole array, nccl-tests' convention"),
          integer("ranks", "1", "ranks that took part"),
          integer("in_place", "1", "1 in place, 0 out of place"),
          real("seconds", "s", "time of one collective"),
          real("algorithm_bandwidth", "B/s", "bytes / seconds; as printed where three digits are"),
          real("bus_bandwidth", "B/s", "as printed where three digits are, else by the bus factor; empty for one rank"),
          real("wrong", "1", "elements that were wrong; empty: not checked"),
          text("status", "ok, failed_verify, skipped (nothing to compare) or unreadable"),
          text("reason", "why, when the status is not ok"),
          integer("line", "1", "of the log, from 1"),
      }};
  return schema;
}

const std::vector<Column>& imported_summary_columns() {
  static const std::vector<Column> columns{
      text("file", "the foreign log"),
      text("collective", "our name where there is one"),
      text("dtype", "as the log spells it"),
      text("op", "as the log spells it"),
      integer("in_place", "1", "1 in place, 0 out of place"),
      integer("bytes", "B", "the whole array, nccl-tests' convention"),
      real("algorithm_bandwidth", "B/s", "bytes / t_comm"),
      real("bus_bandwidth", "B/s", "algorithm_bandwidth by the bus factor"),
  };
  return columns;
}

const Schema& launches_schema() {
  static const Schema schema = [] {
    std::vector<Column> c{text("key", "the case"), integer("launches", "1", "process launches with a usable row")};
    with_interval(c, "t_compute", "s", "median over launches of the launches' medians");
    with_interval(c, "t_comm", "s", "median over launches of the launches' medians");
    with_interval(c, "t_step", "s", "median over launches of the launches' medians");
    with_interval(c, "hidden_share", "1",
                  "median over launches; the interval holds as many further launches in 95 % of cases");
    c.push_back(real("hidden_share_least", "1", "smallest over the launches"));
    c.push_back(real("hidden_share_most", "1", "largest over the launches"));
    c.push_back(integer("agree", "1", "launches whose own value lies where the others predict"));
    c.push_back(text("verdict", "whether a claim between runs may rest on this"));
    return Schema{"launches", 1, c};
  }();
  return schema;
}

const Schema& choices_schema() {
  static const Schema schema = [] {
    std::vector<Column> c{
        text("series", "key of the rows of summary.csv that were compared, without the option"),
        text("option", "what differs between them"),
        integer("values", "1", "how many values of it were measured"),
        text("recommended", "the best value, or the first that is not shown to expose more than it"),
        text("best", "the value with the least exposed time"),
        text("best_low", "least value of the 95 % interval of the best, rounds resampled"),
        text("best_high", "largest value of it"),
    };
    with_interval(c, "t_exposed", "s", "of the best value");
    c.push_back(text("reference", "the value that the best is compared with; empty: it was not measured"));
    with_interval(c, "gain", "s", "what the reference exposes more than the best");
    c.push_back(text("predicted", "what a closed form says of the same series; empty: there is none"));
    c.push_back(text("verdict", "in words, or why it is unclear"));
    return Schema{"choices", 1, c};
  }();
  return schema;
}

const Schema& comparison_schema() {
  static const Schema schema{
      "comparison",
      1,
      {
          text("case", "what was asked for; of a series without its bytes"),
          text("quantity", "a column of summary.csv, or alpha, beta, half_performance of a series"),
          text("unit", "of the values: s, B/s, s/B, B or 1"),
          text("baseline", "the run that is compared with"),
          text("run", "the run that is compared"),
          text("baseline_source", "measured, imported, model, proxy or emulated"),
          text("source", "the same of the run"),
          real("baseline_value", "1", "in the row's unit; over several launches their mean"),
          real("baseline_low", "1", "lower end of its 95 % interval"),
          real("baseline_high", "1", "upper end of its 95 % interval"),
          real("value", "1", "in the row's unit; over several launches their mean"),
          real("low", "1", "lower end of its 95 % interval"),
          real("high", "1", "upper end of its 95 % interval"),
          real("ratio", "1", "value / baseline_value; empty unless both are positive"),
          real("ratio_low", "1", "lower end of its 95 % interval"),
          real("ratio_high", "1", "upper end of its 95 % interval"),
          real("difference", "1", "value - baseline_value of what is signed: hidden_share, t_exposed"),
          real("difference_low", "1", "lower end of its 95 % interval"),
          real("difference_high", "1", "upper end of its 95 % interval"),
          text("verdict", "faster, slower, same or unclear"),
          text("basis", "what the verdict rests on: launches, rounds of one launch, a fit or points"),
          text("reason", "why it is unclear, or what the verdict lacks"),
          integer("beyond_limit", "1", "1: slower by more than --fail-if-slower"),
      }};
  return schema;
}

}  // namespace ovl
