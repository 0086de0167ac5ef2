# SPDX-License-Identifier: Apache-2.0
"""Figures of training schedules, read back from the artists, and the table of schemes."""

import csv
import dataclasses
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_schedules
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from synthetic_schedules import MS

from overlap_plots import derive, schemes, style
from overlap_plots.cli import main
from overlap_plots.load import load_run
from overlap_plots.registry import Absent, get_figure
from overlap_plots.render import draw_page


def pages(directory: Path, name: str) -> list[Any]:
    return get_figure(name).pages(load_run(directory), "")


def line(axes: Axes, label: str) -> Line2D:
    return next(found for found in axes.get_lines() if found.get_label() == label)


def lines(axes: Axes, label: str) -> list[Line2D]:
    return [found for found in axes.get_lines() if found.get_label() == label]


# ---- bucket_curve ----------------------------------------------------------------------------------------------------


def test_the_closed_form_is_that_of_the_harness() -> None:
    """Backward 4, wire 2, latency 1: with n = 1, 2, 4 max(1 + 2/n, n + 2 − 4 (1 − 1/n)) = 3, 2, 3."""
    curve = derive.BucketCurve(4, 2, 1)
    assert curve.exposed(np.array([1.0, 2.0, 4.0])).tolist() == [3, 2, 3]


def test_wire_and_latency_are_the_line_through_the_isolated_times(tmp_path: Path) -> None:
    run = load_run(synthetic_schedules.build(tmp_path / "run", "ddp"))
    curve = derive.bucket_curve(run.tables["summary"].frame)
    assert curve is not None
    assert (curve.backward, curve.wire, curve.latency) == pytest.approx((10 * MS, 4 * MS, 0.1 * MS))


def test_buckets_are_placed_by_their_mean_with_the_recommended_ones_in_a_band(tmp_path: Path, drawn: Any) -> None:
    (page,) = pages(synthetic_schedules.build(tmp_path / "run", "ddp"), "bucket_curve")
    (panel,) = drawn("bucket_curve", page).panels
    exposed, tail = lines(panel, "_line")
    assert exposed.get_xdata().tolist() == [1 << 20, 5 << 20, 20 << 20, 40 << 20]
    assert exposed.get_ydata() == pytest.approx(np.array([3.0, 1.0, 2.2, 4.1]) * MS)
    assert tail.get_ydata() == pytest.approx(np.full(4, 0.5 * MS))
    assert to_hex(tail.get_color()) == style.EXPOSED.lower()
    closed = line(panel, "closed form")
    assert closed.get_ydata()[0] == pytest.approx(4.1 * MS)  # one bucket: the whole wire and a latency
    (band,) = [patch for patch in panel.patches if patch.get_label() == "best bucket, 95 % interval"]
    low, high = band.get_extents().transformed(panel.transData.inverted()).intervalx
    assert low < 5 << 20 < 20 << 20 < high
    assert not low < 1 << 20
    assert "Recommended: bucket 1MiB; 1MiB exposes least; 25MiB exposes more." in page.captions
    assert panel.get_ylabel() == "time of a step (ms)"
    assert [text.get_text() for text in panel.texts] == ["tensor", "1MiB", "25MiB", "all"]
    assert {text.xy[1] for text in panel.texts} == {1}, "names stand above the panel, where no line runs"


def test_without_choices_nothing_is_recommended(tmp_path: Path, drawn: Any) -> None:
    (page,) = pages(synthetic_schedules.build(tmp_path / "run", "ddp", choices=False), "bucket_curve")
    assert not any("Recommended" in caption for caption in page.captions)
    assert not drawn("bucket_curve", page).panels[0].patches


def test_names_of_one_size_are_joined_and_near_ones_stand_in_rows(tmp_path: Path, drawn: Any) -> None:
    run = load_run(synthetic_schedules.build(tmp_path / "run", "ddp"))
    run.tables["summary"].frame["buckets"] = [40, 39, 1, 1]
    (page,) = get_figure("bucket_curve").pages(run, "")
    names = {text.get_text(): text.xyann[1] for text in drawn("bucket_curve", page).panels[0].texts}
    assert set(names) == {"tensor", "1MiB", "25MiB, all"}
    assert names["tensor"] != names["1MiB"]


