# SPDX-License-Identifier: Apache-2.0
"""Bad input is one clear line, exit code 2, and nothing else happens: nothing printed, nothing written."""

from __future__ import annotations

import unittest

from binaries import PAIR, QUICK, SELFCHECK, TINY, RunTest, run

# What was typed, and words that the complaint must have: what was wrong, and what to type instead.
COMPLAINTS = [
    # every axis, with the nearest names
    ("--collective al_reduce", ['collective "al_reduce" is unknown', "did you mean all_reduce?"]),
    ("--placement serail", ['placement "serail" is unknown', "did you mean serial?"]),
    ("--placement graph+priority_com", ['placement "priority_com" is unknown', "did you mean priority_comm?"]),
    ("--placement serial+concurrent", ["sets one axis twice", "keep one of them"]),
    ("--dtype fp32", ['dtype "fp32" is unknown', "did you mean f32?"]),
    ("--waiting yeld", ['waiting "yeld" is unknown', "did you mean yield?"]),
    ("--buffers pinned", ['"pinned" is unknown', "known are plain, registered, symmetric"]),
    ("--channels many", ['channels "many" is not a number of channels', "--channels 1,2"]),
    ("--channels 65", ['channels "65"', "from 0 to 64"]),
    ("--gemm mlp:gpt2-smal", ['gemm "mlp:gpt2-smal" is unknown', "did you mean mlp:gpt2-small"]),
    ("--bytes bucket:ddp-defualt", ['"bucket:ddp-defualt" is unknown', "did you mean bucket:ddp-default"]),
    ("--backend hots", ['backend "hots" is unknown', "did you mean host?"]),
    ("--transport nccl", ['transport "nccl" is unknown', "known are shm"]),
    ("--interleave blocks", ['interleave "blocks" is unknown', "did you mean block?"]),
    ("--format cvs", ['format "cvs" is unknown', "did you mean csv?"]),
    ("--verify maybe", ['verify "maybe" is unknown', "known are on, off"]),
    # sizes
    ("--bytes 0", ['size "0" is not positive', "64KiB"]),
    ("--bytes -4KiB", ['size "-4KiB" is not positive', "64KiB"]),
    ("--bytes 1M", ['size "1M" is ambiguous', "type 1MiB or 1MB"]),
    ("--bytes 1,3,4", ['bytes "1" is no whole number of elements', "one of f32 has 4 bytes", "--bytes 4"]),
    ("--bytes 1.5", ['size "1.5" is not a whole number of bytes', "round it"]),
    ("--bytes 9223372036854775808", ["is too large", "2^63 - 1"]),
    ("--bytes 9999999999GiB", ["is too large", "2^63 - 1"]),
    ("--bytes 4XiB", ['unknown suffix "XiB"', "type for example 4MiB"]),
    ("--bytes 64KiB:1MiB:x1", ["does not progress", "type for example"]),
    ("--bytes 64KiB:1MiB:+0", ['size "0" is not positive']),
    ("--bytes 1MiB:64KiB:x2", ["does not progress", "type 64KiB:1MiB:x2"]),
    ("--bytes 64KiB:1MiB", ["has no step", "64KiB:1MiB:x4"]),
    ("--gemm 0x64x64", ['size "0" in gemm "0x64x64" is not a positive whole number']),
    ("--gemm 64x-1x64", ['size "-1" in gemm "64x-1x64"']),
    ("--gemm 64x64", ['"64x64"']),
    ("--gemm 9999999999x64x64", ["is too large"]),
    ("--bytes 1MiB,,2MiB", ["has an empty element", "leave out the extra comma"]),
    ("--gemm ,64x64x64", ["has an empty element", "leave out the extra comma"]),
    # numbers
    ("--ranks 0", ['--ranks "0" is not a whole number from 1']),
    ("--ranks 99999", ["ranks 99999", "places 1 to"]),
    ("--ranks abc", ['--ranks "abc" is not a whole number', "type for example --ranks 1"]),
    ("--ranks", ["--ranks has no value", "type --ranks VALUE"]),
    ("--launches 0", ['--launches "0" is not a whole number from 1 to 1000']),
    ("--precision 0", ['--precision "0" is not a number', "type for example --precision 0.05"]),
    ("--max-time 0s", ['--max-time "0s" is not a duration', "type for example 20ms or 8s"]),
    ("--window 1h", ['--window "1h" is not a duration']),
    ("--deadline inf", ['--deadline "inf" is not a duration']),
    ("--max-samples 2", ["--max-samples 2 is less than --min-samples 3"]),
    ("--cores 4096", ["core 4096 cannot be used", "choose among these"]),
    ("--cores x", ['--cores "x" is not a list of core numbers']),
    ("--seed -1", ['--seed "-1" is not a whole number from 0']),
    # empty ones, of a shell variable that was not set
    ("--machine ", ['--machine "" is empty', "type --machine VALUE, or leave it out"]),
    ("--transport ", ['--transport "" is empty']),
    ("--cores ", ['--cores "" is empty']),
    ("--gemm ", ['--gemm "" is empty']),
    ("--out ", ['--out "" is empty']),
    # options
    ("--colective all_reduce", ["option --colective is unknown", "did you mean --collective"]),
    ("all_reduce", ['"all_reduce" belongs to no option']),
    ("--balance=maybe", ["--balance takes no value"]),
    ("--benchmark_repetitions=5", ["--benchmark_repetitions does not apply", "use --precision"]),
    ("--benchmark_min_time=1s", ["--benchmark_min_time does not apply", "use --precision"]),
    ("--benchmark_enable_random_interleaving=true", ["does not apply", "use --precision"]),
    ("--benchmark_fliter=x", ["option --benchmark_fliter is unknown", "did you mean --benchmark_filter"]),
    ("--benchmark_format=xml", ['--benchmark_format "xml" is unknown', "json"]),
    ("--benchmark_filter=nothing_of_that_name", ["selects nothing", "--benchmark_list_tests"]),
    ("--benchmark_filter=(", ["is no regular expression"]),
    ("--launches 2 --benchmark_format=json", ["does not go with --launches"]),
]

