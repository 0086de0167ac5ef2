#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a large run takes to be resumed, compared, checked and drawn: tests/soak/large_run.py [CASES] (default
100000).

One small case is measured; its rows are written again under other sizes until there are as many. Prints seconds and
memory of each program. Not part of scripts/test."""

from __future__ import annotations

import csv
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("OVL_BUILD_DIR", ROOT / "build" / "release"))
OPTIONS = "--gemm 64x64x64 --placement serial --ranks 2 --min-samples 3 --max-samples 3 --max-time 1s --window 50us"
CASE = [*OPTIONS.split(), "--precision", "10", "--allow-debug"]
TABLES = ("samples", "operations", "summary")


def enlarge(run: Path, cases: int) -> None:
    """The rows of its one case under as many sizes, from 2 KiB on."""
    for table in TABLES:
        path = run / f"{table}.csv"
        rows = list(csv.reader(path.read_text().splitlines()))
        header, body = rows[0], rows[1:]
        bytes_column = header.index("bytes") if table == "summary" else None
        with path.open("a", newline="") as file:
            for n in range(2, cases + 1):
                text = io.StringIO()
                writer = csv.writer(text, lineterminator="\n")
                for row in body:
                    again = [cell.replace("bytes=1KiB", f"bytes={n}KiB") for cell in row]
                    if bytes_column is not None:
                        again[bytes_column] = str(n * 1024)
                    writer.writerow(again)
                file.write(text.getvalue())
        print(f"large run: {table}.csv has {len(body) * cases} rows, {path.stat().st_size / 2**20:.0f} MiB")


def timed(what: str, *command: str | Path, limit: float) -> bool:
    """Whether it took longer than that many seconds."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "plots" / "src"), "MPLBACKEND": "Agg"}
    began = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    ran = subprocess.run(command, capture_output=True, text=True, env=env)
    seconds = time.monotonic() - began
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    memory = f"{most / 1024:.0f} MiB" if most > before else f"under {before / 1024:.0f} MiB"
    print(f"large run: {what}: {seconds:.1f} s, {memory}, exit code {ran.returncode}", flush=True)
    if ran.returncode != 0:
        print((ran.stdout + ran.stderr)[-2000:])
    return ran.returncode != 0 or seconds > limit


def main() -> int:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    limit = 60 * max(1.0, cases / 100_000)
    plots = (sys.executable, "-m", "overlap_plots")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        pair = BUILD / "bin" / "overlap-pair"
        subprocess.run([pair, *CASE, "--bytes", "1KiB", "--out", run], check=True, capture_output=True)
        enlarge(run, cases)
        late = [
            timed(
                "resumed",
                pair,
                *CASE,
                "--bytes",
                "1KiB,5GiB",
                "--benchmark_filter=1KiB",
                "--out",
                run,
                "--resume",
                limit=limit,
            ),
            timed("compared", BUILD / "bin" / "overlap-compare", run, run, limit=limit),
            timed("checked", *plots, "check", run, limit=limit),
            timed("drawn", *plots, "render", run, "--format", "png", limit=limit),
            timed("reported", *plots, "report", run, "-o", Path(folder) / "report.html", limit=limit),
        ]
    return 1 if any(late) else 0


if __name__ == "__main__":
    sys.exit(main())
