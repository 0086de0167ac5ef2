# SPDX-License-Identifier: Apache-2.0
"""A real run of a moment on the host backend: what it prints, what it writes, and that both agree."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import statistics
import subprocess
import sys
import unittest
from pathlib import Path

from binaries import ENVIRONMENT, PAIR, SELFCHECK, TINY, RunTest, run, table, words

PLOTS = Path(__file__).parents[2] / "plots" / "src"
TABLES = ["operations.csv", "samples.csv", "summary.csv"]


class OneRun(RunTest):
    """Two cases with everything on, looked at from all sides."""

    def setUp(self):
        super().setUp()
        self.ran = run(PAIR, *TINY, "--backend", "host", "--out", self.out, "--timeline", "--format", "csv")
        self.assertEqual(self.ran.returncode, 0, self.ran.stderr)

    def test_everything(self):
        self.assert_complete(cases=2)
        for check in (self.files, self.output, self.progress, self.hidden_share, self.description, self.timelines):
            with self.subTest(check.__name__):
                check()

    def files(self):
        names = sorted(path.name for path in self.out.iterdir())
        self.assertEqual(names, ["lock", *TABLES[:1], "run.json", *TABLES[1:], "timeline"])

    def output(self):
        self.assertEqual(self.ran.stdout, (self.out / "summary.csv").read_text())
        rows = list(csv.DictReader(io.StringIO(self.ran.stdout)))
        self.assertEqual([row["placement"] for row in rows], ["concurrent", "serial"])
        for row in rows:
            self.assertEqual(
                (row["backend"], row["source"], row["bytes"], row["ranks"]), ("host", "measured", "16384", "2")
            )

    def progress(self):
        lines = self.ran.stderr.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"\A\[1/2\] pair/64x64x64/all_reduce/16KiB/f32/concurrent/\S+: (ok|noisy), ")

    def hidden_share(self):
        """(t_compute + t_comm - t_step) / min(t_compute, t_comm) on medians of the primary data."""
        samples = [row for row in table(self.out / "samples.csv") if row["used"] == "1" and row["rank"] == "0"]
        for row in self.summary():
            arms = {}
            for sample in samples:
                if sample["key"] == row["key"]:
                    time = float(sample["step"]) / int(sample["repeats"])
                    arms.setdefault(sample["arm"], []).append(time)
            compute, comm, step = (statistics.median(arms[arm]) for arm in ("compute", "comm", "overlapped"))
            share = (compute + comm - step) / min(compute, comm)
            self.assertAlmostEqual(share, float(row["hidden_share"]), delta=1e-9)
            self.assertEqual(len(arms["compute"]), int(row["rounds"]))

    def description(self):
        about = json.loads((self.out / "run.json").read_text())
        self.assertEqual(set(about), {"identity", "run", "tables"})
        self.assertEqual(about["identity"]["bench"], "pair")
        self.assertEqual(about["identity"]["backend"]["name"], "host")
        self.assertIn("--timeline", about["run"]["command_line"])
        for name in TABLES:
            header = (self.out / name).read_text().split("\n", 1)[0]
            columns = about["tables"][name.removesuffix(".csv")]["columns"]
            self.assertEqual([column["name"] for column in columns], header.split(","))

    def timelines(self):
        files = list((self.out / "timeline").iterdir())
        self.assertEqual(len(files), 2)
        for file in files:
            self.assertTrue(json.loads(file.read_text())["traceEvents"])

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_the_plots_accept_it(self):
        environment = ENVIRONMENT | {"PYTHONPATH": os.fspath(PLOTS)}
        command = [sys.executable, "-B", "-m", "overlap_plots", "check", self.out]
        checked = subprocess.run(command, capture_output=True, text=True, env=environment)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


class Output(RunTest):
    def test_text_is_a_table_and_words(self):
        ran = run(PAIR, *TINY)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = ran.stdout.splitlines()
        self.assertRegex(lines[0], r"\Acase +compute +comm +serial +overlapped +bound +speedup +exposed +hidden share")
        self.assertEqual([line.split()[0] for line in lines[1:3]], ["concurrent", "serial"])
        self.assertIn("In words:", lines)
        self.assertNotIn("Results:", ran.stdout)

    def test_json_is_one_object_a_case(self):
        ran = run(PAIR, *TINY, "--placement", "graph", "--format", "json")
        rows = json.loads(ran.stdout)
        self.assertEqual([row["status"] for row in rows], ["unsupported"])
        self.assertIsNone(rows[0]["t_step"])

    def test_google_benchmark_reports_json_on_standard_output_and_in_a_file(self):
        file = self.folder / "benchmark.json"
        ran = run(
            PAIR,
            *TINY,
            "--benchmark_filter=serial",
            "--benchmark_format=json",
            f"--benchmark_out={file}",
            "--out",
            self.out,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        (row,) = self.summary()
        self.assertEqual(row["placement"], "serial")
        for text in (ran.stdout, file.read_text()):
            report = json.loads(text)
            self.assertEqual(report["context"]["executable"], str(PAIR))
            (entry,) = report["benchmarks"]
            self.assertEqual(
                entry["name"], "pair/64x64x64/all_reduce/16KiB/f32/serial/yield/c0/plain/iterations:1/manual_time"
            )
            self.assertEqual(entry["iterations"], 1)
            self.assertAlmostEqual(entry["real_time"] * 1e-9, float(row["t_step"]), delta=1e-12)
            for counter in ("t_compute", "t_comm", "t_serial", "t_exposed", "hidden_share", "speedup", "speedup_bound"):
                self.assertAlmostEqual(entry[counter], float(row[counter]), delta=1e-9)

    def test_what_the_backend_lacks_is_a_row_with_its_reason(self):
        for option, reason in (
            (["--placement", "graph"], "no graphs"),
            (["--dtype", "bf16"], "not in bf16"),
            (["--buffers", "registered"], '"registered" buffers'),
        ):
            with self.subTest(option):
                ran = run(PAIR, *TINY, *option, "--format", "csv")
                self.assertEqual(ran.returncode, 3, ran.stderr)
                row = next(csv.DictReader(io.StringIO(ran.stdout)))
                self.assertEqual(row["status"], "unsupported")
                self.assertIn(reason, row["reason"])
                self.assertEqual(row["t_step"], "")


class SelfCheck(RunTest):
    def test_csv_and_json_hold_the_checks(self):
        few = words("--watch 100ms --benchmark_filter=clock|empty")
        ran = run(SELFCHECK, *few, "--format", "json")
        self.assertIn(ran.returncode, (0, 1), ran.stderr)
        self.assertEqual([row["check"] for row in json.loads(ran.stdout)], ["clock_resolution", "empty_replay"])
        ran = run(SELFCHECK, *few, "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(ran.stdout)))
        self.assertEqual([row["unit"] for row in rows], ["s", "s"])
        self.assertGreater(float(rows[1]["value"]), 0)


if __name__ == "__main__":
    unittest.main()
