# SPDX-License-Identifier: Apache-2.0
"""What-if questions and published tables, through the programs: given durations need no machine and are exact."""

from __future__ import annotations

import csv
import io
import itertools
import unittest

import golden
from binaries import BUILD, RunTest, run, words

PP = BUILD / "bin" / "overlap-pp"
DDP = BUILD / "bin" / "overlap-ddp"


def rows(program, *arguments: str) -> list[dict[str, str]]:
    ran = run(program, *arguments, "--format", "csv")
    assert ran.returncode == 0, ran.stderr
    return list(csv.DictReader(io.StringIO(ran.stdout)))


class Pipelines(unittest.TestCase):
    def test_worked_example(self):
        # 2 stages, 2 microbatches, F = B = W = 1: stage 0 is there from 0 to 9 and computes 6 of it.
        (row,) = rows(
            PP,
            *words("--schedule gpipe --stages 2 --microbatches 2"),
            *words("--forward 1s --backward-input 1s --backward-weight 1s"),
        )
        self.assertEqual((row["status"], row["source"], row["backend"]), ("ok", "model", "model"))
        self.assertEqual((row["ranks"], row["microbatches"], row["verify"]), ("2", "2", "not_applicable"))
        self.assertEqual(float(row["t_step"]), 9)
        self.assertEqual(float(row["t_busy"]), 6)
        self.assertEqual(float(row["t_bubble"]), 3)
        self.assertAlmostEqual(float(row["bubble_rate"]), 1 / 3, delta=1e-12)
        self.assertEqual(row["bubble_rate"], row["bubble_rate_low"])
        self.assertEqual(row["peak_activations"], "2")

    def test_unit_steps_exactly(self):
        names = {"gpipe": "gpipe", "1f1b": "f1b", "zb_h1": "zbh1", "zb_h2": "zbh2"}
        for vector in golden.rows("pipeline_unit_vectors.tsv"):
            found = rows(
                PP,
                *words("--schedule gpipe,1f1b,zb_h1,zb_h2,interleaved --chunks 2,4"),
                *words("--forward 1s --backward-input 1s --backward-weight 1s"),
                *("--stages", vector["p"], "--microbatches", vector["m"]),
            )
            self.assertEqual(len(found), 6)
            for row in found:
                with self.subTest(p=vector["p"], m=vector["m"], schedule=row["schedule"], chunks=row["chunks"]):
                    span = float(row["t_busy"]) + float(row["t_bubble"])
                    self.assertEqual(float(row["t_busy"]), 3 * int(vector["m"]))
                    if row["schedule"] == "interleaved":
                        self.assertEqual(span, float(vector[f"interleaved_v{row['chunks']}_span"]))
                    else:
                        name = names[row["schedule"]]
                        self.assertEqual(span, float(vector[f"{name}_span"]))
                        self.assertEqual(float(row["t_step"]), float(vector[f"{name}_makespan"]))

    def test_published_bubble_rates_to_four_decimals(self):
        for published in golden.rows("zero_bubble_rates.tsv"):
            found = rows(
                PP,
                *words("--schedule 1f1b,zb_h1,zb_h2 --stages 8"),
                *("--microbatches", published["microbatches"], "--forward", published["forward"] + "ms"),
                *("--backward-input", published["backward_input"] + "ms"),
                *("--backward-weight", published["backward_weight"] + "ms"),
                *("--transfer", published["transfer"] + "ms"),
            )
            for row in found:
                with self.subTest(schedule=row["schedule"], of=published):
                    expected = float(published[row["schedule"]])
                    self.assertAlmostEqual(float(row["bubble_rate"]), expected, delta=0.5e-4)
                    self.assertAlmostEqual(float(row["bubble_rate_formula"]), expected, delta=0.5e-4)
                    self.assertAlmostEqual(float(row["bubble_rate_schedule"]), float(row["bubble_rate"]), delta=1e-9)

    def test_of_the_makespan_zb_h2_has_another_rate(self):
        (row,) = rows(
            PP,
            *words("--schedule zb_h2 --stages 8 --microbatches 24 --chunks 1 --forward 29.718ms"),
            *words("--backward-input 29.444ms --backward-weight 19.927ms --transfer 0.527ms"),
        )
        self.assertAlmostEqual(float(row["bubble_rate"]), 0.0698, delta=0.5e-4)
        self.assertAlmostEqual(float(row["bubble_rate_makespan"]), 0.1003, delta=0.5e-4)
        self.assertEqual(row["peak_activations"], "15", "2 p - 1")

    def test_errors_say_what_to_type(self):
        given = "--forward 1ms --backward-input 1ms --backward-weight 1ms"
        for arguments, message in (
            ("--forward 1ms", "--backward-input is not given"),
            (f"{given} --schedule interleaved --stages 4 --microbatches 2", "type --microbatches 4"),
            (f"{given} --schedule 1f1b --chunks 2", "only interleaved gives a stage several chunks"),
            (f"{given} --transfer -1ms", '--transfer "-1ms" is not a duration'),
            (f"{given} --forward 0s", '--forward "0s" is not a duration'),
            (f"{given} --stages 0", '--stages "0" is not a number of stages'),
            (f"{given} --microbatches many", 'microbatches "many" is not a number of microbatches'),
            (f"{given} --placement serial", 'placement "serial" sets an order'),
            (f"{given} --layers gpt2-small:4@128", "--layers does not go with given durations"),
            (f"{given} --dtype f32", "--dtype does not go with given durations"),
            ("--forward kernel,1ms", "--backward-input is not given"),
        ):
            with self.subTest(arguments):
                ran = run(PP, *words(arguments), "--list")
                self.assertEqual((ran.returncode, ran.stdout), (2, ""))
                self.assertIn(message, ran.stderr)
                self.assertEqual(len(ran.stderr.splitlines()), 1)


