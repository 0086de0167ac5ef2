// SPDX-License-Identifier: Apache-2.0
#include "metrics/peers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace ovl {
namespace {

double value(const std::vector<PeerMetric>& metrics, std::string_view name) {
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const PeerMetric& m) { return m.name == name; });
  if (found == metrics.end()) throw std::out_of_range("no peer metric " + std::string(name));
  return found->value;
}

TEST(PeerMetrics, OneRunReadsZeroToAHundredPercent) {
  // Both need the same resource and share it fairly: 1 s alone, 2 s together, so nothing was gained. Each peer's word:
  const ArmTimes times{Seconds(1), Seconds(1), Seconds(2), Seconds(2)};
  const auto peers = peer_metrics(times, {.compute = Seconds(2), .comm = Seconds(2), .both = Seconds(2)});
  EXPECT_DOUBLE_EQ(overlap(times).hidden_share, 0);  // ours
  EXPECT_DOUBLE_EQ(value(peers, "c3_fraction_of_ideal"), 0);
  EXPECT_DOUBLE_EQ(value(peers, "conccl_fraction_of_ideal"), 0);
  EXPECT_DOUBLE_EQ(value(peers, "flux_efficiency"), 0);
  EXPECT_DOUBLE_EQ(value(peers, "flux_ect"), 1);
  EXPECT_DOUBLE_EQ(value(peers, "osu_overlap"), 0);
  EXPECT_DOUBLE_EQ(value(peers, "imb_nbc_overlap"), 0);
  EXPECT_DOUBLE_EQ(value(peers, "imb_overlap"), 0);
  EXPECT_DOUBLE_EQ(value(peers, "tritonblas_efficiency"), 0.5);
  EXPECT_DOUBLE_EQ(value(peers, "hta_overlap"), 100);
  EXPECT_DOUBLE_EQ(value(peers, "aorta_overlap"), 100);
  EXPECT_DOUBLE_EQ(value(peers, "mori_efficiency"), 1);
  EXPECT_DOUBLE_EQ(value(peers, "tracelens_exposed"), 0);
}

TEST(PeerMetrics, PublishedVectors) {
  struct Row {
    const char* name;
    double compute, comm, serial, step;
    double conccl, ect, flux, imb_nbc, imb, osu;
  };
  for (const Row& r :
       {Row{"ring, perfect", 100, 186.6667, 286.6667, 186.6667, 1.0000, 86.6667, 0.5357, 53.57, 100.00, 53.57},
        Row{"ring, none", 100, 186.6667, 286.6667, 286.6667, 0.0000, 186.6667, 0.0000, 0.00, 0.00, 0.00},
        Row{"balanced, perfect", 100, 100, 200, 100, 1.0000, 0.0000, 1.0000, 100.00, 100.00, 100.00},
        Row{"balanced, 1.3x both", 100, 100, 200, 130, 0.5385, 30.0000, 0.7000, 70.00, 70.00, 70.00},
        Row{"1.3x, short compute", 50, 100, 150, 115, 0.6087, 65.0000, 0.3500, 35.00, 70.00, 35.00},
        Row{"coconet", 48.984436, 106.608643, 157.270889, 207.144745, -0.5066, 158.1603, -0.4606, 0.00, 0.00, 0.00},
        Row{"worse than serial", 100, 100, 200, 220, -0.0909, 120.0000, -0.2000, 0.00, 0.00, 0.00}}) {
    const auto peers =
        peer_metrics({milliseconds(r.compute), milliseconds(r.comm), milliseconds(r.serial), milliseconds(r.step)}, {});
    EXPECT_NEAR(value(peers, "conccl_fraction_of_ideal"), r.conccl, 5e-5) << r.name;
    EXPECT_NEAR(value(peers, "flux_ect") * 1e3, r.ect, 5e-5) << r.name;
    EXPECT_NEAR(value(peers, "flux_efficiency"), r.flux, 5e-5) << r.name;
    EXPECT_NEAR(value(peers, "imb_nbc_overlap"), r.imb_nbc, 5e-3) << r.name;
    EXPECT_NEAR(value(peers, "imb_overlap"), r.imb, 5e-3) << r.name;
    EXPECT_NEAR(value(peers, "osu_overlap"), r.osu, 5e-3) << r.name;
  }
}

TEST(PeerMetrics, ClampOnlyWhereThePeerDoes) {
  // Faster than the longer part.
  const auto above = peer_metrics({Seconds(100), Seconds(50), Seconds(150), Seconds(90)}, {});
  EXPECT_DOUBLE_EQ(value(above, "imb_overlap"), 100);
  EXPECT_DOUBLE_EQ(value(above, "osu_overlap"), 120);  // OSU clamps from below alone
  EXPECT_DOUBLE_EQ(value(above, "flux_efficiency"), 1.2);
}

TEST(PeerMetrics, UnknownIsNeverClampedToZero) {
  for (const PeerMetric& metric : peer_metrics({}, {})) EXPECT_TRUE(std::isnan(metric.value)) << metric.name;
  // Nothing to hide, nothing to gain.
  const auto one_rank = peer_metrics({Seconds(1), Seconds(0), Seconds(1), Seconds(1)}, {});
  EXPECT_TRUE(std::isnan(value(one_rank, "osu_overlap")));
  EXPECT_TRUE(std::isnan(value(one_rank, "imb_overlap")));
  EXPECT_TRUE(std::isnan(value(one_rank, "conccl_fraction_of_ideal")));
  EXPECT_TRUE(std::isnan(value(one_rank, "flux_efficiency")));
}

TEST(PeerMetrics, EachHasItsOwnNameAUnitADefinitionAndASource) {
  std::set<std::string> names;
  for (const PeerMetric& metric : peer_metrics({}, {})) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_TRUE(metric.unit == "%" || metric.unit == "1" || metric.unit == "s") << metric.name;
    EXPECT_FALSE(metric.definition.empty()) << metric.name;
    EXPECT_FALSE(metric.source.empty()) << metric.name;
  }
}

}  // namespace
}  // namespace ovl
