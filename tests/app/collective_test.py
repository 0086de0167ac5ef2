# SPDX-License-Identifier: Apache-2.0
"""overlap-collective as a user runs it, on the host backend."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from binaries import COLLECTIVE, ENVIRONMENT, QUICK, RunTest, run, table, words

PLOTS = Path(__file__).parents[2] / "plots" / "src"
SWEEP = [*words("--backend host --bytes 4KiB,16KiB,64KiB --gemm 64x64x64"), *QUICK]
ONE = [*words("--backend host --bytes 4KiB --gemm none --format csv"), *QUICK]
FORMS = (
    "all_reduce,all_gather,reduce_scatter,broadcast,all_to_all,exchange,"
    "reduce_scatter+all_gather,all_reduce:hierarchical"
)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


class Sweep(RunTest):
    """One sweep, idle and loaded, looked at from all sides."""

    def setUp(self):
        super().setUp()
        self.ran = run(COLLECTIVE, *SWEEP, "--out", self.out)
        self.assertEqual(self.ran.returncode, 0, self.ran.stderr)

    def test_everything(self):
        self.assert_complete(cases=3)
        for check in (self.cases, self.samples, self.fits, self.output, self.schemas, self.resume):
            with self.subTest(check.__name__):
                check()

    def cases(self):
        for row, size in zip(self.summary(), (4096, 16384, 65536), strict=True):
            self.assertEqual(
                (row["bytes"], row["in_place"], row["gemm"], row["ranks"]), (str(size), "0", "64x64x64", "2")
            )
            self.assertEqual(row["verify"], "exact+random")
            self.assertEqual(row["slowdown_source"], "covered" if row["coverage"] == "1" else "")
            self.assertAlmostEqual(float(row["algorithm_bandwidth"]) * float(row["t_comm"]), size, delta=1e-6 * size)
            self.assertAlmostEqual(float(row["bus_bandwidth"]), float(row["algorithm_bandwidth"]), delta=1)
            self.assertLessEqual(float(row["t_rank_min"]), float(row["t_rank_max"]))
            self.assertEqual(row["t_step"], "")

    def samples(self):
        """Coverage is what the spans of the used samples say: whether it is had is the machine's affair."""
        samples = table(self.out / "samples.csv")
        self.assertEqual({row["arm"] for row in samples}, {"empty", "comm", "loaded"})
        for case in self.summary():
            rounds: dict[str, bool] = {}
            for row in samples:
                if row["key"] == case["key"] and row["arm"] == "loaded" and row["used"] == "1":
                    compute, comm = float(row["compute_start"]), float(row["comm_start"])
                    outlasts = compute + float(row["compute_span"]) >= comm + float(row["comm_span"])
                    rounds[row["round"]] = rounds.get(row["round"], True) and compute <= comm and outlasts
            self.assertEqual(float(case["coverage"]), sum(rounds.values()) / len(rounds))

    def fits(self):
        fits = table(self.out / "fits.csv")
        self.assertEqual(
            [(row["load"], row["method"]) for row in fits if row["segments"] == "1"],
            [(load, method) for load in ("idle", "loaded") for method in ("relative", "ordinary", "theil_sen")],
        )
        self.assertEqual(
            {(row["collective"], row["dtype"], row["ranks"], row["in_place"]) for row in fits},
            {("all_reduce", "f32", "2", "0")},
        )
        self.assertNotIn("bytes=", fits[0]["series"])

    def output(self):
        for title in ("case  ", "In words:", "Cost of a collective, t = alpha + beta * bytes:", "series  "):
            self.assertIn(title, self.ran.stdout)
        self.assertIn(f"Results: {self.out}", self.ran.stdout)

    def schemas(self):
        about = json.loads((self.out / "run.json").read_text())
        for name in ("summary", "samples", "operations", "fits"):
            header = (self.out / f"{name}.csv").read_text().split("\n", 1)[0]
            self.assertEqual([column["name"] for column in about["tables"][name]["columns"]], header.split(","))

    def resume(self):
        """Nothing is measured twice, and the fits are of all cases, those of both commands."""
        again = run(COLLECTIVE, *SWEEP, "--bytes", "256KiB", "--out", self.out, "--resume", "--fit", "--format", "csv")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(len(self.summary()), 4)
        self.assertEqual({row["points"] for row in rows(again.stdout)}, {"4"})
        self.assertEqual(again.stdout, (self.out / "fits.csv").read_text())

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_the_plots_accept_it(self):
        environment = ENVIRONMENT | {"PYTHONPATH": os.fspath(PLOTS)}
        command = [sys.executable, "-B", "-m", "overlap_plots", "check", self.out]
        checked = subprocess.run(command, capture_output=True, text=True, env=environment)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertIn("60 numbers of 3 cases", checked.stdout)


