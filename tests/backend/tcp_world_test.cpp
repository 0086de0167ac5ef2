// SPDX-License-Identifier: Apache-2.0
#include "backend/tcp_world.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "backend/wire.hpp"
#include "base/error.hpp"
#include "support/errors.hpp"
#include "support/worlds.hpp"

namespace ovl {
namespace {

using test::error_text;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

using test::patience;
using test::run_world;

TcpOptions options_of(int process, int size, int port) {
  return {.process = process,
          .size = size,
          .host = "127.0.0.1",
          .port = port,
          .token = "secret",
          .join = patience,
          .deadline = patience};
}

// Process 0's socket is open before the others start, at a port that the system chose.
struct Place {
  int listener = listen_at("127.0.0.1", 0);
  int port = port_of_socket(listener);

  [[nodiscard]] TcpOptions first(int size) const {
    TcpOptions options = options_of(0, size, port);
    options.listener = listener;
    return options;
  }
};

// A plain client of a port, that says whatever a test wants.
class Stranger {
 public:
  explicit Stranger(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { ::close(socket_); }

  void say(const std::string& text) const {
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Until the other side closes.
  [[nodiscard]] std::string hear() const {
    std::string text;
    char byte = 0;
    while (::recv(socket_, &byte, 1, 0) == 1) text.push_back(byte);
    return text;
  }
  // That many bytes.
  [[nodiscard]] std::string hear(std::size_t size) const {
    std::string text(size, '\0');
    EXPECT_EQ(::recv(socket_, text.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    return text;
  }

 private:
  int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

std::string framed(WireWriter body) {
  const std::string text = std::move(body).take();
  WireWriter length;
  length.put(static_cast<std::uint64_t>(text.size()));
  return "OVLW" + std::move(length).take() + text;
}

std::string greeting(int version, int process, int size, int launch, const std::string& token) {
  WireWriter w;
  for (const int number : {version, process, size, launch, 0, 0}) w.put(number);
  w.put("machine");
  w.put(token);
  return framed(std::move(w));
}

TEST(TcpWorld, CountsTheProcessesOfAMachineWhereTheLauncherDoesNot) {
  const auto errors = run_world(3, [](World& world) {
    EXPECT_EQ(world.local_size(), 3);
    EXPECT_EQ(world.local_process(), world.process());
  });
  EXPECT_THAT(errors, ElementsAre("", "", ""));
}

TEST(TcpWorld, TakesTheLaunchersWordForIt) {
  run_world(
      2, [](World& world) { EXPECT_EQ(world.local_size(), 1) << "each in a container of its own, for example"; },
      [](TcpOptions& options) { options.local_size = 1; });
}

TEST(TcpWorld, SendsLongTextsInPieces) {
  const std::string text(100'001, 'x');
  const auto errors = run_world(
      3,
      [&](World& world) {
        EXPECT_EQ(world.broadcast(world.process() == 2 ? text : "", 2), text);
        const auto all = world.gather(text + std::to_string(world.process()));
        if (world.decides()) {
          EXPECT_THAT(all, ElementsAre(text + "0", text + "1", text + "2"));
        }
        world.barrier();
      },
      [](TcpOptions& options) { options.piece = 1000; });
  EXPECT_THAT(errors, ElementsAre("", "", ""));
}

TEST(TcpWorld, ProcessesInDifferentOperationsHearOfBoth) {
  const auto errors = run_world(2, [](World& world) {
    world.barrier();
    if (world.decides()) {
      world.gather("x");
    } else {
      world.maximum(1);
    }
  });
  EXPECT_EQ(errors[0], "1 process 1 is in maximum #2 while process 0 is in gather #2");
  EXPECT_EQ(errors[1], errors[0]);
}

TEST(TcpWorld, AProcessThatEndsEarlyIsNamed) {
  const auto errors = run_world(3, [](World& world) {
    world.barrier();
    if (world.process() != 1) world.barrier();
  });
  EXPECT_EQ(errors[0], "1 process 1 has ended, and process 0 is in barrier #2");
  EXPECT_EQ(errors[1], "");
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(TcpWorld, AProcessThatDoesNotComeEndsTheOperationAtItsDeadline) {
  std::promise<void> done;
  const std::shared_future<void> over = done.get_future().share();
  std::atomic<int> waiting{2};
  const auto errors = run_world(
      3,
      [&](World& world) {
        if (world.process() == 1) {
          over.wait();
          world.barrier();
        }
        const std::string error = error_text(ErrorKind::failure, [&] { world.barrier(); });
        if (--waiting == 0) done.set_value();
        throw failure(error, "");
      },
      [](TcpOptions& options) { options.deadline = milliseconds(50); });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("did not come to barrier #1"), HasSubstr("within ")));
  EXPECT_THAT(errors[1], HasSubstr("did not come to barrier #1")) << "it came too late to an end that it hears of";
  EXPECT_THAT(errors[2], HasSubstr("did not come to barrier #1"));
}

TEST(TcpWorld, AnAbortEndsOperationsUnderWayAndLaterOnes) {
  std::atomic<int> called{0};
  const auto errors = run_world(3, [&](World& world) {
    std::promise<void> heard;
    world.when_aborted([&](const std::string& reason) {
      EXPECT_EQ(reason, "no more");
      ++called;
      heard.set_value();  // a second time would throw
    });
    std::thread other;
    if (world.process() == 2) other = std::thread([&] { world.abort("no more"); });
    EXPECT_EQ(error_text(ErrorKind::failure,
                         [&] {
                           for (;;) world.barrier();
                         }),
              "no more");
    EXPECT_EQ(error_text(ErrorKind::failure, [&] { world.maximum(1); }), "no more");
    world.abort("something else");
    EXPECT_EQ(error_text(ErrorKind::failure, [&] { world.barrier(); }), "no more") << "the first reason stays";
    if (other.joinable()) other.join();
    heard.get_future().wait();
    // Whoever asks when it is over is told at once.
    bool told = false;
    world.when_aborted([&](const std::string& reason) { told = reason == "no more"; });
    EXPECT_TRUE(told);
    world.when_aborted({});
  });
  EXPECT_THAT(errors, ElementsAre("", "", ""));
  EXPECT_EQ(called, 3);
}

// Whoever releases what it has after an abort has been told of it before.
TEST(TcpWorld, WhoIsTakenBackAfterAnAbortHasBeenCalled) {
  run_world(2, [](World& world) {
    int called = 0;
    world.when_aborted([&](const std::string&) { ++called; });
    world.abort("no more");
    world.when_aborted({});
    EXPECT_EQ(called, 1);
  });
}

// After an abort process 0 hears what the others know of themselves, and of one that says nothing, nothing.
TEST(TcpWorld, ProcessesReportToTheFirstWhenTheWorldIsAborted) {
  std::promise<void> done;
  const std::shared_future<void> over = done.get_future().share();
  const auto errors = run_world(3, [&](World& world) {
    if (world.process() == 2) {
      world.report("here");
      world.report("there");
      world.abort("no more");
    }
    if (world.process() != 0) return over.wait();
    world.report("first");
    std::vector<std::optional<std::string>> reports;
    while (reports.empty() || !reports[2]) reports = world.reports(milliseconds(5));
    EXPECT_THAT(reports, ElementsAre("first", std::nullopt, "here")) << "the first of each";
    done.set_value();
  });
  EXPECT_THAT(errors, ElementsAre("", "", ""));
}

// So that the user is told once: by process 0, and where that is no more, by each.
TEST(TcpWorld, AProcessKnowsWhetherTheFirstKnows) {
  const auto errors = run_world(3, [](World& world) {
    EXPECT_TRUE(world.known_to_process_0(Seconds(0))) << "nothing has happened";
    if (world.process() == 1) world.abort("no more");
    EXPECT_EQ(error_text(ErrorKind::failure,
                         [&] {
                           for (;;) world.barrier();
                         }),
              "no more");
    EXPECT_TRUE(world.known_to_process_0(patience));
    EXPECT_EQ(error_text(ErrorKind::failure, [&] { world.barrier(); }), "no more");
  });
  EXPECT_THAT(errors, ElementsAre("", "", ""));
}

TEST(TcpWorld, WhoeverWatchesTheWorldIsToldOnceThatItBroke) {
  std::atomic<int> told{0};
  run_world(
      2,
      [](World& world) {
        world.abort("no more");
        world.abort("no more");
      },
      [&](TcpOptions& options) {
        options.broken = [&](const std::string& reason) {
          EXPECT_EQ(reason, "no more");
          ++told;
        };
      });
  EXPECT_EQ(told, 2) << "once on each process";
}

TEST(TcpWorld, OneThatDoesNotComeIsNamedToAllThatDid) {
  const Place place;
  TcpOptions first = place.first(3);
  first.join = milliseconds(300);
  auto second = std::async(std::launch::async, [&] {
    return error_text(ErrorKind::failure, [&] { make_tcp_world(options_of(1, 3, place.port)); });
  });
  const std::string error = error_text(ErrorKind::failure, [&] { make_tcp_world(first); });
  EXPECT_THAT(error, AllOf(StartsWith("process 2 of 3 did not come to 127.0.0.1:"), HasSubstr("--master host:port")));
  EXPECT_THAT(second.get(), HasSubstr("process 2 of 3 did not come"));
}

TEST(TcpWorld, NobodyListeningIsSaidWithThePlace) {
  const Place place;
  ::close(place.listener);
  TcpOptions options = options_of(1, 2, place.port);
  options.join = milliseconds(100);
  const std::string port = std::to_string(place.port);
  EXPECT_THAT(error_text(ErrorKind::failure, [&] { make_tcp_world(options); }),
              AllOf(StartsWith("process 1 cannot reach process 0 at 127.0.0.1:" + port + " within 100 ms: "),
                    HasSubstr("--master host:port")));
}

TEST(TcpWorld, APortInUseIsSaidWithWhatToType) {
  const Place place;
  EXPECT_THAT(error_text(ErrorKind::failure, [&] { listen_at("127.0.0.1", place.port); }),
              StartsWith("process 0 cannot listen at port " + std::to_string(place.port)));
  ::close(place.listener);
}

// Each says something wrong; then the right ones come, and the world is as if nobody else had been there.
TEST(TcpWorld, StrangersDisturbNobody) {
  const Place place;
  auto world = std::async(std::launch::async, [&] { return make_tcp_world(place.first(2)); });
  const Stranger silent(place.port);
  const Stranger slow(place.port);
  slow.say("OVLW");

  const Stranger web(place.port);
  web.say("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(web.hear(), "") << "a stranger learns nothing";

  const Stranger huge(place.port);
  huge.say(std::string("OVLW") + std::string(8, '\xff'));
  EXPECT_EQ(huge.hear(), "");

  const Stranger cut(place.port);
  WireWriter few;
  few.put(1);
  cut.say(framed(std::move(few)));
  EXPECT_THAT(cut.hear(), HasSubstr("its greeting is malformed"));

  const std::vector<std::pair<std::string, std::string>> wrong{
      {greeting(99, 1, 2, 0, "secret"), "it speaks version 99 of the protocol, process 0 version 1"},
      {greeting(1, 1, 2, 0, "Secret"), "its token is another"},
      {greeting(1, 1, 2, 0, "secret "), "its token is another"},
      {greeting(1, 1, 2, 0, ""), "its token is another"},
      {greeting(1, 1, 2, 3, "secret"), "it belongs to launch 3, not 0"},
      {greeting(1, 1, 3, 0, "secret"), "it was told of 3 processes, process 0 of 2"},
      {greeting(1, 2, 2, 0, "secret"), "there is no process 2"},
      {greeting(1, 0, 2, 0, "secret"), "there is no process 0"},
      {greeting(1, -1, 2, 0, "secret"), "there is no process -1"}};
  for (const auto& [said, answer] : wrong) {
    const Stranger stranger(place.port);
    stranger.say(said);
    EXPECT_THAT(stranger.hear(), HasSubstr(answer));
  }

  const auto second = make_tcp_world(options_of(1, 2, place.port));
  const auto first = world.get();
  auto barrier = std::async(std::launch::async, [&] { second->barrier(); });
  first->barrier();
  barrier.get();
  auto leave = std::async(std::launch::async, [&] { EXPECT_EQ(second->broadcast("x"), "y"); });
  EXPECT_EQ(first->broadcast("y"), "y");
  leave.get();
}

// A byte at a time, as over a bad line: the greeting, then what it says in the world.
TEST(TcpWorld, WhoSpeaksSlowlyIsHeard) {
  const Place place;
  auto world = std::async(std::launch::async, [&] {
    const auto first = make_tcp_world(place.first(2));
    return first->gather("mine");
  });
  const Stranger slow(place.port);
  const auto spell = [&](const std::string& text) {
    for (const char letter : text) slow.say(std::string(1, letter));
  };
  spell(greeting(1, 1, 2, 0, "secret"));
  EXPECT_THAT(slow.hear(4 + 8 + 5 * 8), StartsWith("OVLW"));
  const auto message = [](char kind, char sequence, const std::string& text) {
    return std::string{static_cast<char>(text.size()), 0, 0, 0, kind, 0, sequence, 0, 0, 0, 0, 0, 0, 0} + text;
  };
  spell(message(3, 1, "theirs"));
  spell(message(7, 0, ""));
  EXPECT_THAT(world.get(), ElementsAre("mine", "theirs"));
}

// The user need not wait until the time to join is over; and a stranger that comes again and again is told of once.
TEST(TcpWorld, AVisitorThatIsNotLetInIsToldAtOnceAndOnceAnAddress) {
  const Place place;
  std::vector<std::string> said;
  TcpOptions first = place.first(2);
  first.hint = "; a hint";
  first.say = [&](const std::string& text) { said.push_back(text); };
  auto world = std::async(std::launch::async, [&] { return make_tcp_world(first); });
  for (int visits = 0; visits < 3; ++visits) {
    const Stranger stranger(place.port);
    stranger.say(greeting(1, 1, 2, 0, "Secret"));
    EXPECT_THAT(stranger.hear(), HasSubstr("its token is another"));
  }
  const Stranger scan(place.port);
  scan.say("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(scan.hear(), "");
  const Stranger later(place.port);
  later.say(greeting(1, 1, 2, 3, "secret"));
  EXPECT_THAT(later.hear(), HasSubstr("it belongs to launch 3"));
  const auto second = make_tcp_world(options_of(1, 2, place.port));
  static_cast<void>(world.get());
  EXPECT_THAT(said, ElementsAre("a process from 127.0.0.1 is not let in: its token is another: it belongs to another "
                                "job; 1 of 2 are there. Start all with the same launcher, options and token; a hint"));
}

TEST(TcpWorld, WhoIsNotLetInIsToldTheHint) {
  const Place place;
  auto world = std::async(std::launch::async, [&] { return make_tcp_world(place.first(2)); });
  TcpOptions other = options_of(1, 2, place.port);
  other.token = "another";
  other.hint = "; a hint";
  EXPECT_THAT(error_text(ErrorKind::failure, [&] { make_tcp_world(other); }),
              AllOf(HasSubstr("its token is another"), EndsWith("; a hint")));
  const auto second = make_tcp_world(options_of(1, 2, place.port));
  static_cast<void>(world.get());
}

TEST(TcpWorld, TheSameProcessTwiceIsRefused) {
  const Place place;
  auto world = std::async(std::launch::async, [&] { return make_tcp_world(place.first(3)); });
  const auto one = [&] { return make_tcp_world(options_of(1, 3, place.port)); };
  auto first =
      std::async(std::launch::async, [&] { return error_text(ErrorKind::failure, [&] { one()->barrier(); }); });
  auto second =
      std::async(std::launch::async, [&] { return error_text(ErrorKind::failure, [&] { one()->barrier(); }); });
  // Whichever came second is refused at once; only then comes the third process.
  while (first.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready &&
         second.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
  }
  const auto third = make_tcp_world(options_of(2, 3, place.port));
  auto barrier = std::async(std::launch::async, [&] { third->barrier(); });
  world.get()->barrier();
  barrier.get();
  EXPECT_THAT((std::vector{first.get(), second.get()}),
              testing::UnorderedElementsAre("no error", HasSubstr("process 1 is there already")));
}

// Process 1 was let in and then sends what is no message, or ends in the middle of one.
class TcpWorldGuest : public testing::Test {
 protected:
  // `answer` is what the guest then hears, and `last` what it says before it goes.
  static std::string error_after(const std::string& said, const std::string& answer = "",
                                 const std::string& last = "") {
    const Place place;
    auto world = std::async(std::launch::async, [&] {
      return error_text(ErrorKind::failure, [&] { make_tcp_world(place.first(2))->barrier(); });
    });
    {
      const Stranger guest(place.port);
      guest.say(greeting(1, 1, 2, 0, "secret"));
      EXPECT_THAT(guest.hear(4 + 8 + 5 * 8), StartsWith("OVLW"));
      guest.say(said);
      if (!answer.empty()) {
        EXPECT_EQ(guest.hear(answer.size()), answer);
      }
      guest.say(last);
    }
    return world.get();
  }
};

std::string head(std::uint32_t length, char kind, char more = '\0', char sequence = '\1') {
  std::string text;
  for (int shift = 0; shift < 32; shift += 8) text.push_back(static_cast<char>((length >> shift) & 0xff));
  return text + kind + more + sequence + std::string(7, '\0');
}

TEST_F(TcpWorldGuest, ThatSendsGarbageOrAHugeLengthIsLost) {
  for (const std::string& said : {head(0xffffffff, 1), head((64U << 20) + 1, 1), head(0, 0), head(0, 77), head(0, 1, 2),
                                  std::string("GET / HTTP/1.1\r\n\r\n")}) {
    EXPECT_EQ(error_after(said), "process 1 is lost: it sent what is no message");
  }
}

TEST_F(TcpWorldGuest, ThatDiesIsLost) {
  for (const std::string& said : {std::string(), head(0, 1).substr(0, 5), head(100, 1) + "too short"}) {
    EXPECT_THAT(error_after(said), StartsWith("process 1 is lost: "));
  }
}

// It comes to the barrier, hears that all have come, and says goodbye.
TEST_F(TcpWorldGuest, ThatSpeaksTheProtocolIsAProcess) {
  EXPECT_EQ(error_after(head(0, 1), head(0, 1), head(0, 7, 0, 0)), "no error");
}

// Real processes: each is killed where the test says, and the others say which.
TEST(TcpWorld, AProcessThatIsKilledIsNamedByTheOthers) {
  for (const int victim : {1, 0}) {
    const Place place;
    std::vector<pid_t> children;
    std::vector<int> ends;
    for (int p = 0; p < 3; ++p) {
      std::array<int, 2> pipe_ends{};
      ASSERT_EQ(::pipe(pipe_ends.data()), 0);
      const pid_t child = ::fork();
      if (child == 0) {
        const std::string error = error_text(ErrorKind::failure, [&] {
          const auto world = make_tcp_world(p == 0 ? place.first(3) : options_of(p, 3, place.port));
          world->barrier();
          if (p == victim) ::_exit(9);
          world->barrier();
          world->barrier();
        });
        [[maybe_unused]] const ssize_t n = ::write(pipe_ends[1], error.data(), error.size());
        ::_exit(0);
      }
      ::close(pipe_ends[1]);
      children.push_back(child);
      ends.push_back(pipe_ends[0]);
    }
    ::close(place.listener);
    for (int p = 0; p < 3; ++p) {
      std::string said;
      std::array<char, 256> part{};
      for (ssize_t n = 0; (n = ::read(ends[static_cast<std::size_t>(p)], part.data(), part.size())) > 0;) {
        said.append(part.data(), static_cast<std::size_t>(n));
      }
      ::close(ends[static_cast<std::size_t>(p)]);
      int status = 0;
      ::waitpid(children[static_cast<std::size_t>(p)], &status, 0);
      if (p != victim) {
        EXPECT_THAT(said, StartsWith("process " + std::to_string(victim) + " is lost: "));
      }
    }
  }
}

TEST(TcpWorld, IsMadeOfWhatTheLauncherSays) {
  const TcpOptions o = tcp_options({.launcher = "torchrun",
                                    .process = 3,
                                    .size = 8,
                                    .local_process = 1,
                                    .local_size = 2,
                                    .host = "node01",
                                    .port = 29501,
                                    .job = "7"},
                                   "token", 4);
  EXPECT_EQ(o.hint, "");
  EXPECT_THAT(tcp_options({.process = 1, .size = 2, .job = "child of 7", .job_guessed = true}, "child of 7", 0).hint,
              HasSubstr("set OVERLAPBENCH_TOKEN to the same text for all"));
  EXPECT_EQ(std::tuple(o.process, o.size, o.local_process, o.local_size, o.host, o.port, o.token, o.launch),
            std::tuple(3, 8, 1, 2, "node01", 29501, "token", 4));
}

}  // namespace
}  // namespace ovl
