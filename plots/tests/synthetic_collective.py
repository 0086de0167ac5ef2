# SPDX-License-Identifier: Apache-2.0
"""A run of collectives whose every number can be checked by hand, and a machine description. Nothing was measured.

Eight sizes from 1 KiB to 16 MiB in fours. Idle 20 µs + bytes / 100 GB/s, beside a GEMM 30 µs + bytes / 50 GB/s; of
all_reduce on 2 ranks, where bus and algorithm bandwidth are one.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import synthetic

SIZES = tuple(1024 * 4**i for i in range(8))
IDLE = (20e-6, 1e-11)  # alpha, beta
LOADED = (30e-6, 2e-11)

_columns = synthetic._columns
SCHEMAS: dict[str, Any] = {
    "summary": {
        "version": 1,
        "columns": synthetic.SCHEMAS["summary"][:-12]
        + _columns(
            "collective:t bytes:i dtype:t in_place:i gemm:t algorithm_bandwidth:B/s bus_bandwidth:B/s t_rank_min:s "
            "t_rank_median:s t_rank_max:s t_loaded:s* bus_bandwidth_loaded:B/s coverage:1 gemm_repeat:i "
            "rounds_uncovered:i"
        ),
    },
    "fits": {
        "version": 2,
        "columns": _columns(
            "file:t series:t source:t collective:t dtype:t op:t ranks:i in_place:i load:t method:t segments:i "
            "breakpoint_bytes:B alpha_s:s beta_s_per_byte:s/B bus_bandwidth:B/s median_relative_error:1 "
            "max_relative_error:1 points:i chosen:i held_out_median_relative_error:1 held_out_max_relative_error:1 "
            "half_performance_bytes:B launches:i alpha_s_low:s alpha_s_high:s beta_s_per_byte_low:s/B "
            "beta_s_per_byte_high:s/B half_performance_bytes_low:B half_performance_bytes_high:B alpha_agree:i "
            "beta_agree:i verdict:t"
        ),
    },
}


def build(directory: Path, *, loaded: bool = True, collective: str = "all_reduce", source: str = "measured") -> Path:
    directory.mkdir(parents=True)
    about = {
        "identity": {
            "bench": "collective",
            "build": {"version": "0.1.0", "release": True},
            "backend": {"name": "host", "device": "synthetic $device$, no machine"},
        },
        "run": {"date": "2000-01-01T00:00:00Z"},
        "tables": SCHEMAS,
    }
    (directory / "run.json").write_text(json.dumps(about), encoding="utf-8")
    write(directory, "summary", [summary_row(size, collective, source, loaded) for size in SIZES])
    loads = [("idle", IDLE), ("loaded", LOADED)] if loaded else [("idle", IDLE)]
    write(directory, "fits", [row for load, line in loads for row in fit_rows(collective, source, load, *line)])
    return directory


def write(directory: Path, table: str, rows: list[dict[str, Any]]) -> None:
    names = [column["name"] for column in SCHEMAS[table]["columns"]]
    with (directory / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def summary_row(size: int, collective: str, source: str, loaded: bool) -> dict[str, Any]:
    time = IDLE[0] + IDLE[1] * size
    row = {
        "key": f"collective collective={collective} bytes={size} dtype=f32",
        "bench": "collective",
        "launch": 0,
        "status": "ok",
        "source": source,
        "ranks": 2,
        "collective": collective,
        "bytes": size,
        "dtype": "f32",
        "in_place": 0,
        "rounds": 20,
        "t_comm": time,
        "t_comm_low": 0.99 * time,
        "t_comm_high": 1.01 * time,
        "bus_bandwidth": size / time,
    }
    return row | ({"t_loaded": LOADED[0] + LOADED[1] * size} if loaded else {})


def fit_rows(collective: str, source: str, load: str, alpha: float, beta: float) -> list[dict[str, Any]]:
    """One line, which paid; two, which did not."""
    common = {
        "series": f"collective collective={collective} dtype=f32",
        "source": source,
        "collective": collective,
        "dtype": "f32",
        "ranks": 2,
        "in_place": 0,
        "load": load,
        "method": "relative",
        "alpha_s": alpha,
        "beta_s_per_byte": beta,
        "median_relative_error": 0,
        "max_relative_error": 0,
        "points": len(SIZES),
        "launches": 5,
    }
    ends = {
        "alpha_s_low": 0.9 * alpha,
        "alpha_s_high": 1.1 * alpha,
        "beta_s_per_byte_low": 0.8 * beta,
        "beta_s_per_byte_high": 1.25 * beta,
    }
    return [
        common | ends | {"segments": 1, "chosen": 1},
        common | {"segments": 2, "chosen": 0},
        common | {"segments": 2, "chosen": 0, "breakpoint_bytes": 65536},
    ]


def machine(name: str = "synthetic-2", kind: str = "imported", *, points: bool = True, **more: Any) -> dict[str, Any]:
    """Two lines: 10 µs + bytes / 10 GB/s, and from 64 KiB on 15 µs + bytes / 40 GB/s."""
    sizes = [1024 * 4**i for i in range(7)]
    times = [10e-6 + s / 10e9 if s < 65536 else 15e-6 + s / 40e9 for s in sizes]
    cost: dict[str, Any] = {
        "collective": "all_reduce",
        "dtype": "f32",
        "op": "sum",
        "ranks": 4,
        "in_place": False,
        "origin": "run",
        "segments": [
            {"from_bytes": 0, "alpha_s": {"value": 10e-6, "low": 9e-6, "high": 12e-6}, "beta_s_per_byte": 1e-10},
            {"from_bytes": 65536, "alpha_s": 15e-6, "beta_s_per_byte": 2.5e-11},
        ],
        "least_bytes": sizes[0],
        "most_bytes": sizes[-1],
        "median_relative_error": 0.0,
        "max_relative_error": 0.0,
    }
    if points:
        cost["points"] = [list(point) for point in zip(sizes, times, strict=True)]
    return {
        "format": "overlapbench machine",
        "version": 1,
        "name": name,
        "fabric": "synthetic fabric",
        "device": "no device",
        "origins": [{"id": "run", "kind": kind, "source": "nowhere", "sha256": "0" * 64}],
        "rates": [],
        "collectives": [cost | more],
        "contention": [],
    }
