# SPDX-License-Identifier: Apache-2.0
"""What collectives cost, from run directories and machine descriptions alike: one shape for the figures.

A fabric holds series; a series its points (bytes, seconds) and its lines, t = alpha + beta · bytes from a size on. A
description is somebody else's file: it is checked as far as it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from overlap_plots import derive
from overlap_plots.load import Run, RunError, load_run

MACHINE_FORMAT = "overlapbench machine"
MACHINE_VERSION = 1
_LARGEST_FILE = 4 << 20

_DTYPES = {"float": "f32", "float32": "f32", "half": "f16", "float16": "f16", "bfloat16": "bf16", "double": "f64"}
_FACTOR_ALL_REDUCE = ("all_reduce", "all_reduce:hierarchical", "reduce_scatter+all_gather")  # what they amount to
_FACTOR_ONE = ("broadcast", "reduce", "sendrecv", "exchange")
_FACTOR_SHARE = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")


@dataclass(frozen=True)
class Quoted:
    """A number and its 95 % interval, NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Segment:
    start: float  # bytes
    alpha: Quoted  # s
    beta: Quoted  # s/B


@dataclass(frozen=True)
class Series:
    collective: str
    dtype: str
    op: str
    ranks: float  # NaN: unknown
    in_place: bool | None
    load: str  # idle, loaded, or "": a log does not say
    source: str  # measured, imported, published, emulated ...
    points: pd.DataFrame  # bytes, seconds, low, high; by size
    segments: tuple[Segment, ...]
    median_error: float = math.nan  # relative, of the whole fit
    max_error: float = math.nan
    launches: int = 1
    whence: str = ""  # where a description says that it comes from

    @property
    def factor(self) -> float:
        """Bus over algorithm bandwidth, by the convention of nccl-tests; NaN where it is not known."""
        return bus_factor(self.collective, self.ranks)

    @property
    def alpha(self) -> Quoted:
        return self.segments[0].alpha

    @property
    def bandwidth(self) -> Quoted:
        """Bus bandwidth that the last line tends to: factor / beta, B/s. The ends of the interval change places."""
        beta = self.segments[-1].beta
        return Quoted(self.factor / beta.value, self.factor / beta.high, self.factor / beta.low)

    def predicted(self, sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        starts = np.array([s.start for s in self.segments])
        at = np.searchsorted(starts, sizes, side="right") - 1
        alpha = np.array([s.alpha.value for s in self.segments])[at]
        beta = np.array([s.beta.value for s in self.segments])[at]
        seconds: np.ndarray[Any, Any] = alpha + beta * sizes
        return seconds

    @property
    def place(self) -> str:
        return "" if self.in_place is None else "in place" if self.in_place else "out of place"

    def title(self) -> str:
        ranks = f"{self.ranks:.0f} ranks" if math.isfinite(self.ranks) else "unknown ranks"
        kind = " ".join(word for word in (self.collective or "unknown collective", self.dtype, self.op) if word)
        load = "beside a GEMM" if self.load == "loaded" else ""
        return ", ".join(word for word in (kind, ranks, self.place, load) if word)


@dataclass(frozen=True)
class Fabric:
    name: str
    about: str  # fabric and device
    series: tuple[Series, ...]
    origin: str  # who says so, for the footer
    problems: tuple[str, ...] = field(default=())


def bus_factor(collective: str, ranks: float) -> float:
    if collective in _FACTOR_ONE:
        return 1.0
    if not ranks > 1:
        return math.nan
    if collective in _FACTOR_ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in _FACTOR_SHARE else math.nan


def load_fabric(path: Path) -> list[Fabric]:
    """A run directory, a machine description, or a folder of descriptions in the order of their names."""
    if path.is_file():
        return [read_machine(path)]
    if path.is_dir() and not (path / "run.json").is_file():
        files = sorted(path.glob("*.json"))
        if files:
            return [read_machine(file) for file in files]
        raise RunError(f"{path} is neither a run directory nor a folder of machine descriptions; name one of them")
    return [from_run(load_run(path))]


# ---- runs ------------------------------------------------------------------------------------------------------------

_SERIES = ["collective", "dtype", "op", "ranks", "in_place"]


def from_run(run: Run, case: str = "") -> Fabric:
    """The series of a run, with the lines of its fits.csv that paid; none where it holds no such table."""
    series = []
    fits = run.frame("fits")
    summary = derive.with_numbers(derive.matching(run.tables["summary"].frame, case))
    if fits is not None and "collective" in summary and "bytes" in summary:
        fits = _filled(fits)
        names = [*_SERIES, "file", "series", "load"]
        for keys, lines in fits[fits["method"] == "relative"].groupby(names, sort=False, dropna=False):
            best = lines[lines["chosen"] == 1] if (lines["chosen"] == 1).any() else lines
            best = best[best["segments"] == best["segments"].max()]
            if len(best) == best["segments"].iloc[0]:
                series.append(_series_of(dict(zip(names, keys, strict=True)), best, summary))
    about = " · ".join(filter(None, (run.device, run.date)))
    kept = tuple(found for found in series if len(found.points))
    return Fabric(run.name, about, kept, run.origin)


def _filled(fits: pd.DataFrame) -> pd.DataFrame:
    """Columns that an older table does not have."""
    texts = {name: "" for name in ("load", "source", "op", "file", "series") if name not in fits}
    ends = [f"{name}_{end}" for name in ("alpha_s", "beta_s_per_byte") for end in ("low", "high")]
    numbers = {name: math.nan for name in (*ends, "chosen", "launches") if name not in fits}
    return fits.assign(**texts, **numbers)


def _rows_of(keys: dict[str, Any], summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of a series: by their key without its bytes, or where the table is too old for that by what it says."""
    if keys["series"]:
        of_series = summary["key"].map(lambda key: _without_bytes(key) == keys["series"])
        return summary[of_series.astype(bool)]
    rows = summary
    for column in (*_SERIES, "file"):
        if column in rows:
            same = rows[column].eq(keys[column]) if isinstance(keys[column], str) else _same(rows[column], keys[column])
            rows = rows[same]
    return rows


def _without_bytes(key: str) -> str:
    return " ".join(word for word in key.split() if not word.startswith("bytes="))


def _series_of(keys: dict[str, Any], lines: pd.DataFrame, summary: pd.DataFrame) -> Series:
    rows = _rows_of(keys, summary)
    time = "t_loaded" if keys["load"] == "loaded" else "t_comm"
    ends = (("seconds", ""), ("low", "_low"), ("high", "_high"))
    points = pd.DataFrame({name: rows.get(f"{time}{end}", math.nan) for name, end in ends}, index=rows.index)
    points.insert(0, "bytes", rows["bytes"])
    points = points.dropna(subset=["seconds"]).sort_values("bytes", kind="stable").reset_index(drop=True)
    segments = tuple(
        Segment(
            0.0 if math.isnan(line["breakpoint_bytes"]) else float(line["breakpoint_bytes"]),
            Quoted(line["alpha_s"], line["alpha_s_low"], line["alpha_s_high"]),
            Quoted(line["beta_s_per_byte"], line["beta_s_per_byte_low"], line["beta_s_per_byte_high"]),
        )
        for _, line in lines.iterrows()
    )
    first = lines.iloc[0]
    place = keys["in_place"]
    return Series(
        collective=str(keys["collective"]),
        dtype=_DTYPES.get(str(keys["dtype"]), str(keys["dtype"])),
        op="" if keys["op"] == "none" else str(keys["op"]),
        ranks=float(keys["ranks"]),
        in_place=None if math.isnan(place) else bool(place),
        load=str(keys["load"]),
        source=str(rows["source"].iloc[0]) if len(rows) else str(first["source"]),
        points=points,
        segments=segments,
        median_error=float(first["median_relative_error"]),
        max_error=float(first["max_relative_error"]),
        launches=max(1, int(np.nan_to_num(first["launches"]))),
    )


def _same(column: pd.Series[Any], value: float) -> pd.Series[bool]:
    return column.isna() if math.isnan(value) else column.eq(value)


# ---- machine descriptions --------------------------------------------------------------------------------------------


def read_machine(path: Path) -> Fabric:
    """RunError names the file and the entry that is not as docs/machines.md says."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise RunError(f"{path} has more than 4 MiB, so it is no machine description")
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is no JSON ({error}); name a file that overlap-machine wrote") from error
    try:
        if document["format"] != MACHINE_FORMAT:
            raise RunError(f"{path} is no machine description; name a file that overlap-machine wrote")
        if document["version"] != MACHINE_VERSION:
            raise RunError(f"{path} has version {document['version']}, this package reads {MACHINE_VERSION}")
        origins = {str(o["id"]): o for o in document["origins"]}
        series = tuple(_cost(entry, origins) for entry in document.get("collectives", []))
        about = " · ".join(str(document[key]) for key in ("fabric", "device") if document.get(key))
        return Fabric(str(document["name"]), about, series, f"machine {document['name']}")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise RunError(
            f"{path} is not as docs/machines.md says ({error!r}); `overlap-machine --check {path}` tells more"
        ) from error


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _cost(entry: dict[str, Any], origins: dict[str, Any]) -> Series:
    segments = tuple(
        Segment(float(s["from_bytes"]), _quoted(s["alpha_s"]), _quoted(s["beta_s_per_byte"])) for s in entry["segments"]
    )
    if not segments or segments[0].start != 0:
        raise ValueError("segments begin at 0 bytes")
    points = pd.DataFrame(
        [(float(size), float(seconds), math.nan, math.nan) for size, seconds in entry.get("points", [])],
        columns=["bytes", "seconds", "low", "high"],
        dtype=float,
    )
    return Series(
        collective=str(entry["collective"]),
        dtype=str(entry.get("dtype", "")),
        op=str(entry.get("op", "")),
        ranks=float(entry["ranks"]),
        in_place=entry.get("in_place"),
        load=str(entry.get("load", "")),
        source=str(origins[str(entry["origin"])]["kind"]),
        whence=str(origins[str(entry["origin"])]["source"]),
        points=points,
        segments=segments,
        median_error=float(entry.get("median_relative_error", math.nan)),
        max_error=float(entry.get("max_relative_error", math.nan)),
    )


def _quoted(value: Any) -> Quoted:
    if isinstance(value, dict):
        return Quoted(float(value["value"]), float(value.get("low", math.nan)), float(value.get("high", math.nan)))
    return Quoted(float(value))


# ---- choosing --------------------------------------------------------------------------------------------------------


def headline(fabric: Fabric) -> Series | None:
    """The series that stands for a fabric: all_reduce before others, idle, out of place, most ranks, most points."""
    ranked = sorted(
        (s for s in fabric.series if math.isfinite(s.bandwidth.value)),
        key=lambda s: (s.collective != "all_reduce", s.load == "loaded", bool(s.in_place), -s.ranks, -len(s.points)),
    )
    return ranked[0] if ranked else None


def sources(series: Sequence[Series]) -> tuple[str, ...]:
    found = {s.source or "unknown source" for s in series}
    return tuple(sorted(found, key=lambda source: (source != "measured", source)))


def points_range(counts: Iterable[int], each: str) -> str:
    """``n = 8 points a fit`` or ``n = 8–31 points a fit``."""
    known = sorted({int(count) for count in counts})
    if not known:
        return "n unknown"
    return f"n = {known[0]}{f'–{known[-1]}' if len(known) > 1 else ''} points a {each}"
