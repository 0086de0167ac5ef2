// SPDX-License-Identifier: Apache-2.0
#include "results/schema.hpp"

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
      text("source", "measured, model, proxy or emulated: what kind of number this row holds"),
      text("backend", "what replayed the program"),
      text("transport", "what moved the bytes of the collectives"),
      integer("ranks", "1", "ranks of the program"),
      text("placement", "the axes of order, priority, partition and replay"),
      text("program_hash", "hash of the printed program, all arms"),
      // asked for and observed
      text("waiting", "how host lanes wait: spin, yield or block"),
      integer("channels_asked", "1", "channels or CTAs asked for; 0: the library's choice"),
      integer("channels_observed", "1", "channels or CTAs that ran"),
      text("layout", "which core or SM set each lane ran on"),
      integer("oversubscribed", "1", "1 when there were fewer cores than busy lanes, else 0"),
      text("launch_mode", "gated: all work enqueued before the clock starts; live: launch inside the window"),
      text("launch_order", "which role began first, as observed; unverified where it cannot be seen"),
      text("buffers", "plain, registered or symmetric"),
      integer("buffer_copies", "1", "copies that the replays rotate through"),
      text("verify", "exact+random, off, exact failed, random failed; empty: nothing was verified"),
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
  c.push_back(real("t_path", "s", "longest path through the overlapped program at isolated times"));
  c.push_back(real("compute_stretch", "1", "span of the compute lanes overlapped / alone"));
  c.push_back(real("comm_stretch", "1", "span of the comm lanes overlapped / alone"));
  c.push_back(real("compute_slowdown", "1", "slowdown of compute while both run"));
  c.push_back(real("comm_slowdown", "1", "slowdown of communication while both run"));
  c.push_back(text("slowdown_source", "covered: an aggressor covered the victim; fluid: inverted from the spans"));
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
          text("arm", "empty, compute, comm, serial or overlapped"),
          integer("rank", "1", "rank whose own time this is"),
          integer("slot", "1", "copy of the rotating buffers"),
          integer("repeats", "1", "operations of each kind within the window"),
          real("step", "s", "latest end - latest origin over all ranks, whole window; the same in all ranks' rows"),
          real("own", "s", "end - origin of this rank, whole window"),
          real("compute_span", "s", "first start to last end on this rank's compute lanes"),
          real("comm_span", "s", "first start to last end on this rank's comm lanes"),
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
  return schema;
}

const Schema& operations_schema() {
  static const Schema schema{"operations",
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
                                 text("role", "compute or comm"),
                                 real("enqueued", "s", "handed to the lane, from the common origin"),
                                 real("ready", "s", "its predecessors had finished (derived)"),
                                 real("start", "s", "began, where it can be seen"),
                                 real("end", "s", "finished"),
                                 real("host_return", "s", "the host call came back"),
                                 text("start_source", "where start comes from; empty: unknown"),
                             }};
  return schema;
}

const Schema& launches_schema() {
  static const Schema schema = [] {
    std::vector<Column> c{text("key", "the case"), integer("launches", "1", "process launches with a usable row")};
    with_interval(c, "t_compute", "s", "median over launches of the launches' medians");
    with_interval(c, "t_comm", "s", "median over launches of the launches' medians");
    with_interval(c, "t_step", "s", "median over launches of the launches' medians");
    with_interval(c, "hidden_share", "1", "median over launches; the interval is for one further launch");
    c.push_back(real("hidden_share_least", "1", "smallest over the launches"));
    c.push_back(real("hidden_share_most", "1", "largest over the launches"));
    c.push_back(integer("agree", "1", "launches whose own value lies in the interval predicted by the others"));
    c.push_back(text("verdict", "whether a claim between runs may rest on this"));
    return Schema{"launches", 1, c};
  }();
  return schema;
}

}  // namespace ovl
