# SPDX-License-Identifier: Apache-2.0
"""What the lab starts from, out of a run's summary.csv: a case a row, and latency and bandwidth fitted over sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from overlap_plots.derive import case_names, sources, with_numbers
from overlap_plots.load import Run, RunError
from overlap_plots.style import plain

NEEDS = (
    "t_compute t_comm t_step t_step_low t_step_high hidden_fraction compute_slowdown comm_slowdown "
    "slowdown_source collective bytes ranks"
).split()

# What must be equal for two collectives to lie on one line over their size. Placement is not among them: t_comm is
# measured alone.
_SERIES = ["backend", "transport", "collective", "ranks", "dtype", "waiting", "channels_asked", "buffers"]


class Fit(NamedTuple):
    """t = latency + bytes × seconds_per_byte. ``error`` is the largest relative residual."""

    latency: float  # s
    seconds_per_byte: float
    sizes: int
    error: float


def measured_numbers(run: Run | None) -> dict[str, Any]:
    """What the page's script reads: JSON values only, an unknown number is None."""
    if run is None:
        return {"run": None, "cases": []}
    frame = run.frame("summary")
    lacking = NEEDS if frame is None else [column for column in NEEDS if column not in frame]
    if frame is None or lacking:
        raise RunError(f"{run.directory}: no column {', '.join(lacking)} in summary.csv; name a run of overlap-pair")
    summary = with_numbers(frame)
    cases = summary[(summary["t_compute"] > 0) & (summary["t_comm"] > 0) & (summary["t_step"] > 0)]
    if cases.empty:
        raise RunError(
            f"{run.directory} has no case with times of compute, comm and both; name another run, or none for examples"
        )
    about = [run.name, run.device, run.date, run.tool, *(f"numbers: {source}" for source in sources(cases))]
    return {
        "run": " · ".join(plain(words) for words in about if words and words != "numbers: measured"),
        "cases": [
            _case(name, row, _fit_of(summary, row))
            for name, (_, row) in zip(case_names(cases), cases.iterrows(), strict=True)
        ],
    }


def fit_line(sizes: Sequence[float], times: Sequence[float]) -> Fit | None:
    """Least squares of the relative error, so that the small messages, which show the latency, count as much as the
    large. None where the sizes are no two, or no latency and bandwidth above 0 explain the times."""
    bytes_, seconds = np.asarray(sizes, dtype=float), np.asarray(times, dtype=float)
    if len(np.unique(bytes_)) < 2:
        return None
    design = np.stack([1 / seconds, bytes_ / seconds], axis=1)
    (latency, slope), *_ = np.linalg.lstsq(design, np.ones(len(seconds)), rcond=None)
    if not (latency > 0 and slope > 0):
        return None
    error = np.max(np.abs(latency + slope * bytes_ - seconds) / seconds)
    return Fit(float(latency), float(slope), len(np.unique(bytes_)), float(error))


def _fit_of(summary: pd.DataFrame, row: pd.Series[Any]) -> Fit | None:
    """Over all cases of the row's series; each of its sizes once, by the median of its cases."""
    same = summary[(summary["t_comm"] > 0) & (summary["bytes"] > 0)]
    for axis in _SERIES:
        if axis in same:
            same = same[same[axis].isna() if pd.isna(row[axis]) else same[axis] == row[axis]]
    times = same.groupby("bytes")["t_comm"].median()
    return fit_line(list(times.index), list(times))


def _case(name: str, row: pd.Series[Any], fit: Fit | None) -> dict[str, Any]:
    ranks = row["ranks"]
    factor = 2 * (ranks - 1) / ranks if row["collective"] == "all_reduce" and ranks > 1 else math.nan
    return {
        "name": plain(name),
        "status": row["status"],
        "remark": "" if row["status"] == "ok" else f" ({plain(row['status'])}: {plain(row['reason'])})",
        "collective": plain(row["collective"]),
        "compute": _number(row["t_compute"]),
        "comm": _number(row["t_comm"]),
        "step": _number(row["t_step"]),
        "stepLow": _number(row["t_step_low"]),
        "stepHigh": _number(row["t_step_high"]),
        "hiddenFraction": _number(row["hidden_fraction"]),
        "slowCompute": _number(row["compute_slowdown"]),
        "slowComm": _number(row["comm_slowdown"]),
        "slowdownSource": plain(row["slowdown_source"]),
        "bytes": _number(row["bytes"]),
        "ranks": _number(ranks),
        "busBandwidth": _number(row["bytes"] * factor / row["t_comm"]),
        "latency": fit.latency if fit and math.isfinite(factor) else None,
        "bandwidth": _number(factor / fit.seconds_per_byte) if fit else None,
        "fitSizes": fit.sizes if fit else None,
        "fitError": fit.error if fit else None,
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
