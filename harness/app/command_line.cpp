// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <new>

#include "app/config_file.hpp"
#include "base/error.hpp"
#include "results/file.hpp"

namespace ovl {
namespace {

// ---- Google Benchmark's flags ---------------------------------------------------------------------------------------

// Its flags that make sense here, and the values of those that it would answer with a page of usage and exit code 0.
const std::map<std::string, std::vector<std::string>> benchmark_flags{{"--benchmark_filter", {}},
                                                                      {"--benchmark_list_tests", {"true", "false"}},
                                                                      {"--benchmark_format", {"console", "json"}},
                                                                      {"--benchmark_out", {}},
                                                                      {"--benchmark_out_format", {"console", "json"}},
                                                                      {"--benchmark_context", {}}};

// Those that would repeat, reorder or aggregate what the runner already does.
const std::vector<std::string> refused_benchmark_flags{"--benchmark_repetitions",
                                                       "--benchmark_min_time",
                                                       "--benchmark_min_warmup_time",
                                                       "--benchmark_report_aggregates_only",
                                                       "--benchmark_display_aggregates_only",
                                                       "--benchmark_enable_random_interleaving"};

// "--benchmark_filter=serial", checked, with a value.
std::string benchmark_flag(const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  if (std::find(refused_benchmark_flags.begin(), refused_benchmark_flags.end(), flag) !=
      refused_benchmark_flags.end()) {
    throw usage_error(flag + " does not apply", "a case already interleaves its arms and stops by its interval",
                      "use --precision, --min-samples, --max-samples or --launches");
  }
  const auto known = benchmark_flags.find(flag);
  if (known == benchmark_flags.end()) {
    std::vector<std::string> flags;
    for (const auto& [name, values] : benchmark_flags) flags.push_back(name);
    throw usage_error("option " + flag + " is unknown", "",
                      fmt::format("did you mean {}?", fmt::join(nearest(flag, flags, 2), " or ")));
  }
  const std::vector<std::string>& values = known->second;
  if (flag == word) {
    if (!values.empty() && values.front() == "true") return flag + "=true";
    throw usage_error(flag + " has no value", "Google Benchmark takes it behind an equals sign",
                      "type " + flag + "=" + (values.empty() ? "VALUE" : values.front()));
  }
  const std::string value = word.substr(flag.size() + 1);
  if (!values.empty() && std::find(values.begin(), values.end(), value) == values.end()) {
    throw unknown_value(flag, value, values);
  }
  return word;
}

// ---- complaints -----------------------------------------------------------------------------------------------------

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string nearest_options(const CLI::App& app, const std::string& word) {
  return fmt::format("did you mean {}? --help lists all", fmt::join(nearest(word, option_names(app), 2), " or "));
}

// CLI11's complaint in our words.
Error translated(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> words = app.remaining();
    const auto dashed =
        std::find_if(words.begin(), words.end(), [](const std::string& w) { return w.starts_with("-") && w != "--"; });
    if (dashed == words.end()) {
      return usage_error("\"" + words.front() + "\" belongs to no option",
                         "values follow their option, lists have commas", "--help lists the options");
    }
    const std::string option = dashed->substr(0, dashed->find('='));
    return usage_error("option " + option + " is unknown", "", nearest_options(app, option));
  }
  const std::string what = error.what();
  const std::size_t begin = what.find("--");
  const std::string option =
      begin == std::string::npos ? "" : what.substr(begin, what.find_first_of(": ", begin) - begin);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && !option.empty()) {
    return usage_error(option + " has no value", "", "type " + option + " VALUE; --help tells which");
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr && !option.empty()) {
    return usage_error(option + " takes no value", "all others are read as words", "type " + option + " alone");
  }
  return usage_error(what, "", "--help lists the options");
}

// What is no option is told of later.
bool takes_list(const CLI::App& app, const std::string& key) {
  const CLI::Option* const option = app.get_option_no_throw("--" + key);
  return option == nullptr || option->get_items_expected_max() > 1;
}

