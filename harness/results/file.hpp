// SPDX-License-Identifier: Apache-2.0
//
// Files of which every error is seen: text is written in full and synced, or an Error(failure) names the path, the
// system's reason and what to do. Plain descriptors, because streams hide errors and cannot sync.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace ovl {

// Owns a descriptor, or none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Opens a file for writing, with the flags of open(2), that is this program's own: a link that somebody put in its
// place is not followed, a pipe is not waited for. `verb` is for the error.
Descriptor open_own(const std::filesystem::path& path, int flags, std::string_view verb);

// A file that only grows, but for a roll-back.
class AppendFile {
 public:
  AppendFile() = default;
  explicit AppendFile(std::filesystem::path path);

  void append(std::string_view text);
  void sync();
  [[nodiscard]] std::int64_t size() const;
  // Best effort, for the way out of an error: the text appended after `size` bytes is dropped where that is possible.
  void roll_back(std::int64_t size) noexcept;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

// Empty when there is no such file.
std::string read_text(const std::filesystem::path& path);

// Of a run directory that somebody else may have made: likewise, but what is no file, a pipe or a device, is refused,
// and so is what no run of ours has the size of.
std::string read_table_text(const std::filesystem::path& path);
constexpr std::int64_t largest_table = std::int64_t{4} << 30;

// Writes a whole file by rename: a reader, or a crash, sees the old text or the new one and nothing between.
void replace_text(const std::filesystem::path& path, std::string_view text);

// The name under which replace_text() prepares `path`; a crash may leave it behind.
std::filesystem::path prepared_path(const std::filesystem::path& path);

// "cannot <verb> <path>: <text of errno>; <what to do>", an Error(failure) for a run that goes on with --resume.
class FileError : public Error {
 public:
  FileError(std::string problem, std::string why, std::string_view instead);

  // The same with other words of what to do.
  [[nodiscard]] Error with(std::string_view instead) const;

 private:
  std::string problem_;
  std::string why_;
};
[[noreturn]] void throw_errno(std::string_view verb, const std::filesystem::path& path, int error);

// Writes for a program that has no --resume: an error of a file says `instead`.
void without_resume(std::string_view instead, const std::function<void()>& write);

}  // namespace ovl
