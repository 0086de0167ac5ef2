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

const Operation& operation(const RankClass& c, OpId id) {
  const auto found = std::find_if(c.body.begin(), c.body.end(), [&](const Operation& op) { return op.id == id; });
  if (found == c.body.end()) throw std::logic_error("broken invariant: a verified operation is in the body");
  return *found;
}

const std::vector<Rank>& group_of(const Communicator& comm, Rank rank) {
  for (const auto& group : comm.groups) {
    if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
  }
  throw std::logic_error("broken invariant: a collective's rank is in a group");
}

bool sums(CollectiveKind kind) { return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter; }

bool sums_in_place(const Operation& op) {
  const auto* c = std::get_if<Collective>(&op.work);
  return c != nullptr && sums(c->kind) && op.reads[0].buffer == op.writes[0].buffer;
}

// How many products an element of a slice sums up at most, by the GEMMs of the body that write to it; 0: none does.
std::int64_t products_in(const RankClass& c, const Slice& slice) {
  std::int64_t most = 0;
  for (const Operation& op : c.body) {
    const auto* gemm = std::get_if<Gemm>(&op.work);
    if (gemm == nullptr) continue;
    const Slice& to = op.writes[0];
    const bool overlap =
        to.buffer == slice.buffer && to.offset < slice.offset + slice.count && slice.offset < to.offset + to.count;
    if (overlap) most = std::max(most, gemm->k);
  }
  return most;
}

// Whether exact data can leave what the operation's results hold exactly, and how.
std::string beyond_exact(const Program& program, const Operation& op, Rank rank) {
  if (const auto* g = std::get_if<Gemm>(&op.work)) {
    const DType stored = gemm_output(g->dtype);
    if (g->k <= most_exact_products(stored)) return {};
    return fmt::format("sums of {} products may not be exact in {}, which holds those of {}", g->k, name(stored),
                       most_exact_products(stored));
  }
  if (const auto* c = std::get_if<Collective>(&op.work); c != nullptr && sums(c->kind)) {
    const auto ranks = std::ssize(group_of(program.communicators[c->comm.index()], rank));
    const std::int64_t products = products_in(program.class_of(rank), op.reads[0]);
    if (products > 1 && products * ranks > most_exact_products(c->dtype)) {
      return fmt::format("sums over {} ranks of {} products may not be exact in {}, which holds those of {}", ranks,
                         products, name(c->dtype), most_exact_products(c->dtype));
    }
    if (ranks <= most_exact_ranks(c->dtype)) return {};
    return fmt::format("sums over {} ranks may not be exact in {}, which holds those over {}", ranks, name(c->dtype),
                       most_exact_ranks(c->dtype));
  }
  return {};
}

