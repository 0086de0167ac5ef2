# SPDX-License-Identifier: Apache-2.0
"""The verdict of a run in words. Pure functions from tables to sentences.

Each sentence is of one row (of summary.csv, choices.csv or fits.csv) and quotes what it says with the row's 95 %
interval. Where a number or its interval is missing there is no sentence; what an interval does not tell is not claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from overlap_plots import contention, derive
from overlap_plots.fabrics import bus_factor
from overlap_plots.style import iec, plain, si, si_interval

MOST_CASES = 8  # that are told one by one
_NEAR_BOUND = 0.9  # as in harness/metrics/verdict.cpp: nothing is left to tune
_SPANS_WITHOUT_GAPS = "pair"  # the bench in which a lane's span is its running time, so that it shows who is slowed

# Columns of summary.csv whose values are compared, and the option of the key that sets them.
_SETTINGS = (
    ("placement", "placement"),
    ("waiting", "waiting"),
    ("progress", "progress"),
    ("channels_asked", "channels"),
    ("buffers", "buffers"),
)
_CHOICE_WORDS = {"bucket": "{} buckets", "prefetch": "prefetch depth {}", "tiles": "{} tiles"}
_LOST_WORDS = {
    "lost_dependencies": "waiting for what the schedule orders before",
    "lost_start_delay": "a late start",
    "lost_compute_slowdown": "compute, slowed by what runs beside it",
    "lost_comm_slowdown": "communication, slowed by what runs beside it",
    "lost_clock_drop": "a lower clock",
    "lost_waiting": "waiting for other ranks",
}


@dataclass(frozen=True)
class Sentence:
    about: str  # the case, or what was compared
    text: str
    row: tuple[str, float] | None = None  # key and launch of the row of summary.csv that it is from
    labels: tuple[str, ...] = ()  # noisy; what was not measured


def verdict(tables: Mapping[str, pd.DataFrame], rounds_asked: float = math.nan) -> list[Sentence]:
    """All sentences that the tables of a run allow, the cases first. ``rounds_asked``: what a case should have had."""
    summary = derive.with_numbers(tables["summary"])
    if summary.empty:
        return []
    rows = over_launches(summary, tables.get("launches"))
    rows = rows.assign(name=derive.case_names(rows), asked=rounds_asked)
    samples = tables.get("samples")
    stretches = derive.stretches(samples) if samples is not None and not samples.empty else None
    said: list[Sentence] = []
    for row in _records(derive.choose(rows, MOST_CASES)):
        phrases = [phrase for phrase in (hidden(row), cause(row, stretches), idle(row), wrong(row)) if phrase]
        if phrases:
            said.append(_of(row, "; ".join(phrases)))
    said += settings(rows)
    said += least_idle(rows)
    said += slower_but_right(rows)
    said += choices(tables.get("choices"), rows)
    said += most_slowed(rows)
    said += knees(rows)
    said += most_lost(rows)
    said += backlogs(rows)
    said += costs(tables.get("fits"))
    return said + loaded(rows)


def over_launches(rows: pd.DataFrame, launches: pd.DataFrame | None) -> pd.DataFrame:
    """One row a case: of a case with several launches the first one, with the medians and intervals that launches.csv
    has over all of them. What it does not have is unknown of all launches together, so it is NaN."""
    if launches is None or launches.empty:
        return rows
    joint = launches.drop_duplicates("key").set_index("key")
    several = rows["key"].isin(joint.index[joint["launches"] > 1])
    noisy = rows["key"].isin(rows.loc[rows["status"] == "noisy", "key"])
    kept = rows.assign(launches=rows["key"].map(joint["launches"]))
    kept["status"] = kept["status"].mask(several & noisy, "noisy")
    for column in [name for name in rows if f"{name}_low" in rows and f"{name}_high" in rows]:
        for name in (column, f"{column}_low", f"{column}_high"):
            kept[name] = kept[name].mask(several, kept["key"].map(joint[name]) if name in joint else math.nan)
    kept = kept[~several | ~kept.duplicated("key")]
    kept.attrs = rows.attrs
    return kept


# ---- a case ----------------------------------------------------------------------------------------------------------


def hidden(row: Mapping[str, Any]) -> str:
    """How much of the communication hides and how much stays exposed; "" where that is not known."""
    if not all(_known(row, name) for name in ("t_compute", "t_comm", "t_step")) or _asks_otherwise(row):
        return ""
    compute, comm = row["t_compute"], row["t_comm"]
    if min(compute, comm) < derive.SMALLEST_PART * row["t_step"]:
        role, name = ("communication", "t_comm") if comm <= compute else ("compute", "t_compute")
        return f"little to hide: {role} alone takes {_time(row, name)} of a step of {_time(row, 't_step')}"
    if not _worth_hiding(row):
        return ""
    share = f"hidden share {_percent(row, 'hidden_share')}"
    if one_lane(row):
        return f"one after the other on one lane, so nothing can hide; as a control, {share}"
    if row["hidden_share_high"] < 0:
        alone = f"compute ({_time(row, 't_compute')}) and communication ({_time(row, 't_comm')}) one after the other"
        return f"worse than serial: both at once take {_time(row, 't_step')}, longer than {alone}; {share}"
    of = f"of {_time(row, 't_comm')} of communication"
    if row["hidden_share_low"] <= 0:
        exposed = f"{of} {_time(row, 't_exposed')} stays exposed; " if _known(row, "t_exposed") else ""
        return f"no overlap is measurable: {exposed}{share}"
    if row["hidden_share_low"] >= _NEAR_BOUND:
        share += ", near the bound"
    if not _known(row, "t_exposed"):
        return f"{of} a part hides; {share}"
    if row["t_exposed"] < 0:
        not_longer = f"the step is not longer than compute alone (exposed {_time(row, 't_exposed')})"
        return f"all of {_time(row, 't_comm')} of communication hides: {not_longer}; {share}"
    hides = si(comm - row["t_exposed"], "s")
    can = f"at most {_time(row, 't_compute')} can hide, {hides} does" if compute < comm else f"{hides} hides"
    unsure = ", not measurably above 0" if row["t_exposed_low"] <= 0 < row["t_exposed_high"] else ""
    return f"{of} {can} and {_time(row, 't_exposed')} stays exposed{unsure}; {share}"


def cause(row: Mapping[str, Any], stretches: pd.DataFrame | None) -> str:
    """Who is slowed, where something is left to hide. ``stretches``: ``derive.stretches`` of the samples."""
    at = (row["key"], row["launch"])
    if row["bench"] != _SPANS_WITHOUT_GAPS or one_lane(row) or stretches is None or at not in stretches.index:
        return ""
    if row.get("launches", 1) > 1 or not _worth_hiding(row) or row["hidden_share_low"] >= _NEAR_BOUND:
        return ""
    seen = _records(stretches.loc[[at]])[0]
    if not (_known(seen, "compute_stretch") and _known(seen, "comm_stretch")):
        return ""
    compute, comm = (_ratio(seen, f"{role}_stretch") for role in ("compute", "comm"))
    compute_slowed, comm_slowed = seen["compute_stretch_low"] > 1, seen["comm_stretch_low"] > 1
    if compute_slowed and comm_slowed:
        return f"each slows the other: compute takes {compute} and communication {comm} times as long as alone"
    if compute_slowed:
        return f"communication slows compute, which takes {compute} times as long as alone"
    if comm_slowed:
        return f"compute slows communication, which takes {comm} times as long as alone"
    return (
        "neither side is measurably slower than alone "
        f"(compute {compute}, communication {comm} times), so order, launch or waiting costs the rest"
    )


def idle(row: Mapping[str, Any]) -> str:
    """The bubble of a pipeline."""
    if not _known(row, "bubble_rate"):
        return ""
    schedule = row.get("bubble_rate_schedule", math.nan)
    alone = f"; its schedule alone leaves {100 * schedule:.1f} %" if math.isfinite(schedule) else ""
    return f"ranks idle {_percent(row, 'bubble_rate', 1)} of the longest stage span{alone}"


def wrong(row: Mapping[str, Any]) -> str:
    """What a mistake in the ordering made of the results: a count, which has no interval, over a number of rounds."""
    elements, of, rounds = (row.get(name, math.nan) for name in ("elements_wrong", "elements", "rounds"))
    if not all(map(math.isfinite, (elements, of, rounds))) or elements == 0:
        return ""
    return f"{elements:.0f} of {of:.0f} elements wrong in n = {rounds:.0f} rounds"


def _worth_hiding(row: Mapping[str, Any]) -> bool:
    """Whether both sides are known, with their share, and neither is too small a part of the step."""
    known = all(_known(row, name) for name in ("t_compute", "t_comm", "t_step", "hidden_share"))
    return known and min(row["t_compute"], row["t_comm"]) >= derive.SMALLEST_PART * row["t_step"]


def _asks_otherwise(row: Mapping[str, Any]) -> bool:
    """Cases of a pipeline's bubble and of who slows whom: what hides is not their question."""
    return _known(row, "bubble_rate") or "victim" in row


