# SPDX-License-Identifier: Apache-2.0
"""One step by buckets: when gradients were there, when each reduction ran, when its consumer went on, and the tail."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Page

TITLE = "Buckets of a step"
DESCRIPTION = "overlap-ddp: every bucket from its gradients over its reduction to its consumer, the exposed tail in red"
NEEDS = {
    "summary": "key launch status source bucket buckets rounds t_tail t_tail_low t_tail_high".split(),
    "operations": "key launch arm replay rank kind nth bytes eligible ready start end proceeded start_source".split(),
}

_MOST_BUCKETS = 64  # that one picture can show


def pages(run: Run, case: str) -> list[Page]:
    summary = derive.matching(run.tables["summary"].frame, case)
    rows = derive.with_numbers(summary)
    operations = run.tables["operations"].frame
    found = [_page(row, operations) for _, row in rows.iterrows()]
    made = [page for page in found if page is not None]
    if not made:
        raise Absent("no case has recorded buckets")
    return made


def _page(row: pd.Series, operations: pd.DataFrame) -> Page | None:
    of_case = operations[(operations["key"] == row["key"]) & (operations["launch"] == row["launch"])]
    replay = derive.typical_replay(of_case)
    buckets = replay[(replay["kind"] == "all_reduce") & (replay["nth"] < row["buckets"]) & (replay["rank"] == 0)]
    frame = buckets.assign(begin=buckets["start"].fillna(buckets["ready"])).dropna(subset=["eligible", "begin", "end"])
    if frame.empty:
        return None
    notes = []
    if len(frame) > _MOST_BUCKETS:
        notes.append(f"shows the last {_MOST_BUCKETS} of {len(frame)} buckets")
        frame = frame.sort_values("nth").tail(_MOST_BUCKETS)
    elif len(frame) < row["buckets"]:
        notes.append(f"shows {len(frame)} of {int(row['buckets'])} buckets: the record ends there")
    frame.attrs = operations.attrs
    unit = style.unit_of(operations, "end")
    tail = style.si_interval(row["t_tail"], row["t_tail_low"], row["t_tail_high"], unit)
    sources = sorted({style.plain(s) for s in frame["start_source"] if s})
    of_one = row.to_frame().T
    return Page(
        frame=frame,
        panels=(1, 1),
        size=(10.5, 0.9 + max(0.16 * len(frame), 0.8)),
        subtitle=derive.full_name(row) + (" · noisy" if row["status"] == "noisy" else ""),
        captions=[
            f"Rank 0, the middle one of the recorded replays, first step of its window. t_tail {tail}, a step, of the "
            "worst rank.",
            f"Begin: {', '.join(sources) or 'not seen, drawn from ready'}. "
            "Red: after the last gradient, when there is no backward pass left to hide behind.",
        ],
        rounds=derive.rounds_range(of_one),
        sources=derive.sources(of_one),
        notes=notes,
        name=derive.file_name(row["key"], row["launch"]),
    )


def draw(axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
    (panel,) = axes
    last = float(frame["eligible"].max())
    artists: list[Artist] = []
    waits, hidden, tail = [], [], []
    for row, (_, bucket) in enumerate(frame.sort_values("nth").iterrows()):
        waits.append((row, bucket["eligible"], bucket["begin"]))
        hidden.append((row, bucket["begin"], min(bucket["end"], last)))
        tail.append((row, max(bucket["begin"], last), bucket["end"]))
    for spans, color, label in (
        (waits, "#D9D9D9", "its gradients are there: waits for its turn"),
        (hidden, style.COMM, "all_reduce"),
        (tail, style.EXPOSED, "all_reduce in the tail"),
    ):
        drawn = [(row, begin, end) for row, begin, end in spans if end > begin]
        if drawn:
            at = [row for row, _, _ in drawn]
            widths = [end - begin for _, begin, end in drawn]
            lefts = [begin for _, begin, _ in drawn]
            artists += panel.barh(at, widths, 0.8, lefts, color=color, linewidth=0, label=label).patches
    proceeded = frame.sort_values("nth")["proceeded"].to_numpy(dtype=float)
    artists += panel.plot(proceeded, range(len(frame)), "|", color="#000000", markersize=7, label="consumer proceeded")
    artists.append(
        panel.axvline(last, color=style.REFERENCE, linestyle="--", linewidth=1.0, label="the last gradient is there")
    )
    ordered = frame.sort_values("nth")
    step = max(1, len(ordered) // 16)
    names = [f"{int(nth)} · {style.iec(size)}" for nth, size in zip(ordered["nth"], ordered["bytes"], strict=True)]
    panel.set_yticks(range(0, len(ordered), step), names[::step])
    panel.set_ylabel("bucket")
    panel.set_ylim(len(ordered) - 0.4, -0.6)
    panel.grid(axis="x")
    end = float(frame[["end", "proceeded"]].max().max())
    panel.set_xlim(0, 1.02 * end)
    style.scale_axis(panel.xaxis, "time since the last rank was released", style.unit_of(frame, "end"), end)
    return artists