class Forms(RunTest):
    def test_every_collective_is_verified(self):
        ran = run(COLLECTIVE, *ONE, "--collective", FORMS, "--ranks", "4")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = rows(ran.stdout)
        self.assertEqual([row["collective"] for row in found], FORMS.split(","))
        for row in found:
            self.assertIn(row["status"], ("ok", "noisy"), row["collective"] + ": " + row["reason"])
            self.assertEqual((row["verify"], row["ranks"]), ("exact+random", "4"))
            self.assertEqual((row["t_loaded"], row["coverage"]), ("", ""))

    def test_in_place_what_can_be(self):
        ran = run(COLLECTIVE, *ONE, "--collective", FORMS, "--ranks", "4", "--place", "in")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for row in rows(ran.stdout):
            if row["collective"] in ("all_reduce", "all_gather", "reduce_scatter", "broadcast"):
                self.assertIn(row["status"], ("ok", "noisy"), row["collective"] + ": " + row["reason"])
                self.assertEqual((row["verify"], row["in_place"]), ("exact+random", "1"))
            else:
                self.assertEqual(row["status"], "unsupported")
                self.assertIn("cannot work in place", row["reason"])

    def test_a_hierarchy_that_cannot_be_is_a_row_with_its_reason(self):
        ran = run(COLLECTIVE, *ONE, "--collective", "all_reduce:hierarchical", "--ranks", "2,4")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        of_two, of_four = rows(ran.stdout)
        self.assertEqual(of_two["status"], "unsupported")
        self.assertIn("at least 2 each", of_two["reason"])
        self.assertIn(of_four["status"], ("ok", "noisy"))

    def test_launches_have_intervals_and_say_whether_they_agree(self):
        sweep = [*words("--backend host --bytes 4KiB,64KiB --gemm none --launches 2"), *QUICK]
        ran = run(COLLECTIVE, *sweep, "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=2, launches=2)
        headline = table(self.out / "fits.csv")[0]
        self.assertEqual((headline["launches"], headline["points"]), ("2", "4"))
        self.assertLessEqual(float(headline["alpha_s_low"]), float(headline["alpha_s_high"]))
        self.assertIn("fewer than five launches: no claim between runs", headline["verdict"])
        self.assertEqual({row["launches"] for row in table(self.out / "launches.csv")}, {"2"})
        self.assertIn("Between launches (time of communication, idle", ran.stdout)


class Mistakes(RunTest):
    def test_are_named_with_what_to_type_instead(self):
        for options, text in (
            ("--place inside", 'place "inside" is unknown: known are out, in'),
            ("--collective all_reduc", 'collective "all_reduc" is unknown'),
            (
                "--ranks 2,x",
                '--ranks "x" is not a number of ranks: it is a whole number from 1 to 1000000, or default; type for ',
            ),
            (
                "--placement serial",
                'placement "serial" sets an order: here the collective always begins after the GEMMs and ends before ',
            ),
            ("--gemm 3x3", "3x3"),
            ("--fit", "--fit chooses between two tables: the text output has both; add --format csv or json"),
        ):
            with self.subTest(options):
                ran = run(COLLECTIVE, *words("--backend host " + options))
                self.assertEqual(ran.returncode, 2, ran.stderr)
                self.assertIn(text, ran.stderr)

    def test_dry_run_and_list_measure_nothing(self):
        ran = run(COLLECTIVE, *words("--backend host --bytes 4KiB,8KiB --gemm 64x64x64 --dry-run"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(
            "2 cases\n  collective/all_reduce/4KiB/f32/r2/out/64x64x64/concurrent/yield/c0/plain\n", ran.stdout
        )
        self.assertIn("@comm all_reduce 4KiB f32 comm=0 <- send[0:1024] -> receive[0:1024]", ran.stdout)
        ran = run(COLLECTIVE, *words("--backend host --bytes 4KiB --gemm none,64x64x64 --list"))
        self.assertEqual(len(ran.stdout.splitlines()), 2)


if __name__ == "__main__":
    unittest.main()
