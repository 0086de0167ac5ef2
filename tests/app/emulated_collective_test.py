# SPDX-License-Identifier: Apache-2.0
"""overlap-collective on emulated GPUs, in one process and in several."""

from __future__ import annotations

import unittest

from binaries import COLLECTIVE, PATIENCE, QUICK, RunTest, words
from emulated import needs_emulation, pair, processes, rows

CASE = [*words("--backend cuda --bytes 4KiB --gemm 32x32x32 --format csv"), *QUICK]
FORMS = "all_reduce,exchange,reduce_scatter+all_gather,all_reduce:hierarchical"


@needs_emulation
class Emulated(RunTest):
    def expect_sound(self, row: dict[str, str]) -> None:
        self.assertIn(row["status"], ("ok", "noisy"), row["collective"] + ": " + row["reason"])
        self.assertEqual((row["verify"], row["source"], row["ranks"]), ("exact+random", "emulated", "4"))

    def test_sequences_and_exchanges_beside_gemms(self):
        ran = pair(*CASE, "--collective", FORMS, program=COLLECTIVE, gpus=4)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual([row["collective"] for row in rows(ran.stdout)], FORMS.split(","))
        for row in rows(ran.stdout):
            self.expect_sound(row)
            self.assertNotEqual(row["coverage"], "", "starts and ends are seen")

    def test_in_place(self):
        ran = pair(*CASE, *words("--collective all_reduce,all_gather --place in"), program=COLLECTIVE, gpus=4)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for row in rows(ran.stdout):
            self.expect_sound(row)

    def test_one_process_a_gpu(self):
        arguments = [*CASE, *words("--collective all_reduce:hierarchical --place out")]
        with processes(4, *arguments, program=COLLECTIVE) as started:
            outputs = [process.communicate(timeout=PATIENCE) for process in started]
        for process, (_, errors) in zip(started, outputs, strict=True):
            self.assertEqual(process.returncode, 0, errors)
        (row,) = rows(outputs[0][0])
        self.expect_sound(row)
        self.assertEqual([out for out, _ in outputs[1:]], ["", "", ""])


if __name__ == "__main__":
    unittest.main()
