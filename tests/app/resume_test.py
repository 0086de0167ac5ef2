# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a run, and whenever: finished cases stay, the files parse, and --resume measures the rest, once."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import time
import unittest
from pathlib import Path

from binaries import ENVIRONMENT, PAIR, PATIENCE, TINY, RunTest, is_locked, run, start, table, wait_for, wait_until_unlocked

PLACEMENTS = ["concurrent", "serial", "comm_first", "compute_first"]
SIX = ["--collective", "all_reduce,broadcast", "--placement", "concurrent,serial,comm_first"]
TWO = ["--placement", "concurrent,serial"]


class Interrupted(RunTest):
    def interrupt(self, number):
        run_under_way = start(*TINY, *SIX, "--out", self.out)
        wait_for(run_under_way, "[1/6]")  # its first case is finished
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
                self.assertTrue(1 <= len(kept) < 6)
                self.assertRegex(last, r"\Aoverlap-pair: interrupted: .+; continue with: \S*overlap-pair .+ --resume\Z")
                again = last.split("continue with: ")[1]
                ran = subprocess.run(again, shell=True, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertIn(f"{len(kept)} of 6 cases are finished already", ran.stderr)
                self.assert_complete(cases=6)
                self.assertEqual(self.summary()[: len(kept)], kept)

    def test_a_finished_run_is_printed_again_and_measures_nothing(self):
        words = [*TINY, *TWO, "--out", self.out, "--format", "csv"]
        first = run(PAIR, *words)
        samples = (self.out / "samples.csv").read_bytes()
        again = run(PAIR, *words, "--resume")
        self.assertEqual((again.returncode, again.stdout), (0, first.stdout))
        self.assertEqual((self.out / "samples.csv").read_bytes(), samples)

    def test_other_settings_are_refused(self):
        self.assertEqual(run(PAIR, *TINY, "--placement", "serial", "--out", self.out).returncode, 0)
        ran = run(PAIR, *TINY, "--placement", "serial", "--seed", "7", "--out", self.out, "--resume")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("seed: was 1, is 7", ran.stderr)


class Killed(RunTest):
    def test_at_any_moment(self):
        """Twelve cases, killed up to 25 times, at moments from the start of the process to its second case."""
        words = [*TINY, "--collective", "all_reduce,broadcast,all_to_all", "--placement", ",".join(PLACEMENTS)]
        moments = random.Random(2)
        finished = 0
        for attempt in range(25):
            more = ["--resume"] if (self.out / "run.json").exists() else []
            victim = start(*words, "--out", self.out, *more, stderr=subprocess.DEVNULL)
            try:
                self.assertEqual(victim.wait(moments.uniform(0, 0.8)), 0)
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
        ran = run(PAIR, *words, "--out", self.out, *more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=12)


class Launches(RunTest):
    words = [*TINY, *TWO, "--launches", "3"]

    def test_every_launch_measures_every_case(self):
        ran = run(PAIR, *self.words, "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=2, launches=3)
        rows = table(self.out / "launches.csv")
        self.assertEqual([row["launches"] for row in rows], ["3", "3"])
        self.assertIn("Between launches", ran.stdout)
        self.assertIn("launch 3 of 3", ran.stderr)

    def resume(self):
        ran = run(PAIR, *self.words, "--out", self.out, "--resume")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=2, launches=3)
        self.assertEqual(len(table(self.out / "launches.csv")), 2)

    def parent(self):
        """A run in its first launch, with a case finished."""
        process = start(*self.words, "--out", self.out)
        wait_for(process, "[1/2]")
        return process

    def test_an_interrupt_of_the_parent_leaves_nobody_behind(self):
        parent = self.parent()
        parent.send_signal(signal.SIGINT)
        _, err = parent.communicate(timeout=PATIENCE)
        self.assertEqual(parent.returncode, 130, err)
        self.assertIn("continue with: ", err.splitlines()[-1])
        self.assertFalse(is_locked(self.out))
        self.resume()

    def test_a_launch_does_not_go_on_for_ever_when_its_parent_is_killed(self):
        parent = self.parent()
        parent.kill()
        parent.communicate(timeout=PATIENCE)  # its standard error, which the launch has too
        wait_until_unlocked(self.out)
        self.resume()

    def test_a_launch_that_is_killed_ends_the_run(self):
        parent = self.parent()
        (launch,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        os.kill(int(launch), signal.SIGKILL)
        _, err = parent.communicate(timeout=PATIENCE)
        self.assertEqual(parent.returncode, 1)
        self.assertRegex(err.splitlines()[-1], "launch 1 was killed by a signal: Killed; continue with: ")
        self.resume()


class NotWritable(RunTest):
    def test_a_full_disk_keeps_what_is_finished(self):
        """A limit of the size of files stands for the disk: the first case fits, the second does not."""
        self.assertEqual(run(PAIR, *TINY, "--placement", "serial", "--out", self.out).returncode, 0)
        kept = self.summary()
        limit = (self.out / "samples.csv").stat().st_size + 1000
        words = [*TINY, "--placement", "serial,concurrent", "--out", self.out, "--resume"]
        ran = run(PAIR, *words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertRegex(
            ran.stderr.splitlines()[-1],
            r"\Aoverlap-pair: cannot write \S+/samples\.csv: File too large; make room and type the same command with",
        )
        self.assertEqual(self.summary(), kept)
        self.assertEqual(len(table(self.out / "samples.csv")), len((self.out / "samples.csv").read_text().splitlines()) - 1)
        self.assertEqual(run(PAIR, *words).returncode, 0)
        self.assert_complete(cases=2)

    def test_a_place_where_nothing_can_be_written(self):
        ran = run(PAIR, *TINY, "--out", "/proc/overlap-run")
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"\Aoverlap-pair: cannot create /proc/overlap-run: .+; name a directory [^\n]+\n\Z")

    def test_a_directory_that_another_process_writes(self):
        first = start(*TINY, *SIX, "--out", self.out)
        wait_for(first, "[1/6]")
        ran = run(PAIR, *TINY, *SIX, "--out", self.out, "--resume")
        self.assertEqual(ran.returncode, 1)
        self.assertIn(f"process {first.pid} holds the lock", ran.stderr)
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=PATIENCE)

    def test_output_that_cannot_be_written_is_an_error_of_a_complete_run(self):
        with open("/dev/full", "w") as full:
            ran = run(PAIR, *TINY, *TWO, "--out", self.out, stdout=full, stderr=subprocess.PIPE, capture_output=False)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr.splitlines()[-1], r"\Aoverlap-pair: cannot write to standard output")
        self.assert_complete(cases=2)

    def test_readers_that_have_gone_do_not_end_a_run(self):
        for stream in ("stdout", "stderr"):
            with self.subTest(stream):
                self.out = self.folder / stream
                reader, writer = os.pipe()
                os.close(reader)
                other = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | {stream: writer}
                ran = run(PAIR, *TINY, *TWO, "--out", self.out, capture_output=False, **other)
                os.close(writer)
                self.assertEqual(ran.returncode, 1 if stream == "stdout" else 0)
                self.assert_complete(cases=2)

    def test_closed_standard_streams_are_not_taken_for_tables(self):
        command = f'exec "$0" "$@" >&- 2>&-'
        ran = subprocess.run(["sh", "-c", command, PAIR, *TINY, *TWO, "--out", self.out], env=ENVIRONMENT, timeout=PATIENCE)
        self.assertEqual(ran.returncode, 0)
        self.assert_complete(cases=2)


if __name__ == "__main__":
    unittest.main()
