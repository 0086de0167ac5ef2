// SPDX-License-Identifier: Apache-2.0
#include "support/worlds.hpp"

#include <future>
#include <memory>

#include "base/error.hpp"

namespace ovl::test {
namespace {

std::string outcome_of(const std::function<std::unique_ptr<World>()>& make, const std::function<void(World&)>& body) {
  try {
    body(*make());
    return {};
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  } catch (const std::exception& error) {
    return std::string("no Error: ") + error.what();
  }
}

}  // namespace

std::vector<std::string> run_world(int size, const std::function<void(World&)>& body,
                                   const std::function<void(TcpOptions&)>& change) {
  if (size == 1) return {outcome_of([] { return make_solo_world(); }, body)};
  const int listener = listen_at("127.0.0.1", 0);
  const int port = port_of_socket(listener);
  std::vector<std::future<std::string>> processes;
  for (int p = 0; p < size; ++p) {
    TcpOptions options{.process = p,
                       .size = size,
                       .host = "127.0.0.1",
                       .port = port,
                       .token = "secret",
                       .join = patience,
                       .deadline = patience,
                       .listener = p == 0 ? listener : -1};
    change(options);
    processes.push_back(std::async(
        std::launch::async, [options, &body] { return outcome_of([&] { return make_tcp_world(options); }, body); }));
  }
  std::vector<std::string> outcomes;
  outcomes.reserve(processes.size());
  for (auto& process : processes) outcomes.push_back(process.get());
  return outcomes;
}

}  // namespace ovl::test
