# SPDX-License-Identifier: Apache-2.0
"""What all figures share: the style context, colours with a meaning, units on axes, intervals, text safe to draw."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from typing import Any, Literal, NamedTuple

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

# Okabe-Ito; red is kept for one thing.
COMPUTE = "#0072B2"
COMM = "#E69F00"
SERIAL = "#8C8C8C"
EXPOSED = "#C1121F"  # communication left on the wall clock
REFERENCE = "#4D4D4D"
SHADE = "#F6E3E1"  # worse than serial
PAPER = "#FFFFFF"

# Seven colours and eight markers have no common divisor: no two of the first 56 series share both.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#4D4D4D")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_LINES = ("-", "--", "-.", ":")


class Series(NamedTuple):
    color: str
    marker: str
    line: str


def context() -> AbstractContextManager[None]:
    """Matplotlib's defaults and then ours, so that a user's matplotlibrc changes nothing; undone on exit."""
    with as_file(files("overlap_plots") / "overlap.mplstyle") as path:
        return matplotlib.style.context(["default", str(path)])


def series_styles() -> Iterable[Series]:
    """Endless; the first seven differ in colour and in marker, the first 56 in one of the two."""
    return map(Series._make, zip(itertools.cycle(_COLORS), itertools.cycle(_MARKERS), itertools.cycle(_LINES)))


def plain(text: str) -> str:
    """Text that draws as one line and is legal in SVG: control and unassigned characters become a replacement sign."""
    if text.isascii() and text.isprintable():  # as a picture's address is, which is long
        return text
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") else c for c in text)


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters, the middle left out: both ends of a name tell cases apart."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def in_lines(name: str, width: int) -> str:
    """A name of parts, "a · b", in lines of whole parts; none is longer than ``width`` characters or ends with a dot,
    and what is too long for three has its middle left out."""
    lines: list[str] = []
    for part in shorten(name, 3 * width - 6).split(" · "):
        joined = f"{lines[-1]} · {part}" if lines else part
        if lines and len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    return "\n".join(shorten(line, width) for line in lines)


# ---- units -----------------------------------------------------------------------------------------------------------

_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_IEC = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def si_interval(value: float, low: float, high: float, unit: str) -> str:
    """``25.06 ms [25.01, 25.12]``: all three with the prefix of the first, or of the widest end where that is nothing
    beside it."""
    if not math.isfinite(value):
        return "unknown"
    widest = max(abs(low), abs(high)) if math.isfinite(low + high) else 0.0
    factor, prefix = _si_factor(abs(value) if abs(value) > 1e-3 * widest else widest)
    spread = f" [{_digits(low / factor, 4)}, {_digits(high / factor, 4)}]" if math.isfinite(low + high) else ""
    return f"{_digits(value / factor, 4)} {prefix}{unit}{spread}"


def si(value: float, unit: str) -> str:
    """``25.1 ms``."""
    factor, prefix = _si_factor(abs(value))
    return f"{_digits(value / factor, 3)} {prefix}{unit}"


def iec(value: float) -> str:
    """Bytes: ``iec(26214400)`` is "25 MiB"; a power of ten stays readable ("1.91 MiB")."""
    if not math.isfinite(value):
        return "unknown"
    factor, unit = next(((f, u) for f, u in _IEC if abs(value) >= f), _IEC[-1])
    return f"{value / factor:.4g} {unit}"


def percent(value: float) -> str:
    return "unknown" if not math.isfinite(value) else f"{100 * value:.0f} %".replace("-", "−")


def _digits(value: float, digits: int) -> str:
    """Significant digits without an exponent: 123.4 -> "123", 25.06 -> "25.1"."""
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded value: 0.99996 has that of 1
    decimals = max(0, digits - 1 - exponent)
    return f"{value:.{decimals}f}".replace("-", "−")


def _si_factor(largest: float) -> tuple[float, str]:
    if not largest:
        return 1.0, ""
    return next(((f, p) for f, p in _SI if largest >= 0.9995 * f), _SI[-1])


def unit_of(frame: pd.DataFrame, column: str) -> str:
    """The unit that the run's schema gives the column; every figure's axes come from here."""
    unit: str = frame.attrs["columns"][column].unit
    return unit


def units_of(frame: pd.DataFrame, **columns: str) -> dict[str, str]:
    """``units_of(frame, seconds="t_comm")``: what the figures call it, and the unit of the column it stands in."""
    return {name: unit_of(frame, column) for name, column in columns.items()}


def describe(frame: pd.DataFrame, column: str) -> str:
    """``t_step``: the schema's words for the column, for a caption."""
    return f"{column}: {plain(frame.attrs['columns'][column].description)}"


