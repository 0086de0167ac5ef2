# SPDX-License-Identifier: Apache-2.0
"""What a queue holds over time: replays beside the fluid line, for each arrival rate, a panel a number of lanes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Backlog over time"
DESCRIPTION = "overlap-queue: submitted and not completed over time, beside the fluid line of the same rates"
NEEDS = {
    "summary": "key launch status source placement rounds lanes arrivals utilization".split(),
    "series": "key launch round time_s backlog fluid_backlog kind".split(),
}

_MOST = 8  # rates in a panel


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.with_numbers(derive.matching(run.tables["summary"].frame, case))
    summary = summary[summary["utilization"].notna()]
    if summary.empty:
        raise Absent("no case of overlap-queue with numbers")
    alike = [re.sub(r" (load|arrival_rate|lanes)=\S+", "", key) for key in summary["key"]]
    groups = list(summary.groupby([alike, summary["launch"]], sort=False))
    return [_page(run, rows, len(groups) > 1) for _, rows in groups]


def _page(run: Run, rows: pd.DataFrame, several: bool) -> Page:
    chosen = rows.groupby("lanes", sort=False).head(_MOST)
    names = chosen[["key", "launch", "lanes", "utilization"]].copy()
    names["rate"] = [f"ρ = {rho:.3g}" for rho in names["utilization"]]
    frame = run.tables["series"].frame.merge(names, on=["key", "launch"], how="inner")
    frame.attrs["columns"] = run.tables["series"].frame.attrs["columns"]
    if frame.empty:
        raise Absent("series.csv has nothing of these cases")
    panels = frame["lanes"].nunique()
    replays = (frame["kind"] == "replay").any()
    return Page(
        frame=frame,
        panels=(1, panels),
        size=(2.0 + 4.6 * panels, 4.4),
        subtitle=" · ".join(filter(None, (f"{rows['arrivals'].iloc[0]} arrivals", derive.shared_axes(chosen)))),
        captions=[
            style.describe(frame, "backlog"),
            "Dashed: the fluid line of the rates, Q(t) = max(0, Q₀ + (λ − μ) t), μ as measured in the same rounds."
            + (" Solid: median over the replays; shaded: 95 % of them." if replays else " Nothing was replayed."),
        ],
        rounds=derive.rounds_range(chosen),
        sources=derive.sources(chosen),
        intervals=False,
        notes=[f"shows {_MOST} rates of each number of lanes"] if len(chosen) < len(rows) else [],
        name=derive.file_name(str(rows["key"].iloc[0]), float(rows["launch"].iloc[0])) if several else "",
    )


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    artists: list[Artist] = []
    times = frame["time_s"].to_numpy(dtype=float)
    for panel, (lanes, of_lanes) in zip(axes, frame.groupby("lanes"), strict=True):
        for ((_, rate), rows), look in zip(
            of_lanes.groupby(["key", "rate"], sort=False), style.series_styles(), strict=False
        ):
            over_time = rows.groupby("time_s")
            fluid = over_time["fluid_backlog"].median()
            artists += panel.plot(fluid.index, fluid, color=look.color, linestyle="--", linewidth=1.2, label="_fluid")
            replays = rows[rows["kind"] == "replay"].groupby("time_s")["backlog"]
            if replays.ngroups == 0:
                artists[-1].set_label(str(rate))
                continue
            middle, low, high = replays.median(), replays.quantile(0.025), replays.quantile(0.975)
            artists += panel.plot(middle.index, middle, color=look.color, linewidth=1.6, label=str(rate))
            artists.append(panel.fill_between(middle.index, low, high, color=look.color, alpha=0.2, linewidth=0))
        panel.set_title("one lane" if lanes == 1 else f"{lanes:.0f} lanes", loc="left", fontsize=10)
        panel.set_ylim(bottom=0)
        panel.set_xlim(0, float(np.max(times)) or 1.0)
        style.scale_axis(panel.xaxis, "time", style.unit_of(frame, "time_s"), float(np.max(times)))
        panel.set_ylabel("backlog (operations)")
        panel.legend(loc="best", fontsize=8)
    return artists
