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
_PIXEL = 1 / 1400  # likewise
_NEEDED = ["key", "launch", "arm", "replay", "rank", "lane", "kind", "role", "ready", "start", "end"]

Lanes = list[tuple[float, str, int]]  # rank, lane, number of its roles


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
    traced = pd.DataFrame(rows, columns=[*_NEEDED, "kept_until"])
    traced["launch"] = traced["key"].map(first_launch)
    traced.attrs["columns"] = {"end": Column("end", "real", "s", "finished")}
    return traced


def _trace_rows(trace: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations of a Chrome trace: its processes are ranks, its threads lanes, ``cat`` says the role. Times are
    microseconds, and ``otherData`` says where among them the common origin lies."""
    other = trace["otherData"]
    kept = other.get("kept_until_us")
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
                "kept_until": math.nan if kept is None else (kept - other["origin_us"]) / 1e6,
            }
        )
    return rows


def _page(row: pd.Series[Any], operations: pd.DataFrame, notes: list[str]) -> Page | None:
    of_case = operations[(operations["key"] == row["key"]) & (operations["launch"] == row["launch"])]
    replay = derive.work(derive.typical_replay(of_case))
    # Where a start cannot be seen the operation is drawn from when it could have begun, and hatched.
    frame = replay.assign(begin=replay["start"].fillna(replay["ready"]), seen=replay["start"].notna())
    frame = frame[frame["begin"].notna() & frame["end"].notna()]
    if frame.empty:
        return None
    # Where the record of one lane ends, the picture ends: behind that, what seems to stand alone may not.
    cut = float(replay["kept_until"].min()) if "kept_until" in replay else math.nan
    if math.isfinite(cut):
        frame = frame.assign(end=frame["end"].clip(upper=cut))
    lost = len(replay) - len(frame)
    ranks = sorted(frame["rank"].unique())
    if len(ranks) > _MOST_RANKS:
        notes = [*notes, f"shows ranks {ranks[0]:.0f} to {ranks[_MOST_RANKS - 1]:.0f} of {len(ranks)}"]
        frame = frame[frame["rank"].isin(ranks[:_MOST_RANKS])]
    frame = frame.assign(cut=cut, bound=math.nan if math.isfinite(cut) else row["t_ideal"] * row["repeats"])
    # A lane whose work begins behind the cut is still there, and a lane that both use may show one of them only.
    frame.attrs = {**operations.attrs, "lanes": _lanes(of_case[of_case["rank"].isin(frame["rank"])])}
    recorded = of_case.loc[of_case["arm"] == "overlapped", "replay"].nunique()
    unit = style.unit_of(operations, "end")
    step = style.si_interval(row["t_step"], row["t_step_low"], row["t_step_high"], unit)
    return Page(
        frame=frame,
        panels=(1, 1),
        size=(11.0, 0.9 + 0.5 * len(frame.attrs["lanes"])),
        subtitle=derive.full_name(row) + (" · noisy" if row["status"] == "noisy" else ""),
        captions=[
            f"t_step {step} for one of {int(row['repeats'])} repeats, {derive.rounds_range(row.to_frame().T)}; "
            f"drawn: {'the one' if recorded == 1 else f'the middle one of {recorded}'} recorded"
            + (f", up to {style.si(cut, unit)}, where the record of a lane ends." if math.isfinite(cut) else "."),
            "Red: communication while nothing computed on its rank.",
            *(["Before 0: a rank that was released earlier than the last one."] if frame["begin"].min() < 0 else []),
        ],
        rounds=derive.rounds_range(row.to_frame().T),
        notes=[*notes, *([f"{lost} operations have no times and are not drawn"] if lost else [])],
        sources=derive.sources(row.to_frame().T),
        name=derive.file_name(row["key"], row["launch"]),
    )


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    lanes: Lanes = frame.attrs["lanes"]
    bound, cut = float(frame["bound"].iloc[0]), float(frame["cut"].iloc[0])
    first = min(0.0, float(frame["begin"].min()))
    last = cut if math.isfinite(cut) else float(np.nanmax([frame["end"].max(), bound]))
    length = last - first
    artists: list[Artist] = []
    for row, (rank, lane, _) in enumerate(lanes):
        on_lane = frame[(frame["rank"] == rank) & (frame["lane"] == lane)]
        for (role, seen), operations in reversed(list(on_lane.groupby(["role", "seen"]))):  # compute first
            artists += _bars(panel, row, _spans(operations), str(role), bool(seen), length)
        of_rank = frame[frame["rank"] == rank]
        exposed = derive.subtract(
            _spans(on_lane[on_lane["role"] == "comm"]), _spans(of_rank[of_rank["role"] == "compute"])
        )
        if exposed:
            # Without an edge: a gap of nanoseconds between two operations is as wide as it is, not a pixel.
            red = [(start, end - start) for start, end in exposed]
            artists.append(
                panel.broken_barh(
                    red, (row - 0.4, 0.8), facecolor=style.EXPOSED, linewidth=0, snap=False, zorder=2.2, label="exposed"
                )
            )
        artists += _words(panel, row, on_lane, exposed, length)
    if math.isfinite(bound):
        line = panel.axvline(bound, color="#000000", linestyle=(0, (4, 2)), linewidth=1.0, label="t_ideal (bound)")
        artists.append(line)
    if first < 0:
        artists.append(panel.axvline(0, color=style.REFERENCE, linewidth=1.0, label="the last rank is released"))
    panel.set_yticks(range(len(lanes)), [_lane_name(*lane) for lane in lanes])
    panel.set_ylim(len(lanes) - 0.5, -0.5)
    panel.grid(axis="x")
    panel.set_xlim(first, last if math.isfinite(cut) else last + 0.02 * length)
    style.scale_axis(panel.xaxis, "time since the last rank was released", style.unit_of(frame, "end"), last)
    return artists


def _spans(operations: pd.DataFrame) -> list[derive.Span]:
    return list(zip(operations["begin"], operations["end"], strict=True))


def _lanes(operations: pd.DataFrame) -> Lanes:
    """Rows of the chart, with how many roles each has in any arm: by rank, compute before communication."""
    order = derive.work(operations).sort_values(
        ["rank", "role"], key=lambda c: c.map({"compute": 0, "comm": 1}).fillna(c)
    )
    roles: dict[tuple[float, str], set[str]] = {}
    for rank, lane, role in zip(order["rank"], order["lane"], order["role"], strict=True):
        roles.setdefault((rank, lane), set()).add(role)
    return [(rank, lane, len(of_lane)) for (rank, lane), of_lane in roles.items()]


def _lane_name(rank: float, lane: str, roles: int) -> str:
    """A lane's own name says one role; one that does both says so."""
    name = style.shorten(style.plain(lane), 24)
    return f"rank {int(rank)} · {'one lane for both' if roles > 1 else name}"


def _bars(axes: Axes, row: int, spans: list[derive.Span], role: str, seen: bool, length: float) -> list[Artist]:
    """A box an operation where it is wide enough to have an edge; runs of short ones are one box, without their gaps
    that are less than a pixel. None is too narrow to be seen."""
    color = style.COMPUTE if role == "compute" else style.COMM
    edged = 8 * _PIXEL * length
    boxes = [(span, 0.8) for span in spans if span[1] - span[0] >= edged]
    boxes += [(s, 0.0) for s in derive.union((s for s in spans if s[1] - s[0] < edged), gap=_PIXEL * length)]
    artists: list[Artist] = []
    for width in sorted({width for _, width in boxes}):
        bars = axes.broken_barh(
            [(start, max(end - start, _PIXEL * length)) for (start, end), w in boxes if w == width],
            (row - 0.4, 0.8),
            facecolor=color,
            edgecolor=style.PAPER,
            linewidth=width,
            snap=False,
        )
        bars.set_hatch("" if seen else "///")
        bars.set_label(role if seen else f"{role}, from ready: start not seen")
        artists.append(bars)
    return artists


def _words(
    axes: Axes, row: int, operations: pd.DataFrame, exposed: Sequence[derive.Span], length: float
) -> list[Artist]:
    """The operation's kind in the widest part of its bar that has one colour, where that is wide enough to hold it."""
    artists: list[Artist] = []
    for _, o in operations.iterrows():
        needed = _CHARACTER * (len(o["kind"]) + 2) * length
        if o["end"] - o["begin"] <= needed:
            continue
        whole = [(o["begin"], o["end"])]
        plain = derive.subtract(whole, exposed) if o["role"] == "comm" else whole
        red = derive.subtract(whole, plain)
        parts = [(end - start, start, is_red) for part, is_red in ((plain, False), (red, True)) for start, end in part]
        widest, start, is_red = max(parts)
        if widest <= needed:
            continue
        artists.append(
            axes.text(
                start + widest / 2,
                row,
                style.plain(o["kind"]),
                ha="center",
                va="center",
                fontsize=8,
                color=style.PAPER if is_red or o["role"] == "compute" else "#000000",
                clip_on=True,
                zorder=3,
            )
        )
    return artists