# ---- bucket_timeline -------------------------------------------------------------------------------------------------


def test_what_of_a_reduction_lies_after_the_last_gradient_is_red(tmp_path: Path, drawn: Any) -> None:
    (page,) = pages(synthetic_schedules.build(tmp_path / "run", "ddp"), "bucket_timeline")
    (panel,) = drawn("bucket_timeline", page).panels
    waits, hidden, tail = panel.containers
    assert [patch.get_width() / MS for patch in waits] == pytest.approx([0.5] * 8)
    assert [patch.get_width() / MS for patch in hidden] == pytest.approx([1] * 6 + [0.5])
    assert [(patch.get_x() / MS, patch.get_width() / MS) for patch in tail] == [
        pytest.approx(span) for span in ((8, 0.5), (8.5, 1))
    ]
    assert {to_hex(patch.get_facecolor()) for patch in tail} == {style.EXPOSED.lower()}
    assert line(panel, "consumer proceeded").get_xdata() == pytest.approx(np.arange(10, 18) * MS)
    assert panel.get_yticklabels()[0].get_text() == "0 · 5 MiB"


# ---- prefetch --------------------------------------------------------------------------------------------------------


def test_the_knee_is_the_recommended_depth(tmp_path: Path, drawn: Any) -> None:
    (page,) = pages(synthetic_schedules.build(tmp_path / "run", "fsdp"), "prefetch")
    over_depth, over_memory = drawn("prefetch", page).panels
    assert line(over_depth, "_line").get_xdata().tolist() == [0, 1, 2]
    assert line(over_depth, "_line").get_ydata() == pytest.approx(np.array([5.0, 1.0, 0.95]) * MS)
    assert line(over_memory, "_line").get_xdata().tolist() == [1 << 20, 2 << 20, 3 << 20]
    assert (line(over_depth, "_knee").get_xdata()[0], line(over_memory, "_knee").get_xdata()[0]) == (1, 2 << 20)
    assert [text.get_text() for text in over_memory.texts] == ["0", "1", "2"]
    ring = line(over_depth, "ring, the knee: the least depth that is not shown to expose more than the best")
    assert (ring.get_marker(), ring.get_markerfacecolor()) == ("o", "none")


# ---- tiles -----------------------------------------------------------------------------------------------------------


def test_tiles_are_a_line_a_size_beside_what_one_tile_takes(tmp_path: Path, drawn: Any) -> None:
    (page,) = pages(synthetic_schedules.build(tmp_path / "run", "tp"), "tiles")
    share, relative = drawn("tiles", page).panels
    small, large = lines(share, "_line")
    assert small.get_ydata() == pytest.approx([2 / 12, 3 / 13])
    assert large.get_ydata() == pytest.approx([5 / 15, 2 / 12])
    assert [found.get_ydata()[1] for found in lines(relative, "_line")] == pytest.approx([13 / 12, 12 / 15])
    names = [handle.get_label() for handle in share.get_lines() if not str(handle.get_label()).startswith("_")]
    assert names == ["64 tokens, 64 KiB a pair", "512 tokens, 512 KiB a pair"]


@pytest.mark.parametrize(
    ("bench", "figure"),
    [("ddp", "bucket_curve"), ("ddp", "bucket_timeline"), ("fsdp", "prefetch"), ("tp", "tiles")],
)
def test_every_figure_fits_its_paper(tmp_path: Path, bench: str, figure: str) -> None:
    run = load_run(synthetic_schedules.build(tmp_path / "run", bench))
    for page in get_figure(figure).pages(run, ""):
        assert draw_page(get_figure(figure), page, run).texts


@pytest.mark.parametrize("figure", ["bucket_curve", "prefetch", "tiles"])
def test_one_value_is_no_sweep(tmp_path: Path, figure: str) -> None:
    bench = {"bucket_curve": "ddp", "prefetch": "fsdp", "tiles": "tp"}[figure]
    directory = synthetic_schedules.build(tmp_path / "run", bench)
    text = (directory / "summary.csv").read_text().splitlines(keepends=True)
    (directory / "summary.csv").write_text("".join(text[:2]))
    with pytest.raises(Absent, match="no sweep of several"):
        pages(directory, figure)


