// SPDX-License-Identifier: Apache-2.0
#include "backend/tcp_world.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "backend/wire.hpp"
#include "base/error.hpp"

namespace ovl {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

SteadyTime now() { return std::chrono::steady_clock::now(); }
SteadyTime after(Seconds time) {
  return now() + std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(time.value()));
}
// For poll(): whole milliseconds until then, rounded up, at most `most`.
int milliseconds_until(SteadyTime then, int most) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(then - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, most));
}

std::string system_text(int error) { return std::strerror(error); }

// ---- sockets --------------------------------------------------------------------------------------------------------

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool open() const { return descriptor_ >= 0; }
  void close() { Socket gone(std::exchange(descriptor_, -1)); }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

void set_option(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);  // each only makes things better
}

// Small messages go at once, and a machine that is gone without a word is noticed.
void prepare(const Socket& socket) {
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
}

struct Addresses {
  addrinfo* first = nullptr;
  std::string error;
  Addresses(const std::string& host, int port, int flags) {
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = flags | AI_NUMERICSERV;
    const int code =
        ::getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &wanted, &first);
    if (code != 0) error = ::gai_strerror(code);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// Without the port, which is another one each time.
std::string address_text(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int code = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text.data(), text.size(), nullptr,
                                 0, NI_NUMERICHOST);
  return code == 0 ? text.data() : "an unknown address";
}

// One attempt to connect; an unopened socket and the reason when it fails.
Socket connect_once(const std::string& host, int port, SteadyTime deadline, std::string& why) {
  const Addresses addresses(host, port, 0);
  why = addresses.error;
  for (const addrinfo* a = addresses.first; a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.open()) {
      why = system_text(errno);
      continue;
    }
    if (::connect(socket.get(), a->ai_addr, a->ai_addrlen) != 0) {
      if (errno != EINPROGRESS) {
        why = system_text(errno);
        continue;
      }
      pollfd wait{socket.get(), POLLOUT, 0};
      constexpr int patience = 5000;  // then the next address, and later all again
      if (::poll(&wait, 1, milliseconds_until(deadline, patience)) <= 0) {
        why = "no answer";
        continue;
      }
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) {
        why = system_text(error);
        continue;
      }
    }
    // A port of this machine that nobody listens at can be connected with itself.
    sockaddr_storage mine{};
    sockaddr_storage theirs{};
    socklen_t my_size = sizeof mine;
    socklen_t their_size = sizeof theirs;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &my_size) == 0 &&
        ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&theirs), &their_size) == 0 && my_size == their_size &&
        std::memcmp(&mine, &theirs, my_size) == 0) {
      why = "nobody listens there";
      continue;
    }
    prepare(socket);
    return socket;
  }
  return {};
}

// ---- greetings ------------------------------------------------------------------------------------------------------
// Client: "OVLW", length, then version, process, size, launch, local process, local size, machine, token.
// Server: "OVLW", length, then accepted, later, local process, local size, reason.

constexpr std::string_view magic = "OVLW";
constexpr int protocol_version = 1;
constexpr std::size_t greeting_head = 12;  // magic and a length of eight bytes
constexpr std::size_t longest_greeting = longest_token + 1024;

std::string framed_greeting(std::string body) {
  WireWriter length;
  length.put(static_cast<std::uint64_t>(body.size()));
  return std::string(magic) + std::move(length).take() + body;
}

struct Greeting {
  int process = 0;
  int size = 0;
  int launch = 0;
  int local_process = 0;
  int local_size = 0;
  std::string machine;
  std::string token;
};

std::string write_greeting(const Greeting& g) {
  WireWriter w;
  for (const int number : {protocol_version, g.process, g.size, g.launch, g.local_process, g.local_size}) w.put(number);
  w.put(g.machine);
  w.put(g.token);
  return framed_greeting(std::move(w).take());
}

struct Answer {
  bool accepted = false;
  bool later = false;  // refused now, perhaps not later
  int local_process = 0;
  int local_size = 1;
  std::string reason;
};

std::string write_answer(const Answer& a) {
  WireWriter w;
  w.put(a.accepted);
  w.put(a.later);
  w.put(a.local_process);
  w.put(a.local_size);
  w.put(a.reason);
  return framed_greeting(std::move(w).take());
}

