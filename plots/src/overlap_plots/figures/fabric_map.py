# SPDX-License-Identifier: Apache-2.0
"""Where fabrics lie: what a small message costs against how fast a large one goes. Right and below is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import fabrics, labels, style
from overlap_plots.fabrics import Fabric, Series
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Fabric map"
DESCRIPTION = "alpha against 1 / beta as bus bandwidth, of the series of a run or of several fabrics"
NEEDS = {
    "summary": "key status source collective dtype ranks in_place bytes t_comm".split(),
    "fits": "collective dtype ranks in_place method segments alpha_s beta_s_per_byte".split(),
}

_SIZE = (10.5, 6.6)  # inches, of the panel
_SMALL = 65536  # bytes: without a message below it alpha is extrapolated
_LOOKS = {"measured": ("o", "#0072B2"), "imported": ("s", "#009E73"), "published": ("D", "#CC79A7")}
_OTHER = ("X", "#4D4D4D")  # emulated, model, proxy


def pages(run: Run, case: str) -> list[Page]:
    fabric = fabrics.from_run(run, case)
    units = style.units_of(run.tables["fits"].frame, seconds="alpha_s", bandwidth="bus_bandwidth")
    return [_page([(s.title(), s) for s in fabric.series], units, run.name, [])]


def pages_of(several: Sequence[Fabric]) -> list[Page]:
    """Of each of them the series that stands for it."""
    found = []
    for fabric in several:
        best = fabrics.headline(fabric)
        if best is not None:
            kind = "" if best.collective == "all_reduce" else f" ({best.collective})"
            found.append((fabric.name + kind, best))
    lacking = len(several) - len(found)
    notes = [f"{lacking} without a series of known bus bandwidth"] if lacking else []
    subtitle = "all_reduce where no other collective is named: small and large messages"
    return [_page(found, {"seconds": "s", "bandwidth": "B/s"}, subtitle, notes)]


def _page(named: Sequence[tuple[str, Series]], units: dict[str, str], subtitle: str, notes: list[str]) -> Page:
    rows = [_row(name, s) for name, s in named]
    drawable = [row for row in rows if row["alpha"] > 0 and row["bandwidth"] > 0]
    if not drawable:
        raise Absent("no series with a positive alpha and a bus bandwidth")
    if len(drawable) < len(rows):
        notes = [*notes, f"{len(rows) - len(drawable)} series left out: alpha or bus bandwidth unknown or not positive"]
    frame = pd.DataFrame(drawable)
    frame.attrs = {"units": units}
    points = frame["points"][frame["points"] > 0]
    return Page(
        frame=frame,
        panels=(1, 1),
        size=_SIZE,
        subtitle=subtitle,
        captions=[
            "alpha: of the fit's first line, the time of a small message. Bus bandwidth: 1 / beta of its last line by "
            "the bus factor of nccl-tests, so that numbers of ranks compare; above the wire where switches reduce.",
            "Hollow: no message below 64 KiB was timed, alpha is extrapolated.",
        ],
        rounds=fabrics.points_range(points, "fit"),
        sources=fabrics.sources([s for _, s in named]),
        intervals=bool(frame[["alpha_low", "bandwidth_low"]].notna().to_numpy().any()),
        notes=notes,
    )


def _row(name: str, series: Series) -> dict[str, Any]:
    alpha, bandwidth = series.alpha, series.bandwidth
    least = float(series.points["bytes"].min()) if len(series.points) else math.nan
    return {
        "name": name,
        "source": series.source or "unknown source",
        "alpha": alpha.value,
        "alpha_low": alpha.low,
        "alpha_high": alpha.high,
        "bandwidth": bandwidth.value,
        "bandwidth_low": bandwidth.low,
        "bandwidth_high": bandwidth.high,
        "points": len(series.points),
        "extrapolated": least > _SMALL,
    }


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    units: dict[str, str] = frame.attrs["units"]
    style.log10_axis(panel, "x", "bus bandwidth of large messages", units["bandwidth"], _with_ends(frame, "bandwidth"))
    style.log10_axis(panel, "y", "alpha", units["seconds"], _with_ends(frame, "alpha"))
    panel.grid(True, axis="both")
    artists: list[Artist] = []
    for source, rows in frame.groupby("source", sort=False):
        marker, color = _LOOKS.get(str(source), _OTHER)
        artists += style.interval(panel, "y", rows["bandwidth"], rows["alpha_low"], rows["alpha_high"], color)
        artists += style.interval(panel, "x", rows["alpha"], rows["bandwidth_low"], rows["bandwidth_high"], color)
        for hollow, marks in rows.groupby("extrapolated"):
            face = style.PAPER if hollow else color
            artists += panel.plot(
                marks["bandwidth"], marks["alpha"], marker, color=color, mfc=face, mew=1.3, ms=7, label="_marks"
            )
        artists += panel.plot([], [], marker, color=color, ms=7, label=str(source))
    if frame["extrapolated"].any():
        artists += panel.plot([], [], "s", color=style.REFERENCE, mfc=style.PAPER, label="hollow: alpha extrapolated")
    return artists + labels.beside_marks(panel, _SIZE, frame, "bandwidth", "alpha")


def _with_ends(frame: pd.DataFrame, column: str) -> list[float]:
    return [float(v) for v in frame[[column, f"{column}_low", f"{column}_high"]].to_numpy().ravel() if v > 0]
