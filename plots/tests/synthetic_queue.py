# SPDX-License-Identifier: Apache-2.0
"""A run of queues whose every number can be checked by hand. Nothing was measured.

Four are queued and 3 are served a second. At 4 arrivals a second the backlog grows by 1 a second, replayed three times
with one more, as many and one less; at 2 it is empty after 4 s. Over two lanes the first is served at 6 a second. And
the fluid line by itself, of the same rates as the first.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import synthetic

_columns = synthetic._columns
_common = synthetic.SCHEMAS["summary"][:-12]
SCHEMAS: dict[str, list[dict[str, str]]] = {
    "summary": _common
    + _columns(
        "collective:t bytes:i dtype:t arrivals:t lanes:i backlog:i recording:t arrival_rate:1/s duration:s "
        "operations:i service_rate:1/s* capacity:1/s* capacity_gain:1* utilization:1 growth_rate:1/s* "
        "fluid_growth_rate:1/s drain_time:s* fluid_drain_time:s in_system:1* time_in_system:s* in_queue:1* "
        "time_in_queue:s* throughput:1/s* little_gap:1* lateness:s* late_share:1* backlog_most:1* mark:t "
        "steady_state:t mm1_in_system:1 mm1_time_in_system:s mm1_in_queue:1 mm1_time_in_queue:s md1_in_system:1 "
        "md1_time_in_system:s md1_in_queue:1 md1_time_in_queue:s"
    ),
    "series": _columns(
        "time_s:s backlog:1 growth_rate:1/s drain_time_s:s submitted:1 completed:1 fluid_backlog:1 output_rate:1/s "
        "kind:t round:i key:t launch:i source:t"
    ),
}
SECONDS = range(9)


def build(directory: Path) -> Path:
    directory.mkdir(parents=True)
    about = {
        "identity": {
            "bench": "queue",
            "build": {"version": "0.1.0", "release": True},
            "backend": {"name": "host", "device": "synthetic $device$, no machine"},
        },
        "run": {"date": "2000-01-01T00:00:00Z"},
        "tables": {name: {"version": 1, "columns": columns} for name, columns in SCHEMAS.items()},
    }
    (directory / "run.json").write_text(json.dumps(about), encoding="utf-8")
    growing, draining, two = key("1.33"), key("0.67"), key("1.33", lanes=2)
    write(
        directory,
        "summary",
        [
            summary(growing, 4, 3, growth_rate=1),
            summary(draining, 2, 3, growth_rate=-1, drain_time=4),
            summary(two, 4, 6, lanes=2, growth_rate=-2, drain_time=2),
            summary("queue service_rate=3 arrival_rate=4 lanes=1", 4, 3, source="model", growth_rate=1),
        ],
    )
    rows = [point("queue service_rate=3 arrival_rate=4 lanes=1", t, 4 + t, 1, "inf") for t in SECONDS]
    for round_, more in enumerate((1, 0, -1)):
        rows += [point(growing, t, 4 + t + more, 1, "", round_, 4 + t) for t in SECONDS]
        rows += [point(draining, t, max(0, 4 - t), -1, 4, round_, max(0, 4 - t)) for t in SECONDS]
        rows += [point(two, t, max(0, 4 - 2 * t), -2, 2, round_, max(0, 4 - 2 * t)) for t in SECONDS]
    write(directory, "series", rows)
    return directory


def key(load: str, lanes: int = 1) -> str:
    return f"queue collective=all_reduce bytes=16MiB arrivals=constant load={load} backlog=4 lanes={lanes}"


def summary(of: str, arrival: float, service: float, **more: Any) -> dict[str, Any]:
    return {
        "key": of,
        "bench": "queue",
        "launch": 0,
        "status": "ok",
        "source": "measured",
        "backend": "host",
        "placement": "concurrent",
        "ranks": 2,
        "rounds": 3,
        "arrivals": "constant",
        "lanes": 1,
        "utilization": arrival / service,
    } | more


def point(
    of: str, time: float, backlog: float, slope: float, drain: Any, round_: Any = "", fluid: Any = None
) -> dict[str, Any]:
    return {
        "time_s": time,
        "backlog": backlog,
        "growth_rate": slope,
        "drain_time_s": drain,
        "fluid_backlog": backlog if fluid is None else fluid,
        "kind": "fluid" if fluid is None else "replay",
        "round": round_,
        "key": of,
        "launch": 0,
        "source": "model" if fluid is None else "measured",
    }


def write(directory: Path, table: str, rows: list[dict[str, Any]]) -> None:
    names = [column["name"] for column in SCHEMAS[table]]
    with (directory / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
