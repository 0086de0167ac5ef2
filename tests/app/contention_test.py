# SPDX-License-Identifier: Apache-2.0
"""overlap-contention as a user runs it, on the host backend and in virtual time."""

from __future__ import annotations

import csv
import io
import json
import re
import unittest

from binaries import BUILD, QUICK, RunTest, run, table, words

CONTENTION = BUILD / "bin" / "overlap-contention"
MACHINE = BUILD / "bin" / "overlap-machine"
HOST = words("--backend host")
SMALL = words("--victim gemm:64x64x64 --aggressor occupy:1,stream:max@64KiB --placement partitioned")


class Measured(RunTest):
    """Two small cases, looked at from all sides."""

    def test_everything(self):
        self.ran = run(CONTENTION, *HOST, *SMALL, *QUICK, "--out", self.out)
        self.assertEqual(self.ran.returncode, 0, self.ran.stderr)
        self.assert_complete(cases=2)
        for check in (self.cases, self.arms, self.output, self.schemas, self.machine):
            with self.subTest(check.__name__):
                check()

    def cases(self):
        for row in self.summary():
            self.assertEqual((row["study"], row["verify"]), ("matrix", "exact+random"))
            self.assertEqual(row["victim_coverage"], "1", "what holds or streams covers by construction")
            self.assertEqual(row["ranks"], "1", "nobody communicates")
            slowdown = float(row["t_victim_loaded"]) / float(row["t_victim"])
            self.assertAlmostEqual(float(row["victim_slowdown"]), slowdown, delta=1e-6 * slowdown)
            streams = row["aggressor"].startswith("stream")
            self.assertEqual(bool(row["pace_alone"]), streams)
            self.assertEqual(bool(row["pace_loaded"]), streams)
            self.assertEqual(row["pace_asked"], "", "as fast as it goes")
            self.assertEqual(bool(row["t_aggressor_loaded"]), streams, "what only holds is not slowed")
            terms = sum(float(row[c] or 0) for c in row if c.startswith("lost_") and not c.endswith(("_low", "_high")))
            self.assertAlmostEqual(terms, float(row["lost"]), delta=1e-9)
            for term in ("lost", "lost_compute_slowdown", "lost_remainder"):
                low, high = row[f"{term}_low"], row[f"{term}_high"]
                self.assertEqual(bool(low), bool(high), term)
                if low:  # four rounds, where none had to be measured again, are too few for an interval
                    self.assertLessEqual(float(low), float(high), term)

    def arms(self):
        """Of a covered arm the aggressor's span holds the victim's, in every sample and on every rank."""
        samples = table(self.out / "samples.csv")
        for case in self.summary():
            victim, aggressor = "compute", "comm"
            loaded = [r for r in samples if r["key"] == case["key"] and r["arm"] == f"{victim}_loaded"]
            self.assertTrue(loaded)
            for row in loaded:
                begins = {side: float(row[f"{side}_start"]) for side in (victim, aggressor)}
                ends = {side: begins[side] + float(row[f"{side}_span"]) for side in (victim, aggressor)}
                self.assertLessEqual(begins[aggressor], begins[victim])
                self.assertGreaterEqual(ends[aggressor], ends[victim])
                self.assertEqual(bool(row["pace"]), case["aggressor"].startswith("stream"))

    def output(self):
        for title in ("victim slowed [95 %]", "In words:", "the victim takes "):
            self.assertIn(title, self.ran.stdout)

    def schemas(self):
        about = json.loads((self.out / "run.json").read_text())
        for name in ("summary", "samples"):
            header = (self.out / f"{name}.csv").read_text().split("\n", 1)[0]
            self.assertEqual([column["name"] for column in about["tables"][name]["columns"]], header.split(","))

    def machine(self):
        """What the run says of the machine: memory and launch cost, with interval and origin. A cost whose interval
        holds 0 is none."""
        described = self.out.parent / "machine.json"
        made = run(MACHINE, self.out, "--out", described)
        self.assertEqual(made.returncode, 0, made.stderr)
        description = json.loads(described.read_text())
        rates = {rate["name"]: rate for rate in description["rates"]}
        (origin,) = description["origins"]
        self.assertEqual((rates["memory"]["origin"], origin["kind"]), (origin["id"], "measured"))
        lows = [row["launch_cost_low"] for row in self.summary()]  # empty: too few rounds for an interval
        known = any(float(low) > 0 for low in lows if low)
        self.assertEqual("kernel" in rates, known)
        if not known:
            return
        self.assertEqual(rates["kernel"]["origin"], origin["id"])
        cost = rates["kernel"]["rate"]
        self.assertLess(0, cost["value"])
        self.assertLessEqual(cost["low"], cost["value"])
        self.assertLessEqual(cost["value"], cost["high"])


