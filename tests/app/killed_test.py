# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments: what is finished stays, the files parse, nobody is left behind, --resume measures the
rest.

OVL_KILLS=200 tries as many (default 12), OVL_KILL_SEED another sequence of moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import unittest
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aftermath import left_behind, mark, measured_twice, orphans, rows_of, tell, unsound
from binaries import ENVIRONMENT, PAIR, PATIENCE, TINY, RunTest, wait_until_unlocked, words
from processes_test import SMALL, environment, free_port

KILLS = int(os.environ.get("OVL_KILLS", "12"))
SEED = int(os.environ.get("OVL_KILL_SEED", "1"))


@dataclass
class Job:
    """Processes of one run; the first one's standard error is read."""

    processes: list[subprocess.Popen[str]]
    marked: dict[str, str]

    @staticmethod
    def start(count: int, *arguments: str | Path, env: dict[str, str]) -> Job:
        marked = mark()
        port = str(free_port())
        started = []
        for process in range(count):
            launcher = {}
            if count > 1:
                launcher = {"RANK": str(process), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1"}
                launcher |= {"MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
            started.append(
                subprocess.Popen(
                    [PAIR, *arguments],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE if process == 0 else subprocess.DEVNULL,
                    text=True,
                    env=env | launcher | marked,
                )
            )
        return Job(started, marked)

    def wait(self) -> tuple[list[int], str]:
        """Exit codes, and what the first said."""
        _, said = self.processes[0].communicate(timeout=PATIENCE)
        return [process.wait(PATIENCE) for process in self.processes], said

    def has_ended(self) -> bool:
        return all(process.poll() is not None for process in self.processes)


@dataclass
class Kind:
    """How a run is started, and whom a kill hits."""

    name: str
    start: Callable[[list[str | Path]], Job]
    cases: int
    launches: int
    victims: Callable[[Job, random.Random], list[int]]


def all_of(job: Job, _: random.Random) -> list[int]:
    return [process.pid for process in job.processes]


def one_of(job: Job, chance: random.Random) -> list[int]:
    return [chance.choice(job.processes).pid]


def parent_or_launch(job: Job, chance: random.Random) -> list[int]:
    there = left_behind(job.marked)
    return [chance.choice(there)] if there else []


HOST = [*TINY, *words("--collective all_reduce,broadcast --placement concurrent,serial")]
LAUNCHES = [*TINY, *words("--placement concurrent,serial --launches 2")]
SEVERAL = [*SMALL, *words("--bytes 64,128,256 --max-samples 40 --min-samples 40")]
SCRIPTED = environment()
KINDS = (
    Kind("one process", lambda more: Job.start(1, *HOST, *more, env=ENVIRONMENT), 4, 1, all_of),
    Kind(
        "a parent or its launch", lambda more: Job.start(1, *LAUNCHES, *more, env=ENVIRONMENT), 2, 2, parent_or_launch
    ),
    Kind("one of two", lambda more: Job.start(2, *SEVERAL, *more, env=SCRIPTED), 6, 1, one_of),
    Kind("all of two", lambda more: Job.start(2, *SEVERAL, *more, env=SCRIPTED), 6, 1, all_of),
)


class Killed(RunTest):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.counts: Counter[str] = Counter(dict.fromkeys(("kills", "rows lost", "orphans", "unsound files"), 0))

    def test_at_any_moment(self):
        for number, kind in enumerate(KINDS):
            with self.subTest(kind.name):
                self.kill(kind, KILLS * (number + 1) // len(KINDS) - KILLS * number // len(KINDS))
        tell("kill -9", self.counts)
        self.assertEqual(self.counts["kills"], KILLS)

    def begin(self, kind: Kind) -> Job:
        more = ["--resume"] if (self.out / "run.json").exists() else []
        return kind.start(["--out", self.out, *more])

    def kill(self, kind: Kind, kills: int):
        """Runs of one kind, each resumed until it is complete, until so many kills were tried in the midst of one."""
        began = time.monotonic()
        self.out = self.folder / f"{kind.name} whole"
        codes, said = self.begin(kind).wait()
        self.assertEqual(set(codes), {0}, said)
        whole = set(rows_of(self.out))
        self.assertEqual(len(whole), kind.cases * kind.launches)
        length = time.monotonic() - began

        done = runs = 0
        while done < kills:
            runs += 1
            self.out = self.folder / f"{kind.name} {runs}"
            while done < kills and self.killed_once(kind, whole, length):
                done += 1
            codes, said = self.begin(kind).wait()
            self.assertEqual(set(codes), {0}, said)
            self.assertEqual(set(rows_of(self.out)), whole)
            self.assertFalse(measured_twice(self.out))
            self.assert_complete(cases=kind.cases, launches=kind.launches)
            self.counts["runs completed by --resume"] += 1

    def killed_once(self, kind: Kind, whole: set[tuple[str, str]], length: float) -> bool:
        """Whether a run was there to be killed; else it came to its end before."""
        before = rows_of(self.out)
        job = self.begin(kind)
        until = time.monotonic() + self.chance.uniform(0, length)
        while time.monotonic() < until and not job.has_ended():
            time.sleep(0.002)
        hit = [] if job.has_ended() else kind.victims(job, self.chance)
        for victim in hit:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                hit = []
        _, said = job.wait()
        self.counts["orphans"] += len(there := orphans(job.marked))
        self.assertEqual(there, [], f"{kind.name}: processes that a kill left behind; {said}")
        if self.out.exists() and (self.out / "lock").exists():
            wait_until_unlocked(self.out)
        wrong = unsound(self.out)
        self.counts["unsound files"] += len(wrong)
        self.assertEqual(wrong, [])
        after = rows_of(self.out)
        # A case is told of when it is finished: no more may be missing than the one that was under way.
        told = sum(line.startswith("[") for line in said.splitlines())
        lost = max(0, len(before) + told - len(after)) + sum(after.get(key) != row for key, row in before.items())
        self.counts["rows lost"] += lost
        self.assertEqual(lost, 0, f"{kind.name}: {said}")
        self.assertLessEqual(set(after), whole)
        self.counts["kills"] += bool(hit)
        return bool(hit)


if __name__ == "__main__":
    unittest.main()
