# SPDX-License-Identifier: Apache-2.0
"""overlap-pair on 1, 2 and 4 emulated GPUs, in one process and in several: in every build, with sanitizers too."""

from __future__ import annotations

import unittest

from binaries import PATIENCE
from emulated import CASE, needs_emulation, pair, processes, rows


@needs_emulation
class Gpus(unittest.TestCase):
    def test_in_one_process(self):
        for gpus in (1, 2, 4):
            with self.subTest(gpus=gpus):
                ran = pair(*CASE, "--format", "csv", gpus=gpus)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                for row in rows(ran.stdout):
                    self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
                    self.assertEqual(row["ranks"], str(gpus))
                    self.assertEqual(row["verify"], "exact+random")

    def test_in_one_process_each(self):
        for count in (2, 4):
            with self.subTest(processes=count), processes(count, *CASE, "--format", "csv") as all_of_them:
                ends = [process.communicate(timeout=PATIENCE) for process in all_of_them]
                self.assertEqual([process.returncode for process in all_of_them], [0] * count, ends)
                self.assertEqual([out for out, _ in ends[1:]], [""] * (count - 1))
                for row in rows(ends[0][0]):
                    self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
                    self.assertEqual((row["ranks"], row["verify"]), (str(count), "exact+random"))
