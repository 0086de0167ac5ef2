# SPDX-License-Identifier: Apache-2.0
"""overlap-pair on the model backend: predictions, labelled as such, the same every time."""

from __future__ import annotations

import csv
import io
import json
import unittest

from binaries import COLLECTIVE, PAIR, RunTest, run, words

CASE = words(
    "--backend model --gemm 1280x1280x1280 --collective all_reduce --bytes 64MiB --placement concurrent,serial"
)

# 100 TFLOP/s, 1 TB/s; an all_reduce of two ranks takes 100 us and 10 ps a byte.
MACHINE = {
    "format": "overlapbench machine",
    "version": 1,
    "name": "made-up",
    "fabric": "none",
    "device": "none",
    "origins": [{"id": "here", "kind": "published", "source": "this test"}],
    "rates": [
        {"name": "gemm_f32", "rate": 1e14, "origin": "here"},
        {"name": "memory", "rate": 1e12, "origin": "here"},
    ],
    "collectives": [
        {
            "collective": "all_reduce",
            "ranks": 2,
            "origin": "here",
            "segments": [{"from_bytes": 0, "alpha_s": 1e-4, "beta_s_per_byte": 1e-11}],
            "least_bytes": 1024,
            "most_bytes": 1e9,
        }
    ],
    "contention": [],
}


class Predicting(RunTest):
    def setUp(self):
        super().setUp()
        self.machine = self.folder / "machine.json"
        self.machine.write_text(json.dumps(MACHINE))

    def predict(self, *more) -> str:
        ran = run(PAIR, *CASE, "--machine", self.machine, "--format", "csv", *more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def test_a_pair_by_hand(self):
        rows = list(csv.DictReader(io.StringIO(self.predict())))
        gemm = 2 * 1280**3 / 1e14
        reduce = 1e-4 + 64 * 2**20 * 1e-11
        self.assertEqual([row["placement"] for row in rows], ["concurrent", "serial"])
        for row, step in zip(rows, [reduce, gemm + reduce], strict=True):
            with self.subTest(row["placement"]):
                self.assertEqual((row["status"], row["source"], row["backend"]), ("ok", "model", "model"))
                self.assertEqual((row["verify"], row["rounds"], row["repeats"]), ("not_applicable", "2", "1"))
                self.assertEqual(row["comm_path"], "measured")
                for column, expected in (("t_compute", gemm), ("t_comm", reduce), ("t_step", step)):
                    self.assertAlmostEqual(float(row[column]), expected, delta=1e-12)
                self.assertEqual(row["t_step"], row["t_step_low"])
                self.assertEqual(row["t_step"], row["t_step_high"])
        self.assertAlmostEqual(float(rows[0]["hidden_share"]), 1, delta=1e-9)
        self.assertAlmostEqual(float(rows[1]["hidden_share"]), 0, delta=1e-9)

    def test_it_is_the_same_every_time(self):
        def without_clock(text: str):
            return [
                {name: value for name, value in row.items() if name != "t_measure"}
                for row in csv.DictReader(io.StringIO(text))
            ]

        self.assertEqual(without_clock(self.predict()), without_clock(self.predict()))

    def test_more_ranks_than_anybody_has(self):
        (row, _) = csv.DictReader(io.StringIO(self.predict("--ranks", "1024")))
        self.assertEqual((row["status"], row["ranks"]), ("ok", "1024"))
        self.assertEqual(row["comm_path"], "scaled from all_reduce of 2 ranks")

    def test_more_ranks_than_a_case_takes_moments_for_are_refused(self):
        (row, _) = csv.DictReader(io.StringIO(self.predict("--ranks", "65536")))
        self.assertEqual((row["status"], row["ranks"]), ("ok", "65536"))
        ran = run(PAIR, *CASE, "--machine", self.machine, "--ranks", "200000")
        self.assertEqual(
            (ran.returncode, ran.stdout, ran.stderr),
            (2, "", "overlap-pair: ranks 200000: the model plays 1 to 65536; type a number in this range\n"),
        )

    def test_one_rank_has_no_bandwidth(self):
        sweep = words("--backend model --gemm none --bytes 1MiB,2MiB,4MiB,8MiB --ranks 1 --machine")
        ran = run(COLLECTIVE, *sweep, self.machine, "--format", "csv")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for row in csv.DictReader(io.StringIO(ran.stdout)):
            self.assertEqual((float(row["t_comm"]), row["algorithm_bandwidth"], row["bus_bandwidth"]), (0, "", ""))
            self.assertIn("takes no time, so it has no bandwidth", row["verdict"])
        text = run(COLLECTIVE, *sweep, self.machine).stdout
        self.assertNotIn("inf", text)
        self.assertIn("none: a line needs two different sizes", text)

    def test_a_run_directory_is_labelled(self):
        self.predict("--allow-debug", "--out", self.out)
        self.assertEqual({row["source"] for row in self.summary()}, {"model"})
        facts = json.loads((self.out / "run.json").read_text())
        self.assertIn("made-up", json.dumps(facts))


class Refusing(RunTest):
    def test_without_a_machine_only_given_durations(self):
        ran = run(PAIR, *CASE)
        self.assertEqual(ran.returncode, 3)
        self.assertIn("add --machine FILE", ran.stdout + ran.stderr)

    def test_a_machine_for_another_backend(self):
        ran = run(PAIR, *words("--backend host --machine machine.json"))
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--machine describes a machine to the model backend", ran.stderr)

    def test_bad_machine_files_name_file_field_and_need(self):
        path = self.folder / "bad.json"

        def spoilt(*keys, value):
            machine = json.loads(json.dumps(MACHINE))
            at = machine
            for key in keys[:-1]:
                at = at[key]
            at[keys[-1]] = value
            return machine

        for machine, field in [
            (spoilt("rates", 0, "rate", value=-1), "rates[0].rate"),
            (spoilt("rates", 0, "rate", value=None), "rates[0].rate"),
            (spoilt("version", value=99), "version"),
            (spoilt("collectives", 0, "segments", 0, "alpha_s", value="NaN"), "collectives[0].segments[0].alpha_s"),
        ]:
            with self.subTest(field):
                path.write_text(json.dumps(machine))
                ran = run(PAIR, *CASE, "--machine", path)
                self.assertEqual(ran.returncode, 2, ran.stdout)
                self.assertEqual(len(ran.stderr.splitlines()), 1)
                self.assertIn(str(path), ran.stderr)
                self.assertIn(field, ran.stderr)

    def test_a_machine_file_that_is_not_there(self):
        ran = run(PAIR, *CASE, "--machine", self.folder / "none.json")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("none.json", ran.stderr)


if __name__ == "__main__":
    unittest.main()
