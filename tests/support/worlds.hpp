// SPDX-License-Identifier: Apache-2.0
//
// A world of several processes for tests: each is a thread, and they speak over TCP on the loopback interface.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/tcp_world.hpp"
#include "backend/world.hpp"

namespace ovl::test {

// Nothing is expected to take as long: it bounds a hang.
inline constexpr Seconds patience{60};

// Runs `body` as every process, a world of one without TCP. What each threw: the kind as its exit code and a text,
// "2 no such thing"; empty: nothing. `change` may alter how a process joins.
std::vector<std::string> run_world(
    int size, const std::function<void(World&)>& body,
    const std::function<void(TcpOptions&)>& change = [](TcpOptions&) {});

}  // namespace ovl::test
