// SPDX-License-Identifier: Apache-2.0
#include "metrics/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "stats/summary.hpp"

namespace ovl {
namespace {

bool known(Seconds time) { return std::isfinite(time.value()) && time.value() > 0; }
bool known(const PairObservation& o) {
  return known(o.compute) && known(o.comm) && known(o.step) && o.flops.value() > 0 && o.repeat > 0 && o.bytes > 0;
}

double gemm_seconds(const PairObservation& o) { return o.compute.value() / o.repeat; }

// A line through nothing where one more parameter has no meaning: a single size, or a negative cost of doing nothing.
CostLine through_zero(std::span<const SizeTime> points) {
  std::vector<double> slopes;
  slopes.reserve(points.size());
  for (const SizeTime& p : points) slopes.push_back(p.seconds / p.bytes);
  return {0, median(slopes)};
}

CostLine gemm_line(std::span<const SizeTime> points) {
  const CostLine line = fit_line(points, FitMethod::relative);
  return line.alpha >= 0 && line.beta > 0 ? line : through_zero(points);
}

CostFit comm_fit(std::span<const SizeTime> points) {
  CostFit fit = fit_cost(points);
  const bool sound = !fit.segments.empty() && std::isfinite(fit.alpha()) && fit.alpha() >= 0 && fit.beta() > 0;
  if (sound) return fit;
  fit.segments = {{0, through_zero(points)}};
  fit.points = points.size();
  return fit;
}

// The dtype with most points tells what a kernel takes; its rate is then that line's.
struct KernelOverhead {
  Seconds each{0};
  std::optional<DType> told_by;  // none where it was known before
};
KernelOverhead kernel_overhead(const std::map<DType, std::vector<SizeTime>>& points, Seconds kernel) {
  if (std::isfinite(kernel.value())) return {kernel, std::nullopt};
  const auto most = std::max_element(points.begin(), points.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (most == points.end()) return {};
  return {Seconds(gemm_line(most->second).alpha), most->first};
}

void fit_gemms(Calibration& calibration, std::span<const PairObservation> observations, Seconds known_kernel) {
  std::map<DType, std::vector<SizeTime>> points;  // of operations instead of bytes
  std::map<std::pair<std::string, DType>, std::vector<double>> rates;
  for (const PairObservation& o : observations) {
    points[o.dtype].push_back({o.flops.value(), gemm_seconds(o)});
    rates[{o.gemm, o.dtype}].push_back(o.flops.value() / gemm_seconds(o));
  }
  const KernelOverhead kernel = kernel_overhead(points, known_kernel);
  for (auto& [dtype, of_dtype] : points) {
    // What is left of each time is its work: with the kernel of all dtypes, its own rate.
    std::vector<double> left;
    for (const SizeTime& p : of_dtype) {
      if (p.seconds > kernel.each.value()) left.push_back(p.bytes / (p.seconds - kernel.each.value()));
    }
    const double rate = kernel.told_by == dtype ? 1 / gemm_line(of_dtype).beta : left.empty() ? 0 : median(left);
    if (rate > 0) calibration.gemms.push_back({dtype, kernel.each, FlopsPerSecond(rate)});
  }
  for (auto& [shape, seen] : rates) {
    calibration.shapes.push_back({shape.first, shape.second, FlopsPerSecond(median(seen))});
  }
}

void fit_comms(Calibration& calibration, std::span<const PairObservation> observations) {
  std::map<std::tuple<CollectiveKind, DType, int>, std::vector<SizeTime>> points;
  for (const PairObservation& o : observations) {
    points[{o.collective, o.dtype, o.ranks}].push_back({o.bytes, o.comm.value()});
  }
  for (auto& [of, series] : points) {
    std::sort(series.begin(), series.end(), [](const SizeTime& a, const SizeTime& b) {
      return std::pair(a.bytes, a.seconds) < std::pair(b.bytes, b.seconds);
    });
    CostFit fit = comm_fit(series);
    calibration.comms.push_back({std::get<0>(of), std::get<1>(of), std::get<2>(of), std::move(series), std::move(fit)});
  }
}

// By a grid that is laid ever closer around its best point: the error is no smooth function of the slowdowns.
Slowdowns fit_slowdowns(std::span<const PairObservation> observations) {
  constexpr double most = 8;
  constexpr int steps = 24;
  constexpr int passes = 5;
  const auto error = [&](Slowdowns s) {
    double sum = 0;
    for (const PairObservation& o : observations) {
      if (o.together) sum += std::fabs(fluid_step(o.compute, o.comm, s) / o.step - 1);
    }
    return sum;
  };
  Slowdowns best;
  double least = error(best);
  double width = std::log(most);
  Slowdowns middle{std::sqrt(most), std::sqrt(most)};
  for (int pass = 0; pass < passes; ++pass) {
    const auto at = [&](double center, int step) {
      return std::clamp(center * std::exp(width * (static_cast<double>(step) / steps - 0.5)), 1.0, most);
    };
    for (int i = 0; i <= steps; ++i) {
      for (int j = 0; j <= steps; ++j) {
        const Slowdowns tried{at(middle.compute, i), at(middle.comm, j)};
        const double e = error(tried);
        if (e < least) std::tie(best, least) = std::pair(tried, e);
      }
    }
    middle = best;
    width *= 4.0 / steps;
  }
  return best;
}

const ShapeRate* find_shape(const Calibration& c, const PairObservation& o) {
  const auto found = std::find_if(c.shapes.begin(), c.shapes.end(),
                                  [&](const ShapeRate& s) { return s.gemm == o.gemm && s.dtype == o.dtype; });
  return found == c.shapes.end() ? nullptr : &*found;
}

}  // namespace

Calibration calibrated(std::span<const PairObservation> observations, Seconds kernel) {
  std::vector<PairObservation> seen;
  std::copy_if(observations.begin(), observations.end(), std::back_inserter(seen),
               [](const PairObservation& o) { return known(o); });
  Calibration calibration;
  fit_gemms(calibration, seen, kernel);
  fit_comms(calibration, seen);
  calibration.slowdown = fit_slowdowns(seen);
  return calibration;
}

PairPrediction predicted(const Calibration& calibration, const PairObservation& asked) {
  PairPrediction p;
  const auto gemm = std::find_if(calibration.gemms.begin(), calibration.gemms.end(),
                                 [&](const GemmRate& g) { return g.dtype == asked.dtype; });
  if (const ShapeRate* shape = find_shape(calibration, asked)) {
    p.compute = asked.flops / shape->rate * asked.repeat;
  } else if (gemm != calibration.gemms.end()) {
    p.compute = (gemm->kernel + asked.flops / gemm->rate) * asked.repeat;
  }
  const auto comm = std::find_if(calibration.comms.begin(), calibration.comms.end(), [&](const CommCost& c) {
    return c.collective == asked.collective && c.dtype == asked.dtype && c.ranks == asked.ranks;
  });
  if (comm != calibration.comms.end()) p.comm = Seconds(comm->fit.at(asked.bytes));
  p.step = asked.together ? fluid_step(p.compute, p.comm, calibration.slowdown) : p.compute + p.comm;
  return p;
}

HeldOutErrors held_out_errors(std::span<const PairObservation> observations, HeldOut what, Seconds kernel) {
  const auto left_out_with = [&](const PairObservation& a, const PairObservation& b) {
    switch (what) {
      case HeldOut::one_case: return &a == &b;
      case HeldOut::shape: return a.gemm == b.gemm;
      case HeldOut::size: return a.bytes == b.bytes;
    }
    return false;
  };
  HeldOutErrors errors;
  const auto add = [](std::vector<double>& to, Seconds prediction, Seconds observed) {
    if (std::isfinite(prediction.value())) to.push_back(prediction / observed - 1);
  };
  for (const PairObservation& o : observations) {
    if (!known(o)) continue;
    std::vector<PairObservation> rest;
    for (const PairObservation& other : observations) {
      if (!left_out_with(other, o)) rest.push_back(other);
    }
    const PairPrediction p = predicted(calibrated(rest, kernel), o);
    add(errors.compute, p.compute, o.compute);
    add(errors.comm, p.comm, o.comm);
    add(errors.step, p.step, o.step);
  }
  return errors;
}

}  // namespace ovl
