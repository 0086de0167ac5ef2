# SPDX-License-Identifier: Apache-2.0
"""Pipeline diagrams and the ordering table, read back from the artists."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import synthetic
from matplotlib.colors import to_hex

from overlap_plots import style
from overlap_plots.figures.pipeline import KINDS
from overlap_plots.load import load_run
from overlap_plots.registry import Absent, get_figure

MS = synthetic.MS
_columns = synthetic._columns


def write(directory: Path, own: str, summary: list[dict[str, Any]], operations: list[dict[str, Any]]) -> Path:
    directory.mkdir(parents=True)
    common = _columns("key:t launch:i status:t reason:t source:t backend:t placement:t ranks:i rounds:i t_step:s*")
    schemas = {"summary": common + _columns(own), "operations": synthetic.SCHEMAS["operations"]}
    about = {
        "identity": {
            "build": {"version": "0.1.0", "release": True},
            "backend": {"name": "host", "device": "synthetic, no machine"},
        },
        "run": {"date": "2000-01-01T00:00:00Z"},
        "tables": {name: {"version": 1, "columns": columns} for name, columns in schemas.items()},
    }
    (directory / "run.json").write_text(json.dumps(about), encoding="utf-8")
    for name, rows in (("summary", summary), ("operations", operations)):
        with (directory / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [c["name"] for c in schemas[name]], restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return directory


def row(key: str, **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "launch": 0,
        "status": "ok",
        "source": "measured",
        "backend": "host",
        "placement": "concurrent",
        "ranks": 2,
        "rounds": 7,
    } | more


def pipeline_run(directory: Path, factors: Sequence[float] = (1,), **more: Any) -> Path:
    """Two stages, one microbatch, times in ms: F 0-1 and 1-2, D 2-4 and 4-6; stage 0 waits from 1 to 4. The forward
    step of stage 1 is two operations. A replay for each factor takes so many times as long."""
    steps = [(0, "F0", 0, 1), (1, "F0", 1, 1.5), (1, "F0", 1.5, 2), (1, "D0", 2, 4), (0, "D0", 4, 6), (0, "", 6, 7)]
    operations = [
        {"key": "pp a=1", "launch": 0, "arm": "overlapped", "replay": replay, "rank": rank, "lane": "compute", "op": i}
        | {"kind": "gemm", "role": "compute", "start": factor * begin * MS, "end": factor * end * MS, "step": step}
        for replay, factor in enumerate(factors)
        for i, (rank, step, begin, end) in enumerate(steps)
    ]
    bubble = {"bubble_rate": 0.5, "bubble_rate_low": 0.45, "bubble_rate_high": 0.55, "t_step": 6 * MS}
    summary = [row("pp a=1", schedule="1f1b", chunks=1, receive="early", **bubble, **more)]
    return write(directory, "schedule:t chunks:i receive:t bubble_rate:1* t_busy:s t_bubble:s", summary, operations)


def test_a_pipeline_is_its_steps_and_their_bubbles(tmp_path: Path, drawn: Any) -> None:
    (page,) = get_figure("pipeline").pages(load_run(pipeline_run(tmp_path / "run")), "")
    (panel,) = drawn("pipeline", page).panels
    boxes = {
        (c.get_label(), round(p.vertices[:, 1].mean())): [p.vertices[:, 0].min() / MS, p.vertices[:, 0].max() / MS]
        for c in panel.collections
        for p in c.get_paths()
    }
    assert boxes[("bubble", 0)] == pytest.approx([1, 4])
    assert boxes[("F: forward", 1)] == pytest.approx([1, 2]), "its operations are one step"
    assert boxes[("D: backward, inputs and weights in one", 0)] == pytest.approx([4, 6])
    assert ("bubble", 1) not in boxes, "it begins when it has something to do"
    assert panel.get_title(loc="left") == "1f1b: bubble 50.0 % [45.0, 55.0] (n = 7)"
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["stage 0", "stage 1"]
    assert {to_hex(c.get_facecolor()[0]) for c in panel.collections} >= {KINDS["F"][0].lower()}


def test_the_step_that_is_drawn_is_the_nearest_to_the_bubble_beside_it_and_says_its_own(
    tmp_path: Path, drawn: Any
) -> None:
    """Spans of 14, 7 and 10.5 ms, 6 of them busy: bubbles of 57, 14 and 43 %. The summary has 4 of 10 ms, 40 %."""
    run = pipeline_run(tmp_path / "run", (2, 1, 1.5), t_busy=6 * MS, t_bubble=4 * MS)
    (page,) = get_figure("pipeline").pages(load_run(run), "")
    (panel,) = drawn("pipeline", page).panels
    assert page.frame["end"].max() == pytest.approx(9 * MS)  # of the last named step of the third replay
    assert panel.get_title(loc="left").endswith("(n = 7), of the step drawn 42.9 %")
    assert "nearest to that median; its own share is named" in page.captions[1]


def test_without_a_stage_s_time_alone_the_middle_replay_is_drawn_and_no_share_of_it_is_named(
    tmp_path: Path, drawn: Any
) -> None:
    (page,) = get_figure("pipeline").pages(load_run(pipeline_run(tmp_path / "run", (2, 1, 1.5))), "")
    assert page.frame["end"].max() == pytest.approx(9 * MS)
    assert "step drawn" not in drawn("pipeline", page).panels[0].get_title(loc="left")
    assert "the middle one by length, whose own share is another" in page.captions[1]


def test_what_is_no_measurement_says_so(tmp_path: Path, drawn: Any) -> None:
    run = pipeline_run(tmp_path / "run", source="model")
    (page,) = get_figure("pipeline").pages(load_run(run), "")
    assert list(page.sources) == ["model"]
    assert "model" in drawn("pipeline", page).panels[0].get_title(loc="left")


def test_a_run_without_steps_has_no_pipeline(tmp_path: Path) -> None:
    run = pipeline_run(tmp_path / "run")
    text = (run / "operations.csv").read_text().replace(",F0", ",").replace(",D0", ",")
    (run / "operations.csv").write_text(text)
    with pytest.raises(Absent):
        get_figure("pipeline").pages(load_run(run), "")


def test_orderings_have_time_results_and_what_was_known(tmp_path: Path, drawn: Any) -> None:
    own = "variant:t correct:i elements:i elements_wrong:i static_check:t"
    summary = [
        row("a", variant="correct", correct=1, elements=768, elements_wrong=0, static_check="none")
        | {"t_step": 16 * MS, "t_step_low": 15 * MS, "t_step_high": 17 * MS},
        row("b", variant="missing_producer_event", correct=0, elements=768, elements_wrong=700, static_check="race x 6")
        | {"t_step": 12 * MS, "t_step_low": 12 * MS, "t_step_high": 12 * MS},
        row("c", variant="rank_misorder", elements=768, static_check="mismatch x 1", status="skipped", rounds=""),
    ]
    run = write(tmp_path / "run", own, summary, [])
    (page,) = get_figure("ordering").pages(load_run(run), "")
    times, words = drawn("ordering", page).panels
    assert [patch.get_width() / MS for patch in times.patches] == pytest.approx([16, 12])
    assert [patch.get_hatch() or "" for patch in times.patches] == ["", "xxx"]
    assert to_hex(times.patches[0].get_facecolor()) == style.COMPUTE.lower()
    said = [text.get_text() for text in words.texts]
    assert max(len(cell) for cell in said) <= 24, "no cell runs into the next"
    for cell in ("right", "700 wrong (91 %)", "–", "race x 6", "mismatch x 1", "skipped"):
        assert cell in said
    assert [tick.get_text() for tick in times.get_yticklabels()] == [
        "correct",
        "missing_producer_event",
        "rank_misorder",
    ]
