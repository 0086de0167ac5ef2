# SPDX-License-Identifier: Apache-2.0
"""Who slows whom: how much longer each side takes beside the other than alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Stretch of both sides"
DESCRIPTION = "per case: span of compute and of communication overlapped against alone, and slowdowns where known"
NEEDS = {
    "summary": (
        "key launch status source placement rounds t_compute t_comm compute_stretch comm_stretch "
        "compute_slowdown comm_slowdown slowdown_source"
    ).split()
}

_MOST = 24
_WIDTH = 54  # characters of a case's name in a line
_LONG = 10.0  # a stretch from which on the axis is logarithmic, so that those near 1 can be told apart
_SIDES = (  # column, colour, marker, where in the case's row
    ("compute_stretch", style.COMPUTE, "o", -0.2),
    ("comm_stretch", style.COMM, "s", 0.2),
    ("compute_slowdown", style.COMPUTE, "^", -0.2),
    ("comm_slowdown", style.COMM, "v", 0.2),
)


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.matching(run.tables["summary"].frame, case)
    rows = derive.with_numbers(summary)
    rows = rows[rows[["compute_stretch", "comm_stretch"]].notna().any(axis=1)]
    if rows.empty:
        raise Absent("no case with a stretch")
    chosen = derive.choose(rows, _MOST)
    captions = [
        f"{style.describe(chosen, 'compute_stretch')}; {style.describe(chosen, 'comm_stretch')}. A span, from first "
        "start to last end, holds what the lane waits for the other side."
    ]
    frame = chosen.assign(name=derive.case_names(chosen))
    samples = run.frame("samples")
    known = pd.Series(False, index=frame.index)
    if samples is not None:
        intervals = derive.stretch_intervals(samples)
        frame = frame.merge(intervals, how="left", left_on=["key", "launch"], right_index=True)
        known = frame[intervals.columns].notna().any(axis=1)
    if known.any():
        captions.append("Lines: 95 % interval of the median over rounds, the slowest rank of each, from samples.csv.")
        if not known.all():
            captions.append("Without a line: fewer than six rounds, of which no 95 % interval of the median follows.")
    elif samples is not None:
        captions.append("No intervals: of fewer than six rounds no 95 % interval of the median follows.")
    if chosen[["compute_slowdown", "comm_slowdown"]].notna().any(axis=None):
        sources = sorted({style.plain(s) for s in chosen["slowdown_source"] if s})
        said = "; ".join(style.describe(chosen, column) for column in ("compute_slowdown", "comm_slowdown"))
        captions.append(
            f"{said} ({', '.join(sources) or 'source unknown'}{'; without an interval' if known.any() else ''})."
        )
    frame["name"] = [style.in_lines(style.plain(name), _WIDTH) for name in frame["name"]]
    frame.attrs = chosen.attrs
    return [
        Page(
            frame=frame,
            panels=(1, 1),
            size=(9.0, 1.2 + (0.42 if frame["name"].str.contains("\n").any() else 0.36) * len(chosen)),
            subtitle=derive.shared_axes(chosen),
            captions=captions,
            rounds=derive.rounds_range(chosen),
            sources=derive.sources(chosen),
            intervals=bool(known.any()),
            notes=[n for n in (derive.chosen_note(len(chosen), len(rows)), derive.without_numbers(summary)) if n],
        )
    ]


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    artists: list[Artist] = [panel.axvline(1, color=style.REFERENCE, linewidth=1, label="1: as alone")]
    positions = np.arange(len(frame))
    for column, color, marker, offset in _SIDES:
        known = frame[column].notna()
        if not known.any():
            continue
        at = positions + offset
        if f"{column}_low" in frame:
            artists += style.interval(panel, "x", at, frame[f"{column}_low"], frame[f"{column}_high"], color)
        for status in ("ok", "noisy"):
            rows = known & (frame["status"] == status)
            artists += panel.plot(
                frame.loc[rows, column],
                at[rows.to_numpy()],
                marker,
                color=color,
                markerfacecolor=style.face(color, status),
                markeredgewidth=1.3,
                label="_",
            )
        artists += panel.plot([], [], marker, color=color, label=column.replace("_", " "))
    if (frame["status"] == "noisy").any():
        artists += panel.plot([], [], "o", color=style.REFERENCE, mfc=style.PAPER, label="hollow: noisy")
    panel.set_yticks(positions, [_name(n, r) for n, r in zip(frame["name"], frame["rounds"], strict=True)])
    panel.set_ylim(len(frame) - 0.5, -0.5)  # the first case on top
    panel.grid(axis="x")
    panel.set_xlabel(f"beside the other side / alone ({_ratio_unit(frame)})")
    low, high = panel.get_xlim()
    panel.set_xlim(min(low, 0.9), max(high, 1.1))
    ends = [f"{column}{end}" for column, *_ in _SIDES for end in ("", "_low", "_high")]
    marks = frame[[column for column in ends if column in frame]].to_numpy(dtype=float)
    if np.nanmax(marks) > _LONG and np.nanmin(marks) > 0:
        label = panel.get_xlabel()
        style.log10_axis(panel, "x", "", "", [0.9, 1.1, *marks.ravel()])
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.set_xlabel(label)
    return artists


def _name(name: str, rounds: float) -> str:
    return name + (f"  n = {int(rounds)}" if np.isfinite(rounds) else "")


def _ratio_unit(frame: pd.DataFrame) -> str:
    return style.label(frame, "compute_stretch").rpartition("(")[2].rstrip(")")
