# SPDX-License-Identifier: Apache-2.0
"""A small run directory whose every number can be checked by hand. Nothing in it was measured: it says "synthetic".

Each case states its four times in milliseconds. Seven used rounds scatter by −3 … +3 steps of 0.01 ms around them, so
that the medians are exactly the stated times, and an eighth round, twice as slow, is spoilt. Windows hold four repeats.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MS = 1e-3
REPEATS = 4
RANKS = 2
OFFSETS = (0, -1, 1, -2, 2, -3, 3)  # of the used rounds, in hundredths of a millisecond

FIGURES = ("combined_vs_isolated", "hidden_share", "samples", "stretch", "timeline")  # that such a run feeds

INTERVALS = ("t_empty", "t_compute", "t_comm", "t_serial", "t_step", "t_exposed", "hidden_share", "speedup")


def _columns(spec: str) -> list[dict[str, str]]:
    """``name:unit`` a word; ``t`` text, ``i`` integer, else real in that unit. A ``*`` adds _low and _high."""
    columns = []
    for word in spec.split():
        name, _, kind = word.partition(":")
        ends = ("", "_low", "_high") if kind.endswith("*") else ("",)
        kind = kind.removesuffix("*")
        type_ = {"t": "text", "i": "integer"}.get(kind, "real")
        unit = {"t": "", "i": "B" if name == "bytes" else "1"}.get(kind, kind)
        columns += [{"name": name + e, "type": type_, "unit": unit, "description": f"about {name}"} for e in ends]
    return columns


SCHEMAS: dict[str, Any] = {
    "summary": _columns(
        "key:t bench:t launch:i status:t reason:t source:t backend:t transport:t ranks:i placement:t "
        "program_hash:t waiting:t progress:t channels_asked:i channels_observed:i comm_path:t gemm_algorithm:t "
        "partial:i layout:t oversubscribed:i launch_mode:t launch_order:t buffers:t buffer_copies:i verify:t "
        "interleave:t repeats:i rounds:i rounds_spoilt:i blocks:i stop_rule:t precision:1 t_measure:s t_empty:s* "
        "t_compute:s* t_comm:s* t_serial:s* t_step:s* t_ideal:s speedup_bound:1 t_overlap:s t_exposed:s* "
        "hidden_share:1* hidden_fraction:1 speedup:1* speedup_measured:1 serial_gap:s t_path:s compute_stretch:1 "
        "comm_stretch:1 compute_slowdown:1 comm_slowdown:1 slowdown_source:t exposed_transfer:s exposed_peer:s "
        "exposed_shared:s exposed_units:s exposed_launch:s exposed_by:t verdict:t align_skew:s observer_ratio:1 "
        "core_distance:s core_distance_low:s core_distance_high:s busy_core_slowdown:1 steal_share:1 "
        "foreign_cpu_share:1 gemm:t m:i n:i k:i gemm_repeat:i collective:t bytes:i dtype:t bus_bandwidth:B/s "
        "algorithm_bandwidth:B/s gemm_rate:FLOP/s balance:t"
    ),
    "samples": _columns(
        "key:t launch:i block:i round:i position:i arm:t rank:i slot:i repeats:i step:s own:s compute_span:s "
        "comm_span:s compute_start:s comm_start:s pace:B/s align_skew:s launch_order:t used:i noise:t"
    ),
    "operations": _columns(
        "key:t launch:i arm:t replay:i rank:i lane:t op:i kind:t nth:i bytes:i role:t enqueued:s eligible:s ready:s "
        "start:s end:s host_return:s proceeded:s exposed:s cause:t start_source:t kept_until:s step:t"
    ),
}


@dataclass(frozen=True)
class Case:
    """Times in milliseconds: alone compute and comm, in a row, overlapped."""

    placement: str = "concurrent"
    times: tuple[float, float, float, float] = (10, 8, 18, 11)
    bytes: int = 1 << 20
    gemm: str = "mlp:gpt2-small"
    status: str = "ok"
    source: str = "measured"
    launch: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"gemm={self.gemm} bytes={self.bytes} placement={self.placement}"


CASES = (
    Case(),  # overlap 10 + 8 − 11 = 7 of 8: hidden share 0.875, exposed 1 ms
    Case("serial", (10, 10, 20, 20), 4 << 20),  # nothing hidden
    Case("shared_core", (10, 10, 20, 25), 4 << 20),  # (20 − 25) / 10: −0.5, worse than serial
    Case("partitioned", (10, 20, 30, 20), 16 << 20, status="noisy"),  # all of the shorter part hidden
    Case("concurrent", (10, 10, 20, 10), 16 << 20, source="model"),
    Case("graph", status="unsupported"),
    Case("concurrent", (2, 1, 3, 2.5), 25 << 20, gemm='$\\alpha$, "quoted", Größe_№ 3'),
)


def build(directory: Path, cases: tuple[Case, ...] = CASES, *, operations: bool = True) -> Path:
    """Writes the run and returns its directory."""
    directory.mkdir(parents=True)
    schemas = {name: {"version": 1, "columns": columns} for name, columns in SCHEMAS.items()}
    about = {
        "identity": {
            "build": {"version": "0.1.0", "release": True},
            "backend": {"name": "host", "device": "synthetic $device$, no machine"},
        },
        "run": {"date": "2000-01-01T00:00:00Z"},
        "tables": schemas,
    }
    (directory / "run.json").write_text(json.dumps(about), encoding="utf-8")
    write(directory, "summary", [summary_row(case) for case in cases])
    numbered = [case for case in cases if case.status in ("ok", "noisy")]
    write(directory, "samples", [row for case in numbered for row in sample_rows(case)])
    if operations:
        write(directory, "operations", [row for case in numbered[:2] for row in operation_rows(case)])
    return directory


def write(directory: Path, table: str, rows: list[dict[str, Any]]) -> None:
    names = [column["name"] for column in SCHEMAS[table]]
    with (directory / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def summary_row(case: Case) -> dict[str, Any]:
    row: dict[str, Any] = {
        "key": case.key,
        "bench": "pair",
        "launch": case.launch,
        "status": case.status,
        "reason": "" if case.status == "ok" else "synthetic",
        "source": case.source,
        "backend": "host" if case.source == "measured" else case.source,
        "transport": "shm",
        "ranks": RANKS,
        "placement": case.placement,
        "waiting": "yield",
        "progress": "auto",
        "gemm": case.gemm,
        "collective": "all_reduce",
        "bytes": case.bytes,
        "dtype": "f32",
    }
    if case.status not in ("ok", "noisy"):
        return row
    compute, comm, serial, step = (time * MS for time in case.times)
    overlap = compute + comm - step
    row |= {
        "repeats": REPEATS,
        "rounds": len(OFFSETS),
        "rounds_spoilt": 1,
        "t_empty": 0.01 * MS,
        "t_compute": compute,
        "t_comm": comm,
        "t_serial": serial,
        "t_step": step,
        "t_ideal": max(compute, comm),
        "speedup_bound": (compute + comm) / max(compute, comm),
        "t_overlap": overlap,
        "t_exposed": step - compute,
        "hidden_share": overlap / min(compute, comm),
        "hidden_fraction": overlap / comm,
        "speedup": (compute + comm) / step,
        "speedup_measured": serial / step,
        "serial_gap": serial - (compute + comm),
        "compute_stretch": step / compute / 1.05,
        "comm_stretch": step / comm / 1.1,
        "compute_slowdown": 1.1,
        "comm_slowdown": 1.3,
        "slowdown_source": "fluid",
    }
    for name in INTERVALS:
        width = 0.02 if name in ("hidden_share", "speedup") else 0.02 * MS if name != "t_empty" else 0.001 * MS
        row |= {f"{name}_low": row[name] - width, f"{name}_high": row[name] + width}
    return row | case.more


def sample_rows(case: Case) -> list[dict[str, Any]]:
    times = dict(zip(("compute", "comm", "serial", "overlapped"), case.times, strict=True))
    rows = []
    for round_ in range(len(OFFSETS) + 1):
        spoilt = round_ == len(OFFSETS)
        for position, arm in enumerate(("empty", *times)):
            if arm == "empty":
                step = 0.01 * MS
            else:
                step = (times[arm] * 2 if spoilt else times[arm] + 0.01 * OFFSETS[round_]) * MS * REPEATS
            for rank in range(RANKS):
                rows.append(
                    {
                        "key": case.key,
                        "launch": case.launch,
                        "block": round_ // 4,
                        "round": round_,
                        "position": position,
                        "arm": arm,
                        "rank": rank,
                        "slot": round_ % 2,
                        "repeats": REPEATS,
                        "step": step,
                        "own": step * (1 - 0.01 * rank),
                        "compute_span": "" if arm in ("empty", "comm") else step / (1.05 if arm == "overlapped" else 1),
                        "comm_span": "" if arm in ("empty", "compute") else step / (1.1 if arm == "overlapped" else 1),
                        "compute_start": "" if arm in ("empty", "comm") else 0,
                        "comm_start": "" if arm in ("empty", "compute") else 0,
                        "used": 0 if spoilt else 1,
                        "noise": "steal" if spoilt else "",
                    }
                )
    return rows


def operation_rows(case: Case) -> list[dict[str, Any]]:
    """Three recorded replays of which the second is the middle one. Compute ends at t_compute, communication at t_step,
    so that the last t_step − t_compute of it stand alone; rank 1's collective has no visible start, only ``ready``."""
    compute, _, _, step = (time * MS * REPEATS for time in case.times)
    rows = []
    for replay, factor in enumerate((1.2, 1.0, 0.9)):
        for rank in range(RANKS):
            spans = (("compute", "gemm", 0.0, compute, "start"), ("comm", "all_reduce", 0.1 * step, step, "start"))
            for op, (role, kind, start, end, seen) in enumerate(spans):
                begin = "ready" if rank == 1 and role == "comm" else seen
                rows.append(
                    {
                        "key": case.key,
                        "launch": case.launch,
                        "arm": "overlapped",
                        "replay": replay,
                        "rank": rank,
                        "lane": role,
                        "op": op,
                        "kind": kind,
                        "role": role,
                        begin: start * factor,
                        "end": end * factor,
                    }
                )
    return rows