def one_lane(row: Mapping[str, Any]) -> bool:
    return "serial" in str(row["placement"]).split("+")


# ---- cases beside each other -----------------------------------------------------------------------------------------


def settings(rows: pd.DataFrame) -> list[Sentence]:
    """Of cases that differ in one setting alone: which hides most, if the intervals tell."""
    if "hidden_share_low" not in rows:
        return []
    seen = [
        row
        for row in _records(rows[~derive.little_to_hide(rows)])
        if _known(row, "hidden_share") and not one_lane(row) and not _asks_otherwise(row)
    ]
    said = []
    for column, option in _SETTINGS:
        for alike in _alike(seen, option):
            if len({row[column] for row in alike}) < 2:
                continue
            best, *others = sorted(alike, key=lambda row: -row["hidden_share"])
            close = [row for row in others if row["hidden_share_high"] >= best["hidden_share_low"]]
            if close:
                shares = ", ".join(_setting(row, column, option, with_share=True) for row in (best, *close))
                text = f"not measurably apart: {shares}"
            else:
                first, second = (_setting(row, column, option, with_share=True) for row in (best, others[0]))
                text = f"best here is {first}, next {second}"
            said.append(_of(best, text, about=f"{option}, {_common(alike)}", others=alike))
    return said


def _setting(row: Mapping[str, Any], column: str, option: str, *, with_share: bool) -> str:
    value = row[column]
    if column == "channels_asked":
        name = f"NCCL_MAX_CTAS={value:.0f}" if row["transport"] == "nccl" else f"{value:.0f} channels"
        words = name if value > 0 else "the library's choice of channels"
    else:
        words = f"{plain(str(value)) or 'none'} {'waits' if option == 'waiting' else option}"
    return f"{words} (hidden share {_percent(row, 'hidden_share')})" if with_share else words


