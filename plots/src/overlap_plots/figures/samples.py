# SPDX-License-Identifier: Apache-2.0
"""What the medians are made of: every replay of every arm in the order of measurement. Drift, steps and bursts show."""

from __future__ import annotations

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

TITLE = "Raw samples"
DESCRIPTION = "every sample of one case, arm by arm in order, spoilt ones marked, with the median and its interval"
NEEDS = {
    "samples": "key launch block round arm step repeats used".split(),
    "summary": (
        "key launch status source placement rounds rounds_spoilt t_compute t_comm t_empty t_empty_low t_empty_high "
        "t_compute_low t_compute_high t_comm_low t_comm_high t_serial t_serial_low t_serial_high "
        "t_step t_step_low t_step_high"
    ).split(),
}

_MOST = 6
_COLORS = {"compute": style.COMPUTE, "comm": style.COMM, "serial": style.SERIAL, "overlapped": "#009E73"}


def pages(run: Run, case: str) -> list[Page]:
    rows = derive.with_numbers(derive.matching(run.tables["summary"].frame, case))
    samples = run.tables["samples"].frame
    sampled = pd.MultiIndex.from_frame(samples[["key", "launch"]]).unique()
    rows = rows[pd.MultiIndex.from_frame(rows[["key", "launch"]]).isin(sampled)]
    if rows.empty:
        raise Absent("no case with samples")
    chosen = derive.choose(rows, _MOST)
    note = derive.chosen_note(len(chosen), len(rows))
    return [_page(row, samples, [note] if note else []) for _, row in chosen.iterrows()]


def _page(row: pd.Series[Any], samples: pd.DataFrame, notes: list[str]) -> Page:
    frame = derive.arm_steps(samples[(samples["key"] == row["key"]) & (samples["launch"] == row["launch"])])
    for arm, column in derive.TIME_OF_ARM.items():
        for end in ("", "_low", "_high"):
            frame.loc[frame["arm"] == arm, f"median{end}"] = row[column + end]
    frame.attrs = samples.attrs
    arms = len(_arms(frame))
    own = [style.plain(arm) for arm in _arms(frame) if arm not in derive.TIME_OF_ARM]
    return Page(
        frame=frame,
        panels=(arms, 1),
        size=(10.0, 1.55 * arms),
        subtitle=derive.full_name(row) + (" · noisy" if row["status"] == "noisy" else ""),
        captions=[
            "Time of one operation: the step of a window / its repeats; the empty arm: of the whole window.",
            "Vertical lines: blocks, between which the machine's conditions are read.",
            *([f"Of {', '.join(own)} the summary has no median."] if own else []),
        ],
        rounds=derive.rounds_range(row.to_frame().T),
        notes=notes,
        sources=derive.sources(row.to_frame().T),
        name=derive.file_name(row["key"], row["launch"]),
    )


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    unit = style.unit_of(frame, "step")
    artists: list[Artist] = []
    for panel, arm in zip(axes, _arms(frame), strict=True):
        rows = frame[frame["arm"] == arm].sort_values("round")
        artists += _arm(panel, arm, rows, unit)
        panel.set_xlim(frame["round"].min() - 0.5, frame["round"].max() + 0.5)
        panel.tick_params(axis="x", labelbottom=panel is axes[-1])
    axes[-1].set_xlabel("round, in the order of measurement")
    return artists


def _arms(frame: pd.DataFrame) -> list[str]:
    """The arms that were measured: the usual ones in their order, then a bench's own."""
    present = list(frame["arm"].unique())
    return [a for a in derive.ARMS if a in present] + sorted(a for a in present if a not in derive.ARMS)


def _arm(axes: Axes, arm: str, rows: pd.DataFrame, unit: str) -> list[Artist]:
    color = _COLORS.get(arm, style.REFERENCE)
    used, spoilt = rows[rows["used"] == 1], rows[rows["used"] != 1]
    artists: list[Artist] = []
    for start in rows.groupby("block")["round"].min().sort_values().iloc[1:]:
        artists.append(axes.axvline(start - 0.5, color="#C8C8C8", linewidth=0.8, zorder=1))
    artists += axes.plot(used["round"], used["time"], ".", color=color, markersize=5, label="_")
    first = rows.iloc[0]
    # The panel's height is that of the used samples, so that their drift shows; spoilt ones beyond it sit on its edge.
    bottom, top = _limits([*(used if len(used) else spoilt)["time"], first["median_low"], first["median_high"]])
    for marker, marks, name in (
        ("x", spoilt[spoilt["time"].between(bottom, top)], "spoilt, unused"),
        ("^", spoilt[spoilt["time"] > top], "spoilt, above the panel"),
        ("v", spoilt[spoilt["time"] < bottom], "spoilt, below the panel"),
    ):
        if len(marks):
            edge = marks["time"].clip(bottom, top)
            artists += axes.plot(
                marks["round"], edge, marker, color=style.EXPOSED, markersize=5, clip_on=False, label=name
            )
    if np.isfinite(first["median_low"]) and np.isfinite(first["median_high"]):
        band = axes.axhspan(first["median_low"], first["median_high"], color=color, alpha=0.25, label="95 % interval")
        artists.append(band)
    if np.isfinite(first["median"]):
        artists.append(axes.axhline(first["median"], color="#000000", linewidth=1, label="median of the used rounds"))
    axes.set_ylim(bottom, top)
    axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    style.scale_axis(axes.yaxis, "time", unit, top)
    axes.set_title(f"{style.plain(arm)}: {len(used)} used, {len(spoilt)} spoilt", fontsize=8.5)
    return artists


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin
