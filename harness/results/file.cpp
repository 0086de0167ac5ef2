// SPDX-License-Identifier: Apache-2.0
#include "results/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace ovl {
namespace {

constexpr mode_t readable_by_all = 0644;

void write_all(int fd, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void sync_all(int fd, const std::filesystem::path& path) {
  if (::fsync(fd) != 0) throw_errno("write", path, errno);
}

// A new name lasts only when its directory is synced too. Some file systems cannot, and say EINVAL.
void sync_directory_of(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) throw_errno("open", parent, errno);
  if (::fsync(directory.get()) != 0 && errno != EINVAL) throw_errno("write", parent, errno);
}

std::string_view remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return "make room and type the same command with --resume: what was finished is kept";
    case EROFS:
    case EACCES:
    case EPERM:
    case EEXIST:
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG: return "name a directory that you may write to with --out";
    default: return "what was finished is kept: type the same command with --resume";
  }
}

}  // namespace

void throw_errno(std::string_view verb, const std::filesystem::path& path, int error) {
  throw FileError("cannot " + std::string(verb) + " " + path.string(), std::generic_category().message(error),
                  remedy(error));
}

FileError::FileError(std::string problem, std::string why, std::string_view instead)
    : Error(failure(problem, why, instead)), problem_(std::move(problem)), why_(std::move(why)) {}

Error FileError::with(std::string_view instead) const { return failure(problem_, why_, instead); }

void without_resume(std::string_view instead, const std::function<void()>& write) {
  try {
    write();
  } catch (const FileError& error) {
    throw error.with(instead);
  }
}

Descriptor::~Descriptor() {
  if (valid()) ::close(fd_);
}

Descriptor open_own(const std::filesystem::path& path, int flags, std::string_view verb) {
  constexpr std::string_view remedy = "put a file in its place, or name another --out";
  const auto refuse = [&](std::string_view why) {
    throw FileError("cannot " + std::string(verb) + " " + path.string(), std::string(why), remedy);
  };
  Descriptor file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK, readable_by_all));
  if (!file.valid() && errno == ELOOP) refuse("it is a link, which may lead anywhere");
  if (!file.valid() && errno == ENXIO) refuse("it is no file");
  if (!file.valid()) throw_errno(verb, path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_errno(verb, path, errno);
  if (!S_ISREG(status.st_mode)) refuse("it is no file");
  return file;
}

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_own(path_, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, "open")) {}

void AppendFile::append(std::string_view text) { write_all(file_.get(), text, path_); }

void AppendFile::sync() { sync_all(file_.get(), path_); }

std::int64_t AppendFile::size() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw_errno("read", path_, errno);
  return status.st_size;
}

void AppendFile::roll_back(std::int64_t size) noexcept {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || status.st_size <= size) return;
  if (::ftruncate(file_.get(), size) == 0) ::fsync(file_.get());
}

namespace {

std::string read_all(const Descriptor& file, const std::filesystem::path& path) {
  std::string text;
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("read", path, errno);
    if (count == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return {};
  if (!file.valid()) throw_errno("open", path, errno);
  return read_all(file, path);
}

std::string read_table_text(const std::filesystem::path& path) {
  // A pipe would be waited for, and is not opened by this.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return {};
  if (!file.valid()) throw_errno("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_errno("read", path, errno);
  const auto refuse = [&](std::string_view why) {
    throw FileError("cannot read " + path.string(), std::string(why), "name another run directory");
  };
  if (!S_ISREG(status.st_mode)) refuse("it is no file");
  if (status.st_size > largest_table) refuse("it has more than 4 GiB");
  return read_all(file, path);
}

std::filesystem::path prepared_path(const std::filesystem::path& path) {
  std::string name = ".";
  name.append(path.filename().string()).append(".new");
  return path.parent_path() / name;
}

void replace_text(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path prepared = prepared_path(path);
  try {
    ::unlink(prepared.c_str());  // whatever a crash, or somebody else, left under that name
    const Descriptor file(
        ::open(prepared.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, readable_by_all));
    if (!file.valid()) throw_errno("create", path, errno);
    write_all(file.get(), text, path);
    sync_all(file.get(), path);
    if (::rename(prepared.c_str(), path.c_str()) != 0) throw_errno("create", path, errno);
  } catch (...) {
    ::unlink(prepared.c_str());
    throw;
  }
  sync_directory_of(path);
}

}  // namespace ovl
