// SPDX-License-Identifier: Apache-2.0
//
// Any bytes at all, sent to the port where processes meet: as a stranger who has not shown the token, and as one of the
// job. The first byte chooses what they are:
//   0  messages, taken apart in pieces of any size: the same as at once, and none longer than it may be
//   1  a greeting and an answer
//   2  a stranger's words, then those of a process that was let in: the world meets all the same, and each operation of
//      process 0 ends, with a result or with an error that says who broke it
#include <sys/un.h>

#include <exception>

#include "backend/tcp_world.cpp"  // to see what it keeps to itself
#include "fuzz.hpp"

namespace ovl {
namespace {

using fuzz::must;

constexpr std::size_t longest = 1000;

// What became of each message, and at the end whether the rest was none.
std::string taken_apart(std::string_view bytes, std::size_t piece) {
  Parser parser(longest);
  std::string all;
  try {
    while (!bytes.empty()) {
      const std::size_t size = std::min(piece, bytes.size());
      parser.add(bytes.data(), size);
      bytes.remove_prefix(size);
      while (const std::optional<Message> message = parser.next()) {
        must(message->text.size() <= longest);
        all += text_of(message->step) + (message->more ? "+" : ".") + message->text;
      }
    }
  } catch (const Error& error) {
    must(error.kind() == ErrorKind::failure);
    all += error.what();
  }
  return all;
}

void messages(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t piece = 1 + static_cast<unsigned char>(bytes.front()) % 32;
  bytes.remove_prefix(1);
  must(taken_apart(bytes, piece) == taken_apart(bytes, std::max<std::size_t>(1, bytes.size())));
}

void greetings(std::string_view bytes) {
  const std::string said(bytes);
  std::string_view body;
  if (heard(said, body) == Heard::whole) must(body.size() + greeting_head == said.size());
  try {
    must(read_answer(bytes).reason.size() <= bytes.size());
  } catch (const Error& error) {
    must(error.kind() == ErrorKind::failure);
  }
}

// A socket that has a name in no file system and no port, so that a million can come and go.
sockaddr_un place(socklen_t& size) {
  static int number = 0;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("ovl-fuzz-{}-{}", ::getpid(), ++number);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

class Visitor {
 public:
  Visitor(const sockaddr_un& address, socklen_t size) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    must(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  }
  // What nobody reads any more is lost, as on a network.
  void say(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t n = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n < 0) return;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  [[nodiscard]] bool is_let_in() const {
    std::string said;
    char byte = 0;
    while (::recv(socket_.get(), &byte, 1, 0) == 1) {
      said.push_back(byte);
      std::string_view body;
      if (heard(said, body) == Heard::whole) return read_answer(body).accepted;
    }
    return false;
  }

 private:
  Socket socket_;
};

std::string outcome(World& world) {
  try {
    world.barrier();
    const std::vector<std::string> all = world.gather("mine");
    must(all.size() == 2 && all.front() == "mine");
    static_cast<void>(world.broadcast("", 1));
    static_cast<void>(world.maximum(1));
    return "done";
  } catch (const Error& error) {
    must(error.kind() == ErrorKind::failure);
    return error.what();
  }
}

void visits(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t strange = std::min<std::size_t>(static_cast<unsigned char>(bytes.front()), bytes.size() - 1);
  const std::string_view stranger = bytes.substr(1, strange);
  const std::string_view guest = bytes.substr(1 + strange);
  socklen_t size = 0;
  const sockaddr_un address = place(size);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must(::bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0 && ::listen(listener, 16) == 0);
  TcpOptions options{.process = 0, .size = 2, .host = "here", .token = "t", .listener = listener};
  options.piece = longest;
  options.join = options.deadline = Seconds(20);  // a wait for them is a hang, as libFuzzer calls it
  std::exception_ptr broken;
  std::thread first([&] {
    try {
      outcome(*make_tcp_world(options));
    } catch (...) {
      broken = std::current_exception();
    }
  });
  Visitor(address, size).say(stranger);  // and goes; one who guessed the greeting is process 1 until it is missed
  for (bool in = false; !in;) {
    const Visitor right(address, size);
    right.say(write_greeting({.process = 1, .size = 2, .machine = "m", .token = "t"}));
    in = right.is_let_in();
    if (in) right.say(guest);
  }
  first.join();
  must(broken == nullptr);
}

}  // namespace
}  // namespace ovl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0: ovl::messages(bytes); break;
    case 1: ovl::greetings(bytes); break;
    default: ovl::visits(bytes); break;
  }
  return 0;
}
