// SPDX-License-Identifier: Apache-2.0
#include "results/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "program/program.hpp"
#include "results/file.hpp"
#include "results/import/imported.hpp"
#include "schedule/collective.hpp"
#include "stats/summary.hpp"

namespace ovl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view format_name = "overlapbench machine";
constexpr std::size_t largest_text = std::size_t{4} << 20U;
constexpr std::size_t most_entries = 1000;
constexpr std::size_t most_cost_points = 10'000;
constexpr std::size_t longest_text = 400;
constexpr int deepest = 8;
constexpr std::size_t most_levels = 8;
// What `levels` say in their place.
constexpr std::array<std::string_view, 5> rates_of_two_levels{"link", "link_latency", "network", "network_latency",
                                                              "node_ranks"};

// ---- reading --------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& instead) {
  throw usage_error((where.empty() ? "the machine description" : where) + " " + what, "", instead);
}

// An object of which every field is asked for by name; done() refuses what nobody asked for.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse(where_, "is no object", "write {\"...\": ...}");
  }

  [[nodiscard]] std::string at(std::string_view field) const {
    return where_.empty() ? std::string(field) : fmt::format("{}.{}", where_, field);
  }

  // nullptr: absent or null.
  const json* find(std::string_view field) {
    asked_.emplace(field);
    const auto found = object_.find(field);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::string text(std::string_view field, bool required = false) {
    const json* value = find(field);
    if (value == nullptr && !required) return {};
    if (value == nullptr || !value->is_string()) refuse(at(field), "is no text", "write a text in quotes");
    const auto& text = value->get_ref<const std::string&>();
    if (text.size() > longest_text) refuse(at(field), "has more than 400 characters", "write it shorter");
    if (required && text.empty()) refuse(at(field), "is empty", "write what it is");
    if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
      refuse(at(field), "holds a control character", "leave it out");
    }
    return text;
  }

  double number(std::string_view field, double low, double high) {
    const json* value = find(field);
    if (value == nullptr) refuse(at(field), "is missing", "write a number");
    return number_of(*value, at(field), low, high);
  }

  double optional_number(std::string_view field, double low, double high) {
    const json* value = find(field);
    return value == nullptr ? nan : number_of(*value, at(field), low, high);
  }

  // An empty array where there is none.
  const json& list(std::string_view field, std::size_t most) {
    static const json empty = json::array();
    const json* value = find(field);
    if (value == nullptr) return empty;
    if (!value->is_array()) refuse(at(field), "is no list", "write [...]");
    if (value->size() > most)
      refuse(at(field), fmt::format("has {} entries", value->size()), fmt::format("write at most {}", most));
    return *value;
  }

  void done() const {
    for (const auto& [field, value] : object_.items()) {
      if (asked_.find(field) != asked_.end()) continue;
      const std::vector<std::string> known(asked_.begin(), asked_.end());
      refuse(at(printable(field)), "is no field of a machine description",
             fmt::format("did you mean {}? docs/machines.md lists all", nearest(field, known, 1).front()));
    }
  }

  static double number_of(const json& value, const std::string& where, double low, double high) {
    const double number = value.is_number() ? value.get<double>() : nan;
    if (!(number >= low && number <= high)) {
      refuse(where, fmt::format("is {}", printable(value.dump(), 40)),
             fmt::format("write a number from {} to {}", low, high));
    }
    return number;
  }

 private:
  const json& object_;
  std::string where_;
  std::set<std::string, std::less<>> asked_;
};

std::string entry(std::string_view list, std::size_t index) { return fmt::format("{}[{}]", list, index); }

// A number, or {"value": ..., "low": ..., "high": ...}.
Quoted quoted_of(const json* value, const std::string& where, double low, double high) {
  if (value == nullptr) refuse(where, "is missing", "write a number or {\"value\": ..., \"low\": ..., \"high\": ...}");
  if (!value->is_object()) return {Fields::number_of(*value, where, low, high), {}};
  Fields fields(*value, where);
  Quoted quoted{fields.number("value", low, high), {}};
  quoted.interval = {fields.optional_number("low", low, high), fields.optional_number("high", low, high)};
  fields.done();
  const bool one = std::isnan(quoted.interval.low) != std::isnan(quoted.interval.high);
  if (one || (!std::isnan(quoted.interval.low) && quoted.interval.low > quoted.interval.high)) {
    refuse(where, "has an interval of which one end is missing or that ends before it begins", "write low and high");
  }
  return quoted;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; }) &&
         text.front() != '.' && text.front() != '-';
}