class Studies(unittest.TestCase):
    def test_each_lists_its_cases(self):
        for study, cases in (("matrix", 16), ("load_curve", 5), ("placement", 6), ("sm_budget", 3)):
            with self.subTest(study):
                listed = run(CONTENTION, *HOST, "--study", study, "--list")
                self.assertEqual(listed.returncode, 0, listed.stderr)
                self.assertEqual(len(listed.stdout.split()), cases)

    def test_a_dry_run_shows_the_covering_program(self):
        dry = run(CONTENTION, *HOST, *words("--victim gemm:64x64x64 --aggressor occupy:1 --dry-run"))
        self.assertEqual(dry.returncode, 0, dry.stderr)
        self.assertIn("occupy 1 for", dry.stdout)


class Placement(unittest.TestCase):
    def test_siblings_are_measured_or_say_what_is_missing(self):
        line = "--victim gemm:64x64x64 --aggressor stream:max@64KiB --placement partitioned,smt_siblings --format csv"
        ran = run(CONTENTION, *HOST, *QUICK, *words(line))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        _, siblings = csv.DictReader(io.StringIO(ran.stdout))
        if siblings["status"] == "unsupported":
            self.assertRegex(
                siblings["reason"], r"core \d+ has no second hardware thread .* type --placement shared_core"
            )
        else:
            compute, comm = re.findall(r"@(\d+)", siblings["layout"])
            self.assertNotEqual(compute, comm)


class BadInput(unittest.TestCase):
    def test_one_clear_error_each(self):
        cases = (
            ("--study matrx", 2, ['study "matrx" is unknown', "did you mean matrix?"]),
            ("--victim occupy:1 --aggressor copy:1MiB", 2, ['victim "occupy:1" cannot be slowed']),
            ("--aggressor occupy:0", 2, ['"occupy:0" holds no whole number of SMs or cores']),
            ("--aggressor stream:4@1MiB", 2, ["has no pace", "type for example stream:4GB/s@64MiB"]),
            ("--victim gemm:64x64x64 --placement serial", 2, ['placement "serial" sets an order']),
            ("--connections 8", 2, ["connections 8 on the host backend", "leave --connections out"]),
            ("--connections 0", 2, ["connections"]),
            ("--workers 0", 2, ['workers "0" is not a number of SMs or cores']),
            ("--victim gemm:64x64x64 --aggressor occupy:1000", 3, ["to hold: ask for"]),
            (
                "--victim gemm:64x64x64 --aggressor stream:99999GB/s@1MiB",
                3,
                ["a stream at 1e+05 GB/s: here it reaches", "ask for less"],
            ),
        )
        for line, code, texts in cases:
            with self.subTest(line):
                failed = run(CONTENTION, *HOST, *QUICK, *words(line))
                self.assertEqual(failed.returncode, code, failed.stdout + failed.stderr)
                for text in texts:
                    self.assertIn(text, failed.stdout + failed.stderr)


if __name__ == "__main__":
    unittest.main()
