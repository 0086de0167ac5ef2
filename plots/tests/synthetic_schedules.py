# SPDX-License-Identifier: Apache-2.0
"""Runs of the schedule benches whose every number can be checked by hand. Nothing in them was measured.

Times in milliseconds. A step computes for 10 and exposes what the case says, each interval ± 0.1. A model of 0.1 GFLOP
a step on a peak of 20 GFLOP/s: an MFU of 0.1 / (0.02 · step).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import synthetic

MS = 1e-3
FLOPS = 0.1e9

_columns = synthetic._columns
_COMMON = synthetic.SCHEMAS["summary"][:-12]
_STEP = _columns(
    "layers:t scale:1 dtype:t memory:i model_flops:FLOP hardware_flops:FLOP gemm_rate:FLOP/s t_tail:s* t_alone:s* "
    "t_launch:s t_event_wait:s t_gap:s rank_spread:s"
)
OWN = {
    "ddp": _columns(
        "bucket:t first_bucket:t last_bucket:t buckets:i gradient_bytes:i largest_bucket:i tail_bucket:i "
        "algorithm_bandwidth:B/s bus_bandwidth:B/s"
    ),
    "fsdp": _columns("prefetch:t in_flight:i communicators:i slots:i layer_bytes:i gathered_memory:i"),
    "tp": _columns("mode:t tiles:t tokens:i activation_bytes:i reduced_bytes:i bus_bandwidth:B/s"),
    "step": _columns(
        "tensor:i stages:i data:i schedule:t microbatches:i chunks:i mode:t bucket:t prefetch:t exposed_tensor:s* "
        "exposed_data:s* exposed_pipeline:s* exposed_together:s"
    ),
}
CHOICES = _columns(
    "series:t option:t values:i recommended:t best:t best_low:t best_high:t t_exposed:s* reference:t gain:s* "
    "predicted:t verdict:t"
)
OPERATIONS = synthetic.SCHEMAS["operations"]

# bucket, how many of them, t_comm and t_exposed: a wire of 4 ms and 0.1 ms a bucket.
DDP = (("tensor", 40, 8.0, 3.0), ("1MiB", 8, 4.8, 1.0), ("25MiB", 2, 4.2, 2.2), ("all", 1, 4.1, 4.1))
FSDP = ((0, 5.0), (1, 1.0), (2, 0.95))  # depth, t_exposed
STEP = ((8, 1, 4, 2.5), (1, 4, 8, 1.0))  # tensor, stages, data, t_exposed
TP = ((64, 1, 2.0), (64, 4, 3.0), (512, 1, 5.0), (512, 4, 2.0))  # tokens, tiles, t_exposed


def build(directory: Path, bench: str, *, choices: bool = True) -> Path:
    directory.mkdir(parents=True)
    tables = {"summary": _COMMON + OWN[bench] + _STEP, "choices": CHOICES, "operations": OPERATIONS}
    about = {
        "identity": {
            "bench": bench,
            "build": {"version": "0.1.0", "release": True},
            "backend": {"name": "host", "device": "synthetic $device$, no machine"},
        },
        "run": {"date": "2000-01-01T00:00:00Z"},
        "tables": {name: {"version": 1, "columns": columns} for name, columns in tables.items()},
    }
    (directory / "run.json").write_text(json.dumps(about), encoding="utf-8")
    rows, chosen = {"ddp": _ddp, "fsdp": _fsdp, "tp": _tp, "step": _step}[bench]()
    _write(directory, "summary", tables["summary"], rows)
    if choices:
        _write(directory, "choices", CHOICES, chosen)
    if bench == "ddp":
        _write(directory, "operations", OPERATIONS, _operations(rows[1]))
    return directory


def _write(directory: Path, table: str, columns: list[dict[str, str]], rows: list[dict[str, Any]]) -> None:
    with (directory / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [column["name"] for column in columns], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _row(bench: str, key: str, comm: float, exposed: float, **own: Any) -> dict[str, Any]:
    row = {
        "key": key,
        "bench": bench,
        "launch": 0,
        "status": "ok",
        "source": "measured",
        "backend": "host",
        "transport": "shm",
        "ranks": 2,
        "placement": "concurrent",
        "layers": "gpt2-small:4@128",
        "dtype": "f32",
        "rounds": 20,
        "repeats": 1,
        "model_flops": FLOPS,
        "hardware_flops": FLOPS,
        "gemm_rate": FLOPS / (10 * MS),
    }
    times = {"t_compute": 10.0, "t_comm": comm, "t_step": 10 + exposed, "t_exposed": exposed, "t_tail": 0.5}
    for name, time in times.items():
        row |= {name: time * MS, f"{name}_low": (time - 0.1) * MS, f"{name}_high": (time + 0.1) * MS}
    return row | own


def _step() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows = [
        _row("step", f"step tensor={t} stages={p}", 5.0, exposed, tensor=t, stages=p, data=d, mode="ddp")
        | {"schedule": "1f1b", "exposed_tensor": exposed * MS, "source": "model"}
        for t, p, d, exposed in STEP
    ]
    return rows, []


def _ddp() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows = [
        _row("ddp", f"ddp bucket={bucket} c=1", comm, exposed, bucket=bucket, buckets=n, gradient_bytes=40 << 20)
        for bucket, n, comm, exposed in DDP
    ]
    choice = {"series": "ddp c=1", "option": "bucket", "recommended": "1MiB", "best": "1MiB", "best_low": "1MiB"}
    return rows, [choice | {"best_high": "25MiB", "verdict": "1MiB exposes least; 25MiB exposes more"}]


def _fsdp() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows = [
        _row(
            "fsdp",
            f"fsdp prefetch={depth} c=1",
            8.0,
            exposed,
            prefetch=depth,
            in_flight=0,
            communicators=2,
            gathered_memory=(1 + depth) << 20,
        )
        for depth, exposed in FSDP
    ]
    return rows, [{"series": "fsdp c=1", "option": "prefetch", "recommended": "1", "best": "2", "verdict": "2 is best"}]


def _tp() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows = [
        _row(
            "tp",
            f"tp layers=x@{tokens} tiles={tiles} c=1",
            5.0,
            exposed,
            mode="all_reduce",
            tiles=tiles,
            tokens=tokens,
            activation_bytes=tokens << 10,
        )
        for tokens, tiles, exposed in TP
    ]
    return rows, []


def _operations(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the second case eight buckets, ready every millisecond from 1 on, reduced from half a millisecond later for
    one each, and one replay of rank 0. The last gradient is there at 8, so half of the last but one and all of the last
    reduction are in the tail; each optimizer step begins at 10 or later."""
    return [
        {
            "key": row["key"],
            "launch": 0,
            "arm": "overlapped",
            "replay": 0,
            "rank": 0,
            "lane": "comm",
            "op": 10 + nth,
            "kind": "all_reduce",
            "nth": nth,
            "bytes": 5 << 20,
            "role": "comm",
            "eligible": (1 + nth) * MS,
            "ready": (1.2 + nth) * MS,
            "start": (1.5 + nth) * MS,
            "end": (2.5 + nth) * MS,
            "proceeded": (10 + nth) * MS,
            "start_source": "worker",
        }
        for nth in range(8)
    ]
