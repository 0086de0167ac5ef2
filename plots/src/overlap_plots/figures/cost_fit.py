# SPDX-License-Identifier: Apache-2.0
"""What one collective costs by size, the lines that were fitted to it, and how far they are off at every size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from overlap_plots import fabrics, style
from overlap_plots.fabrics import Fabric, Series
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Cost of a collective and its fit"
DESCRIPTION = "time over bytes with alpha + beta · bytes in segments, and the relative error of every point"
NEEDS = {
    "summary": "key status source collective dtype ranks in_place bytes t_comm".split(),
    "fits": "collective dtype ranks in_place method segments alpha_s beta_s_per_byte breakpoint_bytes".split(),
}

_MOST = 6


def pages(run: Run, case: str) -> list[Page]:
    units = style.units_of(run.tables["summary"].frame, seconds="t_comm", bytes="bytes")
    return _pages(fabrics.from_run(run, case), units, _MOST)


def pages_of(several: Sequence[Fabric]) -> list[Page]:
    """Of each of them the series that stands for it."""
    units = {"seconds": "s", "bytes": "B"}
    found = [page for fabric in several for page in _pages(fabric, units, 1)]
    if not found:
        raise Absent("no description has points")
    return found


def _pages(fabric: Fabric, units: dict[str, str], most: int) -> list[Page]:
    drawable = [s for s in fabric.series if len(s.points) >= 2]
    if most == 1:
        headline = fabrics.headline(fabric)
        drawable = [headline] if headline in drawable and headline is not None else drawable[:1]
        note = ""
    elif not drawable:
        raise Absent("no series of several sizes has a fit")
    else:
        note = f"shows {most} of {len(drawable)} series; --case SUBSTRING picks others" if len(drawable) > most else ""
    return [_page(fabric, series, units, note) for series in drawable[:most]]


def _page(fabric: Fabric, series: Series, units: dict[str, str], note: str) -> Page:
    frame = series.points.assign(predicted=series.predicted(series.points["bytes"].to_numpy()))
    frame["error"] = frame["predicted"] / frame["seconds"] - 1
    frame.attrs = {"series": series, "units": units}
    count = f"n = {len(frame)} points" + (f" of {series.launches} launches" if series.launches > 1 else "")
    words = f"half of the points are off by more than {100 * series.median_error:.1f} %, the worst by"
    name = "-".join(filter(None, (fabric.name, series.title())))
    return Page(
        frame=frame,
        panels=(2, 1),
        size=(9.0, 6.4),
        subtitle=" · ".join(filter(None, (fabric.name, fabric.about, series.title()))),
        captions=[
            f"Least squares of relative errors; {words} {100 * series.max_error:.1f} %.",
            "Error: (fit − time) / time. bus: bus factor / beta, what a line tends to.",
            *([f"From {series.whence}."] if series.whence else []),
        ],
        rounds=count,
        sources=fabrics.sources([series]),
        intervals=bool(frame["low"].notna().any()) or any(math.isfinite(s.alpha.low) for s in series.segments),
        notes=[note] if note else [],
        name="".join(c if c.isascii() and (c.isalnum() or c in "-_+=") else "_" for c in name)[:120],
    )


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    time, error = axes
    series: Series = frame.attrs["series"]
    units: dict[str, str] = frame.attrs["units"]
    for panel in axes:
        style.log2_axis(panel, frame["bytes"], style.iec)
    artists: list[Artist] = style.interval(time, "y", frame["bytes"], frame["low"], frame["high"], style.REFERENCE)
    artists += time.plot(
        frame["bytes"], frame["seconds"], "o", color=style.REFERENCE, ms=4.5, label=f"time, {series.source}"
    )
    ends = [*(s.start for s in series.segments[1:]), math.inf]
    for number, (segment, end, look) in enumerate(
        zip(series.segments, ends, style.series_styles(), strict=False), start=1
    ):
        least = max(segment.start, float(frame["bytes"].min()))
        most = min(end, float(frame["bytes"].max()))
        sizes = np.geomspace(least, most, 200)
        bus = series.factor / segment.beta.value
        said = [f"line {number}: alpha {style.si_interval(*_ends(segment.alpha), units['seconds'])}"]
        if math.isfinite(bus):
            said.append(f"bus {style.si(bus, units['bytes'] + '/' + units['seconds'])}")
        line = segment.alpha.value + segment.beta.value * sizes
        artists += time.plot(sizes, np.where(line > 0, line, np.nan), color=look.color, label=", ".join(said))
        rows = frame[(frame["bytes"] >= segment.start) & (frame["bytes"] < end)]
        artists += error.plot(rows["bytes"], rows["error"], "o", color=look.color, ms=4.5, label="_error")
        artists.append(error.vlines(rows["bytes"], 0, rows["error"], colors=look.color, linewidth=1))
        if segment.start > 0:
            for panel in axes:
                artists.append(panel.axvline(segment.start, color=style.SERIAL, linewidth=0.8, linestyle=":"))
    style.log10_axis(
        time, "y", "time", units["seconds"], frame[["seconds", "low", "high"]].to_numpy(dtype=float).ravel()
    )
    time.grid(True, axis="both")
    artists.append(error.axhline(0, color=style.REFERENCE, linewidth=1))
    largest = max(0.01, float(frame["error"].abs().max())) * 1.15
    error.set_ylim(-largest, largest)
    error.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _signed_percent(value)))
    error.set_ylabel("error of the fit (% of the time)")
    error.set_xlabel(f"bytes of one collective ({units['bytes']})")
    return artists


def _signed_percent(value: float) -> str:
    return f"{100 * value:+.3g} %".replace("-", "−") if abs(value) > 1e-12 else "0 %"


def _ends(quoted: fabrics.Quoted) -> tuple[float, float, float]:
    return quoted.value, quoted.low, quoted.high
