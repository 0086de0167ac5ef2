// SPDX-License-Identifier: Apache-2.0
#include "app/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "base/error.hpp"
#include "program/placement.hpp"

namespace ovl {
namespace {

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Axis collective_axis(const std::string& fallback) { return {"collective", listed(names<CollectiveKind>()), fallback}; }
Axis placement_axis(const std::string& fallback) {
  return {"placement", listed(placement_names()) + "; axes combine with '+'", fallback};
}
Axis dtype_axis(const std::string& fallback) { return {"dtype", listed(names<DType>()), fallback}; }
Axis waiting_axis() { return {"waiting", "how host lanes wait: " + listed(names<Waiting>()), "yield"}; }
Axis channels_axis() {
  return {"channels", "channels (host) or CTAs (cuda) of a communicator; 0: its own choice", "0"};
}
Axis progress_axis() {
  return {"progress",
          "mpi: who moves messages on while a rank computes: none, poll:<interval>, thread; auto: the "
          "transport's own way",
          "auto"};
}
Axis buffers_axis() { return {"buffers", listed(names<Memory>()), "plain"}; }
Axis ranks_axis() { return {"ranks", "ranks of the whole run, or default: the backend's choice", "default"}; }

int parse_channels(const std::string& text) {
  constexpr int most = 64;
  if (text.empty() || text.size() > 2 || text.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(text) > most) {
    throw usage_error("channels \"" + text + "\" is not a number of channels", fmt::format("it is from 0 to {}", most),
                      "type for example --channels 1,2");
  }
  return std::stoi(text);
}

std::int64_t parse_count(const std::string& axis, const std::string& text, std::int64_t most) {
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, count);
  if (ec != std::errc{} || rest != end || count < 1 || count > most) {
    throw usage_error(fmt::format("{} \"{}\" is not a number of {}", axis, text, axis),
                      fmt::format("it is a whole number from 1 to {}", most),
                      fmt::format("type for example --{} {}", axis, std::min<std::int64_t>(most, 8)));
  }
  return count;
}

Placement parse_unordered(const std::string& text, const std::string& held) {
  Placement placement = parse_placement(text);
  if (placement.order == LaunchOrder::concurrent) return placement;
  throw usage_error(
      "placement \"" + text + "\" sets an order", held,
      "use concurrent, priority_comm, priority_compute, partitioned, shared_core, smt_siblings, copy_engine or graph");
}

Bytes parse_size(const std::string& text, DType dtype) {
  const Bytes bytes = parse_bytes(text);
  const std::int64_t element = size_of(dtype).value();
  const std::int64_t up = (bytes.value() + element - 1) / element * element;
  if (bytes.value() % element != 0) {
    throw usage_error("bytes \"" + text + "\" is no whole number of elements",
                      fmt::format("one of {} has {} bytes", name(dtype), element),
                      fmt::format("type for example --bytes {}", format_bytes(Bytes(up))));
  }
  return bytes;
}

void require_used(const AxisValues& axes, const std::vector<std::string>& used) {
  for (const std::string& axis : axes.typed()) {
    if (std::find(used.begin(), used.end(), axis) != used.end()) continue;
    throw usage_error("--" + axis + " does not go with given durations",
                      "they take the place of what it says, so it would change nothing",
                      "leave it out, or leave out the durations");
  }
}

const std::vector<std::string>& AxisValues::operator[](const std::string& axis) const {
  const auto found = values_.find(axis);
  if (found == values_.end()) throw std::logic_error("broken invariant: the bench declares the axis " + axis);
  return found->second;
}

}  // namespace ovl
