// SPDX-License-Identifier: Apache-2.0
#include "metrics/periods.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace ovl {

PeriodSet::PeriodSet(std::vector<Period> periods) {
  for (const Period& i : periods) {
    require(!std::isnan(i.begin.value()) && !std::isnan(i.end.value()), "the ends of an interval are known");
  }
  std::erase_if(periods, [](const Period& i) { return i.end <= i.begin; });
  std::sort(periods.begin(), periods.end(), [](const Period& a, const Period& b) { return a.begin < b.begin; });
  for (const Period& i : periods) {
    if (!periods_.empty() && i.begin <= periods_.back().end) {
      periods_.back().end = std::max(periods_.back().end, i.end);
    } else {
      periods_.push_back(i);
    }
  }
}

Seconds PeriodSet::length() const {
  Seconds total;
  for (const Period& i : periods_) total += i.end - i.begin;
  return total;
}

PeriodSet unite(const PeriodSet& a, const PeriodSet& b) {
  std::vector<Period> both = a.periods();
  both.insert(both.end(), b.periods().begin(), b.periods().end());
  return PeriodSet(std::move(both));
}

PeriodSet intersect(const PeriodSet& a, const PeriodSet& b) {
  std::vector<Period> common;
  auto i = a.periods().begin();
  auto j = b.periods().begin();
  while (i != a.periods().end() && j != b.periods().end()) {
    common.push_back({std::max(i->begin, j->begin), std::min(i->end, j->end)});
    (i->end < j->end ? i : j)++;
  }
  return PeriodSet(std::move(common));
}

PeriodSet subtract(const PeriodSet& a, const PeriodSet& b) {
  std::vector<Period> left;
  auto hole = b.periods().begin();
  for (Period rest : a.periods()) {
    while (hole != b.periods().end() && hole->end <= rest.begin) ++hole;
    // A hole may reach into the next interval, so it is not passed here.
    for (auto h = hole; h != b.periods().end() && h->begin < rest.end; ++h) {
      left.push_back({rest.begin, h->begin});
      rest.begin = h->end;
    }
    left.push_back(rest);
  }
  return PeriodSet(std::move(left));
}

}  // namespace ovl