// Throws Error(failure) for what is no answer.
Answer read_answer(std::string_view body) {
  WireReader reader(body);
  Answer answer;
  answer.accepted = reader.truth();
  answer.later = reader.truth();
  answer.local_process = reader.integer();
  answer.local_size = reader.integer();
  answer.reason = reader.text();
  return answer;
}

enum class Heard { more, garbage, whole };

// Whether `text` holds a whole greeting, whose body then is `body`.
Heard heard(const std::string& text, std::string_view& body) {
  const std::string_view view(text);
  if (view.substr(0, magic.size()) != magic.substr(0, view.size())) return Heard::garbage;
  if (view.size() < greeting_head) return Heard::more;
  const std::uint64_t length = WireReader(view.substr(magic.size())).unsigned_number();
  if (length > longest_greeting) return Heard::garbage;
  if (view.size() < greeting_head + length) return Heard::more;
  if (view.size() > greeting_head + length) return Heard::garbage;  // whoever greets waits for the answer
  body = view.substr(greeting_head);
  return Heard::whole;
}

// As long for every token of a length, wherever it differs.
bool same_token(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

// What processes on one machine have in common.
std::string machine_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return std::string(name.data()) + " " + boot;
}

// ---- messages -------------------------------------------------------------------------------------------------------

enum class Kind : std::uint8_t { barrier = 1, broadcast, gather, minimum, maximum, abort, goodbye, report };

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::barrier: return "barrier";
    case Kind::broadcast: return "broadcast";
    case Kind::gather: return "gather";
    case Kind::minimum: return "minimum";
    case Kind::maximum: return "maximum";
    case Kind::abort: return "abort";
    case Kind::goodbye: return "goodbye";
    case Kind::report: return "report";
  }
  return "nothing known";
}

struct Step {
  std::uint64_t sequence = 0;
  Kind kind = Kind::barrier;
  friend bool operator==(const Step&, const Step&) = default;
};
std::string text_of(Step step) { return fmt::format("{} #{}", name_of(step.kind), step.sequence); }

struct Message {
  Step step;
  bool more = false;  // the text goes on in the next one
  std::string text;
};

// length (4 bytes), kind, more, sequence (8 bytes).
constexpr std::size_t head_size = 14;

std::string head_of(const Message& m) {
  std::string head;
  for (int shift = 0; shift < 32; shift += 8) head.push_back(static_cast<char>((m.text.size() >> shift) & 0xff));
  head.push_back(static_cast<char>(m.step.kind));
  head.push_back(m.more ? '\1' : '\0');
  for (int shift = 0; shift < 64; shift += 8) head.push_back(static_cast<char>((m.step.sequence >> shift) & 0xff));
  return head;
}

// Bytes to messages. Throws Error(failure) for what cannot be one.
class Parser {
 public:
  explicit Parser(std::size_t longest) : longest_(longest) {}

  void add(const char* bytes, std::size_t size) { buffer_.append(bytes, size); }

  std::optional<Message> next() {
    if (buffer_.size() - begin_ < head_size) return compact();
    const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(buffer_[begin_ + i])}; };
    const std::size_t length = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    const std::uint64_t kind = byte(4);
    if (length > longest_ || kind < static_cast<std::uint64_t>(Kind::barrier) ||
        kind > static_cast<std::uint64_t>(Kind::report) || byte(5) > 1) {
      throw failure("it sent what is no message", "");
    }
    if (buffer_.size() - begin_ < head_size + length) return compact();
    Message message;
    message.step.kind = static_cast<Kind>(kind);
    message.more = byte(5) == 1;
    for (std::size_t i = 0; i < 8; ++i) message.step.sequence |= byte(6 + i) << (8 * i);
    message.text = buffer_.substr(begin_ + head_size, length);
    begin_ += head_size + length;
    return message;
  }

 private:
  std::nullopt_t compact() {
    buffer_.erase(0, begin_);
    begin_ = 0;
    return std::nullopt;
  }

  std::size_t longest_;
  std::string buffer_;
  std::size_t begin_ = 0;
};

// ---- meeting --------------------------------------------------------------------------------------------------------

