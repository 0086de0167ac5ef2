# SPDX-License-Identifier: Apache-2.0
"""overlap-calibrate: from pairs that were measured to a description that the model backend predicts with."""

from __future__ import annotations

import csv
import io
import json
import shutil
import statistics
import tempfile
import unittest
from pathlib import Path

from binaries import BUILD, COLLECTIVE, PAIR, QUICK, TINY, RunTest, run, words

CALIBRATE = BUILD / "bin" / "overlap-calibrate"
GRID = [
    *words("--gemm 64x64x64,96x96x96 --bytes 16KiB,32KiB,64KiB,128KiB"),
    *words("--placement partitioned,serial,shared_core"),
    *QUICK,
]


class Calibrating(RunTest):
    def setUp(self):
        super().setUp()
        self.description = self.folder / "this-machine.json"

    measured: Path  # a run of the grid, which takes a while: measured once, for all that learn from it

    def measure(self):
        if not hasattr(Calibrating, "measured"):
            kept = tempfile.TemporaryDirectory()
            self.addClassCleanup(kept.cleanup)
            Calibrating.measured = Path(kept.name) / "run"
            ran = run(PAIR, "--backend", "host", "--ranks", "2", *GRID, "--out", Calibrating.measured)
            self.assertEqual(ran.returncode, 0, ran.stderr)
        shutil.copytree(Calibrating.measured, self.out)

    def refuse(self, *arguments, text: str):
        ran = run(CALIBRATE, *arguments)
        self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        self.assertIn(text, ran.stderr)
        self.assertFalse(self.description.exists())

    def test_what_it_learns_is_what_the_model_plays(self):
        self.measure()
        ran = run(CALIBRATE, self.out, "--out", self.description)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        learnt = self.learnt()
        self.assertIn(f"this-machine, of {len(learnt)} cases", ran.stdout)
        for line in ("a case", "a GEMM shape", "a collective's size"):
            self.assertIn(line, ran.stdout)
        self.assertEqual(ran.stderr.count("left out, the model does not know what lanes on one core share"), 8)
        self.assertEqual(ran.stderr.count("its lanes are on "), 16 - len(learnt))

        machine = json.loads(self.description.read_text())
        self.assertEqual({origin["kind"] for origin in machine["origins"]}, {"measured"})
        rates = {rate["name"]: rate["rate"] for rate in machine["rates"]}
        for shape, size in (("64x64x64", 64), ("96x96x96", 96)):
            measured = [
                2 * size**3 * float(row["gemm_repeat"]) / float(row["t_compute"])
                for row in learnt
                if row["gemm"] == shape
            ]
            self.assertAlmostEqual(rates[f"gemm_f32@{shape}"] / statistics.median(measured), 1, delta=1e-9)
        (collective,) = machine["collectives"]
        self.assertEqual((collective["collective"], collective["ranks"]), ("all_reduce", 2))
        self.assertEqual(len(collective["points"]), len(learnt))

        # What the model says of a shape alone, and of a pair in turn, is what the description says.
        predicted = run(
            PAIR, "--backend", "model", "--machine", self.description, "--format", "csv",
            *words("--ranks 2 --gemm 96x96x96 --bytes 64KiB --placement partitioned,serial"),
        )  # fmt: skip
        self.assertEqual(predicted.returncode, 0, predicted.stderr)
        together, serial = csv.DictReader(io.StringIO(predicted.stdout))
        compute = 2 * 96**3 / rates["gemm_f32@96x96x96"]
        self.assertAlmostEqual(float(serial["t_compute"]) / compute, 1, delta=1e-9)
        self.assertAlmostEqual(
            float(serial["t_step"]) / (float(serial["t_compute"]) + float(serial["t_comm"])), 1, delta=1e-9
        )
        slowed = {(c["victim"], c["aggressor"]): c["slowdown"] for c in machine["contention"]}
        self.assertAlmostEqual(float(together["t_step"]) / self.fluid(together, slowed), 1, delta=1e-9)

    def learnt(self):
        """Ranks that share cores have other times than ranks that do not: then those side by side are learnt from."""
        rows = [row for row in self.summary() if row["placement"] != "shared_core"]
        crowded = any(row["oversubscribed"] == "1" for row in rows)
        return [row for row in rows if not crowded or row["placement"] == "partitioned"]

    def fluid(self, row, slowed) -> float:
        """models.md: whoever ends first was slowed all the time, the other as long as that."""
        compute, comm = float(row["t_compute"]), float(row["t_comm"])
        s_compute, s_comm = slowed["gemm", "comm"], slowed["comm", "gemm"]
        if compute * s_compute <= comm * s_comm:
            return comm + compute * s_compute * (1 - 1 / s_comm)
        return compute + comm * s_comm * (1 - 1 / s_compute)

    def test_what_was_known_already_is_kept(self):
        base = self.folder / "base.json"
        base.write_text(
            json.dumps(
                {
                    "format": "overlapbench machine",
                    "version": 1,
                    "name": "base",
                    "fabric": "memory",
                    "device": "",
                    "origins": [{"id": "pairs", "kind": "published", "source": "this test"}],
                    "rates": [
                        {"name": "memory", "rate": 1e10, "origin": "pairs"},
                        {"name": "gemm_f32", "rate": 1.0, "origin": "pairs"},
                    ],
                    "collectives": [],
                    "contention": [{"victim": "gemm", "aggressor": "comm", "slowdown": 7, "origin": "pairs"}],
                }
            )
        )
        self.measure()
        ran = run(CALIBRATE, self.out, "--machine", base, "--out", self.description)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        machine = json.loads(self.description.read_text())
        rates = {rate["name"]: (rate["rate"], rate["origin"]) for rate in machine["rates"]}
        self.assertEqual(rates["memory"], (1e10, "pairs"))
        self.assertGreater(rates["gemm_f32"][0], 1e6)
        self.assertEqual(rates["gemm_f32"][1], "pairs2")
        self.assertEqual(
            [(o["id"], o["kind"]) for o in machine["origins"]], [("pairs", "published"), ("pairs2", "measured")]
        )
        self.assertEqual(len(machine["contention"]), 2)

    def test_what_it_cannot_learn_from(self):
        self.refuse("--out", self.description, text="no run is named")
        self.refuse(self.folder, text="--out is missing")
        self.refuse(self.folder, "--out", self.folder / "x.txt", text="x.txt is no .json file")
        self.refuse(self.folder, "--out", self.description, text="it has no run.json")
        self.refuse(self.folder, self.folder, "--out", self.description, text="is named twice")
        self.refuse(self.folder, "--out", self.description, "--name", "<b>", text="--name <b>: ")
        model = self.folder / "predicted"
        durations = run(
            PAIR, "--backend", "model", "--machine", self.machine(), "--out", model, "--allow-debug",
            *words("--gemm 128x128x128 --bytes 1MiB"),
        )  # fmt: skip
        self.assertEqual(durations.returncode, 0, durations.stderr)
        self.refuse(model, "--out", self.description, text="was predicted, not measured")
        cost = self.folder / "cost"
        collective = run(COLLECTIVE, *words("--bytes 16KiB --ranks 2 --gemm none"), *QUICK, "--out", cost)
        self.assertEqual(collective.returncode, 0, collective.stderr)
        self.refuse(cost, "--out", self.description, text="is a run of overlap-collective")
        shared = run(PAIR, *TINY, "--placement", "shared_core", "--out", self.out)
        self.assertEqual(shared.returncode, 0, shared.stderr)
        self.refuse(self.out, "--out", self.description, text="there is nothing to learn from")

    def machine(self):
        path = self.folder / "made-up.json"
        path.write_text(
            json.dumps(
                {
                    "format": "overlapbench machine",
                    "version": 1,
                    "name": "made-up",
                    "fabric": "",
                    "device": "",
                    "origins": [{"id": "here", "kind": "published", "source": "this test"}],
                    "rates": [
                        {"name": "gemm_f32", "rate": 1e12, "origin": "here"},
                        {"name": "link", "rate": 1e10, "origin": "here"},
                        {"name": "link_latency", "rate": 1e-6, "origin": "here"},
                    ],
                    "collectives": [],
                    "contention": [],
                }
            )
        )
        return path


if __name__ == "__main__":
    unittest.main()