def test_series_of_one_depth_stand_side_by_side(tmp_path: Path, drawn: Any) -> None:
    run = load_run(synthetic_schedules.build(tmp_path / "run", "fsdp"))
    other = run.tables["summary"].frame.assign(communicators=1.0)
    other["key"] = other["key"] + " communicators=one"
    run.tables["summary"] = replace(
        run.tables["summary"], frame=pd.concat([run.tables["summary"].frame, other], ignore_index=True)
    )
    run.tables["summary"].frame.attrs = other.attrs
    (page,) = get_figure("prefetch").pages(run, "")
    over_depth, over_memory = drawn("prefetch", page).panels
    assert [found.get_xdata()[1] for found in lines(over_depth, "_line")] == pytest.approx([0.97, 1.03])
    assert len({found.get_xdata()[1] for found in lines(over_memory, "_line")}) == 1


# ---- schemes ---------------------------------------------------------------------------------------------------------


def test_schemes_are_the_recommended_cases_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(synthetic_schedules.build(tmp_path / bench, bench)) for bench in ("ddp", "fsdp", "tp")]
    assert main(["schemes", *runs, "--peak", "20GFLOP/s", "--peak-name", "a device, dense f32", "--format", "csv"]) == 0
    rows = [row.split(",") for row in capsys.readouterr().out.splitlines()]
    assert len(rows) == 1 + 1 + 1 + 2  # a row a series: of tensor parallelism one a size
    assert "bucket 1MiB" in rows[1][1]
    # Exposed 1 of 11 ms; 0.1 GFLOP in 11 ms of 20 GFLOP/s, alone in 10.
    out = main(["schemes", runs[0], "--peak", "20GFLOP/s", "--peak-name", "a device, dense f32"])
    text = capsys.readouterr().out
    assert out == 0
    assert "9.1 % [8.2, 10.0] 45.5 % 45.5 % 4.5 % measured" in " ".join(text.split())
    assert "Peak: 20.0 GFLOP/s a rank, a device, dense f32." in text


def test_every_case_of_a_step_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic_schedules.build(tmp_path / "step", "step", choices=False)
    assert main(["schemes", str(run), "--peak", "20GFLOP/s", "--format", "csv"]) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert [row[0] for row in rows[1:]] == ["step", "step"]
    assert rows[1][1] == "gpt2-small:4@128 t8 p1 d4 ddp 1f1b"
    # Exposed 2.5 of 12.5 ms; 0.1 GFLOP in 12.5 ms of 20 GFLOP/s, alone in 10.
    assert rows[1][5:] == ["20.0 % [19.2, 20.8]", "40.0 %", "40.0 %", "10.0 %", "model"]
    assert rows[2][1] == "gpt2-small:4@128 t1 p4 d8 ddp 1f1b"


def test_a_share_without_an_interval_is_a_number_alone() -> None:
    """As of fewer than six rounds, which make none."""
    made = schemes.Line("tp", "tiles 2", (0.25, math.nan, math.nan), math.nan, math.nan, math.nan, "measured")
    assert schemes.cells(made)[5] == "25.0 %"
    known = dataclasses.replace(made, exposed=(0.25, 0.2, 0.3))
    assert schemes.cells(known)[5] == "25.0 % [20.0, 30.0]"


def test_without_a_peak_it_is_the_best_rate_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic_schedules.build(tmp_path / "ddp", "ddp")
    assert main(["schemes", str(run)]) == 0
    text = capsys.readouterr().out
    assert "Peak: 10.0 GFLOP/s a rank, best f32 GEMM rate measured in ddp, by ddp." in text
    assert "90.9 % 90.9 % 9.1 %" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--peak", "fast"), '--peak "fast" is not a rate; type for example --peak 989TFLOP/s'),
        (("--format", "pdf"), '--format "pdf" is not known; type text or csv'),
    ],
)
def test_schemes_complain_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    run = synthetic_schedules.build(tmp_path / "ddp", "ddp")
    assert main(["schemes", str(run), *arguments]) == 2
    assert capsys.readouterr().err == f"overlap-plots: {message}\n"


def test_a_run_of_something_else_has_no_scheme(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemes", str(run_directory)]) == 1
    assert "no run of a training schedule" in capsys.readouterr().err