def least_idle(rows: pd.DataFrame) -> list[Sentence]:
    """The schedule with the least bubble among pipelines that differ in it alone, if the intervals tell."""
    if "schedule" not in rows:
        return []
    said = []
    for alike in _alike([row for row in _records(rows) if _known(row, "bubble_rate")], "schedule", "chunks"):
        if len({row["schedule"] for row in alike}) < 2:
            continue
        best, *others = sorted(alike, key=lambda row: row["bubble_rate"])
        close = [row for row in others if row["bubble_rate_low"] <= best["bubble_rate_high"]]
        of = ", ".join(f"{plain(row['schedule'])} ({_percent(row, 'bubble_rate', 1)})" for row in (best, *close))
        if close:
            text = f"idles least, of all that the intervals do not tell apart: {of}"
        else:
            text = (
                f"idles least: {of}, the next {plain(others[0]['schedule'])} ({_percent(others[0], 'bubble_rate', 1)})"
            )
        said.append(_of(best, text, about="schedule", others=alike))
    return said


def slower_but_right(rows: pd.DataFrame) -> list[Sentence]:
    """What a safe but coarse order costs against the correct one, if the intervals tell."""
    if "variant" not in rows or "correct" not in rows:
        return []
    said = []
    for alike in _alike(_records(rows[rows["correct"] == 1]), "variant"):
        correct = [row for row in alike if row["variant"] == "correct" and _known(row, "t_step")]
        for row in alike:
            if correct and _known(row, "t_step") and row["t_step_low"] > correct[0]["t_step_high"]:
                than = f"longer than {_time(correct[0], 't_step')} of the correct order"
                said.append(_of(row, f"right, but a step takes {_time(row, 't_step')}, {than}"))
    return said


