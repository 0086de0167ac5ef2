# SPDX-License-Identifier: Apache-2.0
"""overlap-step as a user runs it: a step cut in each way, measured and predicted, and errors that say what divides."""

from __future__ import annotations

import csv
import io
import json
import unittest
from pathlib import Path

from binaries import BUILD, QUICK, RunTest, run, words

STEP = BUILD / "bin" / "overlap-step"
MACHINES = Path(__file__).resolve().parents[2] / "results" / "machines"
SMALL = words("--ranks 2 --layers gpt2-small:2@8 --scale 0.02 --microbatches 2 --waiting yield")

# 600 TFLOP/s, 3 TB/s, 400 GB/s within a node and 40 GB/s beyond.
MACHINE = {
    "format": "overlapbench machine",
    "version": 1,
    "name": "made-up",
    "fabric": "none",
    "device": "none",
    "origins": [{"id": "here", "kind": "published", "source": "this test"}],
    "rates": [
        {"name": "gemm_bf16", "rate": 6e14, "origin": "here"},
        {"name": "memory", "rate": 3e12, "origin": "here"},
        {"name": "link", "rate": 4e11, "origin": "here"},
        {"name": "link_latency", "rate": 2e-6, "origin": "here"},
        {"name": "network", "rate": 4e10, "origin": "here"},
        {"name": "network_latency", "rate": 1e-5, "origin": "here"},
    ],
    "collectives": [],
    "contention": [],
}


