# SPDX-License-Identifier: Apache-2.0
"""What a mistake in the order costs: time, right or wrong results, and what was known before launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Order between compute and communication"
DESCRIPTION = "per ordering variant: time of a step, elements wrong, what the static check said"
NEEDS = {
    "summary": (
        "key launch status source placement rounds variant t_step t_step_low t_step_high correct elements "
        "elements_wrong static_check"
    ).split()
}

_MOST = 20
_WIDTH = 24  # characters that a column has room for
_COLUMNS = (("results", 0.0), ("static check", 0.38), ("status", 0.72))  # heading, where it begins in the panel


def pages(run: Run, case: str) -> list[Page]:
    rows = derive.matching(run.tables["summary"].frame, case)
    if rows.empty:
        raise Absent("no case of overlap-ordering")
    chosen = rows.iloc[:_MOST]
    measured = derive.with_numbers(chosen)
    known = measured[["t_step_low", "t_step_high"]].notna().all(axis=1)
    return [
        Page(
            frame=chosen,
            panels=(1, 2),
            size=(11.5, 1.1 + 0.42 * len(chosen)),
            subtitle=derive.shared_axes(chosen),
            captions=[
                style.describe(chosen, "t_step"),
                style.describe(chosen, "elements_wrong"),
                style.describe(chosen, "static_check"),
            ],
            rounds=derive.rounds_range(measured) if len(measured) else "0",
            sources=derive.sources(chosen),
            intervals=bool(known.any()),
            notes=[f"shows {_MOST} of {len(rows)} cases"] if len(rows) > _MOST else [],
        )
    ]


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    times, words = axes
    at = np.arange(len(frame))
    artists: list[Artist] = []
    for right, label in ((True, "right results"), (False, "wrong results")):
        rows = frame["t_step"].notna() & ((frame["correct"] == 1) == right) & frame["correct"].notna()
        if not rows.any():
            continue
        bars = times.barh(
            at[rows.to_numpy()],
            frame.loc[rows, "t_step"],
            height=0.6,
            color=style.COMPUTE if right else style.PAPER,
            edgecolor=style.COMPUTE,
            hatch="" if right else "xxx",
            label=label,
        )
        artists += bars.patches
    unknown = frame["t_step"].notna() & frame["correct"].isna()
    if unknown.any():
        artists += times.barh(
            at[unknown.to_numpy()], frame.loc[unknown, "t_step"], height=0.6, color=style.SERIAL, label="not looked at"
        ).patches
    artists += style.interval(times, "x", at, frame["t_step_low"], frame["t_step_high"], "#000000")
    times.set_yticks(at, [style.shorten(style.plain(name), 40) for name in frame["variant"]])
    largest = float(np.nanmax([*frame["t_step_high"], *frame["t_step"], 0.0]))
    times.set_xlim(0, 1.05 * largest if largest > 0 else 1)
    times.grid(axis="x")
    style.scale_axis(times.xaxis, "time of one step", style.unit_of(frame, "t_step"), largest or 1.0)
    for panel in axes:
        panel.set_ylim(len(frame) - 0.5, -1.0)  # the first case on top, and above it the headings
    words.set_xlim(0, 1)
    for heading, x in _COLUMNS:
        artists.append(words.text(x, -0.75, heading, fontsize=9, fontweight="bold", va="center"))
    for row, (_, case) in zip(at, frame.iterrows(), strict=True):
        cells = (_results(case), style.plain(str(case["static_check"])), style.plain(str(case["status"])))
        for (_, x), cell in zip(_COLUMNS, cells, strict=True):
            artists.append(words.text(x, float(row), style.shorten(cell, _WIDTH), fontsize=9, va="center"))
    return artists


def _results(case: pd.Series[Any]) -> str:
    wrong, elements = case["elements_wrong"], case["elements"]
    if not math.isfinite(wrong):
        return "–"
    if wrong == 0 or not elements > 0:
        return "right" if wrong == 0 else f"{int(wrong)} wrong"
    return f"all {int(wrong)} wrong" if wrong == elements else f"{int(wrong)} wrong ({100 * wrong / elements:.2g} %)"
