#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether memory, file descriptors and threads stay flat: tests/soak/soak.py [MINUTES] (default 30; build/release).

Half of the time the quickstart's suite in a loop, a process a configuration as users run it; half of it one process
that measures case after case. Exit code 1 where the last look at either shows more than an early one. Not part of
scripts/test."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAIR = Path(os.environ.get("OVL_BUILD_DIR", ROOT / "build" / "release")) / "bin" / "overlap-pair"
CONFIGS = sorted((ROOT / "configs" / "quickstart").glob("*.toml"))
MOST_GROWTH = 1.05  # of memory, and these MiB: rows of finished cases stay in it
MOST_MIB = 8


@dataclass(frozen=True)
class Look:
    rss_mib: float = 0
    descriptors: int = 0
    threads: int = 0

    def __str__(self) -> str:
        return f"{self.rss_mib:.0f} MiB, {self.descriptors} descriptors, {self.threads} threads"

    def most(self, other: Look) -> Look:
        return Look(
            max(self.rss_mib, other.rss_mib),
            max(self.descriptors, other.descriptors),
            max(self.threads, other.threads),
        )

    def grew(self, later: Look) -> bool:
        more = later.rss_mib > self.rss_mib * MOST_GROWTH + MOST_MIB
        return more or later.descriptors > self.descriptors or later.threads > self.threads


def look_at(pid: int) -> Look:
    """Nothing of a process that has ended."""
    with contextlib.suppress(OSError, KeyError, ValueError):
        process = Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        rss = int(status["VmRSS"].split()[0]) / 1024
        return Look(rss, len(list((process / "fd").iterdir())), int(status["Threads"]))
    return Look()


def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([PAIR, *arguments, "--allow-debug"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def watched(process: subprocess.Popen[bytes], until: float) -> list[Look]:
    looks = []
    while process.poll() is None and time.monotonic() < until:
        looks.append(look_at(process.pid))
        time.sleep(0.05)
    return [each for each in looks if each.threads]


def suite(seconds: float, folder: Path) -> bool:
    """The most of each turn of the suite."""
    until = time.monotonic() + seconds
    turns: list[Look] = []
    while time.monotonic() < until:
        most = Look()
        for config in CONFIGS:
            process = start("--config", config, "--max-time", "1s", "--out", folder / f"{len(turns)} {config.stem}")
            for each in watched(process, float("inf")):
                most = most.most(each)
            if process.wait() != 0:
                raise SystemExit(f"soak: {config.name} ended with exit code {process.returncode} in turn {len(turns)}")
        turns.append(most)
    print(f"soak: the quickstart's suite, {len(turns)} times: at most {turns[0]} at first, {turns[-1]} at last")
    return turns[0].grew(turns[-1])


def one_process(seconds: float, folder: Path) -> bool:
    """What one process has after its first cases, and at the end of the time."""
    sizes = ",".join(f"{4 * n}KiB" for n in range(1, 2001))
    options = f"--gemm 64x64x64 --bytes {sizes} --placement concurrent,serial --min-samples 3 --max-samples 5"
    options += " --precision 10 --max-time 1s --window 50us"
    out = folder / "one process"
    process = start(*options.split(), "--out", out)
    looks = watched(process, time.monotonic() + seconds)
    process.terminate()
    process.wait()
    tenth = max(1, len(looks) // 10)
    first, last = Look(), Look()
    for each in looks[tenth : 2 * tenth]:
        first = first.most(each)
    for each in looks[-tenth:]:
        last = last.most(each)
    cases = len((out / "summary.csv").read_text().splitlines()) - 1
    print(f"soak: one process, {cases} cases: at most {first} in the second tenth, {last} in the last")
    return first.grew(last)


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as folder:
        grew = [part(minutes * 30, Path(folder)) for part in (suite, one_process)]
    print(f"soak: {'it grows' if any(grew) else 'flat'}")
    return 1 if any(grew) else 0


if __name__ == "__main__":
    sys.exit(main())
