# SPDX-License-Identifier: Apache-2.0
"""What the figures of overlap-contention draw, read back from the artists."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_contention

from overlap_plots import contention, derive
from overlap_plots.cli import main
from overlap_plots.load import load_run
from overlap_plots.registry import Absent, get_figure, missing
from overlap_plots.render import draw_page

FIGURES = synthetic_contention.FIGURES


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return synthetic_contention.build(tmp_path / "contention-run")


def pages(directory: Path, name: str, case: str = "") -> list[Any]:
    return get_figure(name).pages(load_run(directory), case)


# ---- trade-offs ------------------------------------------------------------------------------------------------------


def test_the_front_leaves_out_what_another_setting_beats() -> None:
    cost, gain = np.array([1.0, 1.1, 1.5, 2.0]), np.array([10.0, 18, 20, 19])
    assert contention.pareto_front(cost, gain) == [0, 1, 2]
    assert contention.knee(cost, gain) == 1
    assert contention.knee(cost[:2], gain[:2]) is None
    assert contention.knee(np.array([0.0, 1, 2]), np.array([0.0, 0.5, 2])) is None, "hanging below the line"


def test_break_even_is_where_the_gain_falls_to_nothing() -> None:
    assert contention.break_even(np.array([4.0, 1, 2]), np.array([-0.25, 0.8, 0.5])) == pytest.approx(2 + 4 / 3)
    assert contention.break_even(np.array([1.0, 2]), np.array([0.8, 0.5])) is None
    assert contention.break_even(np.array([1.0, 2, 3]), np.array([-0.1, 0.5, -0.5])) is None
    assert contention.break_even(np.array([1.0, 2]), np.array([0.5, math.nan])) is None


def test_slowdowns_follow_from_the_samples() -> None:
    """Two rounds of two ranks. Compute alone takes 4 s, and 5 in the second round; covered 9 from the last start, 1, to
    the last end, 10, and 11. The other side begins before it and ends with it; in the second round it ends earlier."""
    rows = []
    for round_, longer in ((0, 0), (1, 1)):
        shared = {"key": "k", "launch": 0, "round": round_, "used": 1}
        for rank in (0, 1):
            alone = {"compute_start": 0, "compute_span": 4 + longer, "comm_start": math.nan, "comm_span": math.nan}
            rows.append(shared | {"arm": "compute", "rank": rank} | alone)
            begins = {"compute_start": rank, "compute_span": 10 + 2 * longer - rank}
            other = {"comm_start": 0, "comm_span": 10 + longer}
            rows.append(shared | {"arm": "compute_loaded", "rank": rank} | begins | other)
    (found,) = derive.covered_slowdowns(pd.DataFrame(rows)).to_dict("records")
    assert found["compute_slowdown"] == 10 / 4.5
    assert found["compute_coverage"] == 0.5
    assert math.isnan(found["comm_slowdown"])


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_every_square_has_its_number(run: Path, drawn: Any) -> None:
    (page,) = pages(run, "contention_matrix")
    victim, aggressor = drawn("contention_matrix", page).panels
    grid = victim.images[0].get_array().filled(np.nan)
    assert grid == pytest.approx(np.array([[1.02, 1.10], [1.01, 1.80]]))
    assert {text.get_text() for text in victim.texts} >= {"1.80×\n[1.78, 1.82]"}
    other = aggressor.images[0].get_array().filled(np.nan)
    assert other == pytest.approx(np.array([[np.nan, 1.05], [np.nan, 1.90]]), nan_ok=True)
    assert len(aggressor.texts) == 2, "what only holds has no number"


def test_the_load_curve_marks_where_overlap_stops_paying(run: Path, drawn: Any) -> None:
    (page,) = pages(run, "load_curve")
    slowed, gain = drawn("load_curve", page).panels
    curve = next(line for line in slowed.get_lines() if line.get_label() == "victim slowdown")
    assert list(curve.get_xdata()) == [2e9, 4e9, 8e9]
    assert list(curve.get_ydata()) == [1.1, 1.4, 2.0]
    mark = next(line for line in gain.get_lines() if line.get_label().startswith("break-even"))
    assert mark.get_xdata()[0] == pytest.approx(6e9)
    assert mark.get_label() == "break-even: 6.00 GB/s"
    assert gain.get_xlabel() == "stream alone (GB/s)"


def test_the_budget_has_its_front_and_knee(run: Path, drawn: Any) -> None:
    (page,) = pages(run, "sm_budget")
    (panel,) = drawn("sm_budget", page).panels
    front = next(line for line in panel.get_lines() if line.get_label() == "Pareto front")
    assert list(front.get_xdata()) == [1.0, 1.1, 1.5]
    knee = next(line for line in panel.get_lines() if line.get_label().startswith("knee"))
    assert (knee.get_xdata()[0], knee.get_ydata()[0]) == (1.1, 18e9)
    assert [text.get_text() for text in panel.texts] == ["1", "2", "4", "8"]


def test_the_terms_add_up_to_what_was_lost(run: Path, drawn: Any) -> None:
    (page,) = pages(run, "attribution", "study=matrix")
    (panel,) = drawn("attribution", page).panels
    first = [patch for patch in panel.patches if patch.get_y() < 0.5 < patch.get_y() + 1 and patch.get_width()]
    assert sorted(patch.get_width() for patch in first) == pytest.approx([-0.1, 0.2, 0.3])
    total = next(line for line in panel.get_lines() if line.get_label() == "_total")
    assert sum(patch.get_width() for patch in first) == pytest.approx(total.get_xdata()[0]) == pytest.approx(0.4)
    (low, high) = panel.collections[0].get_segments()[0][:, 0]
    assert (low, high) == pytest.approx((0.3, 0.5)), "the interval of what was lost, of t_ideal"
    assert "start delay, clock drop, waiting" in " ".join(page.captions), "terms without an instrument are named"


def test_every_row_of_what_was_lost_names_its_aggressor_in_whole(tmp_path: Path, drawn: Any) -> None:
    directory = synthetic_contention.build(tmp_path / "long")
    for table in ("summary.csv", "samples.csv"):
        path = directory / table
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("stream:max@96MiB", "stream:10GB/s@96MiB").replace("gemm:512", "gemm:16384"))
    (page,) = pages(directory, "attribution")
    (panel,) = drawn("attribution", page).panels
    names = [tick.get_text() for tick in panel.get_yticklabels()]
    aggressors = list(page.frame["aggressor"])
    assert len(names) == len(aggressors) > 2
    assert all(f"beside {aggressor}" in name for name, aggressor in zip(names, aggressors, strict=True))
    assert not any("…" in name for name in names)


@pytest.mark.parametrize("name", FIGURES)
def test_every_picture_says_run_device_date_and_n(name: str, run: Path) -> None:
    loaded = load_run(run)
    for page in get_figure(name).pages(loaded, ""):
        paper = draw_page(get_figure(name), page, loaded)
        said = " ".join(text.get_text() for text in paper.texts).replace("\n", " ").replace("\u00a0", " ")
        for fact in ("run contention-run", "synthetic $device$", "2000-01-01", "n = 20 rounds"):
            assert fact in said


@pytest.mark.parametrize("name", FIGURES)
def test_emulated_rows_say_so_in_the_title(name: str, tmp_path: Path) -> None:
    loaded = load_run(synthetic_contention.build(tmp_path / "run", source="emulated"))
    page = get_figure(name).pages(loaded, "")[0]
    assert "emulated, not measured" in draw_page(get_figure(name), page, loaded).texts[0].get_text()


def test_a_run_of_another_bench_has_none_of_them(run_directory: Path) -> None:
    for name in FIGURES:
        assert missing(get_figure(name), load_run(run_directory))


def test_a_run_without_the_study_says_which(run: Path) -> None:
    with pytest.raises(Absent, match="no case of --study load_curve"):
        pages(run, "load_curve", "study=matrix")


def test_render_draws_them(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(run), "--format", "svg"]) == 0
    drawn = {Path(line).name.split("-")[0].removesuffix(".svg") for line in capsys.readouterr().out.split()}
    assert set(FIGURES) <= drawn
