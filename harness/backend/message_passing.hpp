// SPDX-License-Identifier: Apache-2.0
//
// A message-passing library among processes, as a transport of the host backend sees it: MPI, from a module for each
// implementation, so that nothing else links one. Every rank is a process; groups and members are numbered as MPI
// numbers its processes.
//
// The library moves messages on only inside of these calls: who makes them, and when, decides what can overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/launcher_environment.hpp"
#include "base/dtype.hpp"
#include "base/enum_names.hpp"
#include "program/program.hpp"

namespace ovl {

// One operation of this process, made ready once and posted in every replay. Destroyed only when it has ended.
class MessageOperation {
 public:
  MessageOperation() = default;
  MessageOperation(const MessageOperation&) = delete;
  MessageOperation& operator=(const MessageOperation&) = delete;
  virtual ~MessageOperation() = default;

  // Hands it to the library and returns when the library's calls do. `memory` is what it reads and writes: of a
  // collective the input and the output, of an exchange the memory of each transfer. Throws Error(failure).
  virtual void post(std::span<std::byte* const> memory) = 0;
  // Whether it has ended; the library gets on with whatever is under way. Throws Error(failure).
  [[nodiscard]] virtual bool test() = 0;
};

// One communicator that this process is a member of. Members post its operations in the same order.
class MessageGroup {
 public:
  MessageGroup() = default;
  MessageGroup(const MessageGroup&) = delete;
  MessageGroup& operator=(const MessageGroup&) = delete;
  virtual ~MessageGroup() = default;

  // f32 or f64. Input and output as ovl::Collective has them; the root of a broadcast copies to its own output within
  // post().
  [[nodiscard]] virtual std::unique_ptr<MessageOperation> collective(const Collective& what) = 0;
  // counts[i]: elements of transfers[i].
  [[nodiscard]] virtual std::unique_ptr<MessageOperation> exchange(DType dtype, const std::vector<Transfer>& transfers,
                                                                   const std::vector<std::int64_t>& counts) = 0;
};

// Which threads may call: one after the other, or several at once.
enum class ThreadSupport { one, serialized, multiple };
template <>
struct EnumNames<ThreadSupport> {
  static constexpr std::string_view axis = "thread support";
  static constexpr std::pair<ThreadSupport, std::string_view> table[] = {
      {ThreadSupport::one, "one"}, {ThreadSupport::serialized, "serialized"}, {ThreadSupport::multiple, "multiple"}};
};

// The library of this process, initialised. It ends with the process, together with the others; a process that broke
// off (break_off) ends the whole job instead, so that nobody stays behind.
class MessagePassing {
 public:
  MessagePassing() = default;
  MessagePassing(const MessagePassing&) = delete;
  MessagePassing& operator=(const MessagePassing&) = delete;
  virtual ~MessagePassing() = default;

  [[nodiscard]] virtual int process() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::string version() const = 0;  // one line, as the library says it
  [[nodiscard]] virtual ThreadSupport threads() const = 0;
  // All processes call it with the same disjoint groups. nullptr: this process is in none of them.
  [[nodiscard]] virtual std::unique_ptr<MessageGroup> group(const std::vector<std::vector<int>>& groups) = 0;
  // Ends when all processes have posted it. post() takes no memory.
  [[nodiscard]] virtual std::unique_ptr<MessageOperation> barrier() = 0;
  // An operation was left under way: the library can no longer be ended in good order.
  virtual void break_off() noexcept = 0;
};

// The libraries that modules are built for: overlapbench-mpi-openmpi.so, overlapbench-mpi-mpich.so.
inline constexpr const char* open_mpi_library = "openmpi";
inline constexpr const char* mpich_library = "mpich";

// Which library a process shall load. `wanted` is what the user typed: "mpi" leaves the choice to whatever started the
// process, "mpi-openmpi" and "mpi-mpich" name one. Where the launcher is another library's, every process would find
// itself alone: Error(usage) then, and where nothing says which. A pure function.
std::string message_library(const Environment& environment, const std::string& wanted);

// The library of whatever started the process; empty: nothing that knows MPI.
std::string launched_library(const Environment& environment);

}  // namespace ovl
