# SPDX-License-Identifier: Apache-2.0
"""What a step lost against its ideal, term by term."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "What the step lost"
DESCRIPTION = "per case: t_step - t_ideal in terms that each have an instrument; what none explains is the remainder"

_TERMS = (  # column, colour
    ("lost_dependencies", "#CC79A7"),
    ("lost_start_delay", "#56B4E9"),
    ("lost_compute_slowdown", style.COMPUTE),
    ("lost_comm_slowdown", style.COMM),
    ("lost_clock_drop", "#009E73"),
    ("lost_waiting", "#D55E00"),
    ("lost_remainder", style.SERIAL),
)
NEEDS = {"summary": ["key", "launch", "status", "source", "rounds", "t_ideal", "lost", *(c for c, _ in _TERMS)]}

_MOST = 20
_WIDTH = 54  # characters of a case's name in a line


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.matching(run.tables["summary"].frame, case)
    rows = derive.with_numbers(summary)
    rows = rows[rows["lost"].notna()]
    if rows.empty:
        raise Absent("no case says what its step lost")
    chosen = derive.choose(rows, _MOST)
    frame = chosen.assign(name=[style.in_lines(style.plain(name), _WIDTH) for name in derive.case_names(chosen)])
    frame.attrs = chosen.attrs
    absent = [column for column, _ in _TERMS if frame[column].isna().all()]
    captions = [
        "Bars to the right and left of 0 add up to t_step - t_ideal, the black mark (with its interval); "
        "t_ideal is max(t_compute, t_comm)."
    ]
    if absent:
        said = ", ".join(column.removeprefix("lost_").replace("_", " ") for column in absent)
        captions.append(f"Without an instrument here, so within the remainder: {said}.")
    return [
        Page(
            frame=frame,
            panels=(1, 1),
            size=(9.5, 1.2 + (0.42 if frame["name"].str.contains("\n").any() else 0.36) * len(frame)),
            subtitle=derive.shared_axes(chosen),
            captions=captions,
            rounds=derive.rounds_range(chosen),
            sources=derive.sources(chosen),
            intervals="lost_low" in frame,
            notes=[n for n in (derive.chosen_note(len(chosen), len(rows)), derive.without_numbers(summary)) if n],
        )
    ]


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    at = np.arange(len(frame))
    ideal = frame["t_ideal"].to_numpy(dtype=float)
    right, left = np.zeros(len(frame)), np.zeros(len(frame))
    artists: list[Artist] = []
    for column, color in _TERMS:
        part = np.nan_to_num(frame[column].to_numpy(dtype=float)) / ideal
        if frame[column].isna().all():
            continue
        start = np.where(part >= 0, right, left)
        bars = panel.barh(
            at, part, left=start, color=color, height=0.62, label=column.removeprefix("lost_").replace("_", " ")
        )
        artists += list(bars)
        right = np.where(part >= 0, right + part, right)
        left = np.where(part < 0, left + part, left)
    total = frame["lost"].to_numpy(dtype=float) / ideal
    if "lost_low" in frame:
        artists += style.interval(panel, "x", at, frame["lost_low"] / ideal, frame["lost_high"] / ideal, "black")
    artists += panel.plot(total, at, "|", color="black", ms=15, mew=2, label="_total")
    artists += panel.plot([], [], "|", color="black", ms=9, mew=2, label="t_step - t_ideal")  # no higher than its line
    artists.append(panel.axvline(0, color=style.REFERENCE, lw=1, label="_"))
    panel.set_yticks(at, frame["name"])
    panel.set_ylim(len(frame) - 0.5, -0.5)
    panel.set_xlabel("lost time of a step / t_ideal (ratio)")
    panel.grid(axis="x")
    return artists