Origin origin_of(const json& value, const std::string& where) {
  Fields fields(value, where);
  Origin origin{.id = fields.text("id", true),
                .kind = parse_enum<OriginKind>(fields.text("kind", true)),
                .source = fields.text("source", true),
                .file = fields.text("file"),
                .sha256 = fields.text("sha256"),
                .tool = fields.text("tool"),
                .date = fields.text("date")};
  fields.done();
  const bool hash =
      origin.sha256.size() == 64 && origin.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (origin.kind == OriginKind::imported ? !hash : !origin.sha256.empty() && !hash) {
    refuse(where + ".sha256", "is no SHA-256", "write the 64 hexadecimal digits of the log that sha256sum prints");
  }
  return origin;
}

std::vector<MachineSegment> segments_of(const json& list, const std::string& where) {
  if (list.empty()) refuse(where, "is empty or missing", "write one to three segments, the first from 0 bytes");
  std::vector<MachineSegment> segments;
  for (std::size_t i = 0; i < list.size(); ++i) {
    Fields fields(list[i], entry(where, i));
    MachineSegment segment{.from = fields.number("from_bytes", 0, 1e18),
                           .alpha = quoted_of(fields.find("alpha_s"), fields.at("alpha_s"), -1e4, 1e4),
                           .beta = quoted_of(fields.find("beta_s_per_byte"), fields.at("beta_s_per_byte"), -1, 1)};
    fields.done();
    if (i == 0 ? segment.from != 0 : segment.from <= segments.back().from) {
      refuse(fields.at("from_bytes"), fmt::format("is {}", segment.from), "begin with 0 and let them ascend");
    }
    segments.push_back(segment);
  }
  return segments;
}

std::vector<SizeTime> points_of(const json& list, const std::string& where) {
  std::vector<SizeTime> points;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = entry(where, i);
    if (!list[i].is_array() || list[i].size() != 2) refuse(at, "is no pair", "write [bytes, seconds]");
    points.push_back({Fields::number_of(list[i][0], at, 1, 1e18), Fields::number_of(list[i][1], at, 1e-12, 1e6)});
  }
  return points;
}

// Errors of the points that are there, as the file states them.
void require_errors(const CollectiveCost& cost, const std::string& where) {
  if (cost.points.empty()) return;
  const CostFit fit = cost.fit();
  const auto close = [](double a, double b) { return std::fabs(a - b) <= 1e-6 * std::max(1.0, std::fabs(b)); };
  for (const auto& [field, said, found] :
       {std::tuple{"median_relative_error", cost.median_relative_error, fit.median_relative_error},
        std::tuple{"max_relative_error", cost.max_relative_error, fit.max_relative_error}}) {
    if (!close(said, found)) {
      refuse(fmt::format("{}.{}", where, field), fmt::format("is {} and its points give {}", said, found),
             "write what the points give, or make the file again with overlap-machine");
    }
  }
}

// A cost that is negative somewhere would let a model finish before it begins.
void require_positive_times(const CollectiveCost& cost, const std::string& where) {
  const auto& s = cost.segments;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const double begin = std::max(s[i].from, cost.least_bytes);
    const double end = i + 1 < s.size() ? std::min(s[i + 1].from, cost.most_bytes) : cost.most_bytes;
    for (const double bytes : {begin, end}) {
      if (s[i].alpha.value + s[i].beta.value * bytes > 0) continue;
      refuse(entry(where + ".segments", i), fmt::format("gives no positive time at {} bytes", bytes),
             "fit it again, or leave the collective out");
    }
  }
  if (!(s.back().beta.value > 0)) {
    refuse(entry(where + ".segments", s.size() - 1) + ".beta_s_per_byte", "is not positive",
           "large messages take time: fit it again, or leave the collective out");
  }
}

// Those of overlap-collective, and those that only logs have.
void require_collective(const std::string& name, const std::string& where) {
  std::vector<std::string> known = names<CollectiveForm>();
  if (std::find(known.begin(), known.end(), name) != known.end() || known_collective(name) == name) return;
  known.insert(known.end(), {"reduce", "gather", "scatter", "sendrecv"});
  throw unknown_value(where, printable(name), known);
}

