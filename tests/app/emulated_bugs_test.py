# SPDX-License-Identifier: Apache-2.0
"""Deliberate bugs in the cuda backend (tests/cuda_bugs): each is caught, by the emulated device or by verification."""

from __future__ import annotations

import subprocess
import unittest

from binaries import BUILD, PAIR, PATIENCE, words
from emulated import CASE, VIOLATION, environment, needs_emulation, rows

CHAINED = [*CASE, *words("--placement event_chained --format csv --deadline 10s")]


@needs_emulation
class DeliberateBugs(unittest.TestCase):
    def run_with(self, bug: str, *more: str, **settings: str) -> subprocess.CompletedProcess[str]:
        module = BUILD / "lib" / "bugs" / bug
        self.assertTrue((module / "overlapbench-cuda.so").exists())
        env = environment(2, **settings) | {"OVERLAPBENCH_MODULE_PATH": str(module)}
        return subprocess.run(
            [PAIR, *CHAINED, *more], capture_output=True, text=True, timeout=PATIENCE, env=env, check=False
        )

    def assert_violation(self, ran: subprocess.CompletedProcess[str], text: str):
        self.assertEqual(ran.returncode, VIOLATION, ran.stderr)
        self.assertIn(text, ran.stderr)

    def conform_with(self, bug: str) -> subprocess.CompletedProcess[str]:
        """The conformance test whose two lanes hand data over by an event, on the spoilt module."""
        env = environment(2) | {"OVERLAPBENCH_MODULE_PATH": str(BUILD / "lib" / "bugs" / bug)}
        return subprocess.run(
            [BUILD / "tests" / "device" / "test_device", "--gtest_filter=*EventsOrderInEveryWaiting*"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=env,
            check=False,
        )

    def test_an_event_recorded_on_the_wrong_stream(self):
        self.assert_violation(self.conform_with("event_on_the_wrong_stream"), "unordered access")

    def test_a_wait_before_its_record(self):
        self.assert_violation(self.conform_with("wait_before_record"), "unordered access")

    def test_a_missing_group(self):
        # Before 2.28 NCCL has no all_to_all of its own: sends and receives that must proceed together.
        ran = self.run_with("missing_group", *words("--collective all_to_all --placement serial"), nccl="22700")
        self.assertNotEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("not both in one group", ran.stderr)

    def test_a_leak(self):
        self.assert_violation(self.run_with("leak"), "leak")

    def test_a_return_that_nobody_checks(self):
        self.assert_violation(
            self.run_with("unchecked_return", fail="cudaStreamWaitEvent:3:once"), "cudaStreamWaitEvent"
        )

    def test_a_wrong_count(self):
        ran = self.run_with("wrong_count")
        self.assertEqual(ran.returncode, 1, ran.stderr)
        for row in rows(ran.stdout):
            self.assertEqual(row["status"], "failed_verify")

    def test_none_of_these_is_seen_without_a_bug(self):
        ran = subprocess.run(
            [PAIR, *CHAINED], capture_output=True, text=True, timeout=PATIENCE, env=environment(2), check=False
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
