// SPDX-License-Identifier: Apache-2.0
//
// Any bytes at all, read as the file of --config by a program with an option of every kind: nothing crashes or hangs,
// and what is refused is refused as what was typed wrong, never as a defect. Nothing is read but this one file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "base/error.hpp"
#include "fuzz.hpp"

namespace {

using ovl::fuzz::must;

// A file without a name that is written anew for each input.
class Config {
 public:
  void write(const std::uint8_t* data, std::size_t size) const {
    must(::ftruncate(file_, 0) == 0);
    must(::pwrite(file_, data, size, 0) == static_cast<ssize_t>(size));
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int file_ = ::memfd_create("config", MFD_CLOEXEC);
  std::string path_ = "/proc/self/fd/" + std::to_string(file_);
};

struct Typed {
  int ranks = 2;
  double precision = 0.05;
  ovl::Seconds deadline = ovl::Seconds(60);
  bool resume = false;
  std::string out;
  std::vector<std::string> bytes;
};

void parse(const std::string& config) {
  Typed t;
  CLI::App app("Any question?", "overlap-fuzz");
  const ovl::OptionGroup options(app, "Options");
  options.whole("--ranks", t.ranks, 1, 1024, "how many");
  options.real("--precision", t.precision, 1e-6, 10, "how near");
  options.duration("--deadline", t.deadline, "how long");
  options.flag("--resume", t.resume, "go on");
  options.text("--out", t.out, "where to");
  options.list("--bytes", t.bytes, "sizes");
  ovl::add_config_file(app);
  std::vector<std::string> words{"overlap-fuzz", "--config", config};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  must(ovl::parse_command_line(app, static_cast<int>(argv.size()), argv.data()).has_value());
  must(t.ranks >= 1 && t.ranks <= 1024);
  must(t.precision >= 1e-6 && t.precision <= 10);
  must(t.deadline.value() > 0 && t.deadline.value() <= 1e6);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Config config;
  config.write(data, size);
  try {
    parse(config.path());
  } catch (const ovl::Error& error) {
    must(error.kind() == ovl::ErrorKind::usage);
  }
  return 0;
}
