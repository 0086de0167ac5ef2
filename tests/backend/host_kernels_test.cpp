// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/host/reduce.hpp"

namespace ovl::kernels {
namespace {

// Guards around the range must stay as they are, whatever its alignment and length.
template <class T>
struct Arrays {
  static constexpr std::int64_t room = 300;
  std::vector<T> a = numbered(1);
  std::vector<T> b = numbered(1000);
  std::vector<T> out = std::vector<T>(room, T{-1});
  std::vector<T> other = std::vector<T>(room, T{-1});

  static std::vector<T> numbered(T first) {
    std::vector<T> v(room);
    std::iota(v.begin(), v.end(), first);
    return v;
  }
};

template <class T>
void expect_kernels(Stores stores) {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 64, 200}) {
    for (const std::int64_t at : {0, 1, 4, 16, 19}) {
      for (const std::int64_t other_at : {at, std::int64_t{3}}) {
        Arrays<T> copied;
        Arrays<T> added;
        Arrays<T> twice;
        copy(copied.out.data() + at, copied.a.data() + 2, count, stores);
        add(added.out.data() + at, added.a.data() + 2, added.b.data() + 5, count, stores);
        add_twice(twice.out.data() + at, twice.other.data() + other_at, twice.a.data() + 2, twice.b.data() + 5, count,
                  stores);
        const auto inside = [&](std::int64_t i, std::int64_t begin) { return i >= begin && i < begin + count; };
        for (std::int64_t i = 0; i < Arrays<T>::room; ++i) {
          const auto u = static_cast<std::size_t>(i);
          const auto element = [&](std::int64_t begin) { return static_cast<T>(3 + i - begin); };
          const auto total = [&](std::int64_t begin) { return static_cast<T>(1008 + 2 * (i - begin)); };
          ASSERT_EQ(copied.out[u], inside(i, at) ? element(at) : T{-1}) << count << " at " << at;
          ASSERT_EQ(added.out[u], inside(i, at) ? total(at) : T{-1}) << count << " at " << at;
          ASSERT_EQ(twice.out[u], inside(i, at) ? total(at) : T{-1}) << count << " at " << at;
          ASSERT_EQ(twice.other[u], inside(i, other_at) ? total(other_at) : T{-1}) << count << " at " << other_at;
        }
      }
    }
  }
}

TEST(HostKernels, TouchTheirRangeAndNothingElse) {
  for (const Stores stores : {Stores::cached, Stores::streaming}) {
    expect_kernels<float>(stores);
    expect_kernels<double>(stores);
  }
}

TEST(HostKernels, WorkInPlace) {
  for (const Stores stores : {Stores::cached, Stores::streaming}) {
    Arrays<float> x;
    add(x.a.data(), x.a.data(), x.b.data(), 200, stores);
    EXPECT_EQ(x.a[0], 1001.0F);
    EXPECT_EQ(x.a[199], 1399.0F);
    EXPECT_EQ(x.a[200], 201.0F);
    add_twice(x.a.data(), x.b.data(), x.a.data(), x.b.data(), 100, stores);
    EXPECT_EQ(x.a[99], 2298.0F);
    EXPECT_EQ(x.b[99], 2298.0F);
    EXPECT_EQ(x.b[100], 1100.0F);
    copy(x.b.data(), x.b.data(), 200, stores);
    EXPECT_EQ(x.b[100], 1100.0F);
  }
}

}  // namespace
}  // namespace ovl::kernels
