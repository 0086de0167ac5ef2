# SPDX-License-Identifier: Apache-2.0
"""What gathering layers ahead of use buys in time and costs in memory, and from which depth on more buys nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Prefetch depth against memory"
DESCRIPTION = "overlap-fsdp: exposed time and memory of gathered layers over the prefetch depth, the knee marked"
NEEDS = {
    "summary": (
        "key status source prefetch in_flight communicators gathered_memory rounds t_exposed t_exposed_low "
        "t_exposed_high"
    ).split()
}
_KNEE = "ring, the knee: the least depth that is not shown to expose more than the best"
_BESIDE = 0.06  # of a layer: so far apart stand the series' marks of one depth


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.matching(run.tables["summary"].frame, case)
    rows = derive.with_numbers(summary)
    rows = rows[rows["t_exposed"].notna()]
    if rows["prefetch"].nunique() < 2:
        raise Absent("no sweep of several depths")
    names = derive.series_names(rows)
    extra = [
        f"{name} · {int(c)} communicator{'' if c == 1 else 's'}" + (f" · {int(limit)} in flight" if limit else "")
        for name, c, limit in zip(names, rows["communicators"], rows["in_flight"], strict=True)
    ]
    frame = rows.assign(depth=rows["prefetch"].astype(float), group=derive.series_keys(rows, "prefetch"), series=extra)
    frame = frame.sort_values("depth", kind="stable")
    frame.attrs = {**summary.attrs, "knees": _knees(run)}
    return [
        Page(
            frame=frame,
            panels=(1, 2),
            size=(11.5, 4.2),
            subtitle=derive.shared_axes(rows),
            captions=[
                style.describe(summary, "t_exposed"),
                style.describe(summary, "gathered_memory"),
                "Left: the marks of one depth stand side by side. Right: the numbers are prefetch depths.",
                *(["The knee is that of choices.csv."] if frame.attrs["knees"] else []),
            ],
            rounds=derive.rounds_range(rows),
            sources=derive.sources(rows),
            notes=[n for n in [derive.without_numbers(summary)] if n],
        )
    ]


def _knees(run: Run) -> dict[str, float]:
    choices = run.frame("choices")
    if choices is None:
        return {}
    chosen = choices[choices["option"] == "prefetch"]
    return {series: float(depth) for series, depth in zip(chosen["series"], chosen["recommended"], strict=True)}


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    over_depth, over_memory = axes
    artists: list[Artist] = []
    count = frame["group"].nunique()
    groups = enumerate(frame.groupby("group", sort=False))
    for (number, (group, rows)), look in zip(groups, style.series_styles(), strict=False):
        rows = rows.assign(beside=rows["depth"] + _BESIDE * (number - (count - 1) / 2))
        knee = rows[rows["depth"] == frame.attrs["knees"].get(group, np.nan)]
        for panel, x in ((over_depth, "beside"), (over_memory, "gathered_memory")):
            artists += style.interval(panel, "y", rows[x], rows["t_exposed_low"], rows["t_exposed_high"], look.color)
            artists += panel.plot(rows[x], rows["t_exposed"], look.line, color=look.color, linewidth=1.2, label="_line")
            for status, marks in rows.groupby("status"):
                artists += panel.plot(
                    marks[x],
                    marks["t_exposed"],
                    look.marker,
                    color=look.color,
                    markerfacecolor=style.face(look.color, str(status)),
                    markeredgewidth=1.3,
                    linestyle="",
                    label="_marks",
                )
            if not knee.empty:
                artists += panel.plot(
                    knee[x], knee["t_exposed"], "o", color=look.color, mfc="none", markersize=15, mew=1.4, label="_knee"
                )
        artists += [
            over_memory.annotate(
                f"{int(row['depth'])}",
                (row["gathered_memory"], row["t_exposed"]),
                xytext=(8, 4),
                textcoords="offset points",
                fontsize=7.5,
                color=look.color,
            )
            for _, row in rows.iterrows()
        ]
        artists += over_depth.plot(
            [], [], look.marker + look.line, color=look.color, label=str(rows["series"].iloc[0]).lstrip("_")
        )
    if frame.attrs["knees"]:
        artists += over_depth.plot(
            [], [], "o", color=style.REFERENCE, mfc="none", markersize=10, mew=1.4, ls="", label=_KNEE
        )
    if (frame["status"] == "noisy").any():
        artists += over_depth.plot([], [], "o", color=style.REFERENCE, mfc=style.PAPER, ls="", label="hollow: noisy")
    known = frame[["t_exposed", "t_exposed_low", "t_exposed_high"]].to_numpy(dtype=float)
    low, high = min(0.0, float(np.nanmin(known))), float(np.nanmax(known))
    for panel in (over_depth, over_memory):
        panel.set_ylim(low - 0.02 * (high - low), high + 0.1 * (high - low))
        panel.grid(axis="y")
        style.scale_axis(panel.yaxis, "exposed time of a step", style.unit_of(frame, "t_exposed"), high)
    over_depth.set_xticks(sorted(frame["depth"].unique()))
    over_depth.set_xlabel("prefetch depth (layers)")
    style.log2_axis(over_memory, frame["gathered_memory"], style.iec)
    over_memory.set_xlabel("memory of gathered layers, a rank")
    return artists
