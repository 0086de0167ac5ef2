# SPDX-License-Identifier: Apache-2.0
"""What channels (and SMs taken from a GEMM) cost the GEMM and give the bus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import contention, derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Page

TITLE = "Budget of SMs and channels"
DESCRIPTION = "overlap-contention --study sm_budget: GEMM slowdown against bus bandwidth, Pareto front and knee"
NEEDS = {"summary": [*contention.NEEDS, "channels_asked", "sm_target", "bus_bandwidth_loaded"]}


def pages(run: Run, case: str) -> list[Page]:
    rows = contention.rows_of(run, case, "sm_budget", "bus_bandwidth_loaded")
    names = contention.series(rows, ["victim", "aggressor", "placement"])
    pages = []
    for name, frame in rows.groupby(names, sort=False):
        frame = frame.reset_index(drop=True)
        frame.attrs = rows.attrs
        pages.append(
            Page(
                frame=frame,
                panels=(1, 1),
                size=(7.5, 4.6),
                subtitle=derive.shared_axes(frame),
                captions=[
                    style.describe(frame, "victim_slowdown"),
                    "Labels: channels, and SMs that the GEMM may count on where it is not all; w: waves of its tiles. "
                    "Line: settings that no other beats.",
                ],
                rounds=derive.rounds_range(frame),
                sources=derive.sources(frame),
                name=derive.file_name(str(name)) if names.nunique() > 1 else "",
            )
        )
    return pages


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    cost = frame["victim_slowdown"].to_numpy(dtype=float)
    gain = frame["bus_bandwidth_loaded"].to_numpy(dtype=float)
    front = contention.pareto_front(cost, gain)
    artists = style.interval(
        panel, "x", gain, frame["victim_slowdown_low"], frame["victim_slowdown_high"], style.COMPUTE
    )
    artists += panel.plot(cost, gain, "o", color=style.COMPUTE, label="setting")
    artists += panel.plot(cost[front], gain[front], "-", color=style.REFERENCE, lw=1, label="Pareto front")
    best = contention.knee(cost, gain)
    if best is not None:
        artists += panel.plot(
            cost[[best]], gain[[best]], "o", ms=13, mfc="none", color=style.EXPOSED, label="knee of the front"
        )
    for i, (_, row) in enumerate(frame.iterrows()):
        text = panel.annotate(_label(row), (cost[i], gain[i]), xytext=(6, 4), textcoords="offset points", fontsize=8)
        artists.append(text)
    panel.set_xlabel("GEMM covered / alone (ratio)")
    style.scale_axis(
        panel.yaxis, "bus bandwidth beside it", style.unit_of(frame, "bus_bandwidth_loaded"), float(np.nanmax(gain))
    )
    panel.set_ylim(0, float(np.nanmax(gain)) * 1.15)
    panel.margins(x=0.15)
    return artists


def _label(row: pd.Series) -> str:
    text = f"{row['channels_asked']:.0f}"
    if row["sm_target"] > 0:
        text += f" / {row['sm_target']:.0f} SMs"
    waves = row.get("gemm_waves", np.nan)
    return text + (f" ({waves:.0f} w)" if np.isfinite(waves) else "")