// A configuration file is read by CLI11, which takes almost anything: here what is no option is named.
class ConfigFile final : public CLI::ConfigBase {
 public:
  explicit ConfigFile(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> entries = CLI::ConfigBase::from_config(input);
    const std::vector<std::string> options = option_names(app_);
    for (const CLI::ConfigItem& item : entries) {
      if (!item.parents.empty()) {
        throw usage_error(fmt::format("the configuration file has a section [{}]", fmt::join(item.parents, ".")),
                          "its options stand at the top, without sections", "leave the section out");
      }
      const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
      if (item.name.empty() || !std::all_of(item.name.begin(), item.name.end(), plain)) {
        throw usage_error("the configuration file is not TOML", "it has a line that is no key = value",
                          "write for example ranks = 2");
      }
      const std::string option = "--" + item.name;
      if (std::find(options.begin(), options.end(), option) == options.end()) {
        throw usage_error("the configuration file has the key " + item.name, "there is no such option",
                          nearest_options(app_, option));
      }
    }
    return entries;
  }

 private:
  const CLI::App& app_;
};

// An empty one is a shell variable that was not set.
void require_value(const std::string& option, const std::string& text) {
  if (text.empty()) throw usage_error(option + " \"\" is empty", "", "type " + option + " VALUE, or leave it out");
}

// ---- the process ----------------------------------------------------------------------------------------------------

// How many bytes from `at` on are one character of UTF-8; 0: none, or a control character.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  return first == 0xc2 && byte(at + 1) < 0xa0 ? 0 : size;
}

// What a terminal obeys rather than shows, as \xNN: a name in a file of somebody else must not move the cursor, nor say
// something else than stands there. `lines`: ends of lines and tabs stay.
std::string shown(std::string_view text, bool lines) {
  std::string all;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = lines && (text[i] == '\n' || text[i] == '\t') ? 1 : character_at(text, i);
    if (size == 0) {
      all += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    } else {
      all += text.substr(i, size);
    }
    i += size == 0 ? 1 : size;
  }
  return all;
}

// Errors of writing are to be seen where they happen, as errors: not by a signal that ends a run (a file over the
// limit of its size, a reader of our output that has gone), and not by a table in the place of standard output, as a
// file would be that is opened while one of the three standard descriptors is closed.
void prepare_process() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // In the place of a closed standard output stands what cannot be written either, which guarded() notices.
  int fd = -1;
  do {
    fd = open("/dev/null", fcntl(STDOUT_FILENO, F_GETFD) < 0 && fcntl(STDIN_FILENO, F_GETFD) >= 0 ? O_RDONLY : O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

int run(const std::string& program, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    print_message(program + ": " + shown(error.what(), false));  // one line, whatever a file says
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    print_message(program + ": this process got no more memory; make the sizes smaller, or allow it more");
    return 1;
  } catch (const std::exception& error) {
    print_message(program + ": " + shown(error.what(), false) + "; this is a defect of overlapbench, please report it");
    return 1;
  }
}

}  // namespace

void OptionGroup::value(const std::string& option, const std::string& help, const Read& read) const {
  const auto read_text = [option, read](const std::string& text) {
    require_value(option, text);
    read(text);
  };
  app_.add_option_function<std::string>(option, read_text, help)
      ->group(name_)
      ->type_name("")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void OptionGroup::list(const std::string& option, std::vector<std::string>& target, const std::string& help) const {
  const auto read = [option, &target](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) require_value(option, text);
    target = texts;
  };
  app_.add_option_function<std::vector<std::string>>(option, read, help)
      ->group(name_)
      ->allow_extra_args(false)
      ->type_name("LIST");
}

void OptionGroup::text(const std::string& option, std::string& target, const std::string& help) const {
  value(option, help, [&target](const std::string& text) { target = text; });
}

void OptionGroup::flag(const std::string& option, bool& target, const std::string& help) const {
  app_.add_flag(option, target, help)->group(name_);
}

void OptionGroup::real(const std::string& option, double& target, double low, double high,
                       const std::string& help) const {
  value(option, help, [&target, option, low, high, example = target](const std::string& text) {
    const char* end = text.data() + text.size();
    const auto [rest, ec] = std::from_chars(text.data(), end, target);
    if (ec != std::errc{} || rest != end || !(target >= low && target <= high)) {
      throw usage_error(fmt::format("{} \"{}\" is not a number from {} to {}", option, text, low, high), "",
                        fmt::format("type for example {} {}", option, example));
    }
  });
}

