// SPDX-License-Identifier: Apache-2.0
#include "backend/mpi/library.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "backend/mpi/check.hpp"
#include "backend/mpi/group.hpp"
#include "base/error.hpp"

namespace ovl::mpi {
namespace {

// What a job may take to end together.
constexpr std::chrono::seconds patience(10);

ThreadSupport support_of(int provided) {
  if (provided == MPI_THREAD_MULTIPLE) return ThreadSupport::multiple;
  return provided == MPI_THREAD_SERIALIZED ? ThreadSupport::serialized : ThreadSupport::one;
}

// "MPICH Version:\t4.0.2\nMPICH Release date: ..." -> "MPICH Version: 4.0.2; MPICH Release date: ..."
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\0') break;
    if (c == '\n') {
      line += "; ";
    } else if (c != '\t' && c != ' ') {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && (line.back() == ' ' || line.back() == ';')) line.pop_back();
  return line;
}

class Library final : public MessagePassing {
 public:
  Library() {
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    threads_ = support_of(provided);
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &process_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
    version_ = one_line(std::string(text.data(), static_cast<std::size_t>(length)));
    // Barriers have communicators of their own, so that they meet no other operation.
    check(MPI_Comm_dup(MPI_COMM_WORLD, &barriers_), "MPI_Comm_dup");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &farewell_), "MPI_Comm_dup");
  }

  [[nodiscard]] int process() const override { return process_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string version() const override { return version_; }
  [[nodiscard]] ThreadSupport threads() const override { return threads_; }

  [[nodiscard]] std::unique_ptr<MessageGroup> group(const std::vector<std::vector<int>>& groups) override {
    int color = MPI_UNDEFINED;
    int key = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto me = std::find(groups[g].begin(), groups[g].end(), process_);
      if (me == groups[g].end()) continue;
      color = static_cast<int>(g);
      key = static_cast<int>(me - groups[g].begin());
    }
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm), "MPI_Comm_split");
    if (comm == MPI_COMM_NULL) return nullptr;
    return std::make_unique<Group>(comm, broken_);
  }

  [[nodiscard]] std::unique_ptr<MessageOperation> barrier() override { return make_barrier(barriers_); }

  void break_off() noexcept override { broken_ = true; }

  void end() noexcept {
    if (!broken_ && all_come()) {
      MPI_Finalize();
      return;
    }
    if (process_ != 0) std::this_thread::sleep_for(patience);  // process 0 may still be writing
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ErrorKind::failure));
  }

 private:
  [[nodiscard]] bool all_come() noexcept {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(farewell_, &request) != MPI_SUCCESS) return false;
    const auto until = std::chrono::steady_clock::now() + patience;
    for (int done = 0; std::chrono::steady_clock::now() < until;) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (done != 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  ThreadSupport threads_ = ThreadSupport::one;
  int process_ = 0;
  int size_ = 1;
  std::string version_;
  MPI_Comm barriers_ = MPI_COMM_NULL;
  MPI_Comm farewell_ = MPI_COMM_NULL;
  std::atomic<bool> broken_{false};
};

Library& library() {
  static Library* const only = new Library;  // it outlives the statics of this module: the end needs it
  return *only;
}

}  // namespace

MessagePassing& open() {
  static const int registered = (library(), std::atexit([] { library().end(); }));
  require(registered == 0, "the end of MPI can be registered");
  return library();
}

}  // namespace ovl::mpi
