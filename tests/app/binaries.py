# SPDX-License-Identifier: Apache-2.0
"""The executables of this build, run as a user runs them. Shared by the tests of this folder."""

from __future__ import annotations

import csv
import fcntl
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["OVL_BUILD_DIR"])
PAIR = BUILD / "bin" / "overlap-pair"
COLLECTIVE = BUILD / "bin" / "overlap-collective"
SELFCHECK = BUILD / "bin" / "overlap-selfcheck"
PATIENCE = 240  # seconds, for sanitizers on a busy machine: nothing is expected to take that long

# What OpenBLAS reads would change what is measured, and what resume compares.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "OMP_"))}


def words(line: str) -> list[str]:
    return line.split()


# Cases of a moment. A build that is not Release also writes.
QUICK = words("--allow-debug --min-samples 3 --max-samples 4 --max-time 1s --precision 10 --window 50us")
TINY = [*words("--gemm 64x64x64 --bytes 16KiB"), *QUICK]
TWO = words("--placement concurrent,serial")
FOUR = words("--placement concurrent,serial,comm_first,compute_first")


def run(program: Path, *arguments: str | Path, **more) -> subprocess.CompletedProcess[str]:
    more = {"capture_output": True, "text": True, "timeout": PATIENCE, "env": ENVIRONMENT} | more
    return subprocess.run([program, *arguments], **more)


def start(*arguments: str | Path, **more) -> subprocess.Popen[str]:
    """A run of overlap-pair under way, its standard error a pipe."""
    more = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT} | more
    return subprocess.Popen([PAIR, *arguments], **more)


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Until a line of its standard error holds `text`."""
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f'it ended without saying "{text}"')


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; a last line without its end was being written when the writer died."""
    text = path.read_text() if path.exists() else ""
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def wait_until_unlocked(directory: Path) -> None:
    """Until no process has the run directory any more. The lock goes with the last one, whatever killed the others."""
    with (directory / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def is_locked(directory: Path) -> bool:
    with (directory / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class RunTest(unittest.TestCase):
    """Has a folder of its own, self.folder, and a run directory in it that is not there yet, self.out."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "run"

    def summary(self) -> list[dict[str, str]]:
        return table(self.out / "summary.csv")

    def assert_complete(self, cases: int, launches: int = 1):
        """Every case of every launch is finished, once, and its samples are there, once."""
        rows = self.summary()
        done = [(row["key"], row["launch"]) for row in rows]
        self.assertEqual(len(done), len(set(done)), "a case was finished twice")
        self.assertEqual(len(done), cases * launches)
        self.assertEqual({launch for _, launch in done}, {str(launch) for launch in range(launches)})
        self.assertLessEqual({row["status"] for row in rows}, {"ok", "noisy"})
        samples = table(self.out / "samples.csv")
        seen = [tuple(row[c] for c in ("key", "launch", "round", "arm", "rank")) for row in samples]
        self.assertEqual(len(seen), len(set(seen)), "a sample was measured twice")
        self.assertEqual({(row["key"], row["launch"]) for row in samples}, set(done))