Seconds parse_duration(const std::string& what, const std::string& text, bool zero) {
  constexpr double most = 1e6;  // seconds: eleven days, and far from what overflows a clock
  static const std::map<std::string, double> units{{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"min", 60}};
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const auto unit = units.find(std::string(rest, static_cast<std::size_t>(end - rest)));
  const bool possible = number > 0 || (zero && number == 0);
  if (ec != std::errc{} || unit == units.end() || !possible || !(number * unit->second <= most)) {
    throw usage_error(
        what + " \"" + text + "\" is not a duration",
        fmt::format("it is a positive number{} with us, ms, s or min, at most 1000000 s", zero ? ", or 0," : ""),
        "type for example 20ms or 8s");
  }
  return Seconds(number * unit->second);
}

double parse_percent(const std::string& option, const std::string& text, double most) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, value);
  if (ec != std::errc{} || rest + 1 != end || *rest != '%' || !(value > 0 && value <= most)) {
    throw usage_error(fmt::format("{} \"{}\" is not a percentage above 0% and at most {}%", option, text, most), "",
                      fmt::format("type for example {} 5%", option));
  }
  return value / 100;
}

void OptionGroup::duration(const std::string& option, Seconds& target, const std::string& help) const {
  value(option, help, [&target, option](const std::string& text) { target = parse_duration(option, text); });
}

std::int64_t OptionGroup::parse_whole(const std::string& option, const std::string& text, std::int64_t low,
                                      std::int64_t high, std::int64_t example) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number);
  if (ec != std::errc{} || rest != end || number < low || number > high) {
    throw usage_error(fmt::format("{} \"{}\" is not a whole number from {} to {}", option, text, low, high), "",
                      fmt::format("type for example {} {}", option, std::clamp(example, low, high)));
  }
  return number;
}

void add_config_file(CLI::App& app) {
  const auto readable = [&app](const std::string& path) -> std::string {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
      throw usage_error("--config \"" + path + "\" cannot be read", error ? error.message() : "it is not a file",
                        "name a TOML file");
    }
    require_toml(path, read_text(path), [&app](const std::string& key) { return takes_list(app, key); });
    return {};
  };
  app.set_config("--config", "", "read options from a TOML file; the command line wins")
      ->type_name("FILE")
      ->check(CLI::Validator(readable, ""));
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.config_formatter(std::make_shared<ConfigFile>(app));
}

std::optional<std::vector<std::string>> parse_command_line(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> google_benchmark{argv[0]};
  std::vector<std::string> own;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--benchmark_")) {
      google_benchmark.push_back(benchmark_flag(word));
    } else {
      own.push_back(word);
    }
  }
  std::reverse(own.begin(), own.end());  // as CLI11 takes them
  try {
    app.parse(own);
  } catch (const CLI::CallForHelp&) {
    print_out(app.help());
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    print_out(std::string(version.what()) + "\n");
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw translated(app, error);
  }
  return google_benchmark;
}

void print_out(const std::string& text) { std::fputs(shown(text, true).c_str(), stdout); }

void print_message(const std::string& text) {
  std::fflush(stdout);  // in the order in which it was said
  std::fputs((shown(text, true) + "\n").c_str(), stderr);
}

std::string shell_line(const std::vector<std::string>& words) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || (c != 0 && std::strchr("-_./:,=+@%", c) != nullptr);
  };
  const auto ends_line = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  std::string line;
  for (const std::string& word : words) {
    line += line.empty() ? "" : " ";
    if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) {
      line += word;
      continue;
    }
    if (std::any_of(word.begin(), word.end(), ends_line)) {  // as bash, zsh and ksh read it
      line += "$'";
      for (const char c : word) {
        const bool quoted = c == '\'' || c == '\\';
        line += ends_line(static_cast<unsigned char>(c)) ? fmt::format("\\{:03o}", static_cast<unsigned char>(c))
                                                         : (quoted ? "\\" : "") + std::string(1, c);
      }
      line += '\'';
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

int guarded(const std::string& program, const std::function<int()>& body) {
  prepare_process();
  const int code = run(program, body);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  print_message(program + ": cannot write to standard output: it is closed, its disk is full or its reader has gone");
  return code == 0 ? 1 : code;
}

}  // namespace ovl
