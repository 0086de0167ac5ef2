# SPDX-License-Identifier: Apache-2.0
"""What the figures and the check compute from the tables. Pure functions from frame to frame; signed, never clamped."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from overlap_plots.style import iec, plain

STATUSES = ("ok", "noisy", "skipped", "unsupported", "failed_verify", "timeout")
SOURCES = ("measured", "imported", "model", "proxy", "emulated")
ARMS = ("empty", "compute", "comm", "serial", "overlapped")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")

# The column of summary.csv that holds the median of an arm.
TIME_OF_ARM = {
    "empty": "t_empty",
    "compute": "t_compute",
    "comm": "t_comm",
    "serial": "t_serial",
    "overlapped": "t_step",
}

# What distinguishes cases for a reader, in the order in which it is said.
_CASE_AXES = (
    "study victim aggressor variant schedule chunks receive placement gemm layers mode bucket prefetch communicators "
    "in_flight tiles workers sm_target collective bytes dtype ranks transport progress waiting channels_asked buffers "
    "interleave launch_mode launch"
).split()

# Below this part of the step the smaller of compute and communication is not worth hiding, and its hidden share is a
# number without meaning. As in harness/metrics/overlap.hpp.
SMALLEST_PART = 0.05

# How the value of an axis is said where the bare value would not tell what it is; "{s}" is the s of a plural.
_AXIS_WORDS = {
    "aggressor": "beside {}",
    "chunks": "{} chunk{s} a stage",
    "receive": "receives posted {}",
    "bucket": "bucket {}",
    "prefetch": "prefetch {}",
    "communicators": "{} communicator{s}",
    "in_flight": "{} in flight",
    "workers": "{} worker{s}",
    "sm_target": "GEMM on {} SM{s}",
    "tiles": "tiles {}",
    "ranks": "{} rank{s}",
    "progress": "progress {}",
    "waiting": "{} waits",
    "channels_asked": "{} channel{s}",
    "buffers": "{} buffers",
    "interleave": "by {}",
    "launch_mode": "{} launch",
    "launch": "launch {}",
}
# What is usual is not said: the transport's own way, the library's choice, no limit.
_USUAL = {"progress": "auto", "receive": "early", "chunks": 1, "channels_asked": 0, "in_flight": 0, "sm_target": 0}


def with_numbers(summary: pd.DataFrame) -> pd.DataFrame:
    """Only ok and noisy rows have numbers."""
    return summary[summary["status"].isin(["ok", "noisy"])]


def without_numbers(summary: pd.DataFrame) -> str:
    """``2 cases without numbers (1 timeout, 1 unsupported)``, or "" when there are none."""
    counts = summary.loc[~summary["status"].isin(["ok", "noisy"]), "status"].value_counts()
    if counts.empty:
        return ""
    each = ", ".join(f"{n} {plain(str(status))}" for status, n in sorted(counts.items()))
    return f"{count_cases(int(counts.sum()))} without numbers ({each})"


def matching(frame: pd.DataFrame, text: str) -> pd.DataFrame:
    """Rows whose key holds the text, literally."""
    return frame[frame["key"].map(lambda key: text in key).astype(bool)] if text else frame


def choose(summary: pd.DataFrame, limit: int) -> pd.DataFrame:
    """At most ``limit`` rows, in their order: of each placement in turn the best balanced: there overlap has most to
    give."""
    if len(summary) <= limit:
        return summary
    ratio = summary["t_comm"] / summary["t_compute"]
    imbalance = ratio.where(ratio > 0).map(math.log).abs()
    turn = imbalance.groupby(summary["placement"]).rank(method="first", na_option="bottom")
    order = pd.DataFrame({"turn": turn, "imbalance": imbalance}).sort_values(["turn", "imbalance"], kind="stable")
    return summary.loc[sorted(order.index[:limit])]


def chosen_note(shown: int, of: int) -> str:
    """Says what ``choose`` left out, or "" when it left out nothing."""
    if shown == of:
        return ""
    return f"shows {shown} of {count_cases(of)}: of each placement the best balanced; --case SUBSTRING picks others"


def case_names(frame: pd.DataFrame) -> list[str]:
    """One name a row from the axes that vary among the rows; rows that those do not tell apart also have the words that
    not all of their keys hold; the key where nothing else does."""
    varying = [a for a in _CASE_AXES if a in frame and frame[a].nunique(dropna=False) > 1]
    names = _with_source(frame, _join_axes(frame, varying or ["placement"]))
    keys = list(frame["key"])
    for alike in {name for name in names if names.count(name) > 1}:
        rows = [row for row, name in enumerate(names) if name == alike]
        for row, words in zip(rows, differing_words([plain(keys[row]) for row in rows]), strict=True):
            names[row] = " · ".join(filter(None, (alike, words)))
    return [n if n and names.count(n) == 1 else plain(key) for n, key in zip(names, keys, strict=True)]


def differing_words(texts: Sequence[str]) -> list[str]:
    """Of each text the words that not all have, in their order."""
    common = set.intersection(*(set(text.split()) for text in texts)) if texts else set()
    return [" ".join(word for word in text.split() if word not in common) for text in texts]


def full_name(row: pd.Series[Any]) -> str:
    """Everything that a reader needs to know which case this is."""
    frame = row.to_frame().T
    names = _with_source(frame, _join_axes(frame, [a for a in (*_CASE_AXES, "backend") if a in frame]))
    return names[0] or plain(row["key"])


def series_names(frame: pd.DataFrame) -> list[str]:
    """One series a placement, told apart further by collective, transport, progress, waiting and source."""
    further = ("collective", "transport", "progress", "waiting")
    extra = [a for a in further if a in frame and frame[a].nunique(dropna=False) > 1]
    return _with_source(frame, _join_axes(frame, ["placement", *extra]))


def shared_axes(frame: pd.DataFrame) -> str:
    """What all rows have in common, said once for the whole picture."""
    axes = [a for a in (*_CASE_AXES, "backend") if a in frame and a != "launch"]
    shared = [a for a in axes if frame[a].nunique(dropna=False) == 1]
    return _join_axes(frame.iloc[:1], shared)[0] if len(frame) else ""


def _join_axes(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    return [" · ".join(filter(None, (_say(axis, row[axis]) for axis in axes))) for _, row in frame.iterrows()]


def _with_source(frame: pd.DataFrame, names: list[str]) -> list[str]:
    """Says of every row that was not measured what it is instead."""
    sources = [plain(source) or "unknown source" for source in frame["source"]]
    return [n if s == "measured" else f"{n} ({s})" for n, s in zip(names, sources, strict=True)]


def _say(axis: str, value: Any) -> str:
    words = _AXIS_WORDS.get(axis, "{}")
    if value == _USUAL.get(axis):
        return ""
    if isinstance(value, str):
        return words.format(plain(value)) if value else ""
    if not math.isfinite(value):
        return ""
    if axis == "bytes":
        return iec(value)
    return words.format(int(value), s="" if value == 1 else "s")


def file_name(key: str, launch: float = 0) -> str:
    """What tells a case's files apart: the values of its key and the hash of all of it (FNV-1a, 64 bit), as the harness
    names timeline/<this>.json; a launch after the first adds its number. Nothing that a key holds makes it a path."""
    text = key.encode("utf-8", "surrogatepass")
    values = b"-".join(word[word.find(b"=") + 1 :] for word in text.split())[:100]
    words = re.sub(rb"[^A-Za-z0-9_+=,-]", b"_", values).decode()
    digest = 0xCBF29CE484222325
    for byte in text:
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return f"{words}-{digest:016x}" + (f"-launch{launch:.0f}" if launch > 0 else "")


def little_to_hide(frame: pd.DataFrame) -> pd.Series[bool]:
    """Rows whose smaller part is so small a part of the step that its hidden share tells nothing."""
    return frame[["t_compute", "t_comm"]].min(axis=1, skipna=False) < SMALLEST_PART * frame["t_step"]


def count_cases(count: int) -> str:
    return f"{count} case" if count == 1 else f"{count} cases"


def rounds_range(frame: pd.DataFrame) -> str:
    """``n = 40 rounds`` or ``n = 20–40 rounds a case``."""
    known = frame["rounds"].dropna()
    if known.empty:
        return "n unknown"
    low, high = int(known.min()), int(known.max())
    return f"n = {low} rounds" if low == high else f"n = {low}–{high} rounds a case"


def sources(frame: pd.DataFrame) -> tuple[str, ...]:
    """What kinds of numbers the rows hold, measured ones first."""
    found = {plain(source) or "unknown source" for source in frame["source"]}
    return tuple(sorted(found, key=lambda source: (source != "measured", source)))


# ---- from the samples ------------------------------------------------------------------------------------------------

# What tells one replay from another: with ``--interleave block`` an arm has many in one round, each on the next slot.
REPLAY = ["key", "launch", "round", "arm", "slot"]


def arm_steps(samples: pd.DataFrame) -> pd.DataFrame:
    """One row for each replay: the step is the same in all ranks' rows. ``time`` is the step of one operation, as in
    the summary; the empty arm has no operation, its time is that of the window."""
    replays = samples.drop_duplicates(REPLAY).copy()
    replays["time"] = replays["step"].where(replays["arm"] == "empty", replays["step"] / replays["repeats"])
    return replays


def arm_medians(samples: pd.DataFrame) -> pd.DataFrame:
    """Indexed by (key, launch): the median time of each arm over the used rounds, and ``rounds``, their number."""
    used = arm_steps(samples[samples["used"] == 1])
    medians = used.pivot_table(index=["key", "launch"], columns="arm", values="time", aggfunc="median")
    medians = medians.reindex(columns=list(ARMS)).rename(columns=TIME_OF_ARM)
    medians["rounds"] = used.groupby(["key", "launch"])["round"].nunique()
    return medians


def overlap_algebra(times: pd.DataFrame) -> pd.DataFrame:
    """The definitions of the results, from the columns t_compute, t_comm, t_serial and t_step."""
    compute, comm, serial, step = (times[name] for name in ("t_compute", "t_comm", "t_serial", "t_step"))
    ideal = np.maximum(compute, comm)
    overlap = compute + comm - step
    return pd.DataFrame(
        {
            "t_ideal": ideal,
            "speedup_bound": (compute + comm) / ideal,
            "t_overlap": overlap,
            "t_exposed": step - compute,
            "hidden_share": overlap / np.minimum(compute, comm),
            "hidden_fraction": overlap / comm,
            "speedup": (compute + comm) / step,
            "speedup_measured": serial / step,
            "serial_gap": serial - (compute + comm),
        },
        index=times.index,
    )


def costs(samples: pd.DataFrame) -> pd.DataFrame:
    """Indexed by (key, launch): of the arm comm the medians over rounds of the ranks' own times, of the arm loaded the
    median from the last start of communication to its last end, all per operation of the window, and the share of the
    rounds in which compute began before communication and ended after it on every rank."""
    case = ["key", "launch"]
    used = samples[samples["used"] == 1].copy()
    used["own"] /= used["repeats"]
    used["comm_end"] = used["comm_start"] + used["comm_span"]
    outlasts = used["compute_start"] + used["compute_span"] >= used["comm_end"]
    used["covered"] = outlasts & (used["compute_start"] <= used["comm_start"])
    alone = used[used["arm"] == "comm"].groupby(REPLAY)["own"]
    frame = pd.DataFrame(
        {
            "t_rank_min": alone.min().groupby(case).median(),
            "t_rank_median": alone.median().groupby(case).median(),
            "t_rank_max": alone.max().groupby(case).median(),
        }
    )
    loaded = used[used["arm"] == "loaded"].groupby(REPLAY)
    times = (loaded["comm_end"].max() - loaded["comm_start"].max()) / loaded["repeats"].first()
    frame["t_loaded"] = times.groupby(case).median()
    frame["coverage"] = loaded["covered"].all().astype(float).groupby(case).mean()
    return frame


def covered_slowdowns(samples: pd.DataFrame) -> pd.DataFrame:
    """Indexed by (key, launch): how many times as long a role takes in the arm in which the other covers it as alone,
    both medians over rounds of the time from the last rank's start to the last rank's end; and the share of the rounds
    in which the other did cover it on every rank. NaN without such an arm."""
    case, replay = ["key", "launch"], ["key", "launch", "round", "arm"]
    used = samples[samples["used"] == 1].copy()
    for role in ("compute", "comm"):
        used[f"{role}_end"] = used[f"{role}_start"] + used[f"{role}_span"]
    columns = {}
    for role, other in (("compute", "comm"), ("comm", "compute")):
        began = used[f"{other}_start"] <= used[f"{role}_start"]
        used["covered"] = began & (used[f"{other}_end"] >= used[f"{role}_end"])
        times = {}
        for arm in (role, f"{role}_loaded"):
            of_arm = used[used["arm"] == arm].groupby(replay)
            times[arm] = (of_arm[f"{role}_end"].max() - of_arm[f"{role}_start"].max()).groupby(case).median()
        columns[f"{role}_slowdown"] = times[f"{role}_loaded"] / times[role]
        loaded = used[used["arm"] == f"{role}_loaded"].groupby(replay)
        columns[f"{role}_coverage"] = loaded["covered"].all().astype(float).groupby(case).mean()
    return pd.DataFrame(columns)


# What a point of a queue's replay says.
QUEUE = ["key", "launch", "round", "kind", "time_s", "backlog", "growth_rate", "drain_time_s"]


def queue_replays(series: pd.DataFrame) -> pd.DataFrame:
    """Indexed by (key, launch, round) of overlap-queue: ``growth_rate`` and ``drain_time`` as its replay says, and
    ``slope``, computed again: of the least squares line through the backlog until it is first empty; NaN for fewer than
    three points. ``largest`` is the size to which rounding is held: the largest backlog over the time of the points."""
    rows: dict[Any, dict[str, float]] = {}
    for replay, points in series[series["kind"] == "replay"].groupby(["key", "launch", "round"], sort=False):
        drain = float(points["drain_time_s"].iloc[0])
        counted = points if math.isnan(drain) else points[points["time_s"] <= drain]
        time, backlog = (counted[name].to_numpy(dtype=float) for name in ("time_s", "backlog"))
        slope = largest = math.nan
        if len(counted) >= 3:
            centred = time - time.mean()
            slope = float(centred @ (backlog - backlog.mean()) / (centred @ centred))
            largest = float(max(backlog.max(), 1.0) / (time.max() - time.min()))
        rows[replay] = {
            "growth_rate": float(points["growth_rate"].iloc[0]),
            "drain_time": drain,
            "slope": slope,
            "largest": largest,
        }
    index = pd.MultiIndex.from_tuples(list(rows), names=["key", "launch", "round"])
    return pd.DataFrame(list(rows.values()), index=index, columns=["growth_rate", "drain_time", "slope", "largest"])


def speedup_bound(ratio: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The most that overlap can give at r = t_comm / t_compute: (1 + r) / max(1, r)."""
    bound: np.ndarray[Any, Any] = (1 + ratio) / np.maximum(1, ratio)
    return bound


