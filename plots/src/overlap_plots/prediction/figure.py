# SPDX-License-Identifier: Apache-2.0
"""Step times that the model predicted over those that were measured: on the line it was right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, labels, style
from overlap_plots.prediction.cases import Joined
from overlap_plots.registry import Absent, Page

TITLE = "Step time: model over measurement"

_SIZE = (8.0, 7.0)  # inches, of the panel
_BANDS = ((0.3, "#ECECEC"), (0.1, "#D3D3D3"))  # relative error, colour
_MOST_NAMES = 5


def page(joined: Joined, units: dict[str, str]) -> Page:
    """Raises ``Absent`` where no case has a step time in both runs."""
    frame = joined.frame[joined.frame["t_step_error"].notna() & (joined.frame["t_step"] > 0)]
    if frame.empty:
        raise Absent("no case has a t_step in both runs")
    absolute = frame["t_step_error"].abs()
    worst = absolute.nlargest(_MOST_NAMES).index
    names = frame["name"] + frame["t_step_error"].map(lambda error: f" {100 * error:+.0f} %".replace("-", "−"))
    frame = frame.assign(name=names.where(frame.index.isin(worst), ""))
    frame.attrs = {"units": units}
    several = bool((frame["launches"] > 1).any())
    apart = len(joined.apart) + len(joined.frame) - len(frame)
    return Page(
        frame=frame,
        panels=(1, 1),
        size=_SIZE,
        subtitle=" · ".join(filter(None, (joined.shared, f"{derive.count_cases(len(frame))} of both runs"))),
        captions=[
            "Error: (model − measured) / measured; above the line the model is slower. Of these cases the median "
            f"is {_percent(frame['t_step_error'].median(), '+')}, the median absolute error "
            f"{_percent(absolute.median())}, the worst {_percent(absolute.max())}.",
            "Cases are matched by what was asked for, whatever the transport. "
            f"Named: {'all' if len(frame) <= _MOST_NAMES else f'the {_MOST_NAMES} that are farthest off'}.",
            "Lines: intervals of what was measured; the model is deterministic."
            + (" Of several launches the median, without an interval." if several else ""),
        ],
        rounds=derive.rounds_range(frame),
        sources=(*derive.sources(frame), "model"),
        intervals=bool(frame["t_step_low"].notna().any()),
        notes=[f"{derive.count_cases(apart)} of one run only, or of other work, not shown"] if apart else [],
    )


def _percent(value: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.1f} %".replace("-", "−")


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    unit = frame.attrs["units"]["seconds"]
    known = frame[["t_step", "t_step_low", "t_step_high", "t_step_model"]].to_numpy(dtype=float).ravel()
    who = ", ".join(derive.sources(frame))
    style.log10_axis(panel, "x", f"t_step, {who}", unit, known)
    style.log10_axis(panel, "y", "t_step, predicted by the model", unit, known)
    panel.grid(True, axis="both")
    ends = np.array(panel.get_xlim())
    artists: list[Artist] = []
    for error, color in _BANDS:
        label = f"within ±{100 * error:.0f} %"
        artists.append(panel.fill_between(ends, ends * (1 - error), ends * (1 + error), color=color, lw=0, label=label))
    artists += panel.plot(ends, ends, color=style.REFERENCE, linewidth=1.2, label="model = measured")
    for (name, rows), look in zip(frame.groupby("series", sort=False), style.series_styles(), strict=False):
        artists += style.interval(panel, "x", rows["t_step_model"], rows["t_step_low"], rows["t_step_high"], look.color)
        for status, marks in rows.groupby("status"):
            artists += panel.plot(
                marks["t_step"],
                marks["t_step_model"],
                look.marker,
                color=look.color,
                markerfacecolor=style.face(look.color, str(status)),
                markeredgewidth=1.3,
                label="_marks",
            )
        artists += panel.plot([], [], look.marker, color=look.color, label=str(name).lstrip("_") or "unnamed")
    if (frame["status"] == "noisy").any():
        artists += panel.plot([], [], "o", color=style.REFERENCE, mfc=style.PAPER, label="hollow: noisy")
    diagonal = np.geomspace(*panel.get_xlim(), 200)
    line = pd.DataFrame({"t_step": diagonal, "t_step_model": diagonal})
    return artists + labels.beside_marks(panel, _SIZE, frame, "t_step", "t_step_model", line)
