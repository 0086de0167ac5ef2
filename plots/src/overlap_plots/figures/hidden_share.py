# SPDX-License-Identifier: Apache-2.0
"""How much is hidden as the message grows and as communication outweighs compute, and what that buys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Hidden share and speedup"
DESCRIPTION = "hidden share over bytes and over t_comm / t_compute, and the speedup under its bound, by placement"
NEEDS = {
    "summary": (
        "key status source placement rounds bytes t_compute t_comm t_step "
        "hidden_share hidden_share_low hidden_share_high speedup speedup_low speedup_high"
    ).split()
}

_LOWEST, _HIGHEST = -1.5, 2.0  # of the hidden share's axis; what lies outside is marked at its edge, with its value
# What a line may run through: cases that differ in nothing but their bytes.
_LINE_AXES = "placement gemm collective dtype ranks transport waiting channels_asked buffers balance source".split()
_BALANCED = (0.6, 1.6)  # always in view: 1, where the bound has its peak, with an octave to each side


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.matching(run.tables["summary"].frame, case)
    rows = derive.with_numbers(summary)
    rows = rows[rows["hidden_share"].notna()]
    if rows.empty:
        raise Absent("no case with a hidden share")
    little = derive.little_to_hide(rows)
    notes = [derive.without_numbers(summary)]
    if little.any():
        notes.append(
            f"{derive.count_cases(int(little.sum()))} left out of the hidden share, with little to hide: "
            f"the smaller part is under {100 * derive.SMALLEST_PART:.0f} % of the step"
        )
    shares = ["hidden_share", "hidden_share_low", "hidden_share_high"]
    frame = rows.assign(series=derive.series_names(rows), ratio=rows["t_comm"] / rows["t_compute"])
    frame[shares] = frame[shares].mask(little)
    frame.attrs = rows.attrs
    return [
        Page(
            frame=frame,
            panels=(1, 3),
            size=(13.5, 4.2),
            subtitle=derive.shared_axes(rows),
            captions=[style.describe(rows, "hidden_share"), style.describe(rows, "speedup")],
            rounds=derive.rounds_range(rows),
            sources=derive.sources(rows),
            notes=[n for n in notes if n],
        )
    ]


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    over_bytes, over_ratio, speedup = axes
    artists: list[Artist] = []
    for panel in (over_bytes, over_ratio):
        artists += _references(panel, frame)
    style.log2_axis(over_bytes, frame["bytes"], style.iec)
    over_bytes.set_xlabel(f"{style.label(frame, 'bytes').replace(' (B)', '')} of one collective")
    for panel in (over_ratio, speedup):
        style.log2_axis(panel, [*frame["ratio"], *_BALANCED], _ratio)
        panel.set_xlabel("t_comm / t_compute (ratio)")
    speedup.set_ylabel(style.label(frame, "speedup"))
    artists += _bound(speedup, frame)

    for (name, rows), look in zip(frame.groupby("series", sort=False), style.series_styles(), strict=False):
        artists += _series(over_bytes, rows, "bytes", "hidden_share", look, str(name), joined=True)
        artists += _series(over_ratio, rows, "ratio", "hidden_share", look, str(name), joined=False)
        artists += _series(speedup, rows, "ratio", "speedup", look, str(name), joined=False)
    if (frame["status"] == "noisy").any():
        artists += over_bytes.plot([], [], "o", color=style.REFERENCE, mfc=style.PAPER, label="hollow: noisy")
    return artists


def _ratio(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


def _references(axes: Axes, frame: pd.DataFrame) -> list[Artist]:
    known = frame[["hidden_share", "hidden_share_low", "hidden_share_high"]].to_numpy(dtype=float)
    low = max(_LOWEST, float(np.nanmin([0.0, *known.ravel()])))
    high = min(_HIGHEST, float(np.nanmax([1.0, *known.ravel()])))
    margin = 0.06 * (high - low)
    bottom, top = low - margin, high + margin
    axes.set_ylim(bottom, top)
    axes.set_ylabel(style.label(frame, "hidden_share"))
    return [
        axes.axhspan(bottom, 0, color=style.SHADE, zorder=0, label="worse than serial"),
        axes.axhline(1, color=style.REFERENCE, linewidth=1, label="_1: all hidden"),
        axes.axhline(0, color=style.REFERENCE, linewidth=1, linestyle="--", label="_0: serial"),
        *(_words(axes, at, text) for at, text in ((1, "1: all hidden"), (0, "0: as serial"))),
    ]


def _words(axes: Axes, at: float, text: str) -> Artist:
    """Behind the marks, on the paper's colour, outside on the right where no mark is."""
    return axes.annotate(
        text,
        (1, at),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        fontsize=7.5,
        va="center",
        color=style.REFERENCE,
        annotation_clip=False,
    )


