// SPDX-License-Identifier: Apache-2.0
#include "app/bench.hpp"

#include <stdexcept>

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
  return {"channels", "channels (host) or CTAs (cuda) of a communicator; 0: its own choice", "1"};
}
Axis buffers_axis() { return {"buffers", listed(names<Memory>()), "plain"}; }

const std::vector<std::string>& AxisValues::operator[](const std::string& axis) const {
  const auto found = values_.find(axis);
  if (found == values_.end()) throw std::logic_error("broken invariant: the bench declares the axis " + axis);
  return found->second;
}

}  // namespace ovl
