# SPDX-License-Identifier: Apache-2.0
"""Bus bandwidth as the message grows: the series of a run, or one series of several runs and fabrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import fabrics, style
from overlap_plots.fabrics import Fabric, Series
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Bus bandwidth"
DESCRIPTION = "bus bandwidth over bytes: the collectives of a run, or one collective on several fabrics"
NEEDS = {
    "summary": "key status source collective dtype ranks in_place bytes t_comm bus_bandwidth".split(),
    "fits": "collective dtype ranks in_place method segments".split(),
}

_MOST = 28
_DEEPEST = 1e5  # below the largest bandwidth by this factor all lines are alike: alpha alone


def pages(run: Run, case: str) -> list[Page]:
    fabric = fabrics.from_run(run, case)
    units = style.units_of(run.tables["summary"].frame, bandwidth="bus_bandwidth", bytes="bytes")
    return [_page([(series.title(), series) for series in fabric.series], units, run.name, [])]


def pages_of(several: Sequence[Fabric]) -> list[Page]:
    """The collective that most of them have, of each the series that stands for it."""
    counts = Counter(name for fabric in several for name in {s.collective for s in fabric.series if len(s.points) > 1})
    if not counts:
        raise Absent("no series has points of several sizes")
    collective = max(counts, key=lambda name: (counts[name], name == "all_reduce"))
    lines = []
    lacking = []
    for fabric in several:
        alike = [s for s in fabric.series if s.collective == collective and len(s.points) > 1]
        best = fabrics.headline(Fabric(fabric.name, "", tuple(alike), ""))
        if best is None:
            lacking.append(fabric.name)
        else:
            lines.append((f"{fabric.name}, {best.ranks:.0f} ranks ({best.source})", best))
    notes = [f"without {collective} of several sizes: {', '.join(lacking)}"] if lacking else []
    return [_page(lines, {"bandwidth": "B/s", "bytes": "B"}, collective, notes)]


def _page(lines: Sequence[tuple[str, Series]], units: dict[str, str], subtitle: str, notes: list[str]) -> Page:
    drawable = [(name, s) for name, s in lines if len(s.points) and s.factor == s.factor]
    if not drawable:
        raise Absent("no series with a bus bandwidth: the collective and its ranks must be known")
    shown = drawable[:_MOST]
    if len(drawable) > _MOST:
        notes = [*notes, f"shows {_MOST} of {len(drawable)} series"]
    frames = []
    for name, series in shown:
        points = series.points.groupby("bytes", as_index=False).median()
        frame = points.assign(name=name, bandwidth=series.factor * points["bytes"] / points["seconds"])
        frame["low"], frame["high"] = (series.factor * points["bytes"] / points[end] for end in ("high", "low"))
        frames.append(frame)
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs = {"units": units}
    counts = sorted({len(s.points) for _, s in shown})
    return Page(
        frame=frame,
        panels=(1, 1),
        size=(10.5, 5.6),
        subtitle=subtitle,
        captions=[
            "Bus bandwidth: bytes / time by the bus factor of nccl-tests; no wire speed where switches reduce or "
            "the algorithm is hierarchical. Of several points of one size the median, of intervals that of their ends."
        ],
        rounds=fabrics.points_range(counts, "line"),
        sources=fabrics.sources([s for _, s in shown]),
        intervals=bool(frame["low"].notna().any()),
        notes=notes,
    )


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    units: dict[str, str] = frame.attrs["units"]
    artists: list[Artist] = []
    frame = frame[frame["bandwidth"] >= frame["bandwidth"].max() / _DEEPEST]
    style.log2_axis(panel, frame["bytes"], style.iec)
    for (name, rows), look in zip(frame.groupby("name", sort=False), style.series_styles(), strict=False):
        artists += style.interval(panel, "y", rows["bytes"], rows["low"], rows["high"], look.color)
        artists += panel.plot(
            rows["bytes"], rows["bandwidth"], look.marker + look.line, color=look.color, ms=4, lw=1.2, label=str(name)
        )
    shown = frame[["bandwidth", "low", "high"]].to_numpy(dtype=float).ravel()
    style.log10_axis(panel, "y", "bus bandwidth", units["bandwidth"], shown)
    panel.set_xlabel(f"bytes of one collective ({units['bytes']})")
    return artists
