// SPDX-License-Identifier: Apache-2.0
#include "measure/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "program/print.hpp"

namespace ovl {
namespace {

// Half the distance from 1 to the next number of the dtype.
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::tf32:
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    case DType::f8e4m3: return 0x1p-4;
  }
  return 1;
}

class Verifier {
 public:
  Verifier(const Program& program, const Prepared& prepared, Data data, std::int64_t slot)
      : program_(program), prepared_(prepared), data_(data), slot_(slot) {}

  std::string run() {
    for (const RankClass& c : program_.classes) {
      for (const Operation& check : c.epilogue) {
        const auto* target = std::get_if<Verify>(&check.work);
        if (target == nullptr) continue;
        const Operation& op = operation(c, target->target);
        for (const Rank rank : c.members) {
          const std::string failure = verify_one(op, rank);
          if (!failure.empty())
            return fmt::format("%{} {} on rank {}: {}", op.id.value, describe(op), rank.value, failure);
        }
      }
    }
    return {};
  }

 private:
  static const Operation& operation(const RankClass& c, OpId id) {
    const auto found = std::find_if(c.body.begin(), c.body.end(), [&](const Operation& op) { return op.id == id; });
    if (found == c.body.end()) throw std::logic_error("broken invariant: a verified operation is in the body");
    return *found;
  }

  std::string verify_one(const Operation& op, Rank rank) {
    if (const auto* gemm = std::get_if<Gemm>(&op.work)) {
      return data_ == Data::exact ? verify_gemm(*gemm, op, rank) : std::string();
    }
    if (const auto* collective = std::get_if<Collective>(&op.work)) return verify_collective(*collective, op, rank);
    throw std::logic_error("broken invariant: " + std::string(kind_name(op.work)) + " can be verified");
  }

  std::span<const double> data(const Slice& slice, Rank rank) {
    auto [at, fresh] = contents_.try_emplace({slice.buffer, rank});
    if (fresh) {
      const int copies = program_.buffers[slice.buffer.index()].copies;
      at->second = prepared_.contents(slice.buffer, rank, static_cast<int>(slot_ % copies));
    }
    return std::span<const double>(at->second)
        .subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.count));
  }

  // y = m · x for a row-major rows × columns matrix. Exact: integers below 2^53.
  static std::vector<double> multiply(std::span<const double> m, std::span<const double> x, std::size_t rows) {
    std::vector<double> y(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < x.size(); ++j) y[i] += m[i * x.size() + j] * x[j];
    }
    return y;
  }

  std::string verify_gemm(const Gemm& g, const Operation& op, Rank rank) {
    const auto a = data(op.reads[0], rank);
    const auto b = data(op.reads[1], rank);
    const auto c = data(op.writes[0], rank);
    const auto [m, n, k] =
        std::tuple(static_cast<std::size_t>(g.m), static_cast<std::size_t>(g.n), static_cast<std::size_t>(g.k));
    // What is no integer could be lost in the sums below.
    const auto wrong = std::find_if(c.begin(), c.end(), [](double v) { return v != std::trunc(v); });
    if (wrong != c.end()) return wrong_in_row(static_cast<std::size_t>(wrong - c.begin()) / n, a, b, c, n, k);
    for (const std::uint64_t trial : {1U, 2U}) {
      std::vector<double> x(n);
      for (std::size_t j = 0; j < n; ++j) x[j] = test_element(trial, j);
      const auto expected = multiply(a, multiply(b, x, k), m);
      const auto got = multiply(c, x, m);
      const auto differ = std::mismatch(got.begin(), got.end(), expected.begin()).first;
      if (differ != got.end()) return wrong_in_row(static_cast<std::size_t>(differ - got.begin()), a, b, c, n, k);
    }
    return {};
  }

  // The integers -4 .. 4 but 0, which would hide a whole column.
  static double test_element(std::uint64_t trial, std::size_t j) {
    const auto v = static_cast<int>(mix64(mix64(trial) + j) % 8);
    return v < 4 ? v - 4 : v - 3;
  }

  // The first wrong element of a row that is known to have one.
  static std::string wrong_in_row(std::size_t i, std::span<const double> a, std::span<const double> b,
                                  std::span<const double> c, std::size_t n, std::size_t k) {
    std::vector<double> row(n);
    for (std::size_t x = 0; x < k; ++x) {
      for (std::size_t j = 0; j < n; ++j) row[j] += a[i * k + x] * b[x * n + j];
    }
    const auto j = static_cast<std::size_t>(
        std::mismatch(row.begin(), row.end(), c.begin() + static_cast<std::ptrdiff_t>(i * n)).first - row.begin());
    return fmt::format("element ({}, {}) is {}, expected {}", i, j, c[i * n + j], row[j]);
  }

  std::string verify_collective(const Collective& c, const Operation& op, Rank rank) {
    const std::vector<Rank>* group = nullptr;
    for (const auto& candidate : program_.communicators[c.comm.index()].groups) {
      if (std::find(candidate.begin(), candidate.end(), rank) != candidate.end()) group = &candidate;
    }
    if (group == nullptr) throw std::logic_error("broken invariant: a collective's rank is in a group");
    const auto n = group->size();
    const auto self = static_cast<std::size_t>(std::find(group->begin(), group->end(), rank) - group->begin());
    std::vector<std::span<const double>> input;
    for (const Rank peer : *group) input.push_back(data(op.reads[0], peer));
    const auto got = data(op.writes[0], rank);
    const std::size_t part = static_cast<std::size_t>(c.count) / n;

    const auto sum = [&](std::size_t at) {
      double total = 0;
      double magnitude = 0;
      for (std::size_t peer = 0; peer < n; ++peer) {
        total += input[peer][at];
        magnitude += std::fabs(input[peer][at]);
      }
      // The reference is a rounded sum itself, which matters where the dtype is f64 too.
      const double roundoff = unit_roundoff(c.dtype) + unit_roundoff(DType::f64);
      const double bound = data_ == Data::exact ? 0 : static_cast<double>(n - 1) * roundoff * magnitude;
      return std::pair{total, bound};
    };
    for (std::size_t i = 0; i < got.size(); ++i) {
      auto [expected, bound] = std::pair{0.0, 0.0};
      switch (c.kind) {
        case CollectiveKind::all_reduce: std::tie(expected, bound) = sum(i); break;
        case CollectiveKind::reduce_scatter: std::tie(expected, bound) = sum(self * part + i); break;
        case CollectiveKind::all_gather: expected = input[i / part][i % part]; break;
        case CollectiveKind::broadcast: expected = input[static_cast<std::size_t>(c.root)][i]; break;
        case CollectiveKind::all_to_all: expected = input[i / part][self * part + i % part]; break;
      }
      if (!(std::fabs(got[i] - expected) <= bound)) {
        return fmt::format("element {} is {}, expected {}{}", i, got[i], expected,
                           bound > 0 ? fmt::format(" within {}", bound) : "");
      }
    }
    return {};
  }

  const Program& program_;
  const Prepared& prepared_;
  Data data_;
  std::int64_t slot_;
  std::map<std::pair<BufferId, Rank>, std::vector<double>> contents_;
};

}  // namespace

std::string verify(const Program& program, const Prepared& prepared, Data data, std::int64_t slot) {
  return Verifier(program, prepared, data, slot).run();
}

}  // namespace ovl
