#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a large run takes to be resumed, compared, checked and drawn: tests/soak/large_run.py [ROWS] (100000).

One small case is measured; its rows are written again under other sizes until samples.csv has as many. Prints the
seconds of CPU time and the memory of each program; exit code 1 where one fails or takes a minute or more. Not part of
scripts/test."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("OVL_BUILD_DIR", ROOT / "build" / "release"))
OPTIONS = "--gemm 64x64x64 --placement serial --ranks 2 --min-samples 3 --max-samples 3 --max-time 1s --window 50us"
CASE = [*OPTIONS.split(), "--precision", "10", "--allow-debug"]
TABLES = ("samples", "operations", "summary")


def enlarge(run: Path, samples: int) -> None:
    """The rows of its one case under sizes from 2 KiB on."""
    cases = 0
    for table in TABLES:
        path = run / f"{table}.csv"
        header, *body = csv.reader(path.read_text().splitlines())
        cases = cases or samples // len(body)
        with path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for n in range(2, cases + 1):
                for row in body:
                    again = [cell.replace("bytes=1KiB", f"bytes={n}KiB") for cell in row]
                    if table == "summary":
                        again[header.index("bytes")] = str(n * 1024)
                    writer.writerow(again)
        print(f"large run: {table}.csv has {len(body) * cases} rows, {path.stat().st_size / 2**20:.0f} MiB")


def timed(what: str, *command: str | Path) -> bool:
    """Whether it failed or took too long."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "plots" / "src"), "MPLBACKEND": "Agg"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    seconds = used.ru_utime + used.ru_stime
    print(f"large run: {what}: {seconds:.1f} s, {used.ru_maxrss / 1024:.0f} MiB, exit code {code}", flush=True)
    return code != 0 or seconds >= 60


def main() -> int:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    plots = (sys.executable, "-m", "overlap_plots")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        pair = BUILD / "bin" / "overlap-pair"
        subprocess.run([pair, *CASE, "--bytes", "1KiB", "--out", run], check=True, capture_output=True)
        enlarge(run, rows)
        wrong = [
            timed("resumed", pair, *CASE, "--bytes", "1KiB,2KiB", "--resume", "--out", run),
            timed("compared", BUILD / "bin" / "overlap-compare", run, run),
            timed("checked", *plots, "check", run),
            timed("drawn", *plots, "render", run, "--format", "png"),
            timed("reported", *plots, "report", run, "-o", Path(folder) / "report.html"),
        ]
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
