# SPDX-License-Identifier: Apache-2.0
"""One measured replay of one case as it happened: what ran on each lane of each rank, and what stood alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Column, Run, RunError
from overlap_plots.registry import Absent, Page

TITLE = "Timeline"
DESCRIPTION = "the measured operations of one case on ranks and lanes, exposed communication in red"
NEEDS = {
    "summary": (
        "key launch status source placement rounds repeats t_ideal t_compute t_comm t_step t_step_low t_step_high"
    ).split()
}

_MOST = 6
_MOST_RANKS = 8
_CHARACTER = 0.009  # width of one, as a share of the chart's
_NEEDED = ["key", "launch", "arm", "replay", "rank", "lane", "kind", "role", "ready", "start", "end"]


def pages(run: Run, case: str) -> list[Page]:
    operations = _operations(run)
    if operations.empty:
        raise Absent("neither operations.csv nor timeline/*.json holds an operation; measure with --timeline")
    rows = derive.with_numbers(derive.matching(run.tables["summary"].frame, case))
    recorded = pd.MultiIndex.from_frame(operations[["key", "launch"]]).unique()
    rows = rows[pd.MultiIndex.from_frame(rows[["key", "launch"]]).isin(recorded)]
    if rows.empty:
        raise Absent("no such case has recorded operations")
    chosen = derive.choose(rows, _MOST)
    note = derive.chosen_note(len(chosen), len(rows))
    made = [_page(row, operations, [note] if note else []) for _, row in chosen.iterrows()]
    return [page for page in made if page is not None]


def _operations(run: Run) -> pd.DataFrame:
    """operations.csv where it has rows, else the timeline files in the same columns."""
    frame = run.frame("operations")
    if frame is not None and len(frame) and all(c in frame for c in _NEEDED):
        return frame
    # A timeline file tells its case but no launch: it is that of the first.
    first_launch = run.tables["summary"].frame.groupby("key")["launch"].min()
    rows = []
    for path, trace in run.traces():
        try:
            rows += _trace_rows(trace)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(
                f"{path} is no timeline of overlapbench ({error!r}); measure again with --timeline"
            ) from error
    traced = pd.DataFrame(rows, columns=_NEEDED)
    traced["launch"] = traced["key"].map(first_launch)
    traced.attrs["columns"] = {"end": Column("end", "real", "s", "finished")}
    return traced


def _trace_rows(trace: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations of a Chrome trace: its processes are ranks, its threads lanes, ``cat`` says the role. Times are
    microseconds, and ``otherData`` says where among them the common origin lies."""
    other = trace["otherData"]
    names = {
        (e["name"], e["pid"], e["tid"]): str(e["args"]["name"])
        for e in trace["traceEvents"]
        if e["ph"] == "M" and e["name"] in ("process_name", "thread_name")
    }
    rows = []
    for e in trace["traceEvents"]:
        if e["ph"] != "X" or e["cat"] not in ("compute", "comm"):
            continue
        begin = (e["ts"] - other["origin_us"]) / 1e6
        seen = e["args"]["start_source"] != "ready"
        rows.append(
            {
                "key": other["case"],
                "arm": other["arm"],
                "replay": 0.0,
                "rank": float(names["process_name", e["pid"], 0].removeprefix("rank ")),
                "lane": names["thread_name", e["pid"], e["tid"]],
                "kind": e["name"],
                "role": e["cat"],
                "ready": math.nan if seen else begin,
                "start": begin if seen else math.nan,
                "end": begin + e["dur"] / 1e6,
            }
        )
    return rows


