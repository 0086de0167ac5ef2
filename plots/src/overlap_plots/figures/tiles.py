# SPDX-License-Identifier: Apache-2.0
"""What reducing in tiles hides of tensor parallelism, by the number of tiles and the size of what is reduced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Exposed share by tiles"
DESCRIPTION = "overlap-tp: exposed part of a pass and its time over the number of tiles, a line a size"
NEEDS = {
    "summary": (
        "key status source mode tiles tokens activation_bytes rounds t_step t_step_low t_step_high t_exposed "
        "t_exposed_low t_exposed_high"
    ).split()
}


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.matching(run.tables["summary"].frame, case)
    rows = derive.with_numbers(summary)
    rows = rows[rows["t_exposed"].notna()]
    if rows["tiles"].nunique() < 2:
        raise Absent("no sweep of several tiles")
    groups = derive.series_keys(rows, "tiles")
    modes = [f" · {style.plain(m)}" if rows["mode"].nunique() > 1 else "" for m in rows["mode"]]
    names = [
        f"{int(tokens)} tokens, {style.iec(size)} a pair{mode}"
        for tokens, size, mode in zip(rows["tokens"], rows["activation_bytes"], modes, strict=True)
    ]
    ends = {
        name: rows[column] / rows["t_step"]
        for name, column in (("share", "t_exposed"), ("share_low", "t_exposed_low"), ("share_high", "t_exposed_high"))
    }
    frame = rows.assign(number=rows["tiles"].astype(float), group=groups, series=names, **ends)
    untiled = frame[frame["number"] == 1].groupby("group")["t_step"].median()
    whole = frame["group"].map(untiled)
    frame = frame.assign(
        relative=frame["t_step"] / whole,
        relative_low=frame["t_step_low"] / whole,
        relative_high=frame["t_step_high"] / whole,
    ).sort_values("number", kind="stable")
    frame.attrs = summary.attrs
    return [
        Page(
            frame=frame,
            panels=(1, 2),
            size=(11.5, 4.2),
            subtitle=derive.shared_axes(rows),
            captions=[
                "Left: t_exposed / t_step, the interval that of t_exposed. "
                "Right: t_step over that of one tile, the interval that of t_step: below 1 tiling pays.",
                style.describe(summary, "t_exposed"),
            ],
            rounds=derive.rounds_range(rows),
            sources=derive.sources(rows),
            notes=[n for n in [derive.without_numbers(summary)] if n],
        )
    ]


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    artists: list[Artist] = []
    for panel, y, name in zip(
        axes,
        ("share", "relative"),
        ("exposed share of a pass (ratio)", "time of a pass / with one tile (ratio)"),
        strict=True,
    ):
        for (_, rows), look in zip(frame.groupby("group", sort=False), style.series_styles(), strict=False):
            artists += style.interval(panel, "y", rows["number"], rows[f"{y}_low"], rows[f"{y}_high"], look.color)
            artists += panel.plot(rows["number"], rows[y], look.line, color=look.color, linewidth=1.2, label="_line")
            for status, marks in rows.groupby("status"):
                artists += panel.plot(
                    marks["number"],
                    marks[y],
                    look.marker,
                    color=look.color,
                    markerfacecolor=style.face(look.color, str(status)),
                    markeredgewidth=1.3,
                    linestyle="",
                    label="_marks",
                )
            if y == "share":
                label = str(rows["series"].iloc[0])
                artists += panel.plot([], [], look.marker + look.line, color=look.color, label=label)
        style.log2_axis(panel, frame["number"], lambda value: f"{value:g}" if value >= 1 else "")
        panel.set_xlabel("tiles")
        panel.set_ylabel(name)
        panel.grid(axis="y")
    share, relative = axes
    known = frame[["share", "share_low", "share_high"]].to_numpy(dtype=float)
    share.set_ylim(min(0.0, float(np.nanmin(known)) - 0.02), float(np.nanmax(known)) * 1.08)
    artists.append(relative.axhline(1, color=style.REFERENCE, linewidth=1, linestyle="--", label="_1: as one tile"))
    if (frame["status"] == "noisy").any():
        artists += share.plot([], [], "o", color=style.REFERENCE, mfc=style.PAPER, ls="", label="hollow: noisy")
    return artists
