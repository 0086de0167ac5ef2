# SPDX-License-Identifier: Apache-2.0
"""overlap-ordering as a user runs it. Whether a mistake shows in a run is chance; what the static check says is not."""

from __future__ import annotations

import csv
import io
import tempfile
import unittest
from pathlib import Path

from binaries import BUILD, ENVIRONMENT, QUICK, RunTest, run, words

ORDERING = BUILD / "bin" / "overlap-ordering"
SMALL = words("--backend host --ranks 2 --gemm 8x8x8")
CHECKED = {
    "correct": "none",
    "missing_producer_event": "race x 6",
    "missing_consumer_wait": "race x 3",
    "global_sync": "none",
    "rank_misorder": "mismatch x 1",
}


class Ordering(RunTest):
    def test_the_table(self):
        ran = run(ORDERING, *SMALL, *QUICK, "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = {row["variant"]: row for row in self.summary()}
        self.assertEqual({variant: row["static_check"] for variant, row in rows.items()}, CHECKED)
        for variant in ("correct", "global_sync"):
            row = rows[variant]
            self.assertIn(row["status"], ("ok", "noisy"))
            self.assertEqual((row["correct"], row["elements_wrong"], row["verify"]), ("1", "0", "serial"))
        for variant in ("missing_producer_event", "missing_consumer_wait"):
            row = rows[variant]
            self.assertIn(row["status"], ("ok", "noisy"), "a wrong result is what was asked for")
            self.assertEqual(row["elements"], "768")  # 64 + 128 + 192 on two ranks
            self.assertIn("nothing orders them", row["first_finding"])
            self.assertEqual(row["correct"] == "1", row["elements_wrong"] == "0")
        refused = rows["rank_misorder"]
        self.assertEqual((refused["status"], refused["t_step"], refused["correct"]), ("skipped", "", ""))
        self.assertIn("refused before launch: mismatch: communicator world, collective 0", refused["reason"])
        self.assertIn("--run-anyway", refused["reason"])

    def test_run_anyway_has_a_process_of_its_own(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        ran = run(
            ORDERING,
            *SMALL,
            *QUICK,
            *words("--variant correct,rank_misorder --run-anyway --deadline 1s --format csv"),
            env=ENVIRONMENT | {"TMPDIR": scratch.name},
        )
        correct, misordered = csv.DictReader(io.StringIO(ran.stdout))
        self.assertEqual((correct["variant"], correct["correct"]), ("correct", "1"), "kept, whatever came after it")
        self.assertEqual(misordered["variant"], "rank_misorder")
        self.assertIn("run_anyway=on", misordered["key"])
        # Ranks that disagree hang, or go on with sums of other things.
        if misordered["status"] == "timeout":
            self.assertEqual(ran.returncode, 1)
            self.assertIn("a replay did not finish within 1 s", misordered["reason"])
        else:
            self.assertEqual((misordered["correct"], ran.returncode), ("0", 0))
        self.assertEqual(list(Path(scratch.name).iterdir()), [], "what the processes shared is gone")

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            ("--variant wrong", 'variant "wrong" is unknown'),
            ("--gradients 1", "leave no order to get wrong"),
            ("--gradients x", 'gradients "x" is not a number of gradients'),
            ("--stall 0ms", '--stall "0ms" is not a duration'),
            ("--ranks 1", "rank_misorder on one rank is not possible"),
            ("--dtype f8e4m3", "gradients of f8e4m3 are not possible"),
        ):
            with self.subTest(arguments):
                ran = run(ORDERING, *words("--backend host"), *words(arguments), "--list")
                self.assertEqual((ran.returncode, ran.stdout), (2, ""), ran.stderr)
                self.assertIn(message, ran.stderr)


if __name__ == "__main__":
    unittest.main()