def choices(table: pd.DataFrame | None, rows: pd.DataFrame) -> list[Sentence]:
    """The value of an option that exposes least, with the interval of that value."""
    if table is None:
        return []
    said = []
    series = derive.differing_words([str(key) for key in table["series"]])
    for choice, words_of_series in zip(_records(table), series, strict=True):
        option = str(choice["option"])
        if not _known(choice, "t_exposed") or option not in rows:
            continue
        swept = rows[[key == choice["series"] for key in derive.series_keys(rows, option)]]
        best = swept[swept[option].map(_word) == _word(choice["best"])]
        if best.empty:
            continue

        def words(value: Any, option: str = option) -> str:
            return _CHOICE_WORDS.get(option, option + " {}").format(plain(_word(value)))

        text = (
            f"{words(choice['best'])} {'expose' if option in ('bucket', 'tiles') else 'exposes'} least of the "
            f"{choice['values']:.0f} tried: {_time(choice, 't_exposed')}; "
            f"the best lies from {plain(_word(choice['best_low']))} to {plain(_word(choice['best_high']))} (95 %)"
        )
        if _word(choice["recommended"]) not in (_word(choice["best"]), _word(choice["reference"])):
            text += f"; {words(choice['recommended'])} not measurably more"
        if _known(choice, "gain") and choice["reference"] not in ("", choice["best"]):
            more = f"{_time(choice, 'gain')} more" + ("" if choice["gain_low"] > 0 else ", which is not measurable")
            text += f"; {words(choice['reference'])}: {more}"
        if str(choice["verdict"]).startswith("unclear"):
            text = f"unclear: {text}"
        about = f"{option}, {plain(words_of_series) or _common(_records(swept))}"
        said.append(_of(_records(best)[0], text, about=about, others=_records(swept)))
    return said


def most_slowed(rows: pd.DataFrame) -> list[Sentence]:
    """Of each study of overlap-contention the victim that is slowed most, if it measurably is."""
    if "victim_slowdown_low" not in rows:
        return []
    said = []
    for _, of_study in rows.groupby("study", sort=False):
        slowed = [
            row for row in _records(of_study) if _known(row, "victim_slowdown") and row["victim_slowdown_low"] > 1
        ]
        if slowed:
            row = max(slowed, key=lambda row: row["victim_slowdown_low"])
            text = (
                f"{plain(row['victim'])} takes {_ratio(row, 'victim_slowdown')} times as long beside "
                f"{plain(row['aggressor'])} ({plain(row['placement'])})"
            )
            said.append(_of(row, text, about=f"slowed most, study {plain(row['study'])}"))
    return said


def knees(rows: pd.DataFrame) -> list[Sentence]:
    """How many channels give most bandwidth for what they cost the GEMM."""
    if "study" not in rows or "bus_bandwidth_loaded" not in rows:
        return []
    budget = rows[(rows["study"] == "sm_budget") & rows["bus_bandwidth_loaded"].notna()]
    said = []
    for _, of_series in budget.groupby(["victim", "aggressor", "placement"], sort=False):
        at = contention.knee(
            of_series["victim_slowdown"].to_numpy(dtype=float), of_series["bus_bandwidth_loaded"].to_numpy(dtype=float)
        )
        row = _records(of_series)[at] if at is not None else {}
        if not _known(row, "victim_slowdown"):
            continue
        text = (
            f"{_setting(row, 'channels_asked', 'channels', with_share=False)}: the GEMM takes "
            f"{_ratio(row, 'victim_slowdown')} times as long, the bus gives {si(row['bus_bandwidth_loaded'], 'B/s')}"
        )
        said.append(_of(row, text, about=f"knee of {plain(row['victim'])} beside {plain(row['aggressor'])}"))
    return said


