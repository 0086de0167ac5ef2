# SPDX-License-Identifier: Apache-2.0
"""overlap-selfcheck: what stands in the way of overlap, and the setting to try, told from rows that were measured."""

from __future__ import annotations

import csv
import io
import unittest

from binaries import SELFCHECK, run, words
from emulated import environment, needs_emulation


def check(names: str, *arguments: str, **more) -> dict[str, dict[str, str]]:
    ran = run(SELFCHECK, f"--benchmark_filter={names}", "--format", "csv", *arguments, **more)
    assert ran.returncode in (0, 1), ran.stderr
    return {row["check"]: row for row in csv.DictReader(io.StringIO(ran.stdout))}


class Blockers(unittest.TestCase):
    def test_lanes_that_share_one_core(self):
        rows = check("lanes_a_core", *words("--backend host --cores 0 --ranks 1"))
        self.assertEqual(list(rows), ["lanes_a_core"])
        row = rows["lanes_a_core"]
        self.assertEqual((float(row["value"]), float(row["overlap_limit"])), (2, 1))
        self.assertEqual(row["trust"], "good", "what stands in the way of overlap is no reason to doubt numbers")
        self.assertIn("fewer cores than lanes", row["blocks_overlap"])
        self.assertIn("--cores", row["setting"])

    def test_in_words_with_value_limit_and_setting(self):
        ran = run(SELFCHECK, *words("--backend host --cores 0 --ranks 1 --benchmark_filter=lanes_a_core"))
        self.assertIn("What stands in the way of overlap here", ran.stdout)
        self.assertIn("lanes_a_core is 2, more than 1: ", ran.stdout)
        self.assertRegex(ran.stdout, r"(?m)^blocks +lanes_a_core +2 ", "not called good and then listed")
        self.assertIn("blocks: no reason to doubt numbers, and in the way of overlap", ran.stdout)
        self.assertIn("try: fewer --ranks or more --cores", ran.stdout)

    def test_nothing_stands_in_the_way_of_what_has_room(self):
        ran = run(SELFCHECK, *words("--backend host --benchmark_filter=clock_resolution"))
        self.assertIn("Overlap: nothing that was measured stands in its way", ran.stdout)

    @needs_emulation
    def test_on_a_device_what_the_environment_sets(self):
        settings = {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "NCCL_MAX_CTAS": "4"}
        rows = check("lanes_a_connection|ctas_overridden", *words("--backend cuda"), env=environment() | settings)
        self.assertEqual(float(rows["lanes_a_connection"]["value"]), 2)
        self.assertIn("CUDA_DEVICE_MAX_CONNECTIONS", rows["lanes_a_connection"]["setting"])
        self.assertEqual(rows["ctas_overridden"]["detail"], "NCCL_MAX_CTAS=4")
        self.assertIn("whatever a case", rows["ctas_overridden"]["blocks_overlap"])
        rows = check("lanes_a_connection|ctas_overridden", *words("--backend cuda"), env=environment())
        self.assertEqual([row["blocks_overlap"] for row in rows.values()], ["", ""])

    @needs_emulation
    def test_on_a_device_what_contends_is_measured(self):
        rows = check("lanes_serialised|beside", *words("--backend cuda"), env=environment())
        self.assertEqual(set(rows), {"lanes_serialised", "gemm_beside_held_units", "memory_beside_memory"})
        for row in rows.values():
            self.assertGreater(float(row["value"]), 0, row)


if __name__ == "__main__":
    unittest.main()
