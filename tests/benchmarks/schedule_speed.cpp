// SPDX-License-Identifier: Apache-2.0
//
// What a schedule costs before anything is launched: 200 layers in 500 buckets, built and checked; and a pipeline of 16
// stages and 64 microbatches. Median of several, in ms of processor time.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "program/check.hpp"
#include "schedule/ddp.hpp"
#include "schedule/pipeline.hpp"

namespace ovl {
namespace {

template <class Build>
void measure(const char* what, Build build) {
  constexpr int trials = 21;
  std::vector<double> built;
  std::vector<double> checked;
  std::size_t operations = 0;
  for (int i = 0; i < trials; ++i) {
    const auto ms = [from = std::clock()] {
      return 1e3 * static_cast<double>(std::clock() - from) / static_cast<double>(CLOCKS_PER_SEC);
    };
    const Program program = build();
    built.push_back(ms());
    if (!check(program).empty()) std::printf("%s is not sound\n", what);
    checked.push_back(ms());
    operations = 0;
    for (const RankClass& c : program.classes) operations += c.body.size();
  }
  std::nth_element(built.begin(), built.begin() + trials / 2, built.end());
  std::nth_element(checked.begin(), checked.begin() + trials / 2, checked.end());
  std::printf("%-40s %7zu operations: built in %6.2f ms, built and checked in %6.2f ms\n", what, operations,
              built[trials / 2], checked[trials / 2]);
}

void run() {
  measure("ddp, 200 layers in 500 buckets", [] {
    DdpSpec spec;
    // Five buckets every two layers, of six tensors each.
    spec.layers = {.model = "narrow", .count = 200, .tokens = 1, .hidden = 4, .qkv = 12, .inner = 16};
    spec.limits = {.cap = Bytes(260), .first = std::nullopt};
    const std::size_t buckets = assign_buckets(ddp_gradients(spec), spec.limits).size();
    static std::size_t told = 0;
    if (told != buckets) std::printf("%zu buckets\n", told = buckets);
    return ddp_program(spec);
  });
  measure("1f1b, 16 stages, 64 microbatches", [] {
    return pipeline_program(
        PipelineWhatIf{{PipelineSchedule::one_f_one_b, 16, 64, 1}, Seconds(1), Seconds(1), Seconds(1), Seconds(1)});
  });
}

}  // namespace
}  // namespace ovl

int main() { ovl::run(); }
