# SPDX-License-Identifier: Apache-2.0
"""Who slows whom: a square for every victim and aggressor, with its number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from overlap_plots import contention, derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Who slows whom"
DESCRIPTION = "overlap-contention: slowdown of every victim beside every aggressor, both ways, with the numbers"
NEEDS = {"summary": contention.NEEDS}

_SIDES = (("victim_slowdown", "the victim"), ("aggressor_slowdown", "the aggressor"))
_DARK = 0.6  # of the colours: from here on text is white


def pages(run: Run, case: str) -> list[Page]:
    rows = contention.rows_of(run, case, "matrix", "victim_slowdown")
    pages = []
    for placement, chosen in rows.groupby("placement", sort=False):
        frame = chosen.drop_duplicates(["victim", "aggressor"], keep="last")
        victims, aggressors = frame["victim"].nunique(), frame["aggressor"].nunique()
        pages.append(
            Page(
                frame=frame,
                panels=(1, 2),
                size=(3.6 + 2 * 1.35 * aggressors, 1.5 + 0.55 * victims),
                subtitle=derive.shared_axes(frame),
                captions=[
                    style.describe(frame, "victim_slowdown"),
                    "In brackets its 95 % interval. Hatched: not measured, or not covered in every round; "
                    "what only holds SMs or cores is not slowed itself.",
                ],
                rounds=derive.rounds_range(frame),
                sources=derive.sources(frame),
                name=derive.file_name(str(placement)) if rows["placement"].nunique() > 1 else "",
            )
        )
    if not pages:
        raise Absent("no matrix")
    return pages


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    victims = list(dict.fromkeys(frame["victim"]))
    aggressors = list(dict.fromkeys(frame["aggressor"]))
    most = float(np.nanmax(frame[[column for column, _ in _SIDES]].to_numpy(dtype=float), initial=2.0))
    colors = LogNorm(0.95, max(most, 4.0), clip=True)
    artists: list[Artist] = []
    for panel, (column, who) in zip(axes, _SIDES, strict=True):
        grid = np.full((len(victims), len(aggressors)), np.nan)
        for _, row in frame.iterrows():
            at = victims.index(row["victim"]), aggressors.index(row["aggressor"])
            grid[at] = row[column]
            if np.isfinite(row[column]):
                color = style.PAPER if colors(row[column]) > _DARK else "black"
                text = panel.text(at[1], at[0], _number(row, column), ha="center", va="center", color=color, fontsize=9)
                artists.append(text)
        panel.set_facecolor("#EEEEEE")
        panel.patch.set_hatch("////")
        panel.patch.set_edgecolor("#CCCCCC")
        artists.append(panel.imshow(grid, cmap="OrRd", norm=colors, aspect="auto"))
        panel.set_xticks(range(len(aggressors)), [style.shorten(style.plain(a), 22) for a in aggressors], rotation=20)
        panel.set_yticks(range(len(victims)), [style.shorten(style.plain(v), 26) for v in victims])
        for tick in panel.get_xticklabels():
            tick.set_horizontalalignment("right")
        panel.set_title(f"slowdown of {who}", loc="left", fontsize=10)
        panel.set_xlabel("aggressor")
        panel.set_ylabel("victim")
        panel.grid(False)
    return artists


def _number(row: pd.Series, column: str) -> str:
    value = f"{row[column]:.2f}×"
    low, high = row.get(f"{column}_low", np.nan), row.get(f"{column}_high", np.nan)
    return value + (f"\n[{low:.2f}, {high:.2f}]" if np.isfinite(low + high) else "")