CollectiveCost collective_of(const json& value, const std::string& where) {
  Fields fields(value, where);
  CollectiveCost cost;
  cost.collective = fields.text("collective", true);
  require_collective(cost.collective, fields.at("collective"));
  cost.dtype = fields.text("dtype");
  cost.op = fields.text("op");
  const double ranks = fields.number("ranks", 1, 1e6);
  if (ranks != std::floor(ranks)) refuse(fields.at("ranks"), "is no whole number", "write how many ranks took part");
  cost.ranks = static_cast<std::int32_t>(ranks);
  if (const json* in_place = fields.find("in_place")) {
    if (!in_place->is_boolean())
      refuse(fields.at("in_place"), "is neither true nor false", "write one of them, or null");
    cost.in_place = in_place->get<bool>();
  }
  cost.load = fields.text("load");
  if (!cost.load.empty() && cost.load != "idle" && cost.load != "loaded") {
    refuse(fields.at("load"), "is neither idle nor loaded", "write one of them, or leave it out");
  }
  cost.origin = fields.text("origin", true);
  cost.segments = segments_of(fields.list("segments", 3), fields.at("segments"));
  cost.least_bytes = fields.number("least_bytes", 0, 1e18);
  cost.most_bytes = fields.number("most_bytes", cost.least_bytes, 1e18);
  cost.points = points_of(fields.list("points", most_cost_points), fields.at("points"));
  cost.median_relative_error = fields.optional_number("median_relative_error", 0, 1e9);
  cost.max_relative_error = fields.optional_number("max_relative_error", 0, 1e9);
  cost.held_out_median_relative_error = fields.optional_number("held_out_median_relative_error", 0, 1e9);
  fields.done();
  require_positive_times(cost, where);
  require_errors(cost, where);
  return cost;
}

MachineLevel level_of(const json& value, const std::string& where, const MachineLevel* below, bool last) {
  Fields fields(value, where);
  MachineLevel level{.name = fields.text("name", true),
                     .bandwidth = quoted_of(fields.find("bandwidth"), fields.at("bandwidth"), 1, 1e20),
                     .latency = quoted_of(fields.find("latency"), fields.at("latency"), 0, 1),
                     .origin = fields.text("origin", true)};
  const double least = below == nullptr ? 1 : below->ranks;
  if (last) {
    if (fields.find("ranks") != nullptr) {
      refuse(fields.at("ranks"), "is of the last level, which connects all", "leave it out");
    }
  } else {
    const double ranks = fields.number("ranks", least, 1e6);
    if (std::fmod(ranks, least) != 0) {
      refuse(fields.at("ranks"), fmt::format("is {}", ranks),
             below == nullptr ? "write a whole number of devices"
                              : fmt::format("write a multiple of the {} of the level below", below->ranks));
    }
    level.ranks = static_cast<std::int32_t>(ranks);
  }
  if (fields.find("oversubscription") != nullptr) {
    if (below == nullptr) {
      refuse(fields.at("oversubscription"), "is of the first level, below which nothing is shared", "leave it out");
    }
    level.oversubscription = fields.number("oversubscription", 1, 1e6);
  }
  fields.done();
  return level;
}

void require_unique(const std::vector<std::string>& names, std::string_view list) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!seen.insert(names[i]).second) {
      refuse(entry(list, i), fmt::format("is a second \"{}\"", printable(names[i])), "write each once");
    }
  }
}

json parsed(std::string_view text) {
  if (text.size() > largest_text) refuse("", "has more than 4 MiB", "leave points out");
  bool too_deep = false;
  std::string twice;                        // a field that an object has twice
  std::vector<std::set<std::string>> open;  // the fields of the objects that are open
  const auto look = [&](int level, json::parse_event_t event, json& value) {
    too_deep = too_deep || level > deepest;
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end && !open.empty()) open.pop_back();
    if (event == json::parse_event_t::key && !open.empty()) {
      const auto& field = value.get_ref<const std::string&>();
      if (!open.back().insert(field).second && twice.empty()) twice = field;
    }
    return !too_deep;
  };
  json document = json::parse(text, look, false);
  if (too_deep) refuse("", "is nested more than eight levels deep", "write it as docs/machines.md shows");
  if (document.is_discarded()) refuse("", "is no JSON", "write it as docs/machines.md shows");
  if (!twice.empty())
    refuse("", fmt::format("has the field {} twice in one place", printable(twice)), "keep one of them");
  return document;
}

