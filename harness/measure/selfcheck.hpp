// SPDX-License-Identifier: Apache-2.0
//
// Whether a machine can be trusted with a measurement: what the harness itself costs, how steady the machine is, and
// what holds it back. Every check is a number, its limit, and what to change when it is beyond.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "measure/clock.hpp"
#include "stats/interval.hpp"

namespace ovl {

enum class Trust { good, care, bad, unknown };
template <>
struct EnumNames<Trust> {
  static constexpr std::string_view axis = "trust";
  static constexpr std::pair<Trust, std::string_view> table[] = {
      {Trust::good, "good"}, {Trust::care, "care"}, {Trust::bad, "bad"}, {Trust::unknown, "unknown"}};
};

struct CheckValue {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::string detail;      // spread, or what was found in words
  Interval interval = {};  // 95 %, of a slowdown; unknown of what is no ratio of two times
};

struct MachineCheck {
  std::string name;
  std::string unit;                                       // "s", "1", "1/s"
  std::string meaning;                                    // what the number is
  double care = std::numeric_limits<double>::infinity();  // above: interpret with care
  double bad = std::numeric_limits<double>::infinity();   // above: do not trust
  std::string advice;                                     // what to change
  std::function<CheckValue()> measure;
  std::string advice_when_bad = {};  // where that has another cause
};

struct CheckResult {
  std::string name;
  std::string unit;
  std::string meaning;
  CheckValue value;
  Trust trust = Trust::unknown;
  std::string advice;  // empty when good
};

// The limits decide; an unknown value is unknown, neither good nor bad.
CheckResult judge_check(const MachineCheck& check, const CheckValue& value);

// The worst of all in words, with what to change: "trust: ...", "trust with care. <check>: <advice>; ...", "do not
// trust
// ... <check>: <advice>; ...", or "unknown: ..." when no check has a value.
std::string trust_verdict(const std::vector<CheckResult>& results);

// What can be asked of any backend. `watch`: how long to watch the conditions for states that flip.
std::vector<MachineCheck> backend_checks(Backend& backend, Clock& clock, Seconds watch);

// FLOP/s of one rank's square f32 GEMM of this size, median of several.
double gemm_rate(Backend& backend, std::int64_t size);

}  // namespace ovl
