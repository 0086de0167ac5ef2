// SPDX-License-Identifier: Apache-2.0
#include "app/options.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"

namespace ovl {
namespace {

using Words = std::vector<std::string>;

const Bench toy{.name = "toy",
                .question = "Does it parse?",
                .axes = {{"shape", "shapes", "small,large"}, {"bytes", "sizes", "1MiB"}, {"fast", "hurry", "", true}},
                .columns = {},
                .cases = {}};

std::optional<Options> parse(Words words) {
  words.insert(words.begin(), "overlap-toy");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_options(toy, static_cast<int>(argv.size()), argv.data());
}

std::string complaint(const Words& words) {
  try {
    parse(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "none";
}

// A configuration file for the lifetime of one test.
class Config : public testing::Test {
 protected:
  ~Config() override { std::filesystem::remove(path_); }
  Words with(const std::string& text, const Words& words = {}) {
    std::ofstream(path_) << text;
    Words all{"--config", path_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

 private:
  std::string path_ =
      testing::TempDir() + "options_test_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml";
};

TEST(Options, HaveDefaults) {
  const Options o = *parse({});
  EXPECT_EQ(o.backend, "auto");
  EXPECT_EQ(o.transport, "");
  EXPECT_EQ(o.ranks, 0);
  EXPECT_EQ(o.cores, std::vector<int>{});
  EXPECT_EQ(o.master, "");
  EXPECT_EQ(o.out, "");
  EXPECT_FALSE(o.resume || o.timeline || o.list || o.dry_run || o.allow_debug || o.launch_index);
  EXPECT_EQ(o.launches, 1);
  EXPECT_EQ(o.format, Format::text);
  EXPECT_EQ(o.measure.stop.precision, 0.05);
  EXPECT_EQ(o.measure.stop.min_rounds, 20);
  EXPECT_EQ(o.measure.stop.max_rounds, 1000);
  EXPECT_EQ(o.measure.stop.max_time.value(), 8);
  EXPECT_EQ(o.measure.window.value(), 0);
  EXPECT_EQ(o.measure.deadline.value(), 60);
  EXPECT_EQ(o.measure.seed, 1U);
  EXPECT_EQ(o.measure.interleave, Interleave::sample);
  EXPECT_EQ(o.measure.launch, Launch::gated);
  EXPECT_TRUE(o.measure.verify);
  EXPECT_EQ(o.axes["shape"], (Words{"small", "large"}));
  EXPECT_EQ(o.axes["bytes"], Words{"1MiB"});
  EXPECT_FALSE(o.axes.on("fast"));
  EXPECT_EQ(o.google_benchmark, Words{"overlap-toy"});
}

TEST(Options, AreAllRead) {
  const Options o = *parse({"--backend",
                            "host",
                            "--transport=shm",
                            "--ranks",
                            "4",
                            "--cores",
                            "3,1",
                            "--master",
                            "node01:29600",
                            "--out",
                            "runs/a",
                            "--resume",
                            "--timeline",
                            "--format",
                            "csv",
                            "--list",
                            "--dry-run",
                            "--allow-debug",
                            "--precision",
                            "0.01",
                            "--min-samples",
                            "5",
                            "--max-samples",
                            "7",
                            "--max-time",
                            "2min",
                            "--window",
                            "300us",
                            "--launches",
                            "5",
                            "--interleave",
                            "block",
                            "--seed",
                            "42",
                            "--verify",
                            "off",
                            "--include-launch",
                            "--deadline",
                            "1.5",
                            "--shape",
                            "a,b",
                            "--shape",
                            "c",
                            "--fast",
                            "--launch-index",
                            "3",
                            "--launch-parent",
                            "4711",
                            "--benchmark_filter=x",
                            "--benchmark_context=a=b"});
  EXPECT_EQ(o.backend, "host");
  EXPECT_EQ(o.transport, "shm");
  EXPECT_EQ(o.ranks, 4);
  EXPECT_EQ(o.cores, (std::vector<int>{3, 1}));
  EXPECT_EQ(o.master, "node01:29600");
  EXPECT_EQ(o.launch_parent, 4711);
  EXPECT_EQ(o.out, "runs/a");
  EXPECT_TRUE(o.resume && o.timeline && o.list && o.dry_run && o.allow_debug);
  EXPECT_EQ(o.format, Format::csv);
  EXPECT_EQ(o.measure.stop.precision, 0.01);
  EXPECT_EQ(o.measure.stop.min_rounds, 5);
  EXPECT_EQ(o.measure.stop.max_rounds, 7);
  EXPECT_EQ(o.measure.stop.max_time.value(), 120);
  EXPECT_DOUBLE_EQ(o.measure.window.value(), 300e-6);
  EXPECT_EQ(o.launches, 5);
  EXPECT_EQ(o.measure.interleave, Interleave::block);
  EXPECT_EQ(o.measure.seed, 42U);
  EXPECT_FALSE(o.measure.verify);
  EXPECT_EQ(o.measure.launch, Launch::live);
  EXPECT_EQ(o.measure.deadline.value(), 1.5);
  EXPECT_EQ(o.axes["shape"], (Words{"a", "b", "c"}));
  EXPECT_TRUE(o.axes.on("fast"));
  EXPECT_EQ(o.launch_index, 3);
  EXPECT_EQ(o.google_benchmark, (Words{"overlap-toy", "--benchmark_filter=x", "--benchmark_context=a=b"}));
  EXPECT_EQ(o.command_line.front(), "overlap-toy");
  EXPECT_EQ(o.command_line.size(), 51U);
}

TEST(Options, TheLastOfTwoCounts) { EXPECT_EQ(parse({"--ranks", "2", "--ranks", "3"})->ranks, 3); }

// 8 ranks on each of 128 nodes.
TEST(Options, RanksOfANodeTimesNodesAreTheModels) {
  const Options o = *parse({"--backend", "model", "--ranks", "8x128", "--skew", "5%"});
  EXPECT_EQ(o.ranks, 1024);
  EXPECT_EQ(o.units, std::vector<int>{8});
  EXPECT_DOUBLE_EQ(o.skew, 0.05);
  const Options last = *parse({"--backend", "model", "--ranks", "8x128", "--ranks", "4"});
  EXPECT_EQ(last.ranks, 4);
  EXPECT_TRUE(last.units.empty()) << "of two the last one counts";
  const Options racks = *parse({"--backend", "model", "--ranks", "8x16x8"});
  EXPECT_EQ(racks.ranks, 1024);
  EXPECT_EQ(racks.units, (std::vector<int>{8, 128})) << "of a node, of a rack of 16";
  EXPECT_EQ(
      complaint({"--ranks", "8x128"}),
      "--ranks of a node times nodes is the model's: the others measure ranks as they are and where they are; add "
      "--backend model, or type --ranks N");
  EXPECT_EQ(complaint({"--backend", "host", "--skew", "5%"}),
            "--skew is the model's: the others measure ranks as they are and where they are; add --backend model, or "
            "leave it out");
  for (const std::string text :
       {"8x", "0x8", "8x0", "8x-1", "8xx8", "8x8x", "8x8x0", "8x999999999", "2000x2000", "8 x 8"}) {
    EXPECT_EQ(complaint({"--backend", "model", "--ranks", text}),
              "--ranks \"" + text +
                  "\" is not ranks of a node times nodes: all are whole numbers, together 1 to 1000000 ranks; type for "
                  "example --ranks 8x128, or 8x16x8 for racks of 16 nodes");
  }
  for (const std::string text : {"5", "-5%", "100%", "nan%", "%"}) {
    EXPECT_EQ(complaint({"--backend", "model", "--skew", text}),
              "--skew \"" + text + "\" is not a percentage above 0% and at most 99%; type for example --skew 5%");
  }
}

TEST_F(Config, GivesWhatTheCommandLineLeavesOpen) {
  const Options o = *parse(with(R"(# a comment
ranks = 4
backend = "host"
shape = ["a", "b"]
bytes = "1MiB,2MiB"
fast = true
max-time = "20ms"
)",
                                {"--ranks", "2", "--shape", "c"}));
  EXPECT_EQ(o.ranks, 2);
  EXPECT_EQ(o.backend, "host");
  EXPECT_EQ(o.axes["shape"], Words{"c"});
  EXPECT_EQ(o.axes["bytes"], (Words{"1MiB", "2MiB"}));
  EXPECT_TRUE(o.axes.on("fast"));
  EXPECT_DOUBLE_EQ(o.measure.stop.max_time.value(), 0.02);
}

TEST_F(Config, HoldsArraysAndFalse) {
  const Options o = *parse(with("shape = [\"a\", \"b\"]\nfast = false\n"));
  EXPECT_EQ(o.axes["shape"], (Words{"a", "b"}));
  EXPECT_FALSE(o.axes.on("fast"));
}

TEST_F(Config, IsCheckedLikeTheCommandLine) {
  EXPECT_EQ(complaint(with("ranks = 0\n")),
            "--ranks \"0\" is not a whole number from 1 to 1000000; type for example --ranks 1");
}

TEST_F(Config, NamesAnUnknownKey) {
  EXPECT_EQ(complaint(with("rank = 2\n")),
            "the configuration file has the key rank: there is no such option; did you mean --ranks or --fast? --help "
            "lists all");
}

TEST_F(Config, HasNoSections) {
  EXPECT_EQ(
      complaint(with("[measuring]\nranks = 2\n")),
      "the configuration file has a section [measuring]: its options stand at the top, without sections; leave the "
      "section out");
}

TEST_F(Config, IsToml) {
  const std::string file = with("two ranks, please\n").back();
  EXPECT_EQ(complaint(with("two ranks, please\n")), "the configuration file " + file +
                                                        " is not TOML: in line 1 there is no key = value; write for "
                                                        "example ranks = 2");
}

TEST_F(Config, DoesNotNameAnother) { EXPECT_NE(complaint(with("config = \"other.toml\"\n")), "none"); }

TEST(OptionErrors, SayWhatWasWrongAndWhatToType) {
  const std::vector<std::pair<Words, std::string>> cases{
      {{"--ranks", "abc"}, "--ranks \"abc\" is not a whole number from 1 to 1000000; type for example --ranks 1"},
      {{"--ranks", "3.5"}, "--ranks \"3.5\" is not a whole number from 1 to 1000000; type for example --ranks 1"},
      {{"--ranks", "-1"}, "--ranks \"-1\" is not a whole number from 1 to 1000000; type for example --ranks 1"},
      {{"--launches", "0"}, "--launches \"0\" is not a whole number from 1 to 1000; type for example --launches 1"},
      {{"--max-samples", "99999999999999999999"},
       "--max-samples \"99999999999999999999\" is not a whole number from 2 to 1000000; type for example --max-samples "
       "1000"},
      {{"--precision", "0"}, "--precision \"0\" is not a number from 1e-06 to 10; type for example --precision 0.05"},
      {{"--precision", "nan"},
       "--precision \"nan\" is not a number from 1e-06 to 10; type for example --precision 0.05"},
      {{"--ranks"}, "--ranks has no value; type --ranks VALUE; --help tells which"},
      {{"--resume=maybe"}, "--resume takes no value: all others are read as words; type --resume alone"},
      {{"--rank", "2"}, "option --rank is unknown; did you mean --ranks or --fast? --help lists all"},
      {{"stray"},
       "\"stray\" belongs to no option: values follow their option, lists have commas; --help lists the options"},
      {{"--format", "xml"}, "format \"xml\" is unknown: known are text, csv, json; did you mean csv?"},
      {{"--interleave", "blocks"}, "interleave \"blocks\" is unknown: known are sample, block; did you mean block?"},
      {{"--verify", "yes"}, "verify \"yes\" is unknown: known are on, off; did you mean on?"},
      {{"--cores", "0,x"}, "--cores \"0,x\" is not a list of core numbers; type for example --cores 0,1"},
      {{"--max-samples", "4"}, "--max-samples 4 is less than --min-samples 20; type --min-samples 4 too"},
      {{"--resume"}, "--resume needs a run directory: without --out nothing is written; add --out DIR"},
      {{"--timeline"}, "--timeline needs a run directory: without --out nothing is written; add --out DIR"},
      {{"--launches", "5"}, "--launches needs a run directory: without --out nothing is written; add --out DIR"},
      {{"--launches", "5", "--benchmark_out=x", "--out", "y"},
       "--benchmark_out does not go with --launches: every launch would write its own; leave one of them out; --format "
       "csv has all launches"},
  };
  for (const auto& [words, message] : cases) EXPECT_EQ(complaint(words), message);
}

TEST(OptionErrors, RefuseWhatIsNoDuration) {
  for (const char* text : {"", "8", "0.5", "1us", "2ms", "3s", "4min"}) {
    EXPECT_EQ(complaint({"--max-time", text}) == "none", *text != '\0') << text;
  }
  for (const char* text : {"0", "0s", "-1s", "1h", "s", "1e3", "inf", "nan", "8 s", "1000001s", "99999999999min"}) {
    EXPECT_EQ(complaint({"--max-time", text}),
              std::string("--max-time \"") + text +
                  "\" is not a duration: it is a positive number with us, ms, s or min, at most 1000000 s; type for "
                  "example 20ms or 8s");
  }
}

TEST(OptionErrors, RefuseFlagsOfGoogleBenchmarkThatRepeatOrThatItWouldAnswerWithUsage) {
  for (const char* flag :
       {"--benchmark_repetitions=3", "--benchmark_min_time=1", "--benchmark_report_aggregates_only=true",
        "--benchmark_display_aggregates_only", "--benchmark_enable_random_interleaving=true"}) {
    const std::string word(flag);
    EXPECT_EQ(complaint({word}), word.substr(0, word.find('=')) +
                                     " does not apply: a case already interleaves its arms and stops by its interval; "
                                     "use --precision, --min-samples, --max-samples or --launches");
  }
  EXPECT_EQ(complaint({"--benchmark_fitler=x"}),
            "option --benchmark_fitler is unknown; did you mean --benchmark_filter or --benchmark_format?");
  EXPECT_EQ(complaint({"--benchmark_filter"}),
            "--benchmark_filter has no value: Google Benchmark takes it behind an equals sign; type "
            "--benchmark_filter=VALUE");
  EXPECT_EQ(complaint({"--benchmark_format=xml"}),
            "--benchmark_format \"xml\" is unknown: known are console, json; did you mean json?");
  EXPECT_EQ(parse({"--benchmark_list_tests"})->google_benchmark.back(), "--benchmark_list_tests=true");
}

TEST(SplitList, TakesCommas) {
  EXPECT_EQ(split_list("bytes", "1MiB"), Words{"1MiB"});
  EXPECT_EQ(split_list("bytes", "1MiB,2MiB,64KiB:1MiB:x2"), (Words{"1MiB", "2MiB", "64KiB:1MiB:x2"}));
}

TEST(SplitList, RefusesEmptyElements) {
  EXPECT_EQ(complaint({"--shape", ""}), "--shape \"\" is empty; type --shape VALUE, or leave it out");
  for (const char* text : {",", "a,", ",a", "a,,b"}) {
    EXPECT_EQ(complaint({"--shape", text}), std::string("--shape \"") + text +
                                                "\" has an empty element: elements are separated by one comma; leave "
                                                "out the extra comma");
  }
}

TEST(Help, EndsTheProgram) {
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse({"--help"}));
  const std::string help = testing::internal::GetCapturedStdout();
  for (const char* word :
       {"Does it parse?", "--shape LIST", "[small,large]", "--fast", "--config FILE", "Exit codes"}) {
    EXPECT_NE(help.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(help.find("--launch-"), std::string::npos);
}

}  // namespace
}  // namespace ovl
