# SPDX-License-Identifier: Apache-2.0
"""What a row says of the device is what was seen there, and what would mean nothing on a device is refused."""

from __future__ import annotations

import unittest

from binaries import PAIR, QUICK, run, words
from emulated import CASE, environment, needs_emulation, pair, rows

NUMBERS = ("ok", "noisy")


@needs_emulation
class Labels(unittest.TestCase):
    def rows_of(self, *options: str, code: int = 0, gpus: int = 1, **settings: str) -> list[dict[str, str]]:
        ran = pair(*CASE, *options, "--format", "csv", gpus=gpus, **settings)
        self.assertEqual(ran.returncode, code, ran.stderr)
        return rows(ran.stdout)

    def assert_refused(self, found: list[dict[str, str]], reason: str):
        self.assertGreater(len(found), 0)
        for row in found:
            self.assertEqual(row["status"], "unsupported", row)
            self.assertIn(reason, row["reason"])
            # Nothing ran, so nothing is told of how.
            self.assertEqual((row["launch_mode"], row["buffer_copies"], row["comm_path"]), ("", "", ""))

    def test_one_rank_registers_nothing_with_anybody(self):
        found = self.rows_of(*words("--ranks 1 --placement concurrent --buffers registered,symmetric"), code=3)
        self.assert_refused(found, "one rank communicates with nobody: type --buffers plain")

    def test_a_partition_of_what_copy_engines_do(self):
        for options in ("--ranks 1", "--ranks 1 --transport nccl"):
            found = self.rows_of(*words(f"{options} --placement partitioned --channels 8"), code=3)
            self.assert_refused(found, "partitioned would confine nothing of this communication")

    def test_lanes_of_a_device_do_not_wait(self):
        found = self.rows_of(*words("--placement concurrent --waiting spin,block"), code=3)
        self.assert_refused(found, "has no meaning on a device")
        (row,) = self.rows_of(*words("--placement concurrent"))
        self.assertEqual(row["waiting"], "device")

    def test_the_order_is_the_one_that_was_seen(self):
        """Where each operation waits for the one before it, the GEMM, issued first, begins first."""
        (row,) = self.rows_of("--placement", "event_chained", gpus=2)
        self.assertIn(row["status"], NUMBERS, row["reason"])
        self.assertEqual(row["launch_order"], "compute_first")
        (row,) = self.rows_of("--placement", "event_chained", gpus=2, without="cupti")
        self.assertEqual(row["launch_order"], "unverified", "nobody saw a start")

    def test_one_algorithm_is_named_once(self):
        for row in self.rows_of(*words("--gemm 3x5x7 --placement concurrent")):
            self.assertIn(row["status"], NUMBERS, row["reason"])
            self.assertEqual(row["gemm_algorithm"].count("split-K"), 1)


@needs_emulation
class Refused(unittest.TestCase):
    def assert_refused(self, ran, code: int, text: str):
        self.assertEqual((ran.returncode, ran.stdout), (code, ""), ran.stderr)
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        self.assertIn(text, ran.stderr)

    def test_launches_that_block(self):
        """Behind a closed gate a launch that waits for its kernel would wait for ever."""
        ran = run(PAIR, *CASE, env=environment(2) | {"CUDA_LAUNCH_BLOCKING": "1"})
        self.assert_refused(ran, 3, "unset CUDA_LAUNCH_BLOCKING")
        ran = run(PAIR, *CASE, "--list", env=environment(2) | {"CUDA_LAUNCH_BLOCKING": "0"})
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_cores(self):
        ran = pair(*CASE, "--cores", "0")
        self.assert_refused(ran, 2, "--cores with the cuda backend: its lanes are streams of a GPU")

    def test_a_folder_without_the_module(self):
        ran = run(PAIR, *CASE, env=environment(1) | {"OVERLAPBENCH_MODULE_PATH": "/nonexistent"})
        self.assert_refused(ran, 3, "overlapbench-cuda.so is not in /nonexistent, where OVERLAPBENCH_MODULE_PATH")

    def test_more_memory_than_there_is(self):
        large = words("--backend cuda --gemm 4096x4096x4096 --bytes 4KiB --format csv")
        ran = pair(*large, *QUICK, memory=str(128 << 20))
        self.assertEqual(ran.returncode, 3, ran.stderr)
        for row in rows(ran.stdout):
            self.assertRegex(row["reason"], r"a rank needs \d+\.\d MiB and \d+\.\d MiB are free .*: use smaller")


if __name__ == "__main__":
    unittest.main()