// ---- writing --------------------------------------------------------------------------------------------------------

ordered_json quoted_json(const Quoted& quoted) {
  if (!std::isfinite(quoted.interval.low)) return quoted.value;
  return {{"value", quoted.value}, {"low", quoted.interval.low}, {"high", quoted.interval.high}};
}

// Fields without a value are left out.
void put(ordered_json& object, const char* field, const std::string& text) {
  if (!text.empty()) object[field] = text;
}
void put(ordered_json& object, const char* field, double value) {
  if (std::isfinite(value)) object[field] = value;
}

ordered_json collective_json(const CollectiveCost& cost) {
  ordered_json object{{"collective", cost.collective}};
  put(object, "dtype", cost.dtype);
  put(object, "op", cost.op);
  object["ranks"] = cost.ranks;
  if (cost.in_place) object["in_place"] = *cost.in_place;
  put(object, "load", cost.load);
  object["origin"] = cost.origin;
  object["segments"] = ordered_json::array();
  for (const MachineSegment& s : cost.segments) {
    object["segments"].push_back(
        {{"from_bytes", s.from}, {"alpha_s", quoted_json(s.alpha)}, {"beta_s_per_byte", quoted_json(s.beta)}});
  }
  object["least_bytes"] = cost.least_bytes;
  object["most_bytes"] = cost.most_bytes;
  put(object, "median_relative_error", cost.median_relative_error);
  put(object, "max_relative_error", cost.max_relative_error);
  put(object, "held_out_median_relative_error", cost.held_out_median_relative_error);
  if (!cost.points.empty()) {
    object["points"] = ordered_json::array();
    for (const SizeTime& p : cost.points) object["points"].push_back({p.bytes, p.seconds});
  }
  return object;
}

std::string axis(const CaseAxes& axes, std::string_view name) {
  const auto found = axes.find(name);
  return found == axes.end() ? "" : found->second;
}

}  // namespace

const std::map<std::string, std::string, std::less<>>& machine_rates() {
  static const std::map<std::string, std::string, std::less<>> rates{
      {"memory", "B/s"},        {"link", "B/s"},        {"gemm_f64", "FLOP/s"},  {"gemm_f32", "FLOP/s"},
      {"gemm_tf32", "FLOP/s"},  {"gemm_f16", "FLOP/s"}, {"gemm_bf16", "FLOP/s"}, {"gemm_f8e4m3", "FLOP/s"},
      {"units", "1"},           {"comm_units", "1"},    {"copy_engines", "1"},   {"node_ranks", "1"},
      {"kernel", "s"},          {"launch", "s"},        {"link_latency", "s"},   {"network", "B/s"},
      {"network_latency", "s"}, {"nccl_channels", "1"}, {"nccl_channel", "B/s"}};
  return rates;
}

std::string unit_of_rate(std::string_view name) {
  const std::size_t at = name.find('@');
  const auto known = machine_rates().find(name.substr(0, at));
  if (known == machine_rates().end()) return {};
  if (at == std::string_view::npos) return known->second;
  const std::string_view shape = name.substr(at + 1);
  const bool of_a_gemm = known->second == "FLOP/s";
  return of_a_gemm && !shape.empty() && shape.find_first_not_of("0123456789x") == std::string_view::npos ? known->second
                                                                                                         : "";
}

bool computes(std::string_view side) { return side == "gemm" || side == "compute"; }

bool communicates(std::string_view side) {
  return side == "comm" ||
         std::any_of(std::begin(EnumNames<CollectiveKind>::table), std::end(EnumNames<CollectiveKind>::table),
                     [&](const auto& known) { return known.second == side; });
}

CostFit CollectiveCost::fit() const {
  CostFit fit;
  fit.segments.clear();
  for (const MachineSegment& s : segments) fit.segments.push_back({s.from, {s.alpha.value, s.beta.value}});
  std::vector<double> errors;
  for (const SizeTime& p : points) errors.push_back(std::fabs(fit.at(p.bytes) - p.seconds) / p.seconds);
  fit.points = points.size();
  fit.median_relative_error = median(errors);
  fit.max_relative_error = quantile(errors, 1);
  return fit;
}