def _page(row: pd.Series[Any], operations: pd.DataFrame, notes: list[str]) -> Page | None:
    of_case = operations[(operations["key"] == row["key"]) & (operations["launch"] == row["launch"])]
    replay = derive.typical_replay(of_case)
    # Where a start cannot be seen the operation is drawn from when it could have begun, and hatched.
    frame = replay.assign(begin=replay["start"].fillna(replay["ready"]), seen=replay["start"].notna())
    frame = frame[frame["begin"].notna() & frame["end"].notna() & frame["role"].isin(["compute", "comm"])]
    if frame.empty:
        return None
    lost = int(replay["role"].isin(["compute", "comm"]).sum()) - len(frame)
    ranks = sorted(frame["rank"].unique())
    if len(ranks) > _MOST_RANKS:
        notes = [*notes, f"shows ranks {ranks[0]:.0f} to {ranks[_MOST_RANKS - 1]:.0f} of {len(ranks)}"]
        frame = frame[frame["rank"].isin(ranks[:_MOST_RANKS])]
    frame = frame.assign(bound=row["t_ideal"] * row["repeats"])
    frame.attrs = operations.attrs
    recorded = of_case.loc[of_case["arm"] == "overlapped", "replay"].nunique()
    step = style.si_interval(row["t_step"], row["t_step_low"], row["t_step_high"], style.unit_of(operations, "end"))
    return Page(
        frame=frame,
        panels=(1, 1),
        size=(11.0, 0.9 + 0.5 * len(_lanes(frame))),
        subtitle=derive.full_name(row) + (" · noisy" if row["status"] == "noisy" else ""),
        captions=[
            f"t_step {step} for one of {int(row['repeats'])} repeats, {derive.rounds_range(row.to_frame().T)}; "
            f"drawn: {'the one' if recorded == 1 else f'the middle one of {recorded}'} recorded, "
            "the first operations of each lane (operations.csv keeps no more).",
            "Red: communication while nothing computed on its rank.",
        ],
        rounds=derive.rounds_range(row.to_frame().T),
        notes=[*notes, *([f"{lost} operations have no times and are not drawn"] if lost else [])],
        sources=derive.sources(row.to_frame().T),
        name=f"{row['key']} {int(row['launch'])}",
    )


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    lanes = _lanes(frame)
    bound = float(frame["bound"].iloc[0])
    first = min(0.0, float(frame["begin"].min()))
    last = float(np.nanmax([frame["end"].max(), bound]))
    artists: list[Artist] = []
    for row, (rank, lane) in enumerate(lanes):
        on_lane = frame[(frame["rank"] == rank) & (frame["lane"] == lane)]
        for (role, seen), operations in on_lane.groupby(["role", "seen"]):
            spans = list(zip(operations["begin"], operations["end"], strict=True))
            artists.append(_bars(panel, row, spans, str(role), bool(seen)))
            artists += _words(panel, row, operations, last - first)
        of_rank = frame[frame["rank"] == rank]
        computing = of_rank[of_rank["role"] == "compute"]
        talking = on_lane[on_lane["role"] == "comm"]
        exposed = derive.subtract(
            zip(talking["begin"], talking["end"], strict=True), zip(computing["begin"], computing["end"], strict=True)
        )
        if exposed:
            red = [(start, end - start) for start, end in exposed]
            artists.append(panel.broken_barh(red, (row - 0.4, 0.8), color=style.EXPOSED, zorder=2.2, label="exposed"))
    if np.isfinite(bound):
        line = panel.axvline(bound, color="#000000", linestyle=(0, (4, 2)), linewidth=1.0, label="t_ideal (bound)")
        artists.append(line)
    panel.set_yticks(
        range(len(lanes)), [f"rank {int(rank)} · {style.shorten(style.plain(n), 24)}" for rank, n in lanes]
    )
    panel.set_ylim(len(lanes) - 0.5, -0.5)
    panel.grid(axis="x")
    panel.set_xlim(first, last + 0.02 * (last - first))
    style.scale_axis(panel.xaxis, "time since the common origin", style.unit_of(frame, "end"), last)
    return artists


def _lanes(frame: pd.DataFrame) -> list[tuple[float, str]]:
    """Rows of the chart: by rank, compute before communication."""
    order = frame.sort_values(["rank", "role"], key=lambda c: c.map({"compute": 0, "comm": 1}).fillna(c))
    return list(dict.fromkeys(zip(order["rank"], order["lane"], strict=True)))


def _bars(axes: Axes, row: int, spans: list[derive.Span], role: str, seen: bool) -> Artist:
    color = style.COMPUTE if role == "compute" else style.COMM
    bars = axes.broken_barh([(s, e - s) for s, e in spans], (row - 0.4, 0.8), facecolor=color, edgecolor=style.PAPER)
    bars.set_hatch("" if seen else "///")
    bars.set_label(role if seen else f"{role}, from ready: start not seen")
    return bars


def _words(axes: Axes, row: int, operations: pd.DataFrame, length: float) -> list[Artist]:
    """The operation's kind where its bar is wide enough to hold it."""
    return [
        axes.text(
            (o["begin"] + o["end"]) / 2,
            row,
            style.plain(o["kind"]),
            ha="center",
            va="center",
            fontsize=8,
            color=style.PAPER if o["role"] == "compute" else "#000000",
            clip_on=True,
            zorder=3,
        )
        for _, o in operations.iterrows()
        if o["end"] - o["begin"] > _CHARACTER * (len(o["kind"]) + 2) * length
    ]