def label(frame: pd.DataFrame, column: str) -> str:
    """``hidden share (ratio)``: a column's name and its unit, before any scaling."""
    unit = unit_of(frame, column)
    return f"{plain(column).replace('_', ' ')} ({'ratio' if unit == '1' else unit})"


def scale_axis(axis: Axis, name: str, unit: str, largest: float) -> None:
    """Labels an axis whose data stay in the schema's unit with the SI prefix that fits ``largest``."""
    factor, prefix = _si_factor(largest)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / factor:g}".replace("-", "−")))
    axis.set_label_text(f"{name} ({prefix}{unit})")


def log2_axis(axes: Axes, values: Iterable[float], text: Callable[[float], str]) -> None:
    """A logarithmic x axis with at most eight ticks, at powers of two; at least half an octave around a lone value."""
    known = [math.log2(value) for value in values if 0 < value < math.inf] or [0.0]
    low, high = math.floor(min(known) - 0.25), math.ceil(max(known) + 0.25)
    step = max(1, math.ceil((high - low) / 7))
    axes.set_xscale("log", base=2)
    axes.set_xlim(2.0**low, 2.0**high)
    axes.xaxis.set_major_locator(FixedLocator([2.0**e for e in range(low, high + 1, step)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def log10_axis(axes: Axes, which: Literal["x", "y"], name: str, unit: str, values: Iterable[float]) -> None:
    """A logarithmic axis in SI prefixes; ticks at 1, 2 and 5 of every decade, or more or fewer by its length."""
    known = [math.log10(value) for value in values if 0 < value < math.inf] or [0.0]
    low, high = min(known), max(known)
    span = high - low
    margin = max(0.06 * span, 0.06)
    steps = (1, 1.5, 2, 3, 4, 5, 7) if span < 0.9 else (1, 2, 5) if span < 3.2 else (1,)
    decades = range(math.floor(low - margin), math.ceil(high + margin) + 1)
    limits = (10.0 ** (low - margin), 10.0 ** (high + margin))
    within = [step * 10.0**decade for decade in decades for step in steps]
    within = [tick for tick in within if limits[0] <= tick <= limits[1]]
    if len(within) < 3:  # too short for these: in even steps
        within = [float(tick) for tick in MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(*limits)]
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(limits)
    axis.set_major_locator(FixedLocator([tick for tick in within if limits[0] <= tick <= limits[1]]))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _short_si(value, unit)))
    axis.set_label_text(f"{name} ({unit})")


def _short_si(value: float, unit: str) -> str:
    factor, prefix = _si_factor(abs(value))
    return f"{value / factor:.3g} {prefix}{unit}"


# ---- marks -----------------------------------------------------------------------------------------------------------


def interval(
    axes: Axes, along: Literal["x", "y"], at: Any, low: pd.Series[Any], high: pd.Series[Any], color: str
) -> list[Artist]:
    """95 % intervals as bare lines in data units; rows whose interval is unknown get none."""
    position = np.asarray(at, dtype=float)
    known = np.isfinite(low.to_numpy(dtype=float)) & np.isfinite(high.to_numpy(dtype=float)) & np.isfinite(position)
    if not known.any():
        return []
    draw = axes.vlines if along == "y" else axes.hlines
    return [draw(position[known], low[known], high[known], colors=color, linewidth=1.2, zorder=1.9)]


def face(color: str, status: str) -> str:
    """The fill of a mark: noisy rows are hollow."""
    return PAPER if status == "noisy" else color
