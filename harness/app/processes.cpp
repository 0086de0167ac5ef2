// SPDX-License-Identifier: Apache-2.0
#include "app/processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "backend/launcher_environment.hpp"
#include "backend/tcp_world.hpp"
#include "backend/wire.hpp"

namespace ovl {

Processes meet(const Options& options, const std::function<void(const std::string& text)>& say,
               const std::function<void(const std::string& reason)>& broken) {
  const Environment environment = read_environment();
  const std::int64_t parent = options.launch_parent > 0 ? options.launch_parent : ::getppid();
  const Launched launched = launched_by(environment, options.master, parent);
  if (launched.size == 1) return {make_solo_world(), launched.launcher, 0};
  // The launches of a job meet at the same place, one after the other.
  const int launch = options.launch_index ? *options.launch_index + 1 : 0;
  TcpOptions tcp = tcp_options(launched, job_token(environment, launched.job), launch);
  // The others wait in an operation while one replay hangs until its deadline is noticed.
  tcp.deadline = options.measure.deadline * 5;
  tcp.say = say;
  tcp.broken = broken;
  return {make_tcp_world(tcp), launched.launcher, parent};
}

std::vector<std::vector<Fact>> process_facts(World& world, const Description& local) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::vector<Fact> mine{{"host", host.data()}, {"pid", std::to_string(::getpid())}, {"device", local.device}};
  for (const Fact& fact : local.facts) {
    if (fact.name.find("uuid") != std::string::npos) mine.push_back(fact);
  }
  WireWriter writer;
  writer.put_all(mine, [](WireWriter& w, const Fact& fact) {
    w.put(fact.name);
    w.put(fact.value);
  });
  std::vector<std::vector<Fact>> all;
  for (const std::string& text : all_gather(world, std::move(writer).take())) {
    WireReader reader(text);
    all.push_back(reader.all([](WireReader& r) {
      Fact fact;
      fact.name = r.text();
      fact.value = r.text();
      return fact;
    }));
  }
  return all;
}

}  // namespace ovl