def most_lost(rows: pd.DataFrame) -> list[Sentence]:
    """The step that lost most against its ideal, and the largest term that an instrument saw."""
    if "lost_low" not in rows:
        return []
    losing = [row for row in _records(rows) if _known(row, "lost") and row["lost_low"] > 0]
    if not losing:
        return []
    row = max(losing, key=lambda row: row["lost_low"] / row["t_ideal"])
    terms = [term for term in _LOST_WORDS if _known(row, term) and row[f"{term}_low"] > 0]
    most = max(terms, key=lambda term: row[term], default=None)
    why = f"; {_time(row, most)} of it is {_LOST_WORDS[most]}" if most else "; no instrument saw where"
    text = f"the step is {_time(row, 'lost')} longer than its longer part alone{why}"
    return [_of(row, text, about=f"lost most: {row['name']}")]


# ---- collectives -----------------------------------------------------------------------------------------------------


def backlogs(rows: pd.DataFrame) -> list[Sentence]:
    """Of each load of overlap-queue whether the backlog grows or drains, and how fast beside the fluid line."""
    if "fluid_growth_rate" not in rows or "utilization" not in rows:
        return []
    said = []
    for row in _records(rows[rows["fluid_growth_rate"].notna()]):
        if not _known(row, "growth_rate"):
            continue
        sure = row["growth_rate_low"] > 0 or row["growth_rate_high"] < 0
        what = ("grows" if row["growth_rate"] > 0 else "drains") if sure else "neither grows nor drains measurably"
        rate, low, high, line = (
            f"{row[name]:.4g}".replace("-", "−")
            for name in ("growth_rate", "growth_rate_low", "growth_rate_high", "fluid_growth_rate")
        )
        text = (
            f"at a load of {_rounded(row['utilization'], 2)} the backlog {what}: "
            f"it changes by {rate} [{low}, {high}] a second, the fluid line by {line}"
        )
        if _known(row, "drain_time"):
            text += f"; first empty after {_time(row, 'drain_time')}, the line after {si(row['fluid_drain_time'], 's')}"
        said.append(_of(row, text))
    return said


def costs(fits: pd.DataFrame | None) -> list[Sentence]:
    """Latency and bandwidth of each series that was fitted."""
    said = []
    for fit in _records(fits) if fits is not None else ():
        if fit.get("chosen", 1) != 1 or not (_known(fit, "alpha_s") and _known(fit, "beta_s_per_byte")):
            continue
        factor = bus_factor(str(fit["collective"]), fit["ranks"])
        kind, factor = ("bus", factor) if math.isfinite(factor) else ("algorithm", 1.0)
        value, low, high = (factor / fit[f"beta_s_per_byte{end}"] for end in ("", "_high", "_low"))
        text = f"latency {_time(fit, 'alpha_s')}, {kind} bandwidth {si_interval(value, low, high, 'B/s')}"
        poor = str(fit["verdict"]).split(";")[0]
        if poor.startswith("poor"):
            text += f"; the line is {plain(poor)}"
        if math.isfinite(fit.get("breakpoint_bytes", math.nan)):
            text = f"from {iec(fit['breakpoint_bytes'])} on {text}"
        launches = fit.get("launches", math.nan)
        if launches > 1:
            text += f" ({launches:.0f} launches)"
        words = (fit["collective"], fit["dtype"], f"{fit['ranks']:.0f} ranks" if math.isfinite(fit["ranks"]) else "")
        load = " beside GEMMs" if fit["load"] == "loaded" else ""
        said.append(Sentence(f"{' '.join(plain(w) for w in words if w)}{load}", text, None, _labels([fit])))
    return said


