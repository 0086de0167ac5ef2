# SPDX-License-Identifier: Apache-2.0
"""Joins a measured run and one of ``--backend model`` by what was asked for, and says how far off each case is. Pure.

A case's key holds the options, not the backend; only ``transport=`` names something of it, so a case is looked for with
its own transport first, then with that of its family ("mpi" of "mpi-openmpi"), then with any if there is only one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from overlap_plots import derive
from overlap_plots.load import Run, RunError

TIMES = ("t_step", "t_compute", "t_comm")  # s; their error is relative
SHARE = "hidden_share"  # its error is a difference

# How often a run repeats an operation in its window is its own choice: with another number of them these quantities are
# of other work.
_OF_REPEATS = {
    "gemm_repeat": ("t_step", "t_compute", SHARE),
    "compute_repeat": ("t_step", "t_compute", SHARE),
    "comm_repeat": ("t_step", "t_comm", SHARE),
}


@dataclass(frozen=True)
class Error:
    """Of a quantity over the cases in which both runs have it: (model − measured) / measured, or the difference."""

    quantity: str
    cases: int
    median: float  # signed
    median_absolute: float
    worst: float  # the one farthest from 0, signed
    worst_case: str  # its name


@dataclass(frozen=True)
class Joined:
    """``frame`` has a row a case of both runs: ``key``, ``model_key``, ``name``, ``series``; ``note``, why a part of it
    is not compared; ``status``, ``source``, ``launches`` and ``rounds`` of the measured one; and of each quantity q of
    TIMES and SHARE ``q``, ``q_low`` and ``q_high`` (measured; of several launches their median without an interval),
    ``q_model`` and ``q_error``."""

    frame: pd.DataFrame
    apart: Mapping[str, str]  # key of a case that was not compared -> why
    shared: str  # what was asked for in all of them


def join(measured: Run, model: Run) -> Joined:
    """RunError (exit code 2) where a run is not of the kind that its place asks for, or no case is in both."""
    rows, predicted = (derive.with_numbers(run.tables["summary"].frame) for run in (measured, model))
    if not predicted["source"].eq("model").all():
        said = ", ".join(derive.sources(predicted[predicted["source"] != "model"]))
        raise RunError(f"{model.directory} is {said}; name a run of --backend model there, after the measured one", 2)
    if rows["source"].eq("model").any():
        raise RunError(f"{measured.directory} was predicted by the model; name a measured run there", 2)
    cases, models = _cases(rows), _cases(predicted)
    without = _statuses(model)
    apart: dict[str, str] = {}
    found, seen = [], set()
    for key in map(str, cases.index):
        other = _match(key, list(models.index))
        if other is None:
            unable = _match(key, list(without))
            seen.add(unable)
            apart[key] = f"{without[unable]} in {model.name}" if unable else f"only in {measured.name}"
            continue
        seen.add(other)
        found.append((key, other))
    apart |= {key: f"{status} in {measured.name}" for key, status in _statuses(measured).items()}
    of_model = [*map(str, models.index), *without]
    apart |= {key: f"only in {model.name}" for key in of_model if key not in seen and key not in apart}
    if not found:
        raise RunError(f"{measured.directory} and {model.directory} have no case to compare: {_why_none(apart)}", 2)
    ours = cases.loc[[key for key, _ in found]].reset_index()
    theirs = models.loc[[other for _, other in found]].reset_index()
    first = rows.drop_duplicates("key").set_index("key").loc[ours["key"]].reset_index()
    frame = _compared(ours, theirs, first)
    if frame[[f"{quantity}_error" for quantity in (*TIMES, SHARE)]].isna().all(axis=None):
        why = next(filter(None, frame["note"]), "no time is in both")
        raise RunError(f"{measured.directory} and {model.directory} have nothing to compare: {why}", 2)
    return Joined(frame, apart, derive.shared_axes(first))


def errors(frame: pd.DataFrame) -> list[Error]:
    """Of each quantity that any case has, in the order of TIMES and SHARE."""
    said = []
    for quantity in (*TIMES, SHARE):
        known = frame[frame[f"{quantity}_error"].notna()]
        if known.empty:
            continue
        error = known[f"{quantity}_error"]
        worst = int(np.argmax(error.abs()))
        said.append(
            Error(
                quantity,
                len(known),
                float(error.median()),
                float(error.abs().median()),
                float(error.iloc[worst]),
                str(known["name"].iloc[worst]),
            )
        )
    return said


def _cases(rows: pd.DataFrame) -> pd.DataFrame:
    """Indexed by key: medians over launches, and the intervals of cases of one launch."""
    quantities = [*TIMES, SHARE]
    ends = [f"{quantity}_{end}" for quantity in quantities for end in ("low", "high")]
    known = rows.reindex(columns=[*dict.fromkeys([*rows.columns, *quantities, *ends, *_OF_REPEATS])])
    of_case = known.groupby("key", sort=False)
    frame = of_case[[*quantities, *ends, *_OF_REPEATS, "rounds"]].median()
    frame["launches"] = of_case.size()
    frame.loc[frame["launches"] > 1, ends] = math.nan
    noisy = of_case["status"].agg(lambda status: "noisy" if (status == "noisy").any() else "ok")
    return frame.assign(status=noisy, source=of_case["source"].first())


def _statuses(run: Run) -> dict[str, str]:
    """Of the keys of which no launch has numbers."""
    summary = run.tables["summary"].frame
    numbered = set(derive.with_numbers(summary)["key"])
    pairs = zip(summary["key"], summary["status"], strict=True)
    return {str(key): str(status) for key, status in pairs if key not in numbered}


def _match(key: str, keys: Sequence[str]) -> str | None:
    if key in keys:
        return key
    words, transport = _asked(key)
    alike = [other for other in keys if _asked(other)[0] == words]
    family = [other for other in alike if _asked(other)[1].split("-")[0] == transport.split("-")[0]]
    of_one = family or alike
    return of_one[0] if len(of_one) == 1 else None


def _asked(key: str) -> tuple[tuple[str, ...], str]:
    """The words of a key but for its transport, and that."""
    words = key.split()
    transport = next((word.partition("=")[2] for word in words if word.startswith("transport=")), "")
    return tuple(word for word in words if not word.startswith("transport=")), transport


def _compared(ours: pd.DataFrame, theirs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    frame = ours.assign(model_key=theirs["key"], name=derive.case_names(rows), series=derive.series_names(rows))
    for quantity in TIMES:
        frame[f"{quantity}_model"] = theirs[quantity]
        frame[f"{quantity}_error"] = (theirs[quantity] - ours[quantity]) / ours[quantity]
    little = derive.little_to_hide(ours) | derive.little_to_hide(theirs)
    frame[f"{SHARE}_model"] = theirs[SHARE]
    frame[f"{SHARE}_error"] = (theirs[SHARE] - ours[SHARE]).mask(little)
    frame = frame.replace([np.inf, -np.inf], math.nan).assign(note="")
    for column, quantities in _OF_REPEATS.items():
        errors = [f"{quantity}_error" for quantity in quantities]
        other_work = ours[column].notna() & theirs[column].notna() & ours[column].ne(theirs[column])
        for row in frame.index[other_work & frame[errors].notna().any(axis=1)]:
            note = f"other work, {column} {ours[column][row]:.0f} measured, {theirs[column][row]:.0f} by the model"
            hint = " (leave out --balance in both)" if "balance=on" in str(ours["key"][row]).split() else ""
            frame.loc[row, "note"] = note + hint
        frame[errors] = frame[errors].mask(other_work)
    return frame


def _why_none(apart: Mapping[str, str]) -> str:
    reasons = list(dict.fromkeys(apart.values()))
    one_sided = all(reason.startswith("only in ") for reason in reasons)
    hint = "; give --backend model the options of the measured run"
    return (", ".join(reasons[:3]) or "neither has numbers") + (hint if one_sided else "")