def _bound(axes: Axes, frame: pd.DataFrame) -> list[Artist]:
    ratio = np.geomspace(*axes.get_xlim(), 257)
    bound = derive.speedup_bound(ratio)
    known = frame[["speedup", "speedup_low", "speedup_high"]].to_numpy(dtype=float)
    low, high = min(1.0, float(np.nanmin(known))), max(float(bound.max()), float(np.nanmax(known)))
    margin = 0.06 * (high - low)
    axes.set_ylim(low - margin, high + margin)
    return [
        axes.axhspan(low - margin, 1, color=style.SHADE, zorder=0, label="worse than serial"),
        axes.axhline(1, color=style.REFERENCE, linewidth=1, linestyle="--", label="_1: as serial"),
        _words(axes, 1, "1: as serial"),
        *axes.plot(ratio, bound, color="#000000", linewidth=1.2, label="bound: (1 + r) / max(1, r)"),
    ]


def _outside(axes: Axes, rows: pd.DataFrame, x: str, look: style.Series) -> list[Artist]:
    """An arrow at the edge, and the value, of every row that the axis leaves out."""
    artists: list[Artist] = []
    bottom, top = axes.get_ylim()
    for _, row in rows.iterrows():
        above = row["hidden_share"] > top
        if not above and not row["hidden_share"] < bottom:
            continue
        edge, way = (top, -1) if above else (bottom, 1)
        artists += axes.plot(
            [row[x]], [edge + 0.02 * way * (top - bottom)], "^" if above else "v", color=look.color, label="_outside"
        )
        artists.append(
            axes.annotate(
                style.percent(row["hidden_share"]),
                (row[x], edge),
                xytext=(6, 7 * way),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                color=look.color,
            )
        )
    return artists


def _series(
    axes: Axes, rows: pd.DataFrame, x: str, y: str, look: style.Series, name: str, *, joined: bool
) -> list[Artist]:
    """Every row is a marker with its interval; ``joined`` runs a line through the median of the rows at one x."""
    artists = style.interval(axes, "y", rows[x], rows[f"{y}_low"], rows[f"{y}_high"], look.color)
    if joined:
        for _, alike in rows.groupby([a for a in _LINE_AXES if a in rows], dropna=False, sort=False):
            median = alike.groupby(x)[y].median()
            artists += axes.plot(
                median.index, median.to_numpy(), look.line, color=look.color, linewidth=1.2, label="_line"
            )
    if y == "hidden_share":
        artists += _outside(axes, rows, x, look)
    for status, marks in rows.groupby("status"):
        artists += axes.plot(
            marks[x],
            marks[y],
            look.marker,
            color=look.color,
            markerfacecolor=style.face(look.color, str(status)),
            markeredgewidth=1.3,
            linestyle="",
            label="_marks",
        )
    # An empty artist stands for the series in the legend, which leaves out names that begin with "_".
    artists += axes.plot([], [], look.marker + look.line, color=look.color, label=name.lstrip("_") or "unnamed")
    return artists