def loaded(rows: pd.DataFrame) -> list[Sentence]:
    """Of each collective the largest size, alone and beside GEMMs."""
    if "t_loaded_low" not in rows:
        return []
    both = rows[[_known(row, "t_loaded") and _known(row, "t_comm") for row in _records(rows)]]
    said = []
    for _, alike in both.groupby(["collective", "dtype"], sort=False):
        row = max(_records(alike), key=lambda row: row["bytes"])
        text = f"{_time(row, 't_comm')} alone, {_time(row, 't_loaded')} beside GEMMs that cover it"
        said.append(_of(row, text, about=f"{plain(row['collective'])} of {iec(row['bytes'])}"))
    return said


# ---- words -----------------------------------------------------------------------------------------------------------


def _of(row: Mapping[str, Any], text: str, *, about: str = "", others: Sequence[Mapping[str, Any]] = ()) -> Sentence:
    """A sentence of a row, which says how few rounds it rests on; ``others``: rows that it compares."""
    rests_on = (*others, row)
    few = [r["rounds"] for r in rests_on if r["source"] != "model" and r["rounds"] < r.get("asked", math.nan)]
    launches = row.get("launches", math.nan)
    if launches > 1:
        text += f" (median of {launches:.0f} launches)"
    elif few:
        text += f" (only n = {min(few):.0f} of the {row['asked']:.0f} rounds asked for)"
    return Sentence(about or str(row["name"]), text, (str(row["key"]), float(row["launch"])), _labels(rests_on))


def _labels(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What must stand beside a sentence: that a row is noisy, that it was not measured here."""
    found: dict[str, None] = {}
    for row in rows:
        if row.get("status") == "noisy":
            found["noisy"] = None
        source = plain(str(row["source"])) or "unknown source"
        if source != "measured":
            found[source if source in ("imported", "published") else f"{source}, not measured"] = None
    return tuple(found)


def _alike(rows: Sequence[Mapping[str, Any]], *options: str) -> Iterator[list[Mapping[str, Any]]]:
    """Rows whose keys differ in nothing but these options, of one launch and one kind of numbers."""
    frame = pd.DataFrame({"key": [str(row["key"]) for row in rows]})
    for option in options:
        frame["key"] = derive.series_keys(frame, option)
    groups: dict[tuple[str, float, str], list[Mapping[str, Any]]] = {}
    for row, key in zip(rows, frame["key"], strict=True):
        groups.setdefault((key, row["launch"], str(row["source"])), []).append(row)
    return (group for group in groups.values() if len(group) > 1)


def _common(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the rows have in common, short enough for a heading."""
    first = rows[0]
    words = [first.get(name, "") for name in ("layers", "gemm")]
    size = first.get("bytes", math.nan)
    words += [iec(size)] if isinstance(size, float) and math.isfinite(size) else []
    words += [first.get("transport", "")]
    return " ".join(plain(str(word)) for word in words if isinstance(word, str) and word) or "the cases"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(frame.columns, values, strict=True)) for values in frame.itertuples(index=False, name=None)]


def _word(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _known(row: Mapping[str, Any], name: str) -> bool:
    """Whether the value and both ends of its interval are there."""
    return all(math.isfinite(row.get(f"{name}{end}", math.nan)) for end in ("", "_low", "_high"))


def _time(row: Mapping[str, Any], name: str) -> str:
    return si_interval(row[name], row[f"{name}_low"], row[f"{name}_high"], "s")


def _percent(row: Mapping[str, Any], name: str, digits: int = 0) -> str:
    """``92 % [91, 92]``."""
    value, low, high = (_rounded(100 * row[f"{name}{end}"], digits) for end in ("", "_low", "_high"))
    return f"{value} % [{low}, {high}]"


def _ratio(row: Mapping[str, Any], name: str) -> str:
    value, low, high = (_rounded(row[f"{name}{end}"], 2) for end in ("", "_low", "_high"))
    return f"{value} [{low}, {high}]"


def _rounded(value: float, digits: int) -> str:
    """Adding zero turns a rounded -0 into 0."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")
