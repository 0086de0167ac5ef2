# SPDX-License-Identifier: Apache-2.0
"""What a GEMM beside it costs a collective: alpha and bus bandwidth, idle and loaded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import fabrics, style
from overlap_plots.fabrics import Fabric, Quoted, Series
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Collectives idle and beside a GEMM"
DESCRIPTION = "alpha and bus bandwidth of each series, idle against loaded"
NEEDS = {
    "summary": "key status source collective dtype ranks in_place bytes t_comm t_loaded".split(),
    "fits": "collective dtype ranks in_place load method segments alpha_s beta_s_per_byte".split(),
}

_MOST = 20
_OFFSETS = (-0.12, 0.12)  # of a row: idle above loaded
_LOADS = (("idle", style.COMM, "o"), ("loaded", style.COMPUTE, "s"))


def pages(run: Run, case: str) -> list[Page]:
    units = style.units_of(run.tables["fits"].frame, seconds="alpha_s", bandwidth="bus_bandwidth")
    return _pages([fabrics.from_run(run, case)], units)


def pages_of(several: Sequence[Fabric]) -> list[Page]:
    return _pages(several, {"seconds": "s", "bandwidth": "B/s"})


def _pages(several: Sequence[Fabric], units: dict[str, str]) -> list[Page]:
    pairs = [(fabric, idle, loaded) for fabric in several for idle, loaded in _pairs(fabric)]
    if not pairs:
        raise Absent("no series was measured both idle and loaded; type overlap-collective with a GEMM beside it")
    shown = pairs[:_MOST]
    rows = []
    for fabric, idle, loaded in shown:
        name = idle.title() if len(several) == 1 else f"{fabric.name}: {idle.title()}"
        rows += [_row(name, load, series) for load, series in (("idle", idle), ("loaded", loaded))]
    frame = pd.DataFrame(rows)
    frame.attrs = {"units": units}
    counts = sorted({int(n) for n in frame["points"]})
    return [
        Page(
            frame=frame,
            panels=(1, 2),
            size=(11.5, 1.3 + 0.42 * len(shown)),
            subtitle=" · ".join(fabric.name for fabric in several[:4]),
            captions=[
                "alpha: of the first line of the fit. Bus bandwidth: bus factor / beta of the last.",
                "loaded: beside a GEMM that runs before the collective begins and after it ends, on every rank.",
            ],
            rounds=fabrics.points_range(counts, "fit"),
            sources=fabrics.sources([s for _, *both in shown for s in both]),
            notes=[f"shows {_MOST} of {len(pairs)} series"] if len(pairs) > _MOST else [],
        )
    ]


def _pairs(fabric: Fabric) -> list[tuple[Series, Series]]:
    def same(a: Series, b: Series) -> bool:
        return (a.collective, a.dtype, a.op, a.ranks, a.in_place) == (b.collective, b.dtype, b.op, b.ranks, b.in_place)

    loaded = [s for s in fabric.series if s.load == "loaded"]
    return [(idle, other) for idle in fabric.series if idle.load == "idle" for other in loaded if same(idle, other)]


def _row(name: str, load: str, series: Series) -> dict[str, object]:
    def columns(column: str, quoted: Quoted) -> dict[str, float]:
        return {column: quoted.value, f"{column}_low": quoted.low, f"{column}_high": quoted.high}

    return {
        "name": name,
        "load": load,
        "points": len(series.points),
        **columns("alpha", series.alpha),
        **columns("bandwidth", series.bandwidth),
    }


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    units: dict[str, str] = frame.attrs["units"]
    names = list(dict.fromkeys(frame["name"]))
    at = np.arange(len(names))
    artists: list[Artist] = []
    for panel, column, label, unit in (
        (axes[0], "alpha", "alpha", units["seconds"]),
        (axes[1], "bandwidth", "bus bandwidth", units["bandwidth"]),
    ):
        values = [frame[frame["load"] == load].set_index("name").loc[names] for load, _, _ in _LOADS]
        pairs = zip(values[0][column], values[1][column], strict=True)
        for row, pair in enumerate(pairs):
            artists += panel.plot(
                pair, row + np.array(_OFFSETS), "-", color=style.SERIAL, linewidth=1, zorder=1, label="_pair"
            )
        for rows, (load, color, marker), offset in zip(values, _LOADS, _OFFSETS, strict=True):
            artists += style.interval(panel, "x", at + offset, rows[f"{column}_low"], rows[f"{column}_high"], color)
            artists += panel.plot(rows[column], at + offset, marker, color=color, ls="", label=load)
        known = frame[[column, f"{column}_low", f"{column}_high"]].to_numpy(dtype=float).ravel()
        largest = float(np.nanmax(known))
        low = min(0.0, float(np.nanmin(known)))
        panel.set_xlim(low * 1.08, largest * 1.08)
        style.scale_axis(panel.xaxis, label, unit, largest)
        panel.set_ylim(len(names) - 0.5, -0.5)  # the first series on top
        panel.grid(True, axis="x")
    axes[0].set_yticks(at, [style.shorten(name, 60) for name in names])
    axes[1].set_yticks(at, [""] * len(names))
    return artists
