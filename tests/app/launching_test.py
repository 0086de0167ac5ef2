# SPDX-License-Identifier: Apache-2.0
"""--launches: a process for every launch, one run directory, and nobody left behind."""

from __future__ import annotations

import os
import signal
import unittest
from pathlib import Path

from binaries import (
    PAIR,
    PATIENCE,
    TINY,
    TWO,
    RunTest,
    is_locked,
    run,
    start,
    table,
    wait_for,
    wait_until_unlocked,
    words,
)

THREE = [*TINY, *TWO, *words("--launches 3")]


class Launches(RunTest):
    def test_every_launch_measures_every_case(self):
        ran = run(PAIR, *THREE, "--out", self.out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=2, launches=3)
        rows = table(self.out / "launches.csv")
        self.assertEqual([row["launches"] for row in rows], ["3", "3"])
        self.assertIn("Between launches", ran.stdout)
        self.assertIn("launch #2 of 3", ran.stderr)

    def resume(self):
        ran = run(PAIR, *THREE, "--out", self.out, "--resume")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_complete(cases=2, launches=3)
        self.assertEqual(len(table(self.out / "launches.csv")), 2)

    def parent(self):
        """A run in its first launch, with a case finished."""
        process = start(*THREE, "--out", self.out)
        wait_for(process, "[1/2]")
        return process

    def test_how_long_all_launches_take_is_said_once_beforehand(self):
        parent = start(*TINY, *TWO, *words("--launches 5 --max-time 10s"), "--out", self.out)
        wait_for(
            parent, "2 cases in each of 5 launches, each up to 10 s of rounds and some seconds around them: up to "
        )
        parent.send_signal(signal.SIGINT)
        _, err = parent.communicate(timeout=PATIENCE)
        self.assertNotIn("minutes", err, "not by each launch again")

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
        self.assertRegex(err.splitlines()[-1], "launch #0 was killed by a signal: Killed; continue with: ")
        self.resume()


if __name__ == "__main__":
    unittest.main()
