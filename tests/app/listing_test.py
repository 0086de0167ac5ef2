# SPDX-License-Identifier: Apache-2.0
"""What the executables tell without measuring: help, names, plan. And that they start on a machine with nothing."""

from __future__ import annotations

import re
import subprocess
import unittest
from pathlib import Path

from binaries import BUILD, PAIR, SELFCHECK, TINY, run, words

GOLDEN = Path(__file__).parent.parent / "golden"
AXES = words("--gemm 64x64x64,mlp:gpt2-small --bytes 16KiB:64KiB:x4 --placement serial")
NAMES = [
    "pair/64x64x64/all_reduce/16KiB/f32/serial/yield/c0/plain",
    "pair/64x64x64/all_reduce/64KiB/f32/serial/yield/c0/plain",
    "pair/mlp:gpt2-small/all_reduce/16KiB/f32/serial/yield/c0/plain",
    "pair/mlp:gpt2-small/all_reduce/64KiB/f32/serial/yield/c0/plain",
]


class Listing(unittest.TestCase):
    def assert_prints(self, *arguments, program=PAIR):
        ran = run(program, *arguments)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return ran.stdout

    def test_help_names_every_option_and_exit_code(self):
        text = self.assert_prints("--help")
        for option in words(
            "backend transport ranks cores master out resume config precision min-samples max-samples max-time "
            "launches interleave seed verify timeline include-launch format list dry-run gemm bytes collective "
            "placement dtype buffers waiting channels balance window deadline"
        ):
            self.assertRegex(text, rf"\s--{option}\b")
        self.assertIn("Exit codes: 0 good, 1 a case failed, 2 usage, 3 not possible here, 130 interrupted.", text)
        self.assertNotIn("launch-index", text)

    def test_help_of_the_self_check(self):
        self.assertIn("--watch", self.assert_prints("--help", program=SELFCHECK))

    def test_version(self):
        self.assertRegex(self.assert_prints("--version"), r"\Aoverlapbench \d+\.\d+\.\d+ \(.+\)\n\Z")

    def test_list_is_the_product_of_the_axes_in_reading_order(self):
        self.assertEqual(self.assert_prints(*AXES, "--list").splitlines(), NAMES)

    def test_a_value_asked_for_twice_is_one_case(self):
        text = self.assert_prints("--gemm", "64x64x64", "--bytes", "64KiB,16KiB:64KiB:x4", "--list")
        self.assertEqual(len(text.splitlines()), 2 * 2)

    def test_google_benchmark_lists_and_filters(self):
        text = self.assert_prints(*AXES, "--benchmark_list_tests")
        self.assertEqual(text.splitlines(), [name + "/iterations:1/manual_time" for name in NAMES])
        text = self.assert_prints(*AXES, "--benchmark_list_tests", "--benchmark_filter=gpt2.*/64KiB")
        self.assertEqual(text.splitlines(), [NAMES[3] + "/iterations:1/manual_time"])

    def test_the_list_honours_the_filter(self):
        text = self.assert_prints(*AXES, "--list", "--benchmark_filter=gpt2.*/64KiB")
        self.assertEqual(text.splitlines(), NAMES[3:])
        text = self.assert_prints(*AXES, "--dry-run", "--benchmark_filter=-gpt2")
        self.assertEqual([line.strip() for line in text.splitlines()[:3]], ["2 cases", *NAMES[:2]])

    def test_dry_run_prints_the_cases_and_the_first_program(self):
        text = self.assert_prints("--ranks", "2", *TINY, "--placement", "event_chained,serial", "--dry-run")
        # How often buffers rotate is the machine's, and in the hash.
        text = re.sub(r"copies=\d+", "copies=N", re.sub(r"hash [0-9a-f]{16}", "hash H", text))
        self.assertEqual(text, (GOLDEN / "pair_dry_run.txt").read_text())

    def test_the_executables_need_no_gpu_and_no_mpi(self):
        library = max(BUILD.glob("harness/liboverlapbench.so*"))
        for file in (PAIR, SELFCHECK, library):
            needs = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
            self.assertIn("libc.so", needs)
            self.assertNotRegex(needs, r"libcuda|libcudart|libcublas|libnccl|libmpi|libnvidia")


if __name__ == "__main__":
    unittest.main()
