// SPDX-License-Identifier: Apache-2.0
//
// Ids are types: a rank, a lane and a buffer never trade places. Each is an index into the table that defines it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ovl {

template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  explicit constexpr Id(std::int32_t v) : value(v) {}
  explicit constexpr Id(std::size_t v) : value(static_cast<std::int32_t>(v)) {}

  [[nodiscard]] constexpr bool valid() const { return value >= 0; }
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using Rank = Id<struct RankTag>;
using LaneId = Id<struct LaneTag>;
using OpId = Id<struct OpTag>;
using EventId = Id<struct EventTag>;
using BufferId = Id<struct BufferTag>;
using CommId = Id<struct CommTag>;

}  // namespace ovl

template <class Tag>
struct std::hash<ovl::Id<Tag>> {
  std::size_t operator()(ovl::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};
