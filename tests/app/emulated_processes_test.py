# SPDX-License-Identifier: Apache-2.0
"""What fails on one of two processes with a GPU each is told by the other, at once, and says how to go on.

Deadlines are so long that a test which waited for one would not end in time, but where a call never returns."""

from __future__ import annotations

import unittest

from binaries import PATIENCE, RunTest, words
from emulated import CASE, needs_emulation, processes

LONG = words("--deadline 1000s")
ONE = [*CASE, *words("--placement concurrent")]


@needs_emulation
class OneFails(RunTest):
    def fail(self, fault: str, *options: str, process: int = 1) -> tuple[str, str]:
        """Of both processes, the last line that process 0 says, and all that process 1 says."""
        self.out = self.folder / fault
        with processes(2, *options, "--out", self.out, each={process: {"fail": fault}}) as both:
            ends = [one.communicate(timeout=PATIENCE) for one in both]
        self.assertEqual([one.returncode for one in both], [1, 1], ends)
        return ends[0][1].splitlines()[-1], ends[1][1]

    def test_in_a_replay_while_the_other_waits_for_it_on_its_device(self):
        for fault in ("ncclAllReduce:1", "cudaEventQuery:3", "cudaStreamWaitEvent:1"):
            with self.subTest(fault):
                told, silent = self.fail(fault, *ONE, *LONG)
                call = fault.split(":")[0]
                self.assertRegex(told, f"^overlap-pair: case pair/\\S+: process 1: {call}.* failed on rank 1")
                self.assertRegex(told, "; continue, under torchrun as before, with: .* --resume$")
                self.assertEqual(silent, "", "process 0 has told it")
                self.assertEqual(self.summary(), [], "the case is open")

    def test_on_the_process_that_tells(self):
        told, silent = self.fail("ncclAllReduce:1", *ONE, *LONG, process=0)
        self.assertRegex(told, "^overlap-pair: case pair/\\S+: process 0: ncclAllReduce failed on rank 0")
        self.assertEqual(silent, "")

    def test_an_error_that_stays(self):
        told, silent = self.fail("cudaLaunchKernelExC:1:700", *ONE, *LONG)
        self.assertRegex(told, "^overlap-pair: process 1: cudaLaunchKernelExC .*cudaErrorIllegalAddress")
        self.assertNotIn("cut short", told)
        self.assertEqual(silent.count("overlap-pair: "), 0, silent)

    def test_an_error_that_stays_within_a_case(self):
        told, _ = self.fail("cudaEventRecord:20:700", *ONE, *LONG)
        self.assertRegex(told, "^overlap-pair: case pair/\\S+: process 1: .*cudaErrorIllegalAddress")

    def test_while_the_other_waits_for_it_in_a_call_of_nccl(self):
        """The second group call makes the second communicator: NCCL waits for ever for the rank that is not there."""
        options = [*CASE, *words("--placement concurrent,serial,graph --deadline 5s")]
        told, _ = self.fail("ncclGroupEnd:2", *options)
        self.assertRegex(told, "^overlap-pair: case pair/\\S+: process 1: ncclGroupEnd failed")
        self.assertIn("a call into a library does not return, so the process ends", told)
        self.assertRegex(told, "; continue, under torchrun as before, with: .* --resume$")

    def test_goes_on_where_it_ended(self):
        options = [*CASE, *words("--placement concurrent,serial")]
        self.fail("ncclAllReduce:40", *options, *LONG)
        with processes(2, *options, "--out", self.out, "--resume") as both:
            ends = [one.communicate(timeout=PATIENCE) for one in both]
        self.assertEqual([one.returncode for one in both], [0, 0], ends)
        self.assert_complete(cases=2)


if __name__ == "__main__":
    unittest.main()
