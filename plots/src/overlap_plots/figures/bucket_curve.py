# SPDX-License-Identifier: Apache-2.0
"""How much of the gradients' reduction stays exposed by bucket size: measured, in closed form, and what to choose."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Exposed time by bucket size"
DESCRIPTION = "overlap-ddp: exposed time and tail over the size of a bucket, the closed form, the recommended bucket"
NEEDS = {
    "summary": (
        "key status source bucket buckets gradient_bytes rounds t_compute t_comm t_exposed t_exposed_low "
        "t_exposed_high t_tail t_tail_low t_tail_high"
    ).split()
}

_SIZE = (9.5, 4.8)  # inches, of the panel
_LETTER = 0.062  # inches, of one letter of a name


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.matching(run.tables["summary"].frame, case)
    rows = derive.with_numbers(summary)
    rows = rows[rows["t_exposed"].notna()]
    made = []
    for series, sweep in rows.groupby(derive.series_keys(rows, "bucket"), sort=False):
        if sweep["bucket"].nunique() > 1:
            made.append(_page(run, str(series), sweep, summary))
    if not made:
        raise Absent("no sweep of several buckets")
    return made


def _page(run: Run, series: str, sweep: pd.DataFrame, summary: pd.DataFrame) -> Page:
    frame = sweep.assign(size=sweep["gradient_bytes"] / sweep["buckets"]).sort_values("size", kind="stable")
    frame.attrs = {**summary.attrs, "chosen": _chosen(run, series, sweep)}
    curve = derive.bucket_curve(sweep)
    unit = style.unit_of(summary, "t_exposed")
    captions = [
        "Size: gradient bytes / number of buckets, so uneven buckets are placed by their mean. Above: as asked for.",
        style.describe(summary, "t_exposed"),
        style.describe(summary, "t_tail"),
    ]
    if curve is not None:
        captions.append(
            f"Closed form: equal buckets, backward {style.si(curve.backward, unit)}, wire {style.si(curve.wire, unit)} "
            f"and {style.si(curve.latency, unit)} a bucket from the isolated times, neither side slowing the other."
        )
    choice = frame.attrs["chosen"]
    if choice is not None:
        captions.append(f"Recommended: bucket {choice['recommended']}; {choice['verdict']}.")
    return Page(
        frame=frame,
        panels=(1, 1),
        size=_SIZE,
        subtitle=derive.shared_axes(sweep),
        captions=captions,
        rounds=derive.rounds_range(sweep),
        sources=derive.sources(sweep),
        notes=[n for n in [derive.without_numbers(summary)] if n],
        name=derive.file_name(series),
    )


def _chosen(run: Run, series: str, sweep: pd.DataFrame) -> pd.Series | None:
    choices = run.frame("choices")
    if choices is None:
        return None
    of_series = choices[(choices["series"] == series) & (choices["option"] == "bucket")]
    return None if of_series.empty else of_series.iloc[0]


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    artists: list[Artist] = []
    sizes = frame["size"].to_numpy(dtype=float)
    style.log2_axis(panel, sizes, style.iec)
    panel.set_xlabel("mean size of a bucket")
    artists += _recommended(panel, frame)
    curve = derive.bucket_curve(frame)
    if curve is not None:
        total = float(frame["gradient_bytes"].iloc[0])
        count = np.geomspace(total / sizes.max(), total / sizes.min(), 201)
        artists += panel.plot(
            total / count, curve.exposed(count), "--", color=style.REFERENCE, linewidth=1.2, label="closed form"
        )
    for column, color, marker, name in (
        ("t_exposed", style.COMPUTE, "o", "exposed"),
        ("t_tail", style.EXPOSED, "v", "tail: after the last gradient"),
    ):
        known = frame[frame[column].notna()]
        if known.empty:
            continue
        artists += style.interval(panel, "y", known["size"], known[f"{column}_low"], known[f"{column}_high"], color)
        artists += panel.plot(known["size"], known[column], "-", color=color, linewidth=1.2, label="_line")
        for status, marks in known.groupby("status"):
            artists += panel.plot(
                marks["size"],
                marks[column],
                marker,
                color=color,
                markerfacecolor=style.face(color, str(status)),
                markeredgewidth=1.3,
                linestyle="",
                label="_marks",
            )
        artists += panel.plot([], [], f"{marker}-", color=color, label=name)
    artists += _names(panel, frame)
    if (frame["status"] == "noisy").any():
        artists += panel.plot([], [], "o", color=style.REFERENCE, mfc=style.PAPER, label="hollow: noisy")
    bottom, top = panel.get_ylim()
    panel.set_ylim(min(0.0, bottom), top + 0.06 * (top - bottom))
    panel.grid(axis="y")
    highest = float(np.nanmax(frame[["t_exposed", "t_exposed_high"]].to_numpy(dtype=float)))
    style.scale_axis(panel.yaxis, "time of a step", style.unit_of(frame, "t_exposed"), highest)
    return artists


def _recommended(panel: Axes, frame: pd.DataFrame) -> list[Artist]:
    """A band over the buckets that may be best."""
    choice = frame.attrs["chosen"]
    if choice is None:
        return []
    at = frame.groupby("bucket")["size"].mean()
    low, high = (float(at.get(choice[end], math.nan)) for end in ("best_low", "best_high"))
    if not math.isfinite(low + high):
        return []
    edge = 2**0.25
    band = panel.axvspan(
        min(low, high) / edge, max(low, high) * edge, color="#DCE9DC", zorder=0, label="best bucket, 95 % interval"
    )
    return [band]


def _names(panel: Axes, frame: pd.DataFrame) -> list[Artist]:
    """What was asked for, above the panel, where no line runs: each name in the first row that has room for it."""
    low, high = (math.log2(limit) for limit in panel.get_xlim())
    ends: list[float] = []  # of each row's last name, inches
    artists: list[Artist] = []
    for size in sorted(frame["size"].unique()):
        text = style.plain(", ".join(frame.loc[frame["size"] == size, "bucket"].unique()))
        middle = (math.log2(size) - low) / (high - low) * _SIZE[0]
        half = 0.5 * _LETTER * (len(text) + 1)
        row = next((i for i, end in enumerate(ends) if end <= middle - half), len(ends))
        ends[row : row + 1] = [middle + half]
        artists.append(
            panel.annotate(
                text,
                (size, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 4 + 11 * row),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
                color=style.REFERENCE,
                annotation_clip=False,
            )
        )
    return artists
