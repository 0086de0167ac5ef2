// SPDX-License-Identifier: Apache-2.0
#include "metrics/trade_off.hpp"

#include <algorithm>
#include <cmath>

namespace ovl {

std::vector<std::size_t> pareto_front(std::span<const TradeOff> settings) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (!std::isnan(settings[i].cost) && !std::isnan(settings[i].gain)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const TradeOff& x = settings[a];
    const TradeOff& y = settings[b];
    return x.cost < y.cost || (x.cost == y.cost && x.gain > y.gain);
  });
  std::vector<std::size_t> front;
  for (const std::size_t i : order) {
    if (front.empty() || settings[i].gain > settings[front.back()].gain) front.push_back(i);
  }
  return front;
}

std::optional<std::size_t> knee(std::span<const TradeOff> settings) {
  const std::vector<std::size_t> front = pareto_front(settings);
  if (front.size() < 3) return std::nullopt;
  const TradeOff& first = settings[front.front()];
  const TradeOff& last = settings[front.back()];
  std::optional<std::size_t> best;
  double most = 0;
  for (const std::size_t i : front) {
    const double across = (settings[i].cost - first.cost) / (last.cost - first.cost);
    const double up = (settings[i].gain - first.gain) / (last.gain - first.gain);
    if (up - across > most) {
      most = up - across;
      best = i;
    }
  }
  return best;
}

std::optional<double> break_even(std::vector<Intensity> curve) {
  std::erase_if(curve, [](const Intensity& i) { return std::isnan(i.amount) || std::isnan(i.gain); });
  std::stable_sort(curve.begin(), curve.end(),
                   [](const Intensity& a, const Intensity& b) { return a.amount < b.amount; });
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const Intensity& before = curve[i - 1];
    const Intensity& after = curve[i];
    if (before.gain <= 0) return std::nullopt;
    if (after.gain > 0) continue;
    return before.amount + (after.amount - before.amount) * before.gain / (before.gain - after.gain);
  }
  return std::nullopt;
}

}  // namespace ovl
