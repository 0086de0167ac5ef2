# SPDX-License-Identifier: Apache-2.0
"""Does the overlapped step cost less than its parts in a row, and how far is it from the bound? One panel a case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Combined against isolated"
DESCRIPTION = "per case: compute, communication, both in a row and overlapped, with the bound and the exposed part"
NEEDS = {
    "summary": (
        "key status source placement rounds hidden_share hidden_share_low hidden_share_high t_ideal "
        "t_compute t_compute_low t_compute_high t_comm t_comm_low t_comm_high "
        "t_serial t_serial_low t_serial_high t_step t_step_low t_step_high"
    ).split()
}

_LEGEND = (  # an arm's time, its colour and name; of t_step what is more than t_compute
    ("t_compute", style.COMPUTE, "compute"),
    ("t_comm", style.COMM, "communication"),
    ("t_serial", style.SERIAL, "both in a row"),
    ("t_step", style.EXPOSED, "exposed"),
)
_MOST = 12
_WIDTH = 36  # characters of a panel's title


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.matching(run.tables["summary"].frame, case)
    # Not every bench runs both at once, and compute alone.
    rows = derive.with_numbers(summary).dropna(subset=["t_step", "t_compute"])
    if rows.empty:
        raise Absent("no case of both at once and of compute alone")
    chosen = derive.choose(rows, _MOST)
    count = len(chosen)
    columns = count if count <= 4 else next((c for c in (4, 3) if count % c != 1), 4)  # leave no panel alone in its row
    captions = [
        "Bars: medians over rounds, of one operation of a window. Exposed: t_step - t_compute.",
        *([style.describe(chosen, "hidden_share")] if chosen["hidden_share"].notna().any() else []),
        *([f"{style.describe(chosen, 't_ideal')} (dashed: the bound)"] if chosen["t_ideal"].notna().any() else []),
    ]
    if (chosen["status"] == "noisy").any():
        captions.append("Hollow: noisy, measured while something disturbed the machine.")
    if (chosen["source"] != "measured").any():
        captions.append("Hatched: not measured.")
    return [
        Page(
            frame=chosen.assign(name=derive.case_names(chosen)),
            panels=(math.ceil(count / columns), columns),
            size=(max(6.4, 3.2 * columns), 2.9 * math.ceil(count / columns)),
            subtitle=derive.shared_axes(chosen),
            captions=captions,
            rounds=derive.rounds_range(chosen),
            sources=derive.sources(chosen),
            notes=[n for n in (derive.chosen_note(count, len(rows)), derive.without_numbers(summary)) if n],
        )
    ]


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    unit = style.unit_of(frame, "t_step")
    bars = [
        name for name, *_ in _LEGEND if frame[name].notna().any()
    ]  # an arm that the bench does not have leaves no gap
    artists: list[Artist] = []
    for panel, (_, row) in zip(axes, frame.iterrows(), strict=False):
        artists += _case(panel, row, bars, unit)
    for bar, color, name in _LEGEND:
        if bar in bars:
            artists += axes[0].plot([], [], "s", color=color, markersize=8, label=name)
    return artists


def _case(axes: Axes, row: pd.Series[Any], bars: Sequence[str], unit: str) -> list[Artist]:
    noisy = row["status"] == "noisy"
    hatch = "" if row["source"] == "measured" else "///"
    artists: list[Artist] = []

    def bar(at: int, height: float, bottom: float, color: str) -> None:
        face = style.face(color, row["status"])
        edge = color if noisy or not hatch else style.PAPER
        artists.extend(axes.bar([at], [height], 0.68, bottom, color=face, edgecolor=edge, linewidth=1.2, hatch=hatch))

    for at, (name, color) in enumerate((name, color) for name, color, _ in _LEGEND if name in bars):
        if name != "t_step":
            bar(at, row[name], 0, color)
            continue
        # The overlapped step is its compute and whatever stayed on the wall clock after it.
        bar(at, np.fmin(row["t_step"], row["t_compute"]), 0, style.COMPUTE)
        if row["t_step"] > row["t_compute"]:
            bar(at, row["t_step"] - row["t_compute"], row["t_compute"], color)
    low, high = (pd.Series([row[f"{name}_{end}"] for name in bars]) for end in ("low", "high"))
    artists += style.interval(axes, "y", range(len(bars)), low, high, "#000000")
    if math.isfinite(row["t_ideal"]):
        dashes = (0, (4, 2))
        artists.append(axes.axhline(row["t_ideal"], color="#000000", linestyle=dashes, linewidth=1.0, label="bound"))

    largest = float(np.nanmax([*(row[name] for name in bars), *high, 0.0]))
    axes.set_ylim(0, 1.08 * largest or 1.0)
    axes.set_xlim(-0.6, len(bars) - 0.4)
    axes.set_xticks(range(len(bars)), bars, fontsize=8)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.tick_params(axis="x", length=0)
    style.scale_axis(axes.yaxis, "time", unit, largest)
    axes.set_title(_title(row), fontsize=8)
    return artists


def _title(row: pd.Series[Any]) -> str:
    share, low, high = (style.percent(row[name]) for name in ("hidden_share", "hidden_share_low", "hidden_share_high"))
    spread = "" if "unknown" in (low, high) else f" [{low.removesuffix(' %')}, {high.removesuffix(' %')}]"
    hidden = "little to hide" if derive.little_to_hide(row.to_frame().T).item() else f"hidden {share}{spread}"
    rounds = f", n = {int(row['rounds'])}" if math.isfinite(row["rounds"]) else ""
    noisy = ", noisy" if row["status"] == "noisy" else ""
    return f"{style.in_lines(row['name'], _WIDTH)}\n{hidden}{rounds}{noisy}"