struct Met {
  std::map<int, Socket> peers;  // by process
  int local_process = 0;
  int local_size = 1;
};

// Writes all of a short text to a socket that does not block.
bool write_all(const Socket& socket, std::string_view text, SteadyTime deadline) {
  while (!text.empty()) {
    const ssize_t n = ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd wait{socket.get(), POLLOUT, 0};
      if (::poll(&wait, 1, milliseconds_until(deadline, 1000)) <= 0 && now() >= deadline) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Process 0: lets the others in.
class Door {
 public:
  explicit Door(const TcpOptions& options)
      : options_(options),
        listener_(options.listener >= 0 ? options.listener : listen_at(options.host, options.port)),
        deadline_(after(options.join)) {
    ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
    greetings_[0] = {
        .local_process = options.local_process, .local_size = options.local_size, .machine = machine_identity()};
  }

  Met meet() {
    while (static_cast<int>(in_.size()) < options_.size - 1) {
      if (now() >= deadline_) give_up();
      wait();
    }
    Met met;
    for (auto& [process, socket] : in_) {
      const auto [local_process, local_size] = local_place(process);
      const Answer answer{.accepted = true, .local_process = local_process, .local_size = local_size};
      write_all(socket, write_answer(answer), deadline_);  // who died just now is noticed later
      met.peers.emplace(process, std::move(socket));
    }
    std::tie(met.local_process, met.local_size) = local_place(0);
    return met;
  }

 private:
  static constexpr std::size_t most_guests = 1024;  // that have not greeted: more wait in the kernel's queue

  struct Guest {
    Socket socket;
    std::string address;
    std::string said;
    SteadyTime until;
  };

  void wait() {
    const bool room = guests_.size() < most_guests;
    std::vector<pollfd> fds{{listener_.get(), static_cast<short>(room ? POLLIN : 0), 0}};
    for (const Guest& guest : guests_) fds.push_back({guest.socket.get(), POLLIN, 0});
    const std::size_t had = guests_.size();
    if (::poll(fds.data(), fds.size(), milliseconds_until(deadline_, 200)) < 0 && errno != EINTR) {
      throw failure("cannot wait for the other processes", system_text(errno));
    }
    for (std::size_t i = 0; i < had; ++i) {
      if (fds[i + 1].revents != 0) listen_to(guests_[i]);
    }
    if (fds.front().revents != 0) let_in();
    // Who greets too slowly makes room; a process of ours comes again.
    std::erase_if(guests_, [](const Guest& guest) { return !guest.socket.open() || now() >= guest.until; });
    lose_the_dead();
  }

  void let_in() {
    while (guests_.size() < most_guests) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      Socket socket(
          ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.open()) return;
      prepare(socket);
      guests_.push_back({std::move(socket), address_text(from, size), "", std::min(deadline_, after(Seconds(10)))});
    }
  }

  void listen_to(Guest& guest) {
    std::array<char, 1024> part{};
    for (;;) {
      const ssize_t n = ::recv(guest.socket.get(), part.data(), part.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return guest.socket.close();
      guest.said.append(part.data(), static_cast<std::size_t>(n));
      std::string_view body;
      switch (heard(guest.said, body)) {
        case Heard::more: continue;
        case Heard::garbage: return guest.socket.close();
        case Heard::whole: return judge(guest, body);
      }
    }
  }

  void judge(Guest& guest, std::string_view body) {
    Greeting greeting;
    const std::string reason = reason_against(body, greeting);
    if (!reason.empty()) {
      // Another launch of the job will have its turn.
      const bool later = same_token(greeting.token, options_.token) && greeting.launch != options_.launch;
      write_all(guest.socket, write_answer({.later = later, .reason = reason}), after(milliseconds(100)));
      if (!later) tell_of(guest.address, reason);
      return guest.socket.close();
    }
    greetings_[greeting.process] = greeting;
    in_[greeting.process] = std::move(guest.socket);
  }

  // At once, since the time to join may be long; once for each address, and not of many.
  void tell_of(const std::string& address, const std::string& reason) {
    constexpr std::size_t most_told = 16;
    if (!options_.say || told_.size() >= most_told || !told_.insert(address).second) return;
    options_.say(fmt::format("a process from {} is not let in: {}; {} of {} are there. Start all with the same "
                             "launcher, options and token",
                             address, reason, in_.size() + 1, options_.size) +
                 options_.hint);
  }

  // Why this one may not come in; empty: it may. A stranger learns no more than that it is one.
  std::string reason_against(std::string_view body, Greeting& g) const {
    try {
      WireReader reader(body);
      if (const int version = reader.integer(); version != protocol_version) {
        return fmt::format("it speaks version {} of the protocol, process 0 version {}", version, protocol_version);
      }
      for (int* number : {&g.process, &g.size, &g.launch, &g.local_process, &g.local_size}) *number = reader.integer();
      g.machine = reader.text();
      g.token = reader.text();
      reader.finish();
    } catch (const Error&) {
      return "its greeting is malformed";
    }
    if (!same_token(g.token, options_.token)) return "its token is another: it belongs to another job";
    if (g.launch != options_.launch) return fmt::format("it belongs to launch {}, not {}", g.launch, options_.launch);
    if (g.size != options_.size) {
      return fmt::format("it was told of {} processes, process 0 of {}", g.size, options_.size);
    }
    if (g.process < 1 || g.process >= options_.size) return fmt::format("there is no process {}", g.process);
    if (in_.contains(g.process)) return fmt::format("process {} is there already", g.process);
    return {};
  }

  // One of ours that greeted and died before all had met may be started again by its launcher.
  void lose_the_dead() {
    std::erase_if(in_, [](const auto& entry) {
      char byte = 0;
      const ssize_t n = ::recv(entry.second.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    });
  }

  [[noreturn]] void give_up() {
    std::vector<std::string> missing;
    for (int p = 1; p < options_.size; ++p) {
      if (!in_.contains(p)) missing.push_back(std::to_string(p));
    }
    const std::string reason =
        fmt::format("process {} of {} did not come to {}:{} within {}", fmt::join(missing, ", "), options_.size,
                    options_.host, port_of_socket(listener_.get()), format_seconds(options_.join));
    for (const auto& [process, socket] : in_) {
      write_all(socket, write_answer({.reason = reason}), after(milliseconds(100)));
    }
    throw failure(
        reason, "all must be started with the same place, size and token",
        "see what they printed, or type --master host:port with an address that they can reach" + options_.hint);
  }

  // As the launcher said, else counted: processes of one machine in the order of their numbers.
  [[nodiscard]] std::pair<int, int> local_place(int process) const {
    const Greeting& me = greetings_.at(process);
    if (me.local_size > 0) return {me.local_process, me.local_size};
    int before = 0;
    int all = 0;
    for (const auto& [other, greeting] : greetings_) {
      if (greeting.machine != me.machine) continue;
      ++all;
      if (other < process) ++before;
    }
    return {before, all};
  }

  const TcpOptions& options_;
  Socket listener_;  // closed when all have met
  SteadyTime deadline_;
  std::vector<Guest> guests_;
  std::map<int, Socket> in_;
  std::map<int, Greeting> greetings_;
  std::set<std::string> told_;  // addresses
};

// Everybody else: knocks until process 0 opens.
Met join(const TcpOptions& options) {
  const SteadyTime deadline = after(options.join);
  const std::string greeting = write_greeting({.process = options.process,
                                               .size = options.size,
                                               .launch = options.launch,
                                               .local_process = options.local_process,
                                               .local_size = options.local_size,
                                               .machine = machine_identity(),
                                               .token = options.token});
  std::string why = "nobody listens there";
  do {
    Socket socket = connect_once(options.host, options.port, deadline, why);
    if (socket.open() && write_all(socket, greeting, deadline)) {
      why = "it closed the connection";
      std::string said;
      for (bool open = true; open && now() < deadline;) {
        pollfd wait{socket.get(), POLLIN, 0};
        if (::poll(&wait, 1, milliseconds_until(deadline, 1000)) <= 0) continue;
        // The answer and no byte more: what follows belongs to the world.
        char byte = 0;
        const ssize_t n = ::recv(socket.get(), &byte, 1, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        open = n > 0;
        if (!open) break;
        said.push_back(byte);
        std::string_view body;
        const Heard state = heard(said, body);
        if (state == Heard::garbage) {
          why = "another program listens there";
          open = false;
        }
        if (state != Heard::whole) continue;
        const Answer answer = read_answer(body);
        if (!answer.accepted) {
          why = answer.reason;
          if (!answer.later) {
            throw failure(fmt::format("process 0 at {}:{} does not let process {} in", options.host, options.port,
                                      options.process),
                          answer.reason, "start all with the same launcher, options and token" + options.hint);
          }
          break;
        }
        Met met{.local_process = answer.local_process, .local_size = answer.local_size};
        met.peers.emplace(0, std::move(socket));
        return met;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (now() < deadline);
  throw failure(
      fmt::format("process {} cannot reach process 0 at {}:{} within {}", options.process, options.host, options.port,
                  format_seconds(options.join)),
      why, "see what process 0 printed, or type --master host:port with an address that all can reach" + options.hint);
}

// ---- the world ------------------------------------------------------------------------------------------------------

class TcpWorld final : public World {
 public:
  TcpWorld(const TcpOptions& options, Met met)
      : process_(options.process),
        size_(options.size),
        local_process_(met.local_process),
        local_size_(met.local_size),
        // Process 0 waits for all, the others for process 0: it is to find out first who it is that does not come.
        deadline_(options.process == 0 ? options.deadline : options.deadline * 1.25),
        piece_(options.piece),
        broken_(options.broken),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_.open()) throw failure("cannot make an event descriptor", system_text(errno));
    for (auto& [process, socket] : met.peers) {
      ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
      peers_.emplace(process, std::make_unique<Peer>(std::move(socket), std::max(options.piece, longest_reason)));
    }
    thread_ = std::thread([this] { serve(); });
  }

  ~TcpWorld() override {
    when_aborted({});
    {
      const std::lock_guard lock(mutex_);
      for (auto& [process, peer] : peers_) queue(*peer, {{0, Kind::goodbye}, false, {}});
      leaving_ = after(Seconds(2));
    }
    wake();
    thread_.join();
    if (caller_.joinable()) caller_.join();
  }

  [[nodiscard]] int process() const override { return process_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int local_process() const override { return local_process_; }
  [[nodiscard]] int local_size() const override { return local_size_; }

  void barrier() override {
    Operation op(*this, Kind::barrier);
    collect(op, {});
    spread(op, {});
  }

  std::string broadcast(const std::string& text, int from) override {
    require(from >= 0 && from < size_, "a text is broadcast by a process of the world");
    Operation op(*this, Kind::broadcast);
    if (from == process_) {
      if (process_ != 0) {
        send(op, 0, text);
      } else {
        spread(op, text);
      }
      return text;
    }
    if (process_ != 0) return receive(op, 0);
    std::string received = receive(op, from);
    spread(op, received, from);
    return received;
  }

  std::vector<std::string> gather(const std::string& text) override {
    Operation op(*this, Kind::gather);
    std::vector<std::string> all = collect(op, text);
    return process_ == 0 ? all : std::vector<std::string>{};
  }

  double minimum(double value) override {
    return reduce(Kind::minimum, value, [](double a, double b) { return std::fmin(a, b); });
  }
  double maximum(double value) override {
    return reduce(Kind::maximum, value, [](double a, double b) { return std::fmax(a, b); });
  }

  void abort(const std::string& reason) noexcept override {
    try {
      fail(reason.substr(0, longest_reason), true);
    } catch (...) {  // no memory for a text: the connections say it
      for (const auto& [process, peer] : peers_) ::shutdown(peer->socket.get(), SHUT_RDWR);
    }
  }

  void when_aborted(std::function<void(const std::string& reason)> call) override {
    const std::lock_guard calling(calling_);
    std::string reason;
    {
      const std::lock_guard lock(mutex_);
      reason = reason_;
    }
    // Whoever is taken back has been called where there was a reason: its thread may only not have come so far.
    const auto before = std::exchange(call_, nullptr);
    if (!reason.empty() && before) before(reason);
    if (reason.empty()) {
      call_ = std::move(call);
    } else if (call) {
      call(reason);
    }
  }

  void report(const std::string& text) noexcept override {
    try {
      {
        const std::lock_guard lock(mutex_);
        if (reported_) return;
        reported_ = text.substr(0, longest_reason);
        if (process_ != 0) queue(*peers_.at(0), {{0, Kind::report}, false, *reported_});
      }
      changed_.notify_all();
      wake();
    } catch (...) {  // no memory: it then has not reported
    }
  }

  std::vector<std::optional<std::string>> reports(Seconds patience) override {
    std::unique_lock lock(mutex_);
    const auto done = [](const auto& entry) {
      return entry.second->report || entry.second->left || entry.second->gone;
    };
    changed_.wait_until(lock, after(patience),
                        [&] { return reported_ && std::all_of(peers_.begin(), peers_.end(), done); });
    std::vector<std::optional<std::string>> all(static_cast<std::size_t>(size_));
    all[static_cast<std::size_t>(process_)] = reported_;
    for (const auto& [process, peer] : peers_) all[static_cast<std::size_t>(process)] = peer->report;
    return all;
  }

  bool known_to_process_0(Seconds patience) override {
    std::unique_lock lock(mutex_);
    if (!failed_ || process_ == 0) return true;
    const Peer& first = *peers_.at(0);
    changed_.wait_until(lock, after(patience), [&] { return first.knows || first.gone; });
    return first.knows;
  }

 private:
  static constexpr std::size_t longest_reason = std::size_t{64} << 10;

  struct Peer {
    Peer(Socket s, std::size_t longest) : socket(std::move(s)), parser(longest) {}
    Socket socket;
    Parser parser;
    std::deque<Message> in;
    std::deque<std::string> out;  // heads and texts
    std::size_t sent = 0;         // of the first
    std::optional<std::string> report;
    bool knows = false;  // has said, or repeated, why the world is aborted
    bool left = false;   // said goodbye
    bool gone = false;   // nothing more comes or goes
  };

  // One operation at a time, each with its number and the time until which it must be done.
  struct Operation {
    Operation(TcpWorld& w, Kind kind)
        : world(w), busy(w.operation_), step{++w.sequence_, kind}, until(after(w.deadline_)) {}
    TcpWorld& world;
    std::lock_guard<std::mutex> busy;
    Step step;
    SteadyTime until;
  };

  // Every other process's text to process 0: there in process order, with its own.
  std::vector<std::string> collect(Operation& op, const std::string& text) {
    std::vector<std::string> all;
    if (process_ != 0) {
      send(op, 0, text);
      return all;
    }
    all.push_back(text);
    for (int p = 1; p < size_; ++p) all.push_back(receive(op, p));
    return all;
  }

  // Process 0's text to every other one; the received text elsewhere.
  std::string spread(Operation& op, const std::string& text, int but = 0) {
    if (process_ != 0) return receive(op, 0);
    for (int p = 1; p < size_; ++p) {
      if (p != but) send(op, p, text);
    }
    return text;
  }

  template <class Combine>
  double reduce(Kind kind, double value, Combine combine) {
    Operation op(*this, kind);
    const auto packed = [](double number) {
      WireWriter writer;
      writer.put(number);
      return std::move(writer).take();
    };
    double result = value;
    if (process_ == 0) {
      for (int p = 1; p < size_; ++p) result = combine(result, WireReader(receive(op, p)).real());
      spread(op, packed(result));
      return result;
    }
    send(op, 0, packed(value));
    return WireReader(receive(op, 0)).real();
  }

  void send(Operation& op, int to, const std::string& text) {
    {
      const std::lock_guard lock(mutex_);
      throw_if_failed();
      Peer& peer = *peers_.at(to);
      for (std::size_t begin = 0;;) {
        const std::size_t size = std::min(piece_, text.size() - begin);
        const bool more = begin + size < text.size();
        queue(peer, {op.step, more, text.substr(begin, size)});
        begin += size;
        if (!more) break;
      }
    }
    wake();
  }

  std::string receive(Operation& op, int from) {
    std::string text;
    std::string problem;
    {
      std::unique_lock lock(mutex_);
      Peer& peer = *peers_.at(from);
      for (bool more = true; more && problem.empty();) {
        const bool there =
            changed_.wait_until(lock, op.until, [&] { return failed_ || !peer.in.empty() || peer.left || peer.gone; });
        throw_if_failed();
        if (!peer.in.empty()) {
          Message message = std::move(peer.in.front());
          peer.in.pop_front();
          if (message.step != op.step) {
            problem = fmt::format("process {} is in {} while process {} is in {}", from, text_of(message.step),
                                  process_, text_of(op.step));
          }
          text += message.text;
          more = message.more;
        } else if (!there) {
          problem = fmt::format("process {} did not come to {} of process {} within {}", from, text_of(op.step),
                                process_, format_seconds(deadline_));
        } else {
          problem = fmt::format("process {} has ended, and process {} is in {}", from, process_, text_of(op.step));
        }
      }
    }
    if (problem.empty()) return text;
    fail(problem, true);
    const std::lock_guard lock(mutex_);
    throw_if_failed();
    return {};
  }

  void throw_if_failed() const {
    if (failed_) throw SharedError(ErrorKind::failure, reason_);
  }

  // The first reason stays. Tells the others, and whoever waits outside. Process 0 passes on what it hears, also to
  // the process that said it: that one then knows that it is known.
  void fail(const std::string& reason, bool tell) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_) return;
      failed_ = true;
      reason_ = reason.empty() ? "aborted without a reason" : reason;
      for (auto& [process, peer] : peers_) {
        if (tell) queue(*peer, {{0, Kind::abort}, false, reason_});
      }
    }
    changed_.notify_all();
    wake();
    if (broken_) broken_(reason_);
    const auto call_back = [this] {
      const std::lock_guard calling(calling_);
      const auto call = std::exchange(call_, nullptr);
      if (call) call(reason_);
    };
    // It may take long, and this thread may be the one that sends.
    try {
      caller_ = std::thread(call_back);
    } catch (const std::system_error&) {  // the system has no thread left
      call_back();
    }
  }

  // ---- the thread
  // -----------------------------------------------------------------------------------------------------

  // With the mutex held.
  static void queue(Peer& peer, Message message) {
    if (peer.gone) return;
    peer.out.push_back(head_of(message));
    if (!message.text.empty()) peer.out.push_back(std::move(message.text));
  }

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);  // full: it is awake
  }

  void serve() {
    for (;;) {
      std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
      std::vector<int> processes;
      int timeout = -1;
      {
        const std::lock_guard lock(mutex_);
        bool pending = false;
        bool others = false;  // that are still there: closing first could cut off what they have not read
        for (const auto& [process, peer] : peers_) {
          if (peer->gone) continue;
          others = others || !peer->left;
          const bool sending = !peer->out.empty();
          pending = pending || sending;
          fds.push_back({peer->socket.get(), static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), 0});
          processes.push_back(process);
        }
        if (leaving_) {
          if ((!pending && (!others || failed_)) || now() >= *leaving_) return;
          timeout = milliseconds_until(*leaving_, 1000);
        }
      }
      if (::poll(fds.data(), fds.size(), timeout) < 0) continue;  // interrupted
      if (fds.front().revents != 0) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
      }
      for (std::size_t i = 0; i < processes.size(); ++i) {
        if (fds[i + 1].revents == 0) continue;
        Peer& peer = *peers_.at(processes[i]);
        std::string problem;
        try {
          if ((fds[i + 1].revents & POLLOUT) != 0) transmit(peer);
          if ((fds[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read(peer);
        } catch (const Error& error) {
          problem = error.what();
        }
        if (!problem.empty()) lose(processes[i], peer, problem);
      }
    }
  }

  void transmit(Peer& peer) {
    const std::lock_guard lock(mutex_);
    while (!peer.out.empty()) {
      const std::string& text = peer.out.front();
      const ssize_t n = ::send(peer.socket.get(), text.data() + peer.sent, text.size() - peer.sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) throw failure("its connection broke", system_text(errno));
      peer.sent += static_cast<std::size_t>(n);
      if (peer.sent < text.size()) continue;
      peer.out.pop_front();
      peer.sent = 0;
    }
  }

  void read(Peer& peer) {
    std::array<char, 65536> part{};
    for (;;) {
      const ssize_t n = ::recv(peer.socket.get(), part.data(), part.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) throw failure("its connection broke", system_text(errno));
      if (n == 0) throw failure("it ended", "its connection closed");
      peer.parser.add(part.data(), static_cast<std::size_t>(n));
      while (std::optional<Message> message = peer.parser.next()) take(peer, std::move(*message));
    }
  }

  void take(Peer& peer, Message message) {
    if (message.step.kind == Kind::abort) fail(message.text, process_ == 0);
    {
      const std::lock_guard lock(mutex_);
      if (message.step.kind == Kind::abort) {
        peer.knows = true;
      } else if (message.step.kind == Kind::goodbye) {
        peer.left = true;
      } else if (message.step.kind == Kind::report) {
        peer.report = std::move(message.text);
      } else {
        peer.in.push_back(std::move(message));
      }
    }
    changed_.notify_all();
  }

  // After a goodbye a closed connection is what one expects. Else it is told before anyone can see it.
  void lose(int process, Peer& peer, const std::string& problem) {
    bool expected = false;
    {
      const std::lock_guard lock(mutex_);
      expected = peer.left || leaving_.has_value();
    }
    if (!expected) fail(fmt::format("process {} is lost: {}", process, problem), true);
    {
      const std::lock_guard lock(mutex_);
      peer.gone = true;
      peer.out.clear();
    }
    changed_.notify_all();
  }

  const int process_;
  const int size_;
  const int local_process_;
  const int local_size_;
  const Seconds deadline_;
  const std::size_t piece_;
  const std::function<void(const std::string&)> broken_;
  Socket wake_;
  std::mutex operation_;
  std::uint64_t sequence_ = 0;

  std::mutex mutex_;  // of all below, and of the peers' queues
  std::condition_variable changed_;
  std::map<int, std::unique_ptr<Peer>> peers_;
  bool failed_ = false;
  std::string reason_;
  std::optional<std::string> reported_;
  std::optional<SteadyTime> leaving_;

  std::mutex calling_;  // held while call_ runs; taken before mutex_
  std::function<void(const std::string&)> call_;
  std::thread caller_;  // of call_, once the world is broken
  std::thread thread_;
};

}  // namespace

TcpOptions tcp_options(const Launched& launched, const std::string& token, int launch) {
  constexpr const char* guessed =
      "; the launcher names no job, so the number of the parent process stands for it: where a wrapper starts each "
      "process, exec in the wrapper or set OVERLAPBENCH_TOKEN to the same text for all";
  return {.process = launched.process,
          .size = launched.size,
          .local_process = launched.local_process,
          .local_size = launched.local_size,
          .host = launched.host,
          .port = launched.port,
          .token = token,
          .launch = launch,
          .hint = launched.job_guessed ? guessed : ""};
}

std::unique_ptr<World> make_tcp_world(const TcpOptions& options) {
  require(options.size > 1 && options.process >= 0 && options.process < options.size,
          "a world over TCP has several processes, and this is one of them");
  require(options.piece > 0 && options.piece <= std::numeric_limits<std::uint32_t>::max(),
          "the length of a message has four bytes");
  Met met = options.process == 0 ? Door(options).meet() : join(options);
  return std::make_unique<TcpWorld>(options, std::move(met));
}

int listen_at(const std::string& host, int port) {
  const Addresses addresses(is_loopback(host) ? host : "", port, AI_PASSIVE);
  std::string why = addresses.error;
  // Of all interfaces those of IPv6 take IPv4 too, where there is IPv6.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* a = addresses.first; a != nullptr; a = a->ai_next) {
      if (a->ai_family != family) continue;
      Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket.open()) {
        why = system_text(errno);
        continue;
      }
      // The port may still be in use by connections of an earlier run, or of the parent of this launch.
      set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
      if (::bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket.get(), SOMAXCONN) == 0) {
        return socket.release();
      }
      why = system_text(errno);
    }
  }
  throw failure(fmt::format("process 0 cannot listen at port {}", port), why,
                "type --master host:port with a free port of the machine of process 0");
}

int port_of_socket(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  return ntohs(address.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

}  // namespace ovl