std::string CollectiveCost::title() const {
  CaseAxes axes{{"collective", collective}, {"ranks", std::to_string(ranks)}};
  if (!dtype.empty()) axes["dtype"] = dtype;
  if (!op.empty()) axes["op"] = op;
  if (in_place) axes["in_place"] = *in_place ? "1" : "0";
  if (!load.empty()) axes["load"] = load;
  return series_title(axes);
}

const Origin* Machine::find_origin(std::string_view id) const {
  const auto found = std::find_if(origins.begin(), origins.end(), [&](const Origin& o) { return o.id == id; });
  return found == origins.end() ? nullptr : &*found;
}

std::string machine_json(const Machine& machine) {
  ordered_json document{{"format", format_name}, {"version", Machine::version}, {"name", machine.name}};
  put(document, "fabric", machine.fabric);
  put(document, "device", machine.device);
  document["origins"] = ordered_json::array();
  for (const Origin& o : machine.origins) {
    ordered_json origin{{"id", o.id}, {"kind", name(o.kind)}, {"source", o.source}};
    put(origin, "file", o.file);
    put(origin, "sha256", o.sha256);
    put(origin, "tool", o.tool);
    put(origin, "date", o.date);
    document["origins"].push_back(origin);
  }
  document["rates"] = ordered_json::array();
  for (const MachineRate& r : machine.rates) {
    document["rates"].push_back({{"name", r.name}, {"rate", quoted_json(r.rate)}, {"origin", r.origin}});
  }
  for (const MachineLevel& l : machine.levels) {
    ordered_json level{{"name", l.name}};
    if (l.ranks > 0) level["ranks"] = l.ranks;
    level["bandwidth"] = quoted_json(l.bandwidth);
    level["latency"] = quoted_json(l.latency);
    if (l.oversubscription != 1) level["oversubscription"] = l.oversubscription;
    level["origin"] = l.origin;
    document["levels"].push_back(level);
  }
  document["collectives"] = ordered_json::array();
  for (const CollectiveCost& c : machine.collectives) document["collectives"].push_back(collective_json(c));
  document["contention"] = ordered_json::array();
  for (const ContentionCoefficient& c : machine.contention) {
    document["contention"].push_back({{"victim", c.victim},
                                      {"aggressor", c.aggressor},
                                      {"slowdown", quoted_json(c.slowdown)},
                                      {"origin", c.origin}});
  }
  return document.dump(1) + "\n";
}

Machine parse_machine(std::string_view text) {
  const json document = parsed(text);
  Fields fields(document, "");
  if (fields.text("format", true) != format_name) {
    refuse("format", "is not \"overlapbench machine\"", "name a file that overlap-machine wrote");
  }
  const double version = fields.number("version", 0, 1e9);
  if (version != Machine::version) {
    refuse("version", fmt::format("is {}", version),
           fmt::format("this build reads version {}: make the file again with overlap-machine", Machine::version));
  }
  Machine machine;
  machine.name = fields.text("name", true);
  if (!is_name(machine.name)) refuse("name", "is no name", "use small letters, digits, - and ., at most 64");
  machine.fabric = fields.text("fabric");
  machine.device = fields.text("device");

  const json& origins = fields.list("origins", most_entries);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < origins.size(); ++i) {
    machine.origins.push_back(origin_of(origins[i], entry("origins", i)));
    names.push_back(machine.origins.back().id);
  }
  require_unique(names, "origins");
  const auto require_origin = [&](const std::string& id, const std::string& where) {
    if (machine.find_origin(id) != nullptr) return;
    refuse(where + ".origin", fmt::format("is \"{}\", which is none of origins", printable(id)),
           "a number without an origin is a rumour: write where it comes from");
  };

  names.clear();
  const json& rates = fields.list("rates", most_entries);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    Fields rate(rates[i], entry("rates", i));
    MachineRate r{rate.text("name", true), rate.text("origin", true), {}};
    const std::string unit = unit_of_rate(r.name);
    if (unit.empty()) {
      std::vector<std::string> all;
      for (const auto& [known_name, its_unit] : machine_rates()) all.push_back(known_name);
      throw unknown_value(entry("rates", i) + ".name", printable(r.name), all);
    }
    r.rate = quoted_of(rate.find("rate"), rate.at("rate"), unit == "s" ? 1e-12 : 1,
                       unit == "s"   ? 1
                       : unit == "1" ? 1e6
                                     : 1e20);
    rate.done();
    require_origin(r.origin, entry("rates", i));
    names.push_back(r.name);
    machine.rates.push_back(std::move(r));
  }
  require_unique(names, "rates");

  names.clear();
  const json& levels = fields.list("levels", most_levels);
  if (levels.size() == 1) refuse("levels", "has one entry", "write the node's and those above, or none");
  for (std::size_t i = 0; i < levels.size(); ++i) {
    machine.levels.push_back(
        level_of(levels[i], entry("levels", i), i == 0 ? nullptr : &machine.levels.back(), i + 1 == levels.size()));
    require_origin(machine.levels.back().origin, entry("levels", i));
    names.push_back(machine.levels.back().name);
  }
  require_unique(names, "levels");
  for (std::size_t i = 0; i < machine.rates.size() && !levels.empty(); ++i) {
    const std::string& rate = machine.rates[i].name;
    if (std::find(rates_of_two_levels.begin(), rates_of_two_levels.end(), rate) == rates_of_two_levels.end()) continue;
    refuse(entry("rates", i), fmt::format("is {}, which levels say", rate), "leave one of them out");
  }

  names.clear();
  const json& collectives = fields.list("collectives", most_entries);
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    machine.collectives.push_back(collective_of(collectives[i], entry("collectives", i)));
    require_origin(machine.collectives.back().origin, entry("collectives", i));
    names.push_back(machine.collectives.back().title() + " of " + machine.collectives.back().origin);
  }
  require_unique(names, "collectives");

  const json& contention = fields.list("contention", most_entries);
  for (std::size_t i = 0; i < contention.size(); ++i) {
    Fields c(contention[i], entry("contention", i));
    machine.contention.push_back({c.text("victim", true), c.text("aggressor", true), c.text("origin", true),
                                  quoted_of(c.find("slowdown"), c.at("slowdown"), 0.01, 1e6)});
    c.done();
    require_origin(machine.contention.back().origin, entry("contention", i));
  }
  fields.done();
  return machine;
}