class OnARealBackend(RunTest):
    def test_durations_are_kept(self):
        ran = run(
            PP,
            *words("--backend host --schedule 1f1b --stages 2 --microbatches 2 --min-samples 2 --max-samples 2"),
            *words("--forward 300us --backward-input 200us --backward-weight 100us --transfer 50us --format csv"),
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        (row,) = csv.DictReader(io.StringIO(ran.stdout))
        self.assertEqual((row["source"], row["backend"]), ("measured", "host"))
        self.assertEqual(float(row["t_forward"]), 300e-6)
        self.assertEqual(row["verify"], "not_applicable", "nothing is computed")
        # Nothing is faster than it was told to be: F0, to stage 1, F0, F1 or D0 there, and back.
        self.assertGreater(float(row["t_step"]), 2 * 600e-6)

    def test_durations_that_a_deadline_would_call_a_hang_are_refused(self):
        # Two stages of two microbatches of F + B + W = 6 s.
        pipeline = "--backend host --schedule 1f1b --stages 2 --microbatches 2 --backward-input 1s --backward-weight 1s"
        ddp = "--backend host --gradient-bytes 4MB --equal-buckets 4 --alpha 1s --wire-time 6s"
        for program, arguments, took, instead in (
            (PP, f"{pipeline} --forward 4s --deadline 20s", "24 s", "--deadline 48s"),
            (DDP, f"{ddp} --backward 100s", "110 s", "--deadline 220s"),
        ):
            with self.subTest(program.name):
                ran = run(program, *words(arguments), "--out", self.out)
                self.assertEqual((ran.returncode, ran.stdout), (2, ""), ran.stderr)
                self.assertIn(f"take up to {took} a replay", ran.stderr)
                self.assertIn(f"; type {instead}\n", ran.stderr)
                self.assertEqual(len(ran.stderr.splitlines()), 1)
                self.assertFalse(self.out.exists())
                longer = run(program, *words(f"{arguments} {instead} --list"))
                self.assertEqual(longer.returncode, 0, longer.stderr)
                virtual = run(program, *words(arguments.replace("host", "model")))
                self.assertEqual(virtual.returncode, 0, "in virtual time nobody waits")


class Buckets(unittest.TestCase):
    def test_the_curve_to_its_printed_digits(self):
        vectors = golden.rows("ddp_bucket_curve.tsv")
        for (backward, wire, alpha), group in itertools.groupby(
            vectors, key=lambda v: (v["backward"], v["wire"], v["alpha"])
        ):
            of_curve = {v["buckets"]: v for v in group}
            found = rows(
                DDP,
                *("--backward", backward + "ms", "--gradient-bytes", "14GB", "--alpha", alpha + "ms"),
                *("--wire-time", wire + "ms", "--equal-buckets", ",".join(of_curve)),
            )
            self.assertEqual([row["buckets"] for row in found], list(of_curve))
            for row in found:
                vector = of_curve[row["buckets"]]
                with self.subTest(vector):
                    self.assertEqual((row["status"], row["source"]), ("ok", "model"))
                    self.assertAlmostEqual(1e3 * float(row["t_step"]), float(vector["step"]), delta=0.5e-4)
                    for column in ("t_exposed", "t_tail", "t_exposed_formula"):
                        self.assertAlmostEqual(1e3 * float(row[column]), float(vector["exposed"]), delta=0.5e-4)

    def test_errors_say_what_to_type(self):
        for arguments, message in (
            ("--backward 100ms", "--gradient-bytes is not given"),
            ("--backward 100ms --gradient-bytes 14GB --alpha 0 --wire-time 0 --equal-buckets 0", 'equal-buckets "0"'),
            ("--backward 0 --gradient-bytes 14GB --alpha 0 --wire-time 0 --equal-buckets 1", '--backward "0"'),
            ("--backward 1s --bucket 25MiB", "--bucket does not go with given durations: they take the place of"),
            ("--backward 1s --layers gpt2-small:4@128", "--layers does not go with given durations"),
        ):
            with self.subTest(arguments):
                ran = run(DDP, *words(arguments), "--list")
                self.assertEqual((ran.returncode, ran.stdout), (2, ""))
                self.assertIn(message, ran.stderr)


if __name__ == "__main__":
    unittest.main()