class StepBench(RunTest):
    def measured(self, *cut: str) -> dict[str, str]:
        ran = run(STEP, *SMALL, *QUICK, *cut, "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        (row,) = self.summary()
        self.assertIn(row["status"], ("ok", "noisy"), row["reason"])
        self.assertEqual(row["verify"], "exact+serial")
        self.assertIn("exposes", ran.stdout)
        return row

    def test_replicas(self):
        for mode in ("ddp", "fsdp"):
            with self.subTest(mode):
                self.out = self.folder / mode
                row = self.measured("--mode", mode)
                self.assertEqual((row["tensor"], row["stages"], row["data"]), ("1", "1", "2"))
                self.assertEqual((row["exposed_tensor"], row["exposed_pipeline"]), ("", ""))
                self.assertNotEqual(row["exposed_data"], "")
                # gpt2-small at 0.02 is 16 wide: 3072 weights a layer.
                self.assertEqual(float(row["model_flops"]), 3 * 2 * 3072 * 2 * 8 * 2)
                self.assertEqual(row["model_flops"], row["hardware_flops"])

    def test_parts_of_layers(self):
        row = self.measured("--tensor", "2")
        self.assertEqual((row["tensor"], row["stages"], row["data"]), ("2", "1", "1"))
        self.assertEqual((row["exposed_data"], row["exposed_pipeline"]), ("", ""))
        self.assertEqual(float(row["model_flops"]), 3 * 2 * 3072 * 2 * 8 * 2 / 2)

    def test_stages(self):
        row = self.measured("--stages", "2")
        self.assertEqual((row["placement"], row["data"]), ("shared_core", "1"))
        self.assertNotEqual(row["exposed_pipeline"], "")

    def test_all_three(self):
        row = self.measured("--ranks", "8", "--tensor", "2", "--stages", "2")
        self.assertEqual((row["tensor"], row["stages"], row["data"]), ("2", "2", "2"))
        parts = sum(float(row[f"exposed_{way}"]) for way in ("tensor", "data", "pipeline", "together"))
        self.assertAlmostEqual(parts, float(row["t_step"]) - float(row["t_compute"]), delta=1e-12)

    def test_more_ranks_than_anybody_has(self):
        machine = self.folder / "machine.json"
        machine.write_text(json.dumps(MACHINE))
        ran = run(
            STEP, "--backend", "model", "--machine", machine, "--format", "csv",
            *words("--ranks 8x128 --layers llama2-7b:32@4096 --scale 1 --dtype bf16 --microbatches 8"),
            *words("--tensor 8 --stages 4 --mode ddp"),
        )  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stderr)
        (row,) = csv.DictReader(io.StringIO(ran.stdout))
        self.assertEqual((row["ranks"], row["tensor"], row["stages"], row["data"]), ("1024", "8", "4", "32"))
        self.assertEqual((row["status"], row["source"]), ("ok", "model"))
        self.assertIn("4 of 1024 ranks played", row["layout"], "ranks that are alike are played as one")
        # What computing takes at the machine's rate, a stage of 8 microbatches: nothing is faster than that.
        least = float(row["model_flops"]) / 6e14
        self.assertGreaterEqual(float(row["t_compute"]), least)
        self.assertGreater(float(row["t_step"]), float(row["t_compute"]))
        self.assertGreater(float(row["exposed_tensor"]), 0)

    def test_exposed_time_is_told_by_operation_and_cause(self):
        ran = run(
            STEP, "--backend", "model", "--machine", MACHINES / "h100-node-ndr.json",
            *words("--ranks 8x4 --layers gpt2-small:4@256 --scale 1 --dtype bf16 --tensor 2 --stages 2 --mode fsdp"),
            "--allow-debug", "--out", self.out,
        )  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("Exposed, by operation@lane and cause (model):", ran.stdout)
        (row,) = self.summary()
        causes = ("transfer", "peer", "shared", "units", "launch")
        columns = sum(float(row[f"exposed_{cause}"]) for cause in causes)
        parts = sum(float(part.rpartition("=")[2]) for part in row["exposed_by"].split(";"))
        rounding = 1e-9 * float(row["t_step"])
        self.assertAlmostEqual(columns, float(row["t_exposed"]), delta=rounding)
        self.assertAlmostEqual(parts, float(row["t_exposed"]), delta=rounding)
        operations = list(csv.DictReader((self.out / "operations.csv").open()))
        exposed = [op for op in operations if op["exposed"]]
        self.assertTrue(exposed)
        self.assertEqual({op["arm"] for op in exposed}, {"overlapped"})
        self.assertLessEqual({op["cause"] for op in exposed}, set(causes))

    def test_layers_gathered_ahead(self):
        ran = run(
            STEP, "--backend", "model", "--machine", MACHINES / "h100-node-ndr.json", "--format", "csv",
            *words("--ranks 8x1 --layers gpt2-small:8@512 --scale 1 --dtype bf16 --mode ddp,fsdp --prefetch 0,1,2"),
        )  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = list(csv.DictReader(io.StringIO(ran.stdout)))
        self.assertEqual([row["prefetch"] for row in rows], ["none", "0", "1", "2"])
        of_depth = rows[1:]
        memory = [int(row["memory"]) for row in of_depth]
        layer = 2 * 768 * (3 * 768 + 768 + 2 * 4 * 768)
        self.assertEqual([memory[1] - memory[0], memory[2] - memory[1]], [layer, layer])
        steps = [float(row["t_step"]) for row in of_depth]
        self.assertGreater(steps[0], steps[1])
        self.assertGreaterEqual(steps[1], steps[2])

    def test_racks(self):
        """A spine that is oversubscribed slows what crosses it; sizes of units are the description's or typed."""
        levels = [
            {"name": "node", "ranks": 8, "bandwidth": 4e11, "latency": 2e-6, "origin": "here"},
            {"name": "rack", "ranks": 32, "bandwidth": 4e10, "latency": 1e-5, "origin": "here"},
            {"name": "spine", "bandwidth": 4e10, "latency": 1e-5, "origin": "here"},
        ]
        rates = [rate for rate in MACHINE["rates"] if not rate["name"].startswith(("link", "network"))]
        cut = words("--layers gpt2-small:4@256 --scale 1 --dtype bf16 --tensor 8 --mode ddp --format csv")
        steps = {}
        for oversubscription in (1, 4):
            levels[2]["oversubscription"] = oversubscription
            machine = self.folder / f"racks-{oversubscription}.json"
            machine.write_text(json.dumps(MACHINE | {"rates": rates, "levels": levels}))
            for ranks in ("8x4x4", "8x16", "8x4x1", "8x4"):
                ran = run(STEP, "--backend", "model", "--machine", machine, "--ranks", ranks, *cut)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                (row,) = csv.DictReader(io.StringIO(ran.stdout))
                self.assertIn("1 of ", row["layout"])
                steps[oversubscription, ranks] = float(row["t_step"])
        self.assertEqual(steps[4, "8x4x4"], steps[4, "8x16"])
        self.assertGreater(steps[4, "8x4x4"], steps[1, "8x4x4"])
        self.assertEqual(steps[4, "8x4x1"], steps[1, "8x4"], "within a rack nothing is shared")
        for ranks, message in (
            ("8x4x4x2", "--ranks asks for 4 levels and machine made-up describes 3: every level has a bandwidth"),
            ("6x16", "units of 32 ranks do not divide by units of 6: machine made-up has them on levels of its fabric"),
        ):
            ran = run(STEP, "--backend", "model", "--machine", machine, "--ranks", ranks, *cut)
            self.assertEqual((ran.returncode, ran.stdout), (2, ""))
            self.assertIn(message, ran.stderr)

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            ("--tensor 0", "tensor 0 is not possible"),
            ("--tensor x", 'tensor "x" is not a number; type for example --tensor 1,2,4'),
            ("--tensor 3", "2 ranks do not divide by 3 parts of a layer times 1 stages"),
            ("--stages 2 --layers gpt2-small:3@8", "3 layers do not divide by 2 chunks of 2 stages"),
            ("--mode zero", 'data parallel mode "zero" is unknown'),
            ("--chunks 2", "chunks"),
            ("--prefetch=-1", "prefetch depth -1 is not possible"),
            ("--scale 1e-300", "scale 1e-300 leaves nothing of gpt2-small's width of 768: widths are 16 or more"),
        ):
            ran = run(STEP, *SMALL, *words(arguments), "--list")
            self.assertEqual(ran.returncode, 2, arguments + ran.stdout)
            self.assertEqual(ran.stdout, "")
            self.assertIn(message, ran.stderr)


if __name__ == "__main__":
    unittest.main()
