# SPDX-License-Identifier: Apache-2.0
"""Holds a run to its own word: tables as run.json describes them, a summary that follows from the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from overlap_plots import derive
from overlap_plots.load import Problem, Run, Table, read_run

TOLERANCE = 1e-9  # of a ratio; of the case's longest time for times

# What a row without a usable measurement leaves empty.
_TIMES = ("t_empty", "t_compute", "t_comm", "t_serial", "t_step")
_ALGEBRA = tuple(derive.overlap_algebra(pd.DataFrame(columns=list(_TIMES), dtype=float)).columns)

_CAUSES = tuple(f"exposed_{cause}" for cause in ("transfer", "peer", "shared", "units", "launch"))  # a model's

# What overlap-collective adds, and what it follows from.
_COSTS = ("t_rank_min", "t_rank_median", "t_rank_max", "t_loaded", "coverage")
_COST_SAMPLES = ("own", "compute_start", "compute_span", "comm_start", "comm_span")


def check_run(directory: Path) -> tuple[list[str], list[Problem]]:
    """What was checked, a line each with its counts, and every problem. RunError when it is no run directory at all."""
    run, problems = read_run(directory)
    said = [f"run.json: {_count(len(run.schemas), 'table schema')}"]
    for name, table in run.tables.items():
        ignored = "; an unterminated last line ignored" if table.unterminated else ""
        size = f"{_count(len(table.frame), 'row')} of {_count(len(table.schema.columns), 'column')}"
        said.append(f"{name}.csv: {size}, header and types against run.json{ignored}")
    summary = run.tables.get("summary")
    if summary is None or _lacks(
        summary, ("key", "launch", "status", "source", "rounds", *_TIMES, *_ALGEBRA), problems
    ):
        return said, problems
    said.append(_check_rows(summary, problems))
    for name in ("samples", "operations", "series", "launches"):
        if name in run.tables:
            said.append(_check_keys(name, run.tables[name], summary, problems))
    said.append(_check_numbers(run, summary, problems))
    series = run.tables.get("series")
    if series is not None and "growth_rate" in summary.frame:
        said.append(_check_queues(series, summary, problems))
    return said, problems


def _lacks(table: Table, columns: Sequence[str], problems: list[Problem]) -> bool:
    lacking = [c for c in columns if c not in table.frame]
    for column in lacking:
        problems.append(Problem(f"{table.schema.table}.csv", 1, column, "no such column", "it in every run"))
    return bool(lacking)


def _check_rows(summary: Table, problems: list[Problem]) -> str:
    """Statuses and sources are legal, a case has one row, a row without a usable measurement has no numbers."""
    frame = summary.frame
    first_line: dict[tuple[str, float], int] = {}
    for line, (_, row) in zip(summary.lines, frame.iterrows(), strict=True):
        for column, legal in (("status", derive.STATUSES), ("source", derive.SOURCES)):
            if row[column] not in legal:
                problems.append(Problem("summary.csv", line, column, f'"{row[column]}"', f"one of {', '.join(legal)}"))
        case = (row["key"], row["launch"])
        if case in first_line:
            got = f'"{row["key"]}" again'
            problems.append(Problem("summary.csv", line, "key", got, f"one row a case; line {first_line[case]} has it"))
        first_line.setdefault(case, line)
        if row["status"] not in ("ok", "noisy"):
            for column in (*_TIMES, *_ALGEBRA):
                if math.isfinite(row[column]):
                    expected = f"an empty field, as the status is {row['status']}"
                    problems.append(Problem("summary.csv", line, column, _text(row[column]), expected))
        _check_causes(row, line, problems)
    counts = ", ".join(f"{n} {status}" for status, n in frame["status"].value_counts().items())
    return f"summary.csv: {_count(len(frame), 'case')} ({counts or 'none'}), statuses, sources and keys"


def _check_causes(row: pd.Series[Any], line: int, problems: list[Problem]) -> None:
    """Exposed time by cause is the whole of it; a run from before these columns has none."""
    if not set(_CAUSES) <= set(row.index) or math.isnan(row["exposed_transfer"]):
        return
    parts = sum(float(row[cause]) for cause in _CAUSES)
    if not abs(parts - row["t_exposed"]) <= TOLERANCE * row["t_step"]:
        expected = f"parts that add up to t_exposed, {_text(row['t_exposed'])}"
        problems.append(Problem("summary.csv", line, "exposed_transfer", f"{_text(parts)} with the others", expected))


def _check_keys(name: str, table: Table, summary: Table, problems: list[Problem]) -> str:
    """Every key (and launch) of the table has its row in the summary. One problem a case, at its first line."""
    if _lacks(table, ["key"], problems):
        return f"{name}.csv: keys not checked"
    on = [c for c in ("key", "launch") if c in table.frame]
    known = set(summary.frame[on].itertuples(index=False, name=None))
    seen: set[tuple[Any, ...]] = set()
    for line, case in zip(table.lines, table.frame[on].itertuples(index=False, name=None), strict=True):
        if case not in known and case not in seen:
            launch = f" of launch {case[1]:.0f}" if len(case) > 1 else ""
            expected = "a case with a row in summary.csv; --resume finishes a case that was interrupted"
            problems.append(Problem(f"{name}.csv", line, "key", f'"{case[0]}"{launch}', expected))
        seen.add(case)
    return f"{name}.csv: {_count(len(seen), 'case')}, looked up in summary.csv"


def _check_numbers(run: Run, summary: Table, problems: list[Problem]) -> str:
    """The numbers of the summary, computed again from samples.csv."""
    samples = run.tables.get("samples")
    if samples is None:
        problems.append(Problem("samples.csv", 0, "", "no such table", "the samples that summary.csv derives from"))
        return "recomputed: nothing, there are no samples"
    if _lacks(samples, (*derive.REPLAY, "rank", "repeats", "step", "used"), problems):
        return "recomputed: nothing, samples.csv lacks columns"
    _check_samples(samples, problems)
    medians = derive.arm_medians(samples.frame)
    expected = medians.join(derive.overlap_algebra(medians))
    more: tuple[str, ...] = ()
    if "t_loaded" in summary.frame and not _lacks(samples, _COST_SAMPLES, problems):
        more = _COSTS
        expected = expected.join(derive.costs(samples.frame))
    contention = "victim_slowdown" in summary.frame and not _lacks(samples, _COST_SAMPLES, problems)
    slowdowns = derive.covered_slowdowns(samples.frame) if contention else None
    cases = numbers = unsampled = 0
    for line, (_, row) in zip(summary.lines, summary.frame.iterrows(), strict=True):
        case = (row["key"], row["launch"])
        if row["status"] not in ("ok", "noisy"):
            continue
        if case not in expected.index:
            unsampled += 1
            if row["source"] == "measured":
                got = f'no used sample of "{row["key"]}"'
                problems.append(
                    Problem("samples.csv", 0, "key", got, f"samples of summary.csv:{line}, which has numbers")
                )
            continue
        cases += 1
        numbers += _compare(row, expected.loc[case], more, line, problems)
        if slowdowns is not None and case in slowdowns.index:
            numbers += _compare_slowdowns(row, slowdowns.loc[case], line, problems)
    rest = f"; {_count(unsampled, 'case')} without samples not recomputed" if unsampled else ""
    return (
        f"recomputed from samples.csv: {_count(numbers, 'number')} of {_count(cases, 'case')}, compared to 1e-9{rest}"
    )


def _compare(
    row: pd.Series[Any], expected: pd.Series[Any], more: tuple[str, ...], line: int, problems: list[Problem]
) -> int:
    """How many numbers were compared. Differences of times are held to the size of the times, not of the difference."""
    longest = float(np.nanmax([expected[name] for name in _TIMES] + [0.0]))
    longest = float(np.nanmax([longest, *(expected[name] for name in more if name.startswith("t_"))]))
    for column in ("rounds", *_TIMES, *_ALGEBRA, *more):
        want, got = float(expected[column]), float(row[column])
        scale = longest if column.startswith("t_") or column == "serial_gap" else 1.0
        same = math.isnan(want) and math.isnan(got)
        if not same and not abs(got - want) <= TOLERANCE * max(scale, abs(want) if scale == 1.0 else 0.0):
            expected_text = f"{_text(want)}, as samples.csv gives"
            problems.append(Problem("summary.csv", line, column, _text(got), expected_text))
    return 1 + len(_TIMES) + len(_ALGEBRA) + len(more)


def _compare_slowdowns(row: pd.Series[Any], expected: pd.Series[Any], line: int, problems: list[Problem]) -> int:
    """Those of the victim and of the aggressor that are there: a collective is on the comm lane as the victim."""
    on_comm = row["victim"].split(":")[0] in derive.COLLECTIVES
    sides = {"victim": "comm" if on_comm else "compute", "aggressor": "compute" if on_comm else "comm"}
    compared = 0
    for side, role in sides.items():
        want, got = float(expected[f"{role}_slowdown"]), float(row[f"{side}_slowdown"])
        if expected[f"{role}_coverage"] != 1:
            want = math.nan
        compared += 1
        if not (math.isnan(want) and math.isnan(got)) and not abs(got - want) <= TOLERANCE * abs(want):
            text = f"{_text(want)}, as samples.csv gives"
            problems.append(Problem("summary.csv", line, f"{side}_slowdown", _text(got), text))
    return compared


def _check_queues(series: Table, summary: Table, problems: list[Problem]) -> str:
    """Slopes and drain times of overlap-queue, computed again from the backlog over time."""
    if _lacks(series, derive.QUEUE, problems):
        return "recomputed from series.csv: nothing, it lacks columns"
    replays = derive.queue_replays(series.frame)
    of_cases = dict(list(replays.groupby(level=["key", "launch"])))
    numbers = 0
    for replay, row in replays.iterrows():
        key, _, round_ = cast("tuple[str, int, float]", replay)
        numbers += 1
        if not _same(float(row["growth_rate"]), float(row["slope"]), float(row["largest"])):
            got = f'{_text(row["growth_rate"])} in round {round_:.0f} of "{key}"'
            problems.append(Problem("series.csv", 0, "growth_rate", got, f"{_text(row['slope'])}, as its points give"))
    for line, (_, row) in zip(summary.lines, summary.frame.iterrows(), strict=True):
        of_case = of_cases.get((row["key"], row["launch"]))
        if row["status"] not in ("ok", "noisy") or of_case is None:
            continue
        for column in ("growth_rate", "drain_time"):
            # What was not seen empty is later than all that was: infinite, and no number where it is the median.
            values = of_case[column].fillna(math.inf) if column == "drain_time" else of_case[column]
            middle, told = float(values.median(skipna=False)), float(row[column])
            middle = middle if math.isfinite(middle) else math.nan
            numbers += 1
            if not _same(told, middle, abs(middle)):
                expected = f"{_text(middle)}, as series.csv gives"
                problems.append(Problem("summary.csv", line, column, _text(told), expected))
    return f"recomputed from series.csv: {_count(numbers, 'number')} of {_count(len(replays), 'replay')}"


def _same(got: float, want: float, scale: float) -> bool:
    return (math.isnan(want) and math.isnan(got)) or abs(got - want) <= TOLERANCE * scale


def _check_samples(samples: Table, problems: list[Problem]) -> None:
    """``used`` is 0 or 1, a replay has one row a rank, and all of them tell the same step and repeats."""
    frame = samples.frame
    replay = frame.groupby(derive.REPLAY, dropna=False, sort=False)
    tests = (
        ("used", ~frame["used"].isin([0, 1]), "0 or 1"),
        ("repeats", ~(frame["repeats"] >= 1), "at least 1"),
        ("rank", frame.duplicated([*derive.REPLAY, "rank"]), "one row a rank of a replay"),
        *(
            (column, frame[column].ne(replay[column].transform("first")), "what the replay's other ranks say")
            for column in ("step", "repeats", "used")
        ),
    )
    for column, wrong, expected in tests:
        for index in np.flatnonzero(wrong.to_numpy(dtype=bool)):
            got = _text(frame[column].iloc[index])
            problems.append(Problem("samples.csv", samples.lines[index], column, got, expected))


def _text(value: float) -> str:
    """The shortest text that reads back to the same double."""
    return "an empty field" if math.isnan(value) else repr(float(value)).removesuffix(".0")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