class Verifier {
 public:
  Verifier(const Program& program, const Prepared& prepared, Data data, std::int64_t slot, const Inputs& before)
      : program_(program), prepared_(prepared), data_(data), slot_(slot), before_(before) {}

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
  std::string verify_one(const Operation& op, Rank rank) {
    if (data_ == Data::exact && !beyond_exact(program_, op, rank).empty()) return {};
    if (const auto* gemm = std::get_if<Gemm>(&op.work)) {
      return data_ == Data::exact ? verify_gemm(*gemm, op, rank) : std::string();
    }
    if (const auto* collective = std::get_if<Collective>(&op.work)) return verify_collective(*collective, op, rank);
    if (const auto* exchange = std::get_if<Exchange>(&op.work)) return verify_exchange(*exchange, op, rank);
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

  // What an operation read, as it was when it began.
  std::span<const double> read_by(const Operation& op, const Slice& slice, Rank rank) {
    const auto kept = before_.find({slice.buffer, rank});
    if (!sums_in_place(op) || kept == before_.end()) return data(slice, rank);
    return std::span<const double>(kept->second)
        .subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.count));
  }

  // The same operation as another rank has it.
  [[nodiscard]] const Operation& at(Rank peer, const Operation& op) const {
    return operation(program_.class_of(peer), op.id);
  }

  // y = m · x for a row-major rows × columns matrix. Exact: integers below 2^53.
  static std::vector<double> multiply(std::span<const double> m, std::span<const double> x, std::size_t rows) {
    std::vector<double> y(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < x.size(); ++j) y[i] += m[i * x.size() + j] * x[j];
    }
    return y;
  }

  // y = xᵀ · m: the product with the transposed matrix.
  static std::vector<double> multiply_transposed(std::span<const double> m, std::span<const double> x,
                                                 std::size_t columns) {
    std::vector<double> y(columns);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < columns; ++j) y[j] += m[i * columns + j] * x[i];
    }
    return y;
  }

  // A GEMM's b as it is stored.
  struct Right {
    std::span<const double> b;
    std::size_t n;
    std::size_t k;
    bool transposed;  // n×k

    [[nodiscard]] double at(std::size_t row, std::size_t column) const {
      return b[transposed ? column * k + row : row * n + column];
    }
    [[nodiscard]] std::vector<double> times(std::span<const double> x) const {
      return transposed ? multiply_transposed(b, x, k) : multiply(b, x, k);
    }
  };

  std::string verify_gemm(const Gemm& g, const Operation& op, Rank rank) {
    const auto a = data(op.reads[0], rank);
    const auto c = data(op.writes[0], rank);
    const auto [m, n, k] =
        std::tuple(static_cast<std::size_t>(g.m), static_cast<std::size_t>(g.n), static_cast<std::size_t>(g.k));
    const Right b{data(op.reads[1], rank), n, k, g.dtype == DType::f8e4m3};
    // What is no integer could be lost in the sums below.
    const auto wrong = std::find_if(c.begin(), c.end(), [](double v) { return v != std::trunc(v); });
    if (wrong != c.end()) return wrong_in_row(static_cast<std::size_t>(wrong - c.begin()) / n, a, b, c);
    for (const std::uint64_t trial : {1U, 2U}) {
      std::vector<double> x(n);
      for (std::size_t j = 0; j < n; ++j) x[j] = test_element(trial, j);
      const auto expected = multiply(a, b.times(x), m);
      const auto got = multiply(c, x, m);
      const auto differ = std::mismatch(got.begin(), got.end(), expected.begin()).first;
      if (differ != got.end()) return wrong_in_row(static_cast<std::size_t>(differ - got.begin()), a, b, c);
    }
    return {};
  }

  // The integers -4 .. 4 but 0, which would hide a whole column.
  static double test_element(std::uint64_t trial, std::size_t j) {
    const auto v = static_cast<int>(mix64(mix64(trial) + j) % 8);
    return v < 4 ? v - 4 : v - 3;
  }

  // The first wrong element of a row that is known to have one.
  static std::string wrong_in_row(std::size_t i, std::span<const double> a, const Right& b, std::span<const double> c) {
    const auto [n, k] = std::pair(b.n, b.k);
    std::vector<double> row(n);
    for (std::size_t x = 0; x < k; ++x) {
      for (std::size_t j = 0; j < n; ++j) row[j] += a[i * k + x] * b.at(x, j);
    }
    const auto j = static_cast<std::size_t>(
        std::mismatch(row.begin(), row.end(), c.begin() + static_cast<std::ptrdiff_t>(i * n)).first - row.begin());
    return fmt::format("element ({}, {}) is {}, expected {}", i, j, c[i * n + j], row[j]);
  }

  std::string verify_collective(const Collective& c, const Operation& op, Rank rank) {
    const std::vector<Rank>& group = group_of(program_.communicators[c.comm.index()], rank);
    const auto n = group.size();
    const auto self = static_cast<std::size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
    std::vector<std::span<const double>> input;
    for (const Rank peer : group) {
      const Operation& theirs = at(peer, op);
      input.push_back(read_by(theirs, theirs.reads[0], peer));
    }
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

  // The k-th message that a rank receives from a peer is the k-th that the peer sends to it.
  std::string verify_exchange(const Exchange& e, const Operation& op, Rank rank) {
    const std::vector<Rank>& group = group_of(program_.communicators[e.comm.index()], rank);
    const int self = static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
    std::map<int, std::size_t> received;  // messages so far, by peer
    std::size_t write = 0;
    for (const Transfer& t : e.transfers) {
      if (t.direction != Direction::receive) continue;
      const Rank peer = group[static_cast<std::size_t>(t.peer)];
      const Operation& theirs = at(peer, op);
      const auto expected = data(sent(theirs, self, received[t.peer]++), peer);
      const auto got = data(op.writes[write++], rank);
      const auto differ = std::mismatch(got.begin(), got.end(), expected.begin()).first;
      if (differ == got.end()) continue;
      const auto i = differ - got.begin();
      return fmt::format("element {} from rank {} is {}, expected {}", i, peer.value, got[static_cast<std::size_t>(i)],
                         expected[static_cast<std::size_t>(i)]);
    }
    return {};
  }

  // The slice of the nth message that an exchange sends to a member of its group.
  static const Slice& sent(const Operation& op, int to, std::size_t nth) {
    std::size_t read = 0;
    for (const Transfer& t : std::get<Exchange>(op.work).transfers) {
      if (t.direction != Direction::send) continue;
      if (t.peer == to && nth-- == 0) return op.reads[read];
      ++read;
    }
    throw std::logic_error("broken invariant: every message that is received is sent");
  }

  const Program& program_;
  const Prepared& prepared_;
  Data data_;
  std::int64_t slot_;
  const Inputs& before_;
  std::map<std::pair<BufferId, Rank>, std::vector<double>> contents_;
};

}  // namespace