Machine read_machine(const fs::path& path) {
  const std::string shown = printable(path.string(), 400);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    throw usage_error("there is no file " + shown, "", "name a machine description; results/machines has some");
  }
  if (fs::file_size(path, error) > largest_text)
    throw usage_error(shown + " has more than 4 MiB", "", "leave points out");
  try {
    return parse_machine(read_text(path));
  } catch (const Error& problem) {
    if (problem.kind() != ErrorKind::usage) throw;
    throw Error(ErrorKind::usage, shown + ": " + problem.what());
  }
}

std::optional<CollectiveCost> cost_of(const LoadedSeries& series, const std::string& origin) {
  std::vector<SizeTime> points = series.points();
  std::stable_sort(points.begin(), points.end(),
                   [](const SizeTime& a, const SizeTime& b) { return a.bytes < b.bytes; });
  std::set<double> sizes;
  for (const SizeTime& p : points) sizes.insert(p.bytes);
  if (sizes.size() < fewest_sizes) return std::nullopt;

  CollectiveCost cost;
  cost.collective = axis(series.axes, "collective");
  cost.dtype = axis(series.axes, "dtype");
  cost.op = axis(series.axes, "op");
  const std::string ranks = axis(series.axes, "ranks");
  std::from_chars(ranks.data(), ranks.data() + ranks.size(), cost.ranks);
  const std::string in_place = axis(series.axes, "in_place");
  if (!in_place.empty()) cost.in_place = in_place == "1";
  cost.load = axis(series.axes, "load");
  cost.origin = origin;

  const CostFit fit = sizes.size() > most_breakpoints ? fit_segments(points, 1) : fit_cost(points);
  const int segments = static_cast<int>(fit.segments.size());
  const CostIntervals intervals = cost_intervals(series.launches, segments);
  for (const Segment& s : fit.segments) cost.segments.push_back({s.from, {s.line.alpha, {}}, {s.line.beta, {}}});
  cost.segments.front().alpha.interval = intervals.alpha;
  cost.segments.back().beta.interval = intervals.beta;
  cost.least_bytes = *sizes.begin();
  cost.most_bytes = *sizes.rbegin();
  cost.median_relative_error = fit.median_relative_error;
  cost.max_relative_error = fit.max_relative_error;
  cost.held_out_median_relative_error = median(held_out_errors(points, segments));
  cost.points = std::move(points);
  return cost;
}

}  // namespace ovl
