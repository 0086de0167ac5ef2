// SPDX-License-Identifier: Apache-2.0
//
// World over TCP: process 0 listens, the others connect, and every operation goes through process 0. One thread sends,
// receives and notices who dies; it sleeps while nobody speaks.
//
// A stranger that connects (a port scan, another job, a wrong version) is refused and disturbs nobody: until it has
// shown the token it may send one small greeting. Nothing is encrypted.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "backend/launcher_environment.hpp"
#include "backend/world.hpp"
#include "base/units.hpp"

namespace ovl {

struct TcpOptions {
  int process = 0;
  int size = 1;
  int local_process = 0;
  int local_size = 0;  // 0: counted by machine when all have met
  std::string host;
  int port = 0;
  std::string token;
  int launch = 0;                   // processes of different launches of a job do not meet, though they share its place
  Seconds join = Seconds(120);      // until all have met
  Seconds deadline = Seconds(300);  // of one operation; a quarter more where process 0 is waited for
  std::size_t piece = std::size_t{64} << 20;  // longest message; longer texts are sent in several
  int listener = -1;  // process 0: a socket that listens already and is taken over; -1: host and port are opened
  std::string hint;   // ends the error of a process that is not let in or cannot reach process 0
  std::function<void(const std::string& text)> say;       // process 0: of a visitor that it does not let in
  std::function<void(const std::string& reason)> broken;  // once, when the world is aborted or breaks; must not block
};

TcpOptions tcp_options(const Launched& launched, const std::string& token, int launch);

// Returns when all processes have met. Throws Error(failure) on every process that came when one does not come in time,
// and on one that is refused, with the reason.
std::unique_ptr<World> make_tcp_world(const TcpOptions& options);

// A listening socket: on the loopback interface where `host` is a loopback address or "localhost", else on all
// interfaces, because a machine's own name may mean only its loopback address to itself. Port 0: a free one. Throws
// Error(failure).
int listen_at(const std::string& host, int port);
int port_of_socket(int descriptor);

}  // namespace ovl
