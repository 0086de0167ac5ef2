// SPDX-License-Identifier: Apache-2.0
//
// machine.json: what a machine costs, as numbers that a model can take and a picture can show. Rates, alpha and beta of
// collectives by segment, and how much one side slows the other; every number with its interval, where there is one,
// and with its origin: a measured run, a foreign log with its hash, or a publication. docs/machines.md tells the
// format.
//
// A description comes from elsewhere: reading it is bounded and checks everything.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.hpp"
#include "results/cost_series.hpp"
#include "stats/fit.hpp"
#include "stats/interval.hpp"

namespace ovl {

enum class OriginKind { measured, imported, published, emulated };
template <>
struct EnumNames<OriginKind> {
  static constexpr std::string_view axis = "kind of origin";
  static constexpr std::pair<OriginKind, std::string_view> table[] = {{OriginKind::measured, "measured"},
                                                                      {OriginKind::imported, "imported"},
                                                                      {OriginKind::published, "published"},
                                                                      {OriginKind::emulated, "emulated"}};
};

// Where numbers come from. `source` is a public place, a title or a run; a foreign log also has its SHA-256.
struct Origin {
  std::string id;  // what the numbers name it by
  OriginKind kind = OriginKind::published;
  std::string source;
  std::string file;    // imported: the log's name
  std::string sha256;  // imported
  std::string tool;    // imported: the format; measured: version of overlapbench
  std::string date;    // measured, as in run.json
};

struct Quoted {
  double value = std::numeric_limits<double>::quiet_NaN();
  Interval interval;  // 95 %; unknown where nothing was repeated
};

// A rate of one device: memory "B/s", link "B/s" (out of the device, one direction), gemm_<dtype> "FLOP/s"; and what
// the model takes beside them: numbers of units "1", times "s" (docs/machines.md).
struct MachineRate {
  std::string name;
  std::string origin;
  Quoted rate;
};
// Names and their units. A gemm rate may be of one shape: gemm_f32@512x512x512; without one it is the best that is
// known.
const std::map<std::string, std::string, std::less<>>& machine_rates();
// Of a rate with or without a shape; empty: there is no such rate.
std::string unit_of_rate(std::string_view name);

// A level of the fabric, the node's first: what connects `ranks` devices that follow each other, in nodes, then in
// units of the level before. The last one connects all, and says no number.
struct MachineLevel {
  std::string name;  // node, leaf, spine ...
  std::int32_t ranks = 0;
  Quoted bandwidth;             // B/s, of one device, one direction
  Quoted latency;               // s
  double oversubscription = 1;  // what the devices of a unit below could send together / what it has for this level
  std::string origin;
};

struct MachineSegment {
  double from = 0;  // bytes, as in Segment
  Quoted alpha;     // s
  Quoted beta;      // s/B
};

// What one series of a collective costs: t = alpha + beta · bytes from `from` on; sizes are the whole array, in the
// convention of nccl-tests.
struct CollectiveCost {
  std::string collective;
  std::string dtype;
  std::string op;
  std::int32_t ranks = 0;
  std::optional<bool> in_place;
  std::string load;  // idle, loaded, or empty: not known
  std::string origin;
  std::vector<MachineSegment> segments;  // one to three, ascending, the first from 0
  double least_bytes = 0;                // the sizes that the fit rests on
  double most_bytes = 0;
  std::vector<SizeTime> points;  // what was fitted; empty: published without
  double median_relative_error = std::numeric_limits<double>::quiet_NaN();
  double max_relative_error = std::numeric_limits<double>::quiet_NaN();
  double held_out_median_relative_error = std::numeric_limits<double>::quiet_NaN();

  [[nodiscard]] CostFit fit() const;
  [[nodiscard]] std::string title() const;
};

// How many times as long the victim takes while the aggressor runs.
struct ContentionCoefficient {
  std::string victim;
  std::string aggressor;
  std::string origin;
  Quoted slowdown;
};

// What is not of one shape or size: a side that the model takes for all of its kind.
bool computes(std::string_view side);      // gemm, compute
bool communicates(std::string_view side);  // comm, or a collective

struct Machine {
  static constexpr int version = 1;

  std::string name;  // small letters, digits and -
  std::string fabric;
  std::string device;
  std::vector<Origin> origins;
  std::vector<MachineRate> rates;
  std::vector<MachineLevel> levels;  // none, or two and more, in place of the rates link, network and node_ranks
  std::vector<CollectiveCost> collectives;
  std::vector<ContentionCoefficient> contention;

  [[nodiscard]] const Origin* find_origin(std::string_view id) const;
};

std::string machine_json(const Machine& machine);

// Throws Error(usage) that names the entry ("collectives[2].segments[0].beta"), what is wrong and what would be right:
// text that is no JSON or over 4 MiB, an unknown version, field, rate or origin, a number out of range, lists of more
// than 1,000 entries (points: 10,000), times that are not positive over the sizes of the fit, errors that the points
// that are there do not have.
Machine parse_machine(std::string_view text);
// The same with the file's name before the error.
Machine read_machine(const std::filesystem::path& path);

// The headline of a series as a cost: as many segments as pay, its errors, and intervals over launches where there are
// several. nullopt for fewer than four sizes.
std::optional<CollectiveCost> cost_of(const LoadedSeries& series, const std::string& origin);

}  // namespace ovl