def median_interval(values: Iterable[float], level: float = 0.95) -> tuple[float, float]:
    """Distribution-free interval of the median: the narrowest pair of order statistics, equally far from both ends,
    that holds it with at least ``level``. Six values give their extremes (1 − 2/2⁶ = 0.969); fewer give NaN."""
    ordered = np.sort(np.asarray(list(values), dtype=float))
    n = len(ordered)
    outside, best = 0.0, None
    for k in range(n // 2):  # P(median below the (k+1)-th smallest) = sum of C(n, i) / 2^n for i <= k
        outside += 2 * math.comb(n, k) / 2**n
        if 1 - outside < level:
            break
        best = k
    return (math.nan, math.nan) if best is None else (float(ordered[best]), float(ordered[n - 1 - best]))


def stretch_intervals(samples: pd.DataFrame) -> pd.DataFrame:
    """Indexed by (key, launch): 95 % intervals of the median over rounds of a span overlapped / alone, both of one
    round, each the largest over the ranks."""
    return stretches(samples)[[f"{role}_stretch_{end}" for role in ("compute", "comm") for end in ("low", "high")]]


def stretches(samples: pd.DataFrame) -> pd.DataFrame:
    """As ``stretch_intervals``, with that median itself: summary.csv has the ratio of two medians instead."""
    used = samples[samples["used"] == 1]
    of_replays = used.groupby(REPLAY)[["compute_span", "comm_span"]].max()
    spans = of_replays.groupby(["key", "launch", "round", "arm"]).median().unstack("arm")
    rows: dict[Any, dict[str, float]] = {}
    for case, of_case in spans.groupby(level=["key", "launch"]):
        row = rows.setdefault(case, {})
        for role in ("compute", "comm"):
            span = of_case[f"{role}_span"]
            if role in span and "overlapped" in span:
                name, ratios = f"{role}_stretch", (span["overlapped"] / span[role]).dropna()
                low, high = median_interval(ratios)
                row |= {name: float(ratios.median()), f"{name}_low": low, f"{name}_high": high}
    names = [f"{role}_stretch{end}" for role in ("compute", "comm") for end in ("", "_low", "_high")]
    index = pd.MultiIndex.from_tuples(list(rows), names=["key", "launch"])
    return pd.DataFrame(list(rows.values()), index=index, columns=names, dtype=float)


# ---- training schedules ----------------------------------------------------------------------------------------------


def series_keys(frame: pd.DataFrame, option: str) -> list[str]:
    """The keys without one option's word: cases that differ in nothing else are one series."""
    return [re.sub(rf" {re.escape(option)}=\S+", "", key) for key in frame["key"]]


@dataclass(frozen=True)
class BucketCurve:
    """What buckets leave exposed in closed form, as harness/metrics/bucket_curve.hpp has it: seconds."""

    backward: float
    wire: float  # all gradients in one message, without its latency
    latency: float  # of each bucket

    def exposed(self, buckets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        last = self.latency + self.wire / buckets
        behind = buckets * self.latency + self.wire - self.backward * (1 - 1 / buckets)
        longest: np.ndarray[Any, Any] = np.maximum(last, behind)
        return longest


def bucket_curve(sweep: pd.DataFrame) -> BucketCurve | None:
    """From the isolated times of a sweep of buckets: wire and latency by the line of least relative squares through
    t_comm over the number of buckets, the backward pass by the median of t_compute. None where the line has no latency
    or no wire."""
    n, t = sweep["buckets"].to_numpy(dtype=float), sweep["t_comm"].to_numpy(dtype=float)
    if len(np.unique(n)) < 2:
        return None
    matrix = np.column_stack([1 / t, n / t])
    (wire, latency), *_ = np.linalg.lstsq(matrix, np.ones_like(t), rcond=None)
    if not (latency > 0 and wire >= 0):
        return None
    return BucketCurve(float(sweep["t_compute"].median()), float(wire), float(latency))


# ---- timelines -------------------------------------------------------------------------------------------------------


def typical_replay(operations: pd.DataFrame) -> pd.DataFrame:
    """The overlapped replay of one case whose length is the (lower) median of all that were recorded."""
    overlapped = operations[operations["arm"] == "overlapped"]
    if overlapped.empty:
        return overlapped
    lengths = overlapped.groupby("replay")["end"].max().sort_values(kind="stable")
    middle = lengths.index[(len(lengths) - 1) // 2]
    of_middle: pd.DataFrame = overlapped[overlapped["replay"] == middle]
    return of_middle


# Operations that order others and do no work: their time is waiting.
_ORDERING = ("record", "wait", "host_sync")


def work(operations: pd.DataFrame) -> pd.DataFrame:
    """Those that compute or communicate."""
    does = operations["role"].isin(["compute", "comm"]) & ~operations["kind"].isin(_ORDERING)
    of_work: pd.DataFrame = operations[does]
    return of_work


def longest_spans(operations: pd.DataFrame) -> pd.Series[float]:
    """Indexed by replay: the longest that a rank's compute took from its first start to its last end in the overlapped
    arm of one case, in seconds; without a start seen, from when it could have begun."""
    compute = work(operations[(operations["arm"] == "overlapped") & (operations["role"] == "compute")])
    compute = compute.assign(begin=compute["start"].fillna(compute["ready"]))
    ranks = compute.groupby(["replay", "rank"]).agg(begin=("begin", "min"), end=("end", "max"))
    spans: pd.Series[float] = (ranks["end"] - ranks["begin"]).groupby("replay").max()
    return spans


Span = tuple[float, float]


def union(spans: Iterable[Span], gap: float = 0) -> list[Span]:
    """Disjoint and in order; what lies no more than ``gap`` apart is one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def subtract(spans: Iterable[Span], holes: Iterable[Span]) -> list[Span]:
    """What of the spans lies in no hole: communication with no compute beside it."""
    rest = union(spans)
    for hole_start, hole_end in union(holes):
        rest = [
            piece
            for start, end in rest
            for piece in ((start, min(end, hole_start)), (max(start, hole_end), end))
            if piece[1] > piece[0]
        ]
    return rest
