// SPDX-License-Identifier: Apache-2.0
#include "metrics/peers.hpp"

namespace ovl {
namespace {

// Unlike std::clamp and std::max these let a NaN through.
double at_least_zero(double value) { return value < 0 ? 0 : value; }
double zero_to_one(double value) { return value > 1 ? 1 : at_least_zero(value); }

// (S - 1) / (S_ideal - 1) with S = serial / step and S_ideal = serial / ideal; NaN where the ideal gains nothing.
double fraction_of_ideal(Seconds serial, Seconds step, Seconds ideal) {
  const double ideal_gain = share(serial, ideal) - 1;
  return ideal_gain > 0 ? (share(serial, step) - 1) / ideal_gain : unknown_time.value();
}

}  // namespace

std::vector<PeerMetric> peer_metrics(const ArmTimes& times, const RunningTimes& running) {
  const Seconds sum = times.compute + times.comm;
  const Seconds saved = sum - times.step;
  const Seconds exposed = times.step - times.compute;
  const Seconds exposed_serial = times.serial - times.compute;
  const Seconds longer = longer_part(times);
  const Seconds shorter = shorter_part(times);
  return {
      {"osu_overlap", at_least_zero(100 - 100 * share(exposed, times.comm)), "%",
       "max(0, 100 - 100 (step - compute) / comm); OSU repeats its compute for a fixed time, here it is fixed work",
       "OSU micro-benchmarks 7.4, c/util/osu_util_mpi.c:3298-3395"},
      {"imb_nbc_overlap", 100 * zero_to_one(share(saved, longer)), "%",
       "100 clamp((compute + comm - step) / max(compute, comm)); IMB's compute time is taken during the overlapped run",
       "intel/mpi-benchmarks 46e8757, src_c/IMB_output.c:319 (its guide says min)"},
      {"imb_overlap", 100 * zero_to_one(share(saved, shorter)), "%",
       "100 clamp((compute + comm - step) / min(compute, comm))",
       "intel/mpi-benchmarks 46e8757, src_c/IMB_output.c:338 (the sets other than NBC)"},
      {"hta_overlap", 100 * share(running.both, running.comm), "%", "100 running_both / running_comm; nsys-ai the same",
       "HolisticTraceAnalysis f4d0062, docs/source/features/comm_comp_overlap.rst"},
      {"aorta_overlap", 100 * share(running.both, running.compute), "%", "100 running_both / running_compute",
       "ROCm/aorta, overlap_report.py"},
      {"tracelens_exposed", (running.comm - running.both).value(), "s", "running_comm - running_both",
       "AMD TraceLens 171dd747, exposed_comm"},
      {"flux_ect", exposed.value(), "s", "step - compute", "FLUX paper, equation 1"},
      {"flux_efficiency", 1 - share(exposed, exposed_serial), "1", "1 - (step - compute) / (serial - compute)",
       "FLUX paper, equation 2"},
      {"c3_fraction_of_ideal", fraction_of_ideal(sum, times.step, longer), "1",
       "(S - 1) / (S_ideal - 1), S = (compute + comm) / step, S_ideal = (compute + comm) / max(compute, comm)",
       "ConCCL, arXiv 2412.14335: S_ideal from its abstract, the form inferred"},
      {"conccl_fraction_of_ideal", fraction_of_ideal(times.serial, times.step, longer), "1",
       "the same on the measured serial run: S = serial / step, S_ideal = serial / max(compute, comm)",
       "ConCCL, arXiv 2412.14335: S_ideal from its abstract, the form inferred"},
      {"tritonblas_efficiency", share(longer, times.step), "1", "max(compute, comm) / step",
       "ROCm/tritonBLAS 95e2c47, benchmarks/overlap.py:461-481"},
      {"mori_efficiency", share(longer_part({.compute = running.compute, .comm = running.comm}), times.step), "1",
       "max(running_compute, running_comm) / step: near 1 by construction",
       "ROCm/mori pull request 200, test_reducescatter_overlap.py"},
  };
}

}  // namespace ovl
