# SPDX-License-Identifier: Apache-2.0
"""overlap-pp as a user runs it: every schedule measured on two ranks, verified against a serial replay."""

from __future__ import annotations

import unittest

from binaries import BUILD, QUICK, RunTest, run, table, words

PP = BUILD / "bin" / "overlap-pp"
SMALL = words("--backend host --stages 2 --layers gpt2-small:4@8 --scale 0.02 --microbatches 4")


class Pipelines(RunTest):
    def test_list_is_the_product_of_the_axes(self):
        ran = run(PP, *SMALL, *words("--schedule 1f1b,interleaved --receive early,late --list"))
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(
            ran.stdout.splitlines(),
            [
                f"pp/{schedule}/p2/m4/{chunks}/{receive}/gpt2-small:4@8/s0.02/f32/shared_core/yield/c0/plain"
                for receive in ("early", "late")
                for schedule, chunks in (("1f1b", "v1"), ("interleaved", "v2"))
            ],
        )

    def test_every_schedule_measured_and_verified(self):
        ran = run(PP, *SMALL, *QUICK, "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(5)
        rows = {row["schedule"]: row for row in self.summary()}
        self.assertEqual(
            {schedule: row["peak_activations"] for schedule, row in rows.items()},
            {"gpipe": "4", "1f1b": "2", "interleaved": "5", "zb_h1": "2", "zb_h2": "3"},
        )
        for row in rows.values():
            self.assertEqual((row["verify"], row["repeats"], row["ranks"]), ("exact+serial", "1", "2"))
            for column in ("bubble_rate", "bubble_rate_schedule", "t_forward", "t_backward_weight", "t_transfer"):
                self.assertNotEqual(row[column], "", column)
            # A transfer's cost is not in GPipe's closed form, and that of ZB-H2 holds from m = 3 on.
            self.assertEqual(row["bubble_rate_formula"] == "", row["schedule"] == "gpipe")
            # Its parts are those of the samples: t_step is what of the makespan is idle, and what is not.
            self.assertAlmostEqual(
                float(row["bubble_rate_makespan"]), 1 - float(row["t_busy"]) / float(row["t_step"]), delta=1e-9
            )
        steps = {
            row["step"]
            for row in table(self.out / "operations.csv")
            if row["arm"] == "overlapped" and "schedule=zb_h1" in row["key"] and row["role"] == "compute"
        }
        self.assertEqual(steps, {f"{kind}{m}" for kind in "FBW" for m in range(4)} | {""})  # the optimizer has none

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            ("--layers gpt2-small:3@8", "3 layers do not divide by 2 stages of 1 chunks"),
            ("--schedule interleaved --microbatches 1", "type --microbatches 2, or another multiple of 2"),
            ("--schedule interleaved --chunks 3", "4 layers do not divide by 2 stages of 3 chunks"),
            ("--schedule zb_h3", 'schedule "zb_h3" is unknown'),
            ("--receive never", 'receive "never" is unknown'),
            ("--dtype f8e4m3", "activations of f8e4m3 are not possible"),
            ("--scale wide", 'scale "wide" is not a number'),
        ):
            with self.subTest(arguments):
                ran = run(PP, *SMALL, *words(arguments), "--list")
                self.assertEqual((ran.returncode, ran.stdout), (2, ""), ran.stderr)
                self.assertIn(message, ran.stderr)

    def test_what_does_not_fit_says_how_much_it_needs(self):
        ran = run(
            PP,
            *words("--backend host --stages 2 --schedule gpipe --scale 0.02 --layers gpt2-small:4@16000000"),
            *words("--microbatches 200 --list"),
        )
        self.assertEqual(ran.returncode, 2)
        for part in ("gpipe with 200 microbatches needs", "on a rank", "200 activations of", "such as 1f1b"):
            self.assertIn(part, ran.stderr)


if __name__ == "__main__":
    unittest.main()
