// SPDX-License-Identifier: Apache-2.0
#include "metrics/bus_bandwidth.hpp"

#include <limits>

#include "base/error.hpp"

namespace ovl {

double bus_factor(CollectiveKind kind, int ranks) {
  require(ranks >= 1, "a collective has at least one rank");
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::all_reduce: return 2 * (n - 1) / n;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all: return (n - 1) / n;
    case CollectiveKind::broadcast: return 1;
  }
  throw std::logic_error("broken invariant: a collective without a bus factor");
}

BytesPerSecond algorithm_bandwidth(Bytes size, Seconds time) {
  if (!(time > Seconds(0))) return BytesPerSecond(std::numeric_limits<double>::quiet_NaN());
  return size / time;
}

BytesPerSecond bus_bandwidth(CollectiveKind kind, int ranks, Bytes size, Seconds time) {
  return algorithm_bandwidth(size, time) * bus_factor(kind, ranks);
}

Seconds time_at_bus_bandwidth(CollectiveKind kind, int ranks, Bytes size, BytesPerSecond bandwidth) {
  return size / bandwidth * bus_factor(kind, ranks);
}

}  // namespace ovl
