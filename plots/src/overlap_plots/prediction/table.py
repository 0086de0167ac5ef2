# SPDX-License-Identifier: Apache-2.0
"""The comparison as text and as predicted.csv."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from overlap_plots.load import RunError
from overlap_plots.prediction.cases import SHARE, TIMES, Error, Joined
from overlap_plots.style import plain

_ENDS = ("", "_low", "_high", "_model", "_error")
_NUMBERS = [f"{quantity}{end}" for quantity in (*TIMES, SHARE) for end in _ENDS]
COLUMNS = ["key", "model_key", "note", "status", "source", "launches", "rounds", *_NUMBERS]


def text(said: Sequence[Error]) -> str:
    """A line a quantity: how many cases, median error, median and worst absolute error, and whose that is."""
    head = ("quantity", "cases", "median error", "median |error|", "worst", "of")
    rows = [head, *(_cells(error) for error in said)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(
        [
            *lines,
            "",
            f"error         (model - measured) / measured; of {SHARE} model - measured, in points (pp)",
        ]
    )


def _cells(error: Error) -> tuple[str, ...]:
    unit = "pp" if error.quantity == SHARE else "%"
    signed = [f"{round(100 * value, 1) + 0.0:+.1f} {unit}" for value in (error.median, error.worst)]  # no -0.0
    absolute = f"{100 * error.median_absolute:.1f} {unit}"
    return (error.quantity, str(error.cases), signed[0], absolute, signed[1], plain(error.worst_case))


def left_out(joined: Joined) -> list[str]:
    """A line for each case that was not compared, or not in all of its quantities."""
    partly = joined.frame[joined.frame["note"] != ""]
    lines = [f"compared in part, {note}: {plain(key)}" for key, note in zip(partly["key"], partly["note"], strict=True)]
    return lines + [f"not compared, {why}: {plain(key)}" for key, why in joined.apart.items()]


def write(joined: Joined, path: Path) -> None:
    """Every case of both runs; ``note`` says what of it was not compared, and of those of one run why, without numbers.
    Numbers at full precision, times in seconds; what is unknown is empty."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(_rows(joined))
        part.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path} ({error.strerror}); name another folder with --out") from error
    finally:
        part.unlink(missing_ok=True)


def _rows(joined: Joined) -> Iterator[dict[str, Any]]:
    for _, case in joined.frame.iterrows():
        yield {column: _field(case[column]) for column in COLUMNS}
    for key, why in joined.apart.items():
        yield {"key": key, "note": why}


def _field(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else repr(float(value)).removesuffix(".0")
