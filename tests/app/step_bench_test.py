# SPDX-License-Identifier: Apache-2.0
"""overlap-step as a user runs it: a step cut in each way, measured and predicted, and errors that say what divides."""

from __future__ import annotations

import csv
import io
import json
import unittest

from binaries import BUILD, QUICK, RunTest, run, words

STEP = BUILD / "bin" / "overlap-step"
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

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            ("--tensor 0", "tensor 0 is not possible"),
            ("--tensor x", 'tensor "x" is not a number; type for example --tensor 1,2,4'),
            ("--tensor 3", "2 ranks do not divide by 3 parts of a layer times 1 stages"),
            ("--stages 2 --layers gpt2-small:3@8", "3 layers do not divide by 2 chunks of 2 stages"),
            ("--mode zero", 'data parallel mode "zero" is unknown'),
            ("--chunks 2", "chunks"),
        ):
            ran = run(STEP, *SMALL, *words(arguments), "--list")
            self.assertEqual(ran.returncode, 2, arguments + ran.stdout)
            self.assertEqual(ran.stdout, "")
            self.assertIn(message, ran.stderr)


if __name__ == "__main__":
    unittest.main()
