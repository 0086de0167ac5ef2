# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a run, and whenever: finished cases stay, the files parse, and --resume measures the rest, once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import unittest

from binaries import (
    ENVIRONMENT,
    FOUR,
    PAIR,
    PATIENCE,
    TINY,
    TWO,
    RunTest,
    run,
    start,
    table,
    wait_for,
    words,
)


class Interrupted(RunTest):
    def interrupt(self, number):
        run_under_way = start(*TINY, *FOUR, "--out", self.out)
        wait_for(run_under_way, "[1/4]")  # its first case is finished
        run_under_way.send_signal(number)
        _, err = run_under_way.communicate(timeout=PATIENCE)
        self.assertEqual(run_under_way.returncode, 130, err)
        return err.splitlines()[-1]

    def test_both_signals_end_it_with_the_command_that_goes_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                self.out = self.folder / f"it's {number.name}"  # a name that a shell must see quoted
                last = self.interrupt(number)
                kept = self.summary()
                self.assertTrue(1 <= len(kept) < 4)
                self.assertRegex(last, r"\Aoverlap-pair: interrupted: .+; continue with: \S*overlap-pair .+ --resume\Z")
                again = last.split("continue with: ")[1]
                ran = subprocess.run(
                    again, shell=True, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT
                )
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertIn(f"{len(kept)} of 4 cases are finished already", ran.stderr)
                self.assert_complete(cases=4)
                self.assertEqual(self.summary()[: len(kept)], kept)

    def test_a_finished_run_is_printed_again_and_measures_nothing(self):
        command = [*TINY, *TWO, "--out", self.out, "--format", "csv"]
        first = run(PAIR, *command)
        samples = (self.out / "samples.csv").read_bytes()
        again = run(PAIR, *command, "--resume")
        self.assertEqual((again.returncode, again.stdout), (0, first.stdout))
        self.assertEqual((self.out / "samples.csv").read_bytes(), samples)

    def test_tables_that_were_changed_are_refused(self):
        command = [*TINY, *TWO, "--out", self.out]
        self.assertEqual(run(PAIR, *command).returncode, 0)
        samples, summary = ((self.out / name).read_text() for name in ("samples.csv", "summary.csv"))
        lines = samples.splitlines(keepends=True)
        (step,) = {row["t_step"] for row in self.summary()[:1]}
        for name, text, complaint in (
            ("samples.csv", "".join(lines[:-1]), "has samples of 1 ranks and others of 2"),
            ("samples.csv", "".join(lines[:-2]), "have samples of different rounds"),
            ("summary.csv", summary.replace(step, "0.125"), "its row says t_step 0.125, the median of its samples is"),
        ):
            with self.subTest(complaint):
                (self.out / "samples.csv").write_text(samples)
                (self.out / "summary.csv").write_text(summary)
                (self.out / name).write_text(text)
                ran = run(PAIR, *command, "--resume")
                self.assertEqual((ran.returncode, ran.stdout), (1, ""), ran.stderr)
                self.assertIn(f"summary.csv and samples.csv of {self.out} do not go together: ", ran.stderr)
                self.assertIn(complaint, ran.stderr)
                self.assertEqual(len(ran.stderr.splitlines()), 1)
        (self.out / "summary.csv").write_text(summary)
        (self.out / "samples.csv").unlink()
        ran = run(PAIR, *command, "--resume")
        self.assertEqual((ran.returncode, ran.stdout), (1, ""), ran.stderr)
        self.assertIn("its samples.csv is missing", ran.stderr)

    def test_other_settings_are_refused(self):
        self.assertEqual(run(PAIR, *TINY, "--placement", "serial", "--out", self.out).returncode, 0)
        ran = run(PAIR, *TINY, "--placement", "serial", "--seed", "7", "--out", self.out, "--resume")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("seed: was 1, is 7", ran.stderr)


class Killed(RunTest):
    def test_at_any_moment(self):
        """Twelve cases, killed up to 25 times, at moments from the start of the process to its second case."""
        twelve = [*TINY, *words("--collective all_reduce,broadcast,all_to_all"), *FOUR]
        moments = random.Random(2)
        finished = 0
        for attempt in range(25):
            more = ["--resume"] if (self.out / "run.json").exists() else []
            victim = start(*twelve, "--out", self.out, *more, stderr=subprocess.DEVNULL)
            try:
                self.assertEqual(victim.wait(moments.uniform(0, 0.6)), 0)
                break
            except subprocess.TimeoutExpired:
                victim.kill()
                victim.wait()
            rows = self.summary()
            self.assertGreaterEqual(len(rows), finished, f"attempt {attempt} lost a case")
            finished = len(rows)
            table(self.out / "samples.csv")
            if (self.out / "run.json").exists():
                json.loads((self.out / "run.json").read_text())
        more = ["--resume"] if (self.out / "run.json").exists() else []
        ran = run(PAIR, *twelve, "--out", self.out, *more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=12)


if __name__ == "__main__":
    unittest.main()
