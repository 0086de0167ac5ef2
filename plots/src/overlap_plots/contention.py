# SPDX-License-Identifier: Apache-2.0
"""What the figures of overlap-contention share: its rows, their names, and the arithmetic of trade-offs (as
harness/metrics/trade_off.hpp has it)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent

NEEDS = (
    "key launch status source study victim aggressor placement rounds victim_slowdown victim_slowdown_low "
    "victim_slowdown_high aggressor_slowdown overlap_gain"
).split()


def rows_of(run: Run, case: str, study: str, what: str) -> pd.DataFrame:
    """The rows of a study that have numbers. Raises ``Absent`` where there are none."""
    summary = derive.matching(run.tables["summary"].frame, case)
    rows = derive.with_numbers(summary[summary["study"] == study] if study else summary)
    rows = rows[rows[what].notna()]
    if rows.empty:
        raise Absent(f"no case{' of --study ' + study if study else ''} with a {what.replace('_', ' ')}")
    return rows


def series(frame: pd.DataFrame, held: Sequence[str]) -> pd.Series[str]:
    """Which rows belong together: what they have in common of the given columns, said once a row."""
    varying = [column for column in held if frame[column].nunique() > 1] or list(held[:1])
    said = pd.DataFrame({column: frame[column].map(style.plain) for column in varying})
    return said.agg(" · ".join, axis=1)


def pareto_front(cost: np.ndarray, gain: np.ndarray) -> list[int]:
    """Settings that no other beats in one without losing in the other, by ascending cost."""
    known = [i for i in range(len(cost)) if math.isfinite(cost[i]) and math.isfinite(gain[i])]
    front: list[int] = []
    for i in sorted(known, key=lambda i: (cost[i], -gain[i])):
        if not front or gain[i] > gain[front[-1]]:
            front.append(i)
    return front


def knee(cost: np.ndarray, gain: np.ndarray) -> int | None:
    """The setting of the front farthest above the line from its first to its last, both axes scaled to their range."""
    front = pareto_front(cost, gain)
    if len(front) < 3:
        return None
    across = (cost[front] - cost[front[0]]) / (cost[front[-1]] - cost[front[0]])
    up = (gain[front] - gain[front[0]]) / (gain[front[-1]] - gain[front[0]])
    best = int(np.argmax(up - across))
    return front[best] if up[best] > across[best] else None


def break_even(amount: np.ndarray, gain: np.ndarray) -> float | None:
    """Where the gain, by ascending amounts and linear in between, first falls to 0; None where it does not."""
    points = sorted((a, g) for a, g in zip(amount, gain, strict=True) if math.isfinite(a) and math.isfinite(g))
    for (before, won), (after, left) in itertools.pairwise(points):
        if won <= 0:
            return None
        if left <= 0:
            return float(before + (after - before) * won / (won - left))
    return None
