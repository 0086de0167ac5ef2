# SPDX-License-Identifier: Apache-2.0
"""A run of contentions whose every number can be checked by hand. Nothing was measured.

The matrix: a GEMM and an elementwise pass beside an occupied core and a stream. The load curve: streams of 2, 4 and
8 GB/s that win 0.5, 0.2 and lose 0.2. The budget: 1, 2, 4 and 8 channels, of which 8 cost more than 4 and give less.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import synthetic

FIGURES = ("attribution", "contention_matrix", "load_curve", "sm_budget")

_columns = synthetic._columns
SCHEMAS: dict[str, Any] = {
    "summary": {
        "version": 1,
        "columns": synthetic.SCHEMAS["summary"][:-12]
        + _columns(
            "study:t victim:t aggressor:t dtype:t workers:i sm_target:i device_connections:i units_held:i t_victim:s* "
            "t_victim_loaded:s* victim_slowdown:1* victim_coverage:1 t_aggressor:s* t_aggressor_loaded:s* "
            "aggressor_slowdown:1* aggressor_coverage:1 overlap_gain:1 share_model:1 bandwidth_model:1 "
            "memory_bandwidth:B/s pace_asked:B/s pace_alone:B/s pace_loaded:B/s gemm_rate:FLOP/s "
            "gemm_rate_loaded:FLOP/s gemm_tiles:i gemm_waves:i bus_bandwidth:B/s bus_bandwidth_loaded:B/s lost:s* "
            "lost_dependencies:s* lost_start_delay:s* lost_compute_slowdown:s* lost_comm_slowdown:s* lost_clock_drop:s "
            "lost_waiting:s* lost_remainder:s* launch_cost:s* compute_repeat:i comm_repeat:i cover:i "
            "rounds_uncovered:i"
        ),
    }
}

MATRIX = {  # victim, aggressor -> slowdown of each; None: it only holds
    ("gemm:512x512x512", "occupy:1"): (1.02, None),
    ("gemm:512x512x512", "stream:max@64MiB"): (1.10, 1.05),
    ("elementwise:64MiB", "occupy:1"): (1.01, None),
    ("elementwise:64MiB", "stream:max@64MiB"): (1.80, 1.90),
}
CURVE = ((2e9, 1.1, 0.5), (4e9, 1.4, 0.2), (8e9, 2.0, -0.2))  # pace, the victim's slowdown, gain
BUDGET = ((1, 1.0, 10e9), (2, 1.1, 18e9), (4, 1.5, 20e9), (8, 2.0, 19e9))  # channels, slowdown, bus bandwidth


def build(directory: Path, *, source: str = "measured") -> Path:
    directory.mkdir(parents=True)
    about = {
        "identity": {
            "bench": "contention",
            "build": {"version": "0.1.0", "release": True},
            "backend": {"name": "host", "device": "synthetic $device$, no machine"},
        },
        "run": {"date": "2000-01-01T00:00:00Z"},
        "tables": SCHEMAS,
    }
    (directory / "run.json").write_text(json.dumps(about), encoding="utf-8")
    rows = [
        _row(source, "matrix", victim, aggressor, slowed, aggressor_slowdown=other)
        for (victim, aggressor), (slowed, other) in MATRIX.items()
    ]
    rows += [
        _row(source, "load_curve", "elementwise:64MiB", f"stream:{pace}", s, pace_alone=pace, overlap_gain=gain)
        for pace, s, gain in CURVE
    ]
    rows += [
        _row(source, "sm_budget", "gemm:512x512x512", "all_reduce:16MiB", s, channels_asked=c, bus_bandwidth_loaded=bus)
        for c, s, bus in BUDGET
    ]
    names = [column["name"] for column in SCHEMAS["summary"]["columns"]]
    with (directory / "summary.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return directory


def _row(source: str, study: str, victim: str, aggressor: str, slowed: float, **more: Any) -> dict[str, Any]:
    """Of 10 ms ideal 4 ms were lost: 3 to a slowed GEMM, 2 that nobody knows of, and 1 that was gained in between."""
    channels = more.get("channels_asked", 0)
    row = {
        "key": f"contention study={study} victim={victim} aggressor={aggressor} channels={channels}",
        "bench": "contention",
        "launch": 0,
        "status": "ok",
        "source": source,
        "placement": "partitioned",
        "rounds": 20,
        "study": study,
        "victim": victim,
        "aggressor": aggressor,
        "sm_target": 0,
        "t_ideal": 10e-3,
        "victim_slowdown": slowed,
        "victim_slowdown_low": 0.99 * slowed,
        "victim_slowdown_high": 1.01 * slowed,
        "lost": 4e-3,
        "lost_low": 3e-3,
        "lost_high": 5e-3,
        "lost_dependencies": -1e-3,
        "lost_compute_slowdown": 3e-3,
        "lost_comm_slowdown": 0,
        "lost_remainder": 2e-3,
    }
    return row | {name: value for name, value in more.items() if value is not None}
