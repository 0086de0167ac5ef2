// SPDX-License-Identifier: Apache-2.0
//
// How a case asks what becomes of a queue: its arms, when it stops, its columns, its series and its words.
//
// An operation is submitted when its last rank submits it and completed when its last rank completes it, as a replay
// that was recorded operation by operation tells afterwards; nobody looks while the queue runs. The backlog is what was
// submitted and is not completed, whoever is being served included. Beside it stands the fluid line of the same rates
// (metrics/fluid_queue.hpp): the service rate is measured in the same rounds, on lanes that always have work.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.hpp"
#include "measure/case.hpp"
#include "metrics/fluid_queue.hpp"
#include "schedule/queue.hpp"

namespace ovl {

// Arms: the same operations one after another on one lane (comm, whose time is t_comm); on all lanes at once, each as
// many (where there are several lanes); and the queue.
inline constexpr std::string_view capacity_arm = "capacity";
inline constexpr std::string_view queue_arm = "queue";

// ---- from records to numbers: pure
// -----------------------------------------------------------------------------------

// One operation over all ranks, after the origin; NaN where it was not seen.
struct Served {
  std::optional<Seconds> planned;  // when it was to be submitted; nothing: queued from the beginning
  Seconds submitted = unknown_time;
  Seconds started = unknown_time;
  Seconds completed = unknown_time;
};

// The work of the program's body in issue order. All ranks have the same: they are one class.
std::vector<Served> served(const Program& program, const Timings& timings);

// At 0, step, 2 step ... up to the duration.
std::vector<QueuePoint> queue_over_time(const std::vector<Served>& operations, Seconds step, Seconds duration);

// The first moment at which nothing is queued nor served; NaN: not seen within the duration, in which arrivals come.
Seconds first_empty(const std::vector<Served>& operations, Seconds duration);

// The slope of the least squares line through the backlog at the points before `until` (NaN: all), a second; NaN for
// fewer than three points.
double backlog_slope(const std::vector<QueuePoint>& points, Seconds until);

// Averages of a whole replay, from 0 to its last completion, those over operations and those over time each by
// themselves: Little's law holds them against each other.
struct QueueAverages {
  double in_system = std::numeric_limits<double>::quiet_NaN();  // operations, an average over time
  Seconds time_in_system = unknown_time;                        // an average over operations
  double in_queue = std::numeric_limits<double>::quiet_NaN();   // likewise, waiting only; NaN: starts are not seen
  Seconds time_in_queue = unknown_time;
  double throughput = std::numeric_limits<double>::quiet_NaN();  // operations a second
  // in_system / (throughput · time_in_system) - 1: 0 but for rounding, or the records contradict each other.
  double little_gap = std::numeric_limits<double>::quiet_NaN();
};
QueueAverages averages(const std::vector<Served>& operations);

// How late arrivals were submitted: the largest lateness, and the share of those that were later than a tenth of the
// mean time between arrivals. 0 without arrivals.
struct Lateness {
  Seconds most{0};
  double share = 0;
};
Lateness lateness(const std::vector<Served>& operations);

// ---- the question
// ----------------------------------------------------------------------------------------------------

enum class Arrivals { constant, poisson };
template <>
struct EnumNames<Arrivals> {
  static constexpr std::string_view axis = "arrivals";
  static constexpr std::pair<Arrivals, std::string_view> table[] = {{Arrivals::constant, "constant"},
                                                                    {Arrivals::poisson, "poisson"}};
};

struct QueueQuestion {
  QueueSpec queue;  // without arrivals; `given` is one over the service rate
  Arrivals arrivals = Arrivals::constant;
  std::uint64_t seed = 1;  // of poisson arrivals
  // One of the two: arrivals a second, or as a part of what one lane serves.
  std::optional<WorkUnitsPerSecond> arrival;
  double load = 1;
  // Nothing: 120 and 1 times what an operation takes alone.
  std::optional<Seconds> duration;
  std::optional<Seconds> step;
  // Rates are given and time is virtual: series.csv holds the fluid line itself.
  bool fluid_only = false;
  int queue_depth = 0;  // of a lane, see Description
};

// Sets build, arms, what stops the case (the interval of the growth rate as a part of the service rate), estimates,
// derived columns, the series and the words. Throws Error(usage) for rates, a backlog or times that are no queue.
void ask_about_queue(CaseSpec& spec, const QueueQuestion& question);

// The columns that it derives, for a bench to declare.
std::vector<Column> queue_columns();

}  // namespace ovl
