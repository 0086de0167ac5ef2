# SPDX-License-Identifier: Apache-2.0
"""Names beside marks on a panel with two logarithmic axes, where they cover neither a mark nor another name."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import style

_LETTER = (0.062, 0.13)  # inches, of one letter of a label


def beside_marks(
    panel: Axes, size: tuple[float, float], frame: pd.DataFrame, x: str, y: str, line: pd.DataFrame | None = None
) -> list[Artist]:
    """Writes each row's ``name``, unless it is "", at the first of several places where it covers no mark, interval or
    other name, nor the points of ``line``, else where it covers least. ``x`` and ``y`` name columns, which may have
    _low and _high; the limits of the axes are final, ``size`` is the panel's, in inches."""
    lengths = {x: (panel.get_xlim(), size[0]), y: (panel.get_ylim(), size[1])}
    at = {column: _along(frame[column], *lengths[column]) for column in (x, y)}
    ends = {
        f"{column}_{end}": _along(frame.get(f"{column}_{end}", frame[column]).fillna(frame[column]), *lengths[column])
        for column in (x, y)
        for end in ("low", "high")
    }
    taken = [
        *((a - 0.07, b - 0.07, a + 0.07, b + 0.07) for a, b in zip(at[x], at[y], strict=True)),
        *(
            (low, b - 0.02, high, b + 0.02)
            for low, high, b in zip(ends[f"{x}_low"], ends[f"{x}_high"], at[y], strict=True)
        ),
        *(
            (a - 0.02, low, a + 0.02, high)
            for low, high, a in zip(ends[f"{y}_low"], ends[f"{y}_high"], at[x], strict=True)
        ),
    ]
    if line is not None:
        points = zip(*(_along(line[column], *lengths[column]) for column in (x, y)), strict=True)
        taken += [(a - 0.03, b - 0.03, a + 0.03, b + 0.03) for a, b in points]
    artists: list[Artist] = []
    for row, (a, b, name) in enumerate(zip(at[x], at[y], frame["name"], strict=True)):
        if not name:
            continue
        text = style.plain(style.shorten(str(name), 60))
        width, height = _LETTER[0] * len(text), _LETTER[1]
        places = [
            (dx, dy, "left" if dx > 0 else "right" if dx < 0 else "center")
            for step in (0.0, 0.14, 0.28, 0.42)
            for dx, dy in (
                (0.1, step),
                (0.1, -step),
                (-0.1, step),
                (-0.1, -step),
                (0.0, 0.15 + step),
                (0.0, -0.15 - step),
            )
        ]
        boxes = []
        for dx, dy, align in places:
            left = a + dx if align == "left" else a + dx - width if align == "right" else a - width / 2
            boxes.append((left, b + dy - height / 2, left + width, b + dy + height / 2))
        # Its own mark is beside every place.
        best = min(range(len(places)), key=lambda i: (_covered(boxes[i], taken, size), i))
        dx, dy, align = places[best]
        taken.append(boxes[best])
        artists.append(
            panel.annotate(
                text,
                (frame[x].iloc[row], frame[y].iloc[row]),
                xytext=(72 * dx, 72 * dy),
                textcoords="offset points",
                ha=align,
                va="center",
                fontsize=7.5,
                color=style.REFERENCE,
            )
        )
    return artists


def _along(values: pd.Series[float], limits: tuple[float, float], length: float) -> np.ndarray:
    low, high = (math.log10(limit) for limit in limits)
    place: np.ndarray = (np.log10(values.to_numpy(dtype=float)) - low) / (high - low) * length
    return place


def _covered(box: tuple[float, ...], others: Sequence[tuple[float, ...]], size: tuple[float, float]) -> float:
    """The area that a label would share with others, and what of it would lie outside the panel."""
    area = 0.0
    for other in others:
        wide = min(box[2], other[2]) - max(box[0], other[0])
        high = min(box[3], other[3]) - max(box[1], other[1])
        area += max(0.0, wide) * max(0.0, high)
    return area + max(0.0, -box[0]) + max(0.0, box[2] - size[0]) + max(0.0, -box[1]) + max(0.0, box[3] - size[1])
