# SPDX-License-Identifier: Apache-2.0
"""One step of each pipeline schedule, stage by stage: what every stage computes when, and its bubbles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Pipeline schedules"
DESCRIPTION = "per pipeline case: forward and backward steps of each stage over time, bubbles hatched"
NEEDS = {
    "summary": (
        "key launch status source placement rounds schedule bubble_rate bubble_rate_low bubble_rate_high"
    ).split(),
    "operations": "key launch arm replay rank kind role step ready start end".split(),
}

_MOST = 6
_MOST_RANKS = 16
_CHARACTER = 0.0065  # width of one, as a share of the panel's

# The letter of a step's name: its colour, and what it is.
KINDS = {
    "F": ("#0072B2", "forward"),
    "D": ("#009E73", "backward, inputs and weights in one"),
    "B": ("#56B4E9", "backward, gradients of inputs"),
    "W": ("#CC79A7", "backward, gradients of weights"),
}
BUBBLE = "#EDEDED"


def pages(run: Run, case: str) -> list[Page]:
    operations = run.tables["operations"].frame
    rows = derive.with_numbers(derive.matching(run.tables["summary"].frame, case))
    named = operations[(operations["arm"] == "overlapped") & (operations["role"] == "compute")]
    recorded = pd.MultiIndex.from_frame(named.loc[named["step"] != "", ["key", "launch"]]).unique()
    rows = rows[pd.MultiIndex.from_frame(rows[["key", "launch"]]).isin(recorded)]
    if rows.empty:
        raise Absent("no case has steps of a pipeline; measure with overlap-pp")
    chosen = rows.iloc[:_MOST]
    parts = []
    known = True  # of every step that is drawn how much of it is bubble
    for panel, (_, row) in enumerate(chosen.iterrows()):
        replay, own = _replay(named, row)
        known = known and math.isfinite(own)
        parts.append(_steps(replay).assign(panel=panel, title=_title(row, own)))
    frame = pd.concat(parts, ignore_index=True)
    notes = [f"shows {_MOST} of {len(rows)} cases; --case SUBSTRING picks others"] if len(rows) > _MOST else []
    ranks = int(frame["rank"].nunique())
    if ranks > _MOST_RANKS:
        frame = frame[frame["rank"] < _MOST_RANKS]
        notes.append(f"shows stages 0 to {_MOST_RANKS - 1} of {ranks}")
    frame.attrs = operations.attrs
    return [
        Page(
            frame=frame,
            panels=(len(chosen), 1),
            size=(11.5, sum(0.55 + 0.3 * min(_MOST_RANKS, part["rank"].nunique()) for part in parts) + 0.4),
            subtitle=derive.shared_axes(chosen),
            captions=[
                "Hatched: within a stage's span, from its first start to its last end, it computes nothing. The bubble "
                "rate holds that span to what the slowest stage takes where nobody waits, so steps slower than alone "
                "count too. All panels have one scale.",
                f"{style.describe(chosen, 'bubble_rate')}, by medians over rounds. "
                "Drawn is a step of another pass, which records every operation: "
                + (
                    "of its replays the one whose longest span is nearest to that median; its own share is named."
                    if known
                    else "of its replays the middle one by length, whose own share is another."
                ),
            ],
            rounds=derive.rounds_range(chosen),
            sources=derive.sources(chosen),
            intervals=bool((chosen["bubble_rate_high"] > chosen["bubble_rate_low"]).any()),
            notes=notes,
        )
    ]


def _replay(named: pd.DataFrame, row: pd.Series[Any]) -> tuple[pd.DataFrame, float]:
    """The recorded replay whose bubble is nearest to the one of the summary, and its own bubble rate; where the summary
    does not say what a stage takes alone the middle one by length, and NaN."""
    of_case = named[(named["key"] == row["key"]) & (named["launch"] == row["launch"])]
    busy, bubble = row.get("t_busy", math.nan), row.get("t_bubble", math.nan)
    if not math.isfinite(busy + bubble):
        return derive.typical_replay(of_case), math.nan
    spans = derive.longest_spans(of_case)
    nearest = (spans - (busy + bubble)).abs().idxmin()
    return of_case[of_case["replay"] == nearest], float((spans[nearest] - busy) / spans[nearest])


def _steps(replay: pd.DataFrame) -> pd.DataFrame:
    """From first start to last end of each step on each rank."""
    replay = replay[replay["step"] != ""].assign(begin=replay["start"].fillna(replay["ready"]))
    steps = replay.groupby(["rank", "step"], as_index=False).agg(begin=("begin", "min"), end=("end", "max"))
    return steps.sort_values(["rank", "begin"], ignore_index=True)


def _title(row: pd.Series[Any], own: float) -> str:
    low, high = row["bubble_rate_low"], row["bubble_rate_high"]
    interval = f" [{100 * low:.1f}, {100 * high:.1f}]" if high > low else ""
    n = f" (n = {int(row['rounds'])})" if math.isfinite(row["rounds"]) else ""
    about = [f"bubble {100 * row['bubble_rate']:.1f} %{interval}{n}".replace("-", "−")]
    if math.isfinite(own):
        about.append(f"of the step drawn {100 * own:.1f} %".replace("-", "−"))
    if row["source"] != "measured":
        about.append(style.plain(row["source"]))
    if row["status"] == "noisy":
        about.append("noisy")
    chunks = row.get("chunks", 1)
    name = style.plain(row["schedule"]) + (f" in {int(chunks)} chunks" if chunks > 1 else "")
    receive = row.get("receive", "early")
    if receive == "late":
        name += ", receives posted late"
    return f"{name}: {', '.join(about)}"


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    first, last = float(frame["begin"].min()), float(frame["end"].max())
    artists: list[Artist] = []
    for (_, steps), panel in zip(frame.groupby("panel"), axes, strict=False):
        ranks = sorted(int(rank) for rank in steps["rank"].unique())
        for rank in ranks:
            artists += _stage(panel, rank, steps[steps["rank"] == rank], last - first)
        panel.set_title(steps["title"].iloc[0], loc="left", fontsize=9)
        panel.set_yticks(ranks, [f"stage {rank}" for rank in ranks])
        panel.set_ylim(max(ranks) + 0.5, min(ranks) - 0.5)
        panel.set_xlim(first, last)
        panel.grid(axis="x")
        style.scale_axis(panel.xaxis, "time since the last rank was released", style.unit_of(frame, "end"), last)
        panel.label_outer()
    return artists


def _stage(panel: Axes, rank: int, steps: pd.DataFrame, length: float) -> list[Artist]:
    span = [(float(steps["begin"].min()), float(steps["end"].max()))]
    busy = list(zip(steps["begin"], steps["end"], strict=True))
    artists: list[Artist] = []
    idle = derive.subtract(span, busy)
    if idle:
        bubbles = panel.broken_barh(
            [(start, end - start) for start, end in idle],
            (rank - 0.4, 0.8),
            facecolor=BUBBLE,
            edgecolor=style.REFERENCE,
            linewidth=0,
            label="bubble",
        )
        bubbles.set_hatch("///")
        artists.append(bubbles)
    for letter, (color, words) in KINDS.items():
        of_kind = steps[steps["step"].str.startswith(letter)]
        if of_kind.empty:
            continue
        artists.append(
            panel.broken_barh(
                [(begin, end - begin) for begin, end in zip(of_kind["begin"], of_kind["end"], strict=True)],
                (rank - 0.4, 0.8),
                facecolor=color,
                edgecolor=style.PAPER,
                linewidth=0.6,
                label=f"{letter}: {words}",
            )
        )
        for _, step in of_kind.iterrows():
            if step["end"] - step["begin"] > _CHARACTER * (len(step["step"]) + 1) * length:
                artists.append(
                    panel.text(
                        (step["begin"] + step["end"]) / 2,
                        rank,
                        style.plain(step["step"]),
                        ha="center",
                        va="center",
                        fontsize=7,
                        color=style.PAPER if letter in "FD" else "#000000",
                    )
                )
    return artists
