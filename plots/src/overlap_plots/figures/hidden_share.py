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
_LETTER = 0.0148  # width of a letter of small print, of the panel's
_BEYOND = (
    "Triangles at the edge of an axis, with what they stand for in words: the share lies beyond; hollow: a part of its "
    "interval does."
)
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
    (bottom, top), known = _limits(frame), frame[shares].to_numpy(dtype=float)
    beyond = bool((known < bottom).any() or (known > top).any())
    return [
        Page(
            frame=frame,
            panels=(1, 3),
            size=(13.5, 4.2),
            subtitle=derive.shared_axes(rows),
            captions=[
                style.describe(rows, "hidden_share"),
                style.describe(rows, "speedup"),
                *([_BEYOND] if beyond else []),
            ],
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
    artists += _outside(over_bytes, frame, "bytes") + _outside(over_ratio, frame, "ratio")
    if (frame["status"] == "noisy").any():
        artists += over_bytes.plot([], [], "o", color=style.REFERENCE, mfc=style.PAPER, label="hollow: noisy")
    return artists


def _ratio(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


def _limits(frame: pd.DataFrame) -> tuple[float, float]:
    known = frame[["hidden_share", "hidden_share_low", "hidden_share_high"]].to_numpy(dtype=float)
    low = max(_LOWEST, float(np.nanmin([0.0, *known.ravel()])))
    high = min(_HIGHEST, float(np.nanmax([1.0, *known.ravel()])))
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def _references(axes: Axes, frame: pd.DataFrame) -> list[Artist]:
    bottom, top = _limits(frame)
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


def _outside(axes: Axes, frame: pd.DataFrame, x: str) -> list[Artist]:
    """A triangle at the edge for every row that the axis leaves out, filled, or whose interval it cuts, hollow; and in
    words what cannot be read there, where it covers no other words."""
    artists: list[Artist] = []
    limits = axes.get_ylim()
    left, right = np.log2(axes.get_xlim())
    taken: dict[str, list[tuple[float, float, int]]] = {"v": [], "^": []}  # from, to (of the panel's width), row
    for (_, rows), look in zip(frame.groupby("series", sort=False), style.series_styles(), strict=False):
        for _, row in rows.iterrows():
            value, low, high = (row[f"hidden_share{end}"] for end in ("", "_low", "_high"))
            for mark, edge, way, out, cut in (
                ("v", limits[0], 1, value < limits[0], low < limits[0]),
                ("^", limits[1], -1, value > limits[1], high > limits[1]),
            ):
                if not out and not cut:
                    continue
                at = edge + 0.02 * way * (limits[1] - limits[0])
                face = look.color if out else style.PAPER
                label = "_outside" if out else "_cut"
                artists += axes.plot([row[x]], [at], mark, color=look.color, mfc=face, clip_on=False, label=label)
                words = _beyond(value, low, high, whole=bool(out))
                place = float((np.log2(row[x]) - left) / (right - left))
                width = _LETTER * (len(words) + 2)
                onwards = place + width < 1  # else the words end at the mark
                begin = place if onwards else place - width
                rows_taken = {r for start, end, r in taken[mark] if start < begin + width and begin < end}
                free = next(r for r in range(len(rows_taken) + 1) if r not in rows_taken)
                taken[mark].append((begin, begin + width, free))
                artists.append(
                    axes.annotate(
                        words,
                        (row[x], edge),
                        xytext=(6 if onwards else -6, (7 + 11 * free) * way),
                        textcoords="offset points",
                        ha="left" if onwards else "right",
                        va="center",
                        fontsize=7.5,
                        color=look.color,
                    )
                )
    return artists


def _beyond(value: float, low: float, high: float, *, whole: bool) -> str:
    """``−500 % [−700, −100]``, or of a value that is in the picture only its interval."""
    ends = [style.percent(end).removesuffix(" %") for end in (low, high)]
    interval = f"[{', '.join(ends)}]" if np.isfinite(low + high) else ""
    return " ".join(filter(None, (style.percent(value), interval))) if whole else f"{interval} %"


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