std::string verify(const Program& program, const Prepared& prepared, Data data, std::int64_t slot,
                   const Inputs& before) {
  return Verifier(program, prepared, data, slot, before).run();
}

Contents contents(const Program& program, const Prepared& prepared) {
  Contents all(static_cast<std::size_t>(program.ranks));
  for (int r = 0; r < program.ranks; ++r) {
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      all[static_cast<std::size_t>(r)].push_back(prepared.contents(BufferId(b), Rank(r), 0));
    }
  }
  return all;
}

Inputs inputs(const Program& program, const Prepared& prepared, std::int64_t slot) {
  Inputs all;
  for (const RankClass& c : program.classes) {
    for (const Operation& check : c.epilogue) {
      const auto* target = std::get_if<Verify>(&check.work);
      if (target == nullptr) continue;
      const Operation& op = operation(c, target->target);
      if (!sums_in_place(op)) continue;
      const BufferId buffer = op.reads[0].buffer;
      const int copies = program.buffers[buffer.index()].copies;
      for (const Rank rank : c.members) {
        if (all.contains({buffer, rank})) continue;
        all[{buffer, rank}] = prepared.contents(buffer, rank, static_cast<int>(slot % copies));
      }
    }
  }
  return all;
}

std::set<BufferId> independent_of_communication(const RankClass& rank_class) {
  std::set<BufferId> touched;
  const auto of_touched = [&](const std::vector<Slice>& slices) {
    return std::any_of(slices.begin(), slices.end(), [&](const Slice& s) { return touched.contains(s.buffer); });
  };
  for (bool more = true; more;) {
    more = false;
    for (const Operation& op : rank_class.body) {
      if (op.role != Role::communication && !of_touched(op.reads)) continue;
      for (const Slice& s : op.writes) more = touched.insert(s.buffer).second || more;
    }
  }
  std::set<BufferId> independent;
  for (const Operation& op : rank_class.body) {
    for (const Slice& s : op.writes) {
      if (!touched.contains(s.buffer)) independent.insert(s.buffer);
    }
  }
  return independent;
}

double products_of(const Program& program) {
  double products = 0;
  for (const RankClass& c : program.classes) {
    for (const Operation& op : c.body) {
      const auto* gemm = std::get_if<Gemm>(&op.work);
      if (gemm != nullptr) products += flops_of(*gemm).value() / 2 * static_cast<double>(c.members.size());
    }
  }
  return products;
}

std::string beyond_exact(const Program& program) {
  for (const RankClass& c : program.classes) {
    for (const Operation& check : c.epilogue) {
      const auto* target = std::get_if<Verify>(&check.work);
      if (target == nullptr) continue;
      const Operation& op = operation(c, target->target);
      for (const Rank rank : c.members) {
        const std::string why = beyond_exact(program, op, rank);
        if (!why.empty()) return fmt::format("%{} {} on rank {}: {}", op.id.value, describe(op), rank.value, why);
      }
    }
  }
  return {};
}

}  // namespace ovl
