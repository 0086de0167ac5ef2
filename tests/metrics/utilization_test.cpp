// SPDX-License-Identifier: Apache-2.0
#include "metrics/utilization.hpp"

#include <gtest/gtest.h>

namespace ovl {
namespace {

// 8e12 FLOPs in 2 s on 4 devices of 2e12 FLOP/s each.
TEST(Utilization, WorkedExample) {
  EXPECT_DOUBLE_EQ(flops_utilization(Flops(8e12), Seconds(2), 4, FlopsPerSecond(2e12)), 0.5);
}

// Narayanan et al., SC 2021, table 1: V = 51200, s = 2048, on A100 of 312 TFLOP/s. Parameters in 10^9, percent of the
// peak with recomputation, as printed there; iteration times follow from the FLOPs and the TFLOP/s of a GPU printed.
struct Row {
  std::int64_t hidden, layers, gpus, batch;
  double parameters, teraflops, percent, model_percent;
};
constexpr Row rows[] = {{2304, 24, 32, 512, 1.7, 137, 44, 33.5},
                        {4096, 36, 128, 512, 7.5, 142, 46, 34.4},
                        {8192, 48, 512, 1536, 39.1, 138, 44, 33.3},
                        {12288, 80, 1536, 2304, 145.6, 148, 47, 35.6}};

TEST(Utilization, PublishedTrainingRuns) {
  for (const Row& row : rows) {
    const TransformerSize size{row.layers, row.hidden, 2048, 51200};
    SCOPED_TRACE(row.parameters);
    EXPECT_NEAR(transformer_parameters(size) / 1e9, row.parameters, 0.05);
    const Flops done = hardware_flops_with_recomputation(size, row.batch);
    const Seconds time = done / FlopsPerSecond(row.teraflops * 1e12 * static_cast<double>(row.gpus));
    const FlopsPerSecond peak(312e12);
    EXPECT_NEAR(100 * flops_utilization(done, time, static_cast<int>(row.gpus), peak), row.percent, 0.55);
    EXPECT_NEAR(100 * flops_utilization(model_flops(size, row.batch), time, static_cast<int>(row.gpus), peak),
                row.model_percent, 0.05);
  }
}

// Of a layer's four passes (forward, forward again, two backward) the model needs three; the output layer is not done
// again.
TEST(Utilization, RecomputationIsAThirdMoreForLongModels) {
  const TransformerSize deep{1000, 1024, 1024, 1};
  EXPECT_NEAR(hardware_flops_with_recomputation(deep, 1) / model_flops(deep, 1), 4.0 / 3, 1e-5);
}

}  // namespace
}  // namespace ovl
