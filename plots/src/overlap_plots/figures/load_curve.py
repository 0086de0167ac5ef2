# SPDX-License-Identifier: Apache-2.0
"""How much slower as the load beside it grows, and from where on overlap stops paying."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import contention, derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Page

TITLE = "Slowdown against load"
DESCRIPTION = "overlap-contention --study load_curve: slowdown of both sides over the pace of a stream, and break-even"
NEEDS = {
    "summary": [*contention.NEEDS, "pace_alone", "pace_loaded", "aggressor_slowdown_low", "aggressor_slowdown_high"]
}

_SIDES = (("victim_slowdown", style.COMPUTE, "o"), ("aggressor_slowdown", style.COMM, "s"))


def pages(run: Run, case: str) -> list[Page]:
    rows = contention.rows_of(run, case, "load_curve", "pace_alone")
    names = contention.series(
        rows, ["victim", "placement", "workers"] if "workers" in rows else ["victim", "placement"]
    )
    pages = []
    for name, chosen in rows.groupby(names, sort=False):
        frame = chosen.sort_values("pace_alone").reset_index(drop=True)
        frame.attrs = rows.attrs
        pages.append(
            Page(
                frame=frame,
                panels=(1, 2),
                size=(10.5, 3.9),
                subtitle=derive.shared_axes(frame),
                captions=[
                    style.describe(frame, "victim_slowdown"),
                    f"{style.describe(frame, 'overlap_gain')}; without an interval",
                ],
                rounds=derive.rounds_range(frame),
                sources=derive.sources(frame),
                name=derive.file_name(str(name)) if names.nunique() > 1 else "",
            )
        )
    return pages


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    slowed, gain = axes
    pace = frame["pace_alone"].to_numpy(dtype=float)
    artists: list[Artist] = [slowed.axhline(1, color=style.REFERENCE, lw=1, label="_")]
    for column, color, marker in _SIDES:
        artists += style.interval(slowed, "y", pace, frame[f"{column}_low"], frame[f"{column}_high"], color)
        artists += slowed.plot(pace, frame[column], marker + "-", color=color, lw=1.2, label=column.replace("_", " "))
    slowed.set_ylabel("covered / alone (ratio)")
    artists += gain.plot(
        pace, frame["overlap_gain"], "D-", color="#009E73", lw=1.2, label="1 / victim's + 1 / aggressor's slowdown - 1"
    )
    artists.append(gain.axhline(0, color=style.REFERENCE, lw=1, label="0: in turn is as good"))
    at = contention.break_even(pace, frame["overlap_gain"].to_numpy(dtype=float))
    if at is not None:
        artists.append(
            gain.axvline(at, color=style.EXPOSED, lw=1.2, ls="--", label=f"break-even: {style.si(at, 'B/s')}")
        )
    low = min(-0.1, float(np.nanmin(frame["overlap_gain"])) - 0.1) if frame["overlap_gain"].notna().any() else -0.1
    gain.set_ylim(low, 1.1)
    gain.set_ylabel("overlap gain (ratio)")
    for panel in axes:
        style.scale_axis(panel.xaxis, "stream alone", style.unit_of(frame, "pace_alone"), float(np.nanmax(pace)))
        panel.set_xlim(0, float(np.nanmax(pace)) * 1.05)
    return artists
