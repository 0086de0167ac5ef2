// SPDX-License-Identifier: Apache-2.0
#include "metrics/intervals.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace ovl {

IntervalSet::IntervalSet(std::vector<Interval> intervals) {
  for (const Interval& i : intervals) {
    require(!std::isnan(i.begin.value()) && !std::isnan(i.end.value()), "the ends of an interval are known");
  }
  std::erase_if(intervals, [](const Interval& i) { return i.end <= i.begin; });
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  for (const Interval& i : intervals) {
    if (!intervals_.empty() && i.begin <= intervals_.back().end) {
      intervals_.back().end = std::max(intervals_.back().end, i.end);
    } else {
      intervals_.push_back(i);
    }
  }
}

Seconds IntervalSet::length() const {
  Seconds total;
  for (const Interval& i : intervals_) total += i.end - i.begin;
  return total;
}

IntervalSet unite(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> both = a.intervals();
  both.insert(both.end(), b.intervals().begin(), b.intervals().end());
  return IntervalSet(std::move(both));
}

IntervalSet intersect(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> common;
  auto i = a.intervals().begin();
  auto j = b.intervals().begin();
  while (i != a.intervals().end() && j != b.intervals().end()) {
    common.push_back({std::max(i->begin, j->begin), std::min(i->end, j->end)});
    (i->end < j->end ? i : j)++;
  }
  return IntervalSet(std::move(common));
}

IntervalSet subtract(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> left;
  auto hole = b.intervals().begin();
  for (Interval rest : a.intervals()) {
    while (hole != b.intervals().end() && hole->end <= rest.begin) ++hole;
    // A hole may reach into the next interval, so it is not passed here.
    for (auto h = hole; h != b.intervals().end() && h->begin < rest.end; ++h) {
      left.push_back({rest.begin, h->begin});
      rest.begin = h->end;
    }
    left.push_back(rest);
  }
  return IntervalSet(std::move(left));
}

}  // namespace ovl
