// SPDX-License-Identifier: Apache-2.0
#include "schedule/gemms.hpp"

#include <tuple>

namespace ovl {

double gemm_bytes(const GemmShape& shape, DType dtype) {
  const auto [m, n, k] =
      std::tuple{static_cast<double>(shape.m), static_cast<double>(shape.n), static_cast<double>(shape.k)};
  return static_cast<double>(size_of(dtype).value()) * (m * k + k * n) +
         static_cast<double>(size_of(gemm_output(dtype)).value()) * m * n;
}

GemmRow::GemmRow(ProgramBuilder& p, const GemmShape& shape, DType dtype, std::int64_t operations, int ranks, Bytes over,
                 Memory memory)
    : shape_(shape), dtype_(dtype), operations_(operations) {
  const std::int64_t a = shape.m * shape.k;
  const std::int64_t b = shape.k * shape.n;
  const std::int64_t c = shape.m * shape.n;
  rotation_ = rotate(over, (size_of(dtype) * (a + b) + size_of(gemm_output(dtype)) * c) * ranks, operations);
  const auto buffer = [&](const char* name, DType type, std::int64_t count) {
    return p.buffer(
        {.name = name, .dtype = type, .count = count * rotation_.slices, .memory = memory, .copies = rotation_.copies});
  };
  left_ = buffer("a", dtype, a);
  right_ = buffer("b", dtype, b);
  product_ = buffer("c", gemm_output(dtype), c);
}

void GemmRow::fill(ProgramBuilder& p, ClassBuilder& ranks, LaneId lane) const {
  ranks.prologue(lane, Fill{}, {}, {p.whole(left_), p.whole(right_)});
}

std::vector<OpId> GemmRow::issue(ClassBuilder& ranks, LaneId lane, std::int64_t groups, std::int64_t gemms_each) const {
  const std::int64_t a = shape_.m * shape_.k;
  const std::int64_t b = shape_.k * shape_.n;
  const std::int64_t c = shape_.m * shape_.n;
  const std::int64_t each = operations_ / groups;
  std::vector<OpId> writers(static_cast<std::size_t>(rotation_.slices));
  for (std::int64_t i = 0; i < operations_; ++i) {
    const std::int64_t s = i % rotation_.slices;
    const std::int64_t repeat = gemms_each / each + (i % each < gemms_each % each ? 1 : 0);
    writers[static_cast<std::size_t>(s)] = ranks.body(lane, Gemm{shape_.m, shape_.n, shape_.k, dtype_, repeat},
                                                      {{left_, s * a, a}, {right_, s * b, b}}, {{product_, s * c, c}});
  }
  return writers;
}

}  // namespace ovl
