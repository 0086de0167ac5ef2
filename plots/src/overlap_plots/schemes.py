# SPDX-License-Identifier: Apache-2.0
"""What each training scheme leaves exposed and what that costs, side by side, from runs of the schedule benches."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from overlap_plots import derive, style
from overlap_plots.load import Run, RunError


@dataclass(frozen=True)
class Scheme:
    collective: str
    consumer: str
    hides_behind: str
    option: str = ""  # that its bench sweeps


SCHEMES = {
    "ddp": Scheme("all_reduce of a bucket", "optimizer of the bucket", "rest of the backward pass", "bucket"),
    "fsdp": Scheme(
        "all_gather, reduce_scatter of a layer", "layer's GEMMs; optimizer", "layers before; layers after", "prefetch"
    ),
    "tp": Scheme("all_reduce of a pair's output", "next pair of matrices", "nothing, or the next tile", "tiles"),
    "pp": Scheme("send, receive of activations and gradients", "next stage", "other microbatches"),
    "ordering": Scheme("all_reduce of a bucket", "optimizer of the bucket", "rest of the backward pass"),
    "step": Scheme("those of tensor, data and pipeline", "next pair; optimizer; next stage", "as each by itself"),
}

_WAYS = {"t": "tensor", "p": "stages", "d": "data"}  # of cutting a step, as overlap-step shortens them


@dataclass(frozen=True)
class Peak:
    """What utilization is a part of: dense, of one rank, and whose it is."""

    flops_per_second: float
    name: str


@dataclass(frozen=True)
class Line:
    scheme: str
    case: str
    exposed: tuple[float, float, float]  # share of the step, with its interval
    mfu: float  # model FLOPs / (t_step · peak)
    hfu: float  # hardware FLOPs / (t_step · peak)
    lost: float  # MFU that the exposed part of the step costs
    source: str


_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def parse_peak(text: str, name: str) -> Peak:
    """``989TFLOP/s``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kMGTP]?)FLOP/s", text)
    if found is None or float(found[1]) <= 0:
        raise RunError(f'--peak "{text}" is not a rate; type for example --peak 989TFLOP/s', status=2)
    return Peak(float(found[1]) * _PREFIX[found[2]], name or f"as typed, {text}")


def measured_peak(runs: Sequence[Run], dtype: str) -> Peak | None:
    """The best GEMM rate of one rank that any case of these runs had alone, of the same dtype."""
    best: Peak | None = None
    for run in runs:
        frame = derive.with_numbers(run.tables["summary"].frame)
        if not {"gemm_rate", "dtype"} <= set(frame):
            continue
        known = frame[frame["gemm_rate"].notna() & (frame["dtype"] == dtype)]
        if known.empty:
            continue
        row = known.sort_values("gemm_rate", kind="stable").iloc[-1]
        if best is None or row["gemm_rate"] > best.flops_per_second:
            best = Peak(float(row["gemm_rate"]), f"best {dtype} GEMM rate measured in {run.name}, by {row['bench']}")
    return best


def lines(runs: Sequence[Run], given: Peak | None) -> tuple[list[Line], list[str]]:
    """One line a series of cases: the recommended one, or the one that exposes least; and what is said of the peaks."""
    made: list[Line] = []
    peaks: dict[str, Peak] = {}
    for run in runs:
        frame = derive.with_numbers(run.tables["summary"].frame)
        for bench, of_bench in frame.groupby("bench", sort=False):
            if bench not in SCHEMES:
                continue
            option = SCHEMES[str(bench)].option
            keys = derive.series_keys(of_bench, option) if option else list(of_bench["key"])
            for series, rows in of_bench.groupby(keys, sort=False):
                row = _chosen(run, str(series), option, rows)
                dtype = str(row.get("dtype", ""))
                peak = given or measured_peak(runs, dtype)
                if peak is not None:
                    peaks[dtype] = peak
                made.append(_line(str(bench), row, option, peak))
    if not made:
        raise RunError("no run of a training schedule; name one of overlap-ddp, overlap-fsdp, overlap-tp ...")
    said = [
        f"Peak{f' ({dtype})' if len(peaks) > 1 else ''}: {style.si(p.flops_per_second, 'FLOP/s')} a rank, {p.name}."
        for dtype, p in peaks.items()
    ]
    return made, said


def _chosen(run: Run, series: str, option: str, rows: pd.DataFrame) -> pd.Series[Any]:
    choices = run.frame("choices")
    if choices is not None and option:
        recommended = choices.loc[(choices["series"] == series) & (choices["option"] == option), "recommended"]
        of_it = rows[rows[option].isin(recommended)]
        if not of_it.empty:
            return of_it.iloc[0]
    known = rows[rows["t_exposed"].notna()]
    if known.empty:
        return rows.iloc[0]
    return known.sort_values("t_exposed", kind="stable").iloc[0]


def _line(bench: str, row: pd.Series[Any], option: str, peak: Peak | None) -> Line:
    step = row["t_step"]
    share = tuple(float(row[f"t_exposed{end}"] / step) for end in ("", "_low", "_high"))
    mfu = hfu = lost = math.nan
    if peak is not None and "model_flops" in row:
        mfu = float(row["model_flops"] / (step * peak.flops_per_second))
        hfu = float(row["hardware_flops"] / (step * peak.flops_per_second))
        lost = float(row["model_flops"] / (row["t_compute"] * peak.flops_per_second)) - mfu
    case = str(row["layers"]) if "layers" in row else ""
    if bench == "step":
        case += "".join(f" {letter}{row[way]:.0f}" for letter, way in _WAYS.items())
    if option:
        case += f" {option} {row[option]}"
    for name in ("mode", "schedule", "variant"):
        if name in row and isinstance(row[name], str) and row[name]:
            case += f" {row[name]}"
    if row["placement"] != "concurrent":
        case += f" {row['placement']}"
    noisy = " noisy" if row["status"] == "noisy" else ""
    return Line(bench, style.plain(case.strip()), (share[0], share[1], share[2]), mfu, hfu, lost, row["source"] + noisy)


HEADINGS = (
    *("scheme", "case", "collective", "consumer", "hides behind", "exposed share [95 %]"),
    *("MFU", "HFU", "MFU lost", "source"),
)


def cells(line: Line) -> list[str]:
    scheme = SCHEMES[line.scheme]
    return [
        line.scheme,
        line.case,
        scheme.collective,
        scheme.consumer,
        scheme.hides_behind,
        _share(line.exposed),
        _percent(line.mfu),
        _percent(line.hfu),
        _percent(line.lost),
        line.source,
    ]


def _share(share: tuple[float, float, float]) -> str:
    if not math.isfinite(share[0]):
        return "-"
    value, low, high = (f"{100 * part:.1f}" for part in share)
    return f"{value} % [{low}, {high}]" if math.isfinite(share[1]) else f"{value} %"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if math.isfinite(value) else "-"


def text(found: Sequence[Line], said: Sequence[str]) -> str:
    table = [list(HEADINGS), *(cells(line) for line in found)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join(
        [
            *rows,
            "",
            *said,
            "exposed share  t_exposed / t_step, with the interval of t_exposed",
            "MFU, HFU       FLOPs that the model needs, and that the GEMMs do, of a rank / (t_step · peak)",
            "MFU lost       MFU of the computation alone less MFU of the step: what the exposed part costs",
        ]
    )
