# SPDX-License-Identifier: Apache-2.0
"""Training schedules on emulated GPUs: every result as a serial replay leaves it. The emulator ends a program whose
accesses nothing orders."""

from __future__ import annotations

import unittest

from binaries import BUILD, QUICK, RunTest, words
from emulated import VIOLATION, needs_emulation, pair, rows

SMALL = [*words("--backend cuda --scale 0.02 --format csv"), *QUICK]
CASES = (
    ("ddp", "--layers gpt2-small:1@8 --bucket 4KiB"),
    ("fsdp", "--layers gpt2-small:2@8 --prefetch 1"),
    ("tp", "--layers gpt2-small:1@8 --tiles 2"),
)
PP = BUILD / "bin" / "overlap-pp"
ORDERING = BUILD / "bin" / "overlap-ordering"
PIPELINE = [*words("--backend cuda --layers gpt2-small:8@8 --scale 0.02 --microbatches 4 --format csv"), *QUICK]
ORDERED = [*words("--backend cuda --gemm 8x8x8 --format csv"), *QUICK]


@needs_emulation
class EmulatedSchedules(RunTest):
    def expect_exact(self, gpus: int):
        for bench, options in CASES:
            with self.subTest(bench):
                ran = pair(*words(options), *SMALL, program=BUILD / "bin" / f"overlap-{bench}", gpus=gpus)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                (row,) = rows(ran.stdout)
                self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
                self.assertEqual(
                    (row["verify"], row["source"], row["ranks"]), ("serial+exact+random", "emulated", str(gpus))
                )
                self.assertNotEqual(row["t_tail"], "", "the ends of operations are seen")

    def test_two_gpus(self):
        self.expect_exact(2)

    def test_four_gpus(self):
        self.expect_exact(4)


@needs_emulation
class Steps(unittest.TestCase):
    def test_cut_in_each_way(self):
        step = BUILD / "bin" / "overlap-step"
        small = [*words("--backend cuda --layers gpt2-small:2@8 --scale 0.02 --microbatches 2 --format csv"), *QUICK]
        for gpus, cut in ((2, "--mode ddp"), (2, "--mode fsdp"), (2, "--tensor 2"), (4, "--tensor 2 --stages 2")):
            with self.subTest(cut):
                ran = pair(*small, *words(cut), program=step, gpus=gpus)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                (row,) = rows(ran.stdout)
                self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
                self.assertEqual((row["verify"], row["source"]), ("exact+serial", "emulated"))


@needs_emulation
class PipelinesAndOrderings(unittest.TestCase):
    def expect_sound(self, ran, schedules: int) -> None:
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = rows(ran.stdout)
        self.assertEqual(len(found), schedules)
        for row in found:
            self.assertIn(row["status"], ("ok", "noisy"), row["schedule"] + ": " + row["reason"])
            self.assertEqual((row["verify"], row["source"]), ("exact+serial", "emulated"))

    def test_every_pipeline_on_two(self):
        self.expect_sound(pair(*PIPELINE, "--stages", "2", program=PP, gpus=2), 5)

    def test_interleaved_and_zero_bubble_on_four(self):
        ran = pair(*PIPELINE, *words("--stages 4 --schedule interleaved,zb_h2"), program=PP, gpus=4)
        self.expect_sound(ran, 2)

    def test_right_orders_are_right(self):
        for gpus in (2, 4):
            ran = pair(*ORDERED, *words("--variant correct,global_sync"), program=ORDERING, gpus=gpus)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual([(row["correct"], row["ranks"]) for row in rows(ran.stdout)], [("1", str(gpus))] * 2)

    def test_a_missing_edge_is_caught(self):
        for variant in ("missing_producer_event", "missing_consumer_wait"):
            ran = pair(*ORDERED, "--variant", variant, program=ORDERING, gpus=2)
            self.assertEqual(ran.returncode, VIOLATION, ran.stderr)


if __name__ == "__main__":
    unittest.main()