CONFIGURATIONS = [
    ("rnaks = 2\n", ["has the key rnaks", "did you mean --ranks"]),
    ("[host]\nranks = 2\n", ["has a section [host]", "leave the section out"]),
    ("[host.deep]\nranks = 2\n", ["has a section [host]"]),
    ("two ranks, please\n", ["is not TOML", "ranks = 2"]),
    ("\0\1\2", ["is not TOML"]),
    ("ranks = 0\n", ['--ranks "0" is not a whole number']),
    ('collective = ["al_reduce"]\n', ["did you mean all_reduce?"]),
    ('gemm = ["64x64x64",\n', ["options.toml is not TOML", "in line 1 the list of gemm has no end"]),
    ("ranks = [1, 2]\n", ["options.toml has a list for ranks", "in line 1", "write ranks = VALUE"]),
    ("ranks = 1\nseed = 3\nranks = 2\n", ["has the key ranks twice", "in line 3 and in line 1"]),
]


class BadInput(RunTest):
    def assert_refused(self, arguments, complaint, program=PAIR, code=2):
        before = sorted(self.folder.rglob("*"))
        ran = run(program, *arguments, cwd=self.folder)
        self.assertEqual(ran.returncode, code, ran.stderr)
        self.assertEqual(ran.stdout, "")
        self.assertRegex(ran.stderr, r"\Aoverlap-(pair|selfcheck): [^\n]+\n\Z")
        for part in complaint:
            self.assertIn(part, ran.stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_words(self):
        for typed, complaint in COMPLAINTS:
            with self.subTest(typed):
                self.assert_refused([*TINY, "--out", "run", *typed.split(" ")], complaint)

    def test_configuration_files(self):
        file = self.folder / "options.toml"
        for text, complaint in CONFIGURATIONS:
            with self.subTest(text):
                file.write_text(text)
                self.assert_refused([*QUICK, "--out", "run", "--config", "options.toml"], complaint)

    def test_configuration_files_that_cannot_be_read(self):
        self.assert_refused(["--config", "missing.toml"], ['"missing.toml" cannot be read', "name a TOML file"])
        self.assert_refused(["--config", "."], ['"." cannot be read', "name a TOML file"])

    def test_options_that_need_a_run_directory(self):
        for option in (["--resume"], ["--timeline"], ["--launches", "2"]):
            self.assert_refused([*TINY, *option], [f"{option[0]} needs a run directory", "add --out DIR"])

    def test_run_directories(self):
        self.assert_refused([*TINY, "--out", "run", "--resume"], ["there is no run to resume", "leave out --resume"])
        (self.folder / "file").write_text("")
        self.assert_refused([*TINY, "--out", "file"], ["file is not a directory", "name another --out"])
        (self.folder / "full").mkdir()
        (self.folder / "full" / "thesis.tex").write_text("")
        self.assert_refused([*TINY, "--out", "full"], ["is not empty", "thesis.tex", "name another --out"])
        (self.folder / "old").mkdir()
        (self.folder / "old" / "run.json").write_text("{}")
        self.assert_refused([*TINY, "--out", "old"], ["holds another run", "add --resume"])

    def test_what_is_not_possible_here_is_exit_code_3(self):
        for program in (PAIR, SELFCHECK):
            with self.subTest(program=program.name):
                complaint = ['backend "cuda" cannot run here', "--backend auto takes one that can"]
                self.assert_refused(["--backend", "cuda"], complaint, program, code=3)

    def test_the_self_check_complains_likewise(self):
        for typed, complaint in [
            ("--backend hots", ["did you mean host?"]),
            ("--ranks 0", ['--ranks "0" is not a whole number']),
            ("--backend model", ["it predicts and has no machine to trust", "type host or cuda"]),
            ("--watch soon", ['--watch "soon" is not a duration']),
            ("--format xml", ['format "xml" is unknown']),
            ("--wach 3s", ["option --wach is unknown", "did you mean --watch"]),
            ("--benchmark_filter=nothing", ["selects nothing"]),
        ]:
            with self.subTest(typed):
                self.assert_refused(typed.split(), complaint, SELFCHECK)


if __name__ == "__main__":
    unittest.main()
