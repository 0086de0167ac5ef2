# SPDX-License-Identifier: Apache-2.0
"""Costs of collectives from runs and machine descriptions, and the figures that compare them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
import synthetic_collective

from overlap_plots import fabrics
from overlap_plots.cli import main
from overlap_plots.load import RunError, load_run
from overlap_plots.registry import Absent, Overview, Page, get_figure, missing
from overlap_plots.render import draw_page

FIGURES = ("bus_bandwidth", "cost_fit", "fabric_map", "idle_loaded")


@pytest.fixture
def collective(tmp_path: Path) -> Path:
    return synthetic_collective.build(tmp_path / "collective-run")


def describe(folder: Path, *documents: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for document in documents:
        (folder / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def pages(run: Path, figure: str) -> list[Page]:
    return get_figure(figure).pages(load_run(run), "")


def pages_of(figure: str, several: list[fabrics.Fabric]) -> list[Page]:
    overview = get_figure(figure)
    assert isinstance(overview, Overview)
    return overview.pages_of(several)


def lines(panel: Any, label: str) -> list[Any]:
    return [found for found in panel.get_lines() if str(found.get_label()).startswith(label)]


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_bus_factors_are_those_of_nccl_tests() -> None:
    assert fabrics.bus_factor("all_reduce", 8) == 1.75
    assert fabrics.bus_factor("reduce_scatter+all_gather", 8) == 1.75
    assert fabrics.bus_factor("all_gather", 4) == 0.75
    assert fabrics.bus_factor("broadcast", math.nan) == 1
    assert math.isnan(fabrics.bus_factor("all_reduce", 1))
    assert math.isnan(fabrics.bus_factor("hypercube", 8))


def test_a_run_gives_the_lines_that_paid_with_their_points(collective: Path) -> None:
    idle, loaded = fabrics.from_run(load_run(collective)).series
    assert [len(s.segments) for s in (idle, loaded)] == [1, 1]
    assert (idle.alpha.value, idle.alpha.low, idle.alpha.high) == pytest.approx((20e-6, 18e-6, 22e-6))
    # beta from 0.8 to 1.25 of 10 ps/B: bandwidth from 80 to 125 of 100 GB/s
    assert (idle.bandwidth.value, idle.bandwidth.low, idle.bandwidth.high) == pytest.approx((100e9, 80e9, 125e9))
    assert idle.points["seconds"].iloc[0] == pytest.approx(20e-6 + 1024e-11)
    assert loaded.points["seconds"].iloc[-1] == pytest.approx(30e-6 + 2e-11 * 2**24)
    assert loaded.title() == "all_reduce f32, 2 ranks, out of place, beside a GEMM"


def test_without_a_column_that_tells_which_paid_the_most_lines_did(collective: Path) -> None:
    run = load_run(collective)
    frame = run.tables["fits"].frame
    del frame["chosen"]
    assert [s.start for s in fabrics.from_run(run).series[0].segments] == [0, 65536]


def test_series_that_differ_only_in_a_setting_are_told_apart_by_their_key(collective: Path) -> None:
    run = load_run(collective)
    summary, fits = run.tables["summary"].frame, run.tables["fits"].frame
    summary.loc[summary["bytes"] > 65536, "key"] += " transport=mpi"  # another transport was asked for
    (idle, loaded) = fabrics.from_run(run).series
    assert [len(s.points) for s in (idle, loaded)] == [4, 4]
    fits["series"] = ""  # a table from before there were keys: all that it says is alike
    assert [len(s.points) for s in fabrics.from_run(run).series] == [8, 8]


def test_a_description_is_a_fabric(tmp_path: Path) -> None:
    folder = describe(tmp_path / "machines", synthetic_collective.machine())
    (fabric,) = fabrics.load_fabric(folder)
    (series,) = fabric.series
    assert fabric.about == "synthetic fabric · no device"
    assert series.source == "imported"
    assert series.bandwidth.value == pytest.approx(1.5 * 40e9)
    sizes = series.points["bytes"].to_numpy()
    assert np.allclose(series.predicted(sizes), series.points["seconds"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "is not as docs/machines.md says"),
        ('{"format": "else"}', "is no machine description"),
        ('{"format": "overlapbench machine", "version": 2}', "has version 2, this package reads 1"),
        ('{"format": "overlapbench machine", "version": NaN}', "NaN is no number"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_what_is_no_description_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(RunError, match=said):
        fabrics.load_fabric(file)


def test_a_number_without_an_origin_is_refused(tmp_path: Path) -> None:
    folder = describe(tmp_path / "machines", synthetic_collective.machine(origin="elsewhere"))
    with pytest.raises(RunError, match="overlap-machine --check"):
        fabrics.load_fabric(folder)


def test_a_folder_without_descriptions_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="neither a run directory nor a folder of machine descriptions"):
        fabrics.load_fabric(tmp_path)


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_the_fit_is_drawn_with_points_segments_and_errors(tmp_path: Path, drawn: Any) -> None:
    cost = synthetic_collective.machine()
    cost["collectives"][0]["points"][-1][1] *= 2  # the last point is twice as slow as its line
    (page,) = pages_of("cost_fit", fabrics.load_fabric(describe(tmp_path / "m", cost)))
    time, error = drawn("cost_fit", page).panels
    (points,) = lines(time, "time, imported")
    assert len(points.get_xdata()) == 7
    first, second = lines(time, "line ")
    assert first.get_label() == "line 1: alpha 10.00 µs [9.000, 12.00], bus 15.0 GB/s"
    assert second.get_xdata()[0] == pytest.approx(65536)
    assert second.get_ydata()[0] == pytest.approx(15e-6 + 65536 / 40e9)
    errors = np.concatenate([found.get_ydata() for found in lines(error, "_error")])
    assert errors == pytest.approx([0] * 6 + [-0.5])
    assert "bytes of one collective (B)" in error.get_xlabel()


def test_intervals_of_the_times_are_in_the_picture_of_the_fit(collective: Path, drawn: Any) -> None:
    run = load_run(collective)
    summary = run.tables["summary"].frame
    summary.loc[summary["bytes"] == summary["bytes"].max(), "t_comm_high"] = 1.0  # far above all points
    time, _ = drawn("cost_fit", get_figure("cost_fit").pages(run, "")[0]).panels
    assert time.get_ylim()[1] > 1.0


def test_bus_bandwidth_has_a_line_a_series_with_intervals(collective: Path, drawn: Any) -> None:
    (page,) = pages(collective, "bus_bandwidth")
    (panel,) = drawn("bus_bandwidth", page).panels
    idle, loaded = (found for found in panel.get_lines() if len(found.get_xdata()))
    assert idle.get_label() == "all_reduce f32, 2 ranks, out of place"
    assert idle.get_ydata()[-1] == pytest.approx(2**24 / (20e-6 + 2**24 * 1e-11))
    assert loaded.get_label().endswith("beside a GEMM")
    assert panel.get_ylabel() == "bus bandwidth (B/s)"
    assert len(panel.collections) == 1  # of the idle one: the loaded times have no interval


def test_several_fabrics_are_compared_on_the_collective_that_most_have(tmp_path: Path, drawn: Any) -> None:
    several = fabrics.load_fabric(
        describe(
            tmp_path / "m",
            synthetic_collective.machine("one"),
            synthetic_collective.machine("two"),
            synthetic_collective.machine("other", collective="broadcast"),
        )
    )
    (page,) = pages_of("bus_bandwidth", several)
    assert page.notes == ["without all_reduce of several sizes: other"]
    (panel,) = drawn("bus_bandwidth", page).panels
    assert panel.get_legend_handles_labels()[1] == ["one, 4 ranks (imported)", "two, 4 ranks (imported)"]


def test_the_map_shows_alpha_against_bandwidth_with_intervals_and_kinds(
    tmp_path: Path, collective: Path, drawn: Any
) -> None:
    folder = describe(
        tmp_path / "m",
        synthetic_collective.machine("log"),
        synthetic_collective.machine("paper", "published", points=False),
    )
    several = [*fabrics.load_fabric(folder), *fabrics.load_fabric(collective)]
    (page,) = pages_of("fabric_map", several)
    (panel,) = drawn("fabric_map", page).panels
    assert panel.get_xscale() == panel.get_yscale() == "log"
    marks = [(*m.get_xdata(), *m.get_ydata()) for m in lines(panel, "_marks")]
    assert marks == [pytest.approx(at) for at in ((60e9, 10e-6), (60e9, 10e-6), (100e9, 20e-6))]
    assert panel.get_legend_handles_labels()[1] == ["imported", "published", "measured"]
    assert [text.get_text() for text in panel.texts] == ["log", "paper", "collective-run"]
    assert page.sources == ("measured", "imported", "published")
    assert page.intervals


def test_a_map_without_an_interval_does_not_speak_of_any(tmp_path: Path) -> None:
    log = synthetic_collective.machine("log")
    for series in log["collectives"]:
        for segment in series["segments"]:
            segment["alpha_s"] = 10e-6
    (page,) = pages_of("fabric_map", fabrics.load_fabric(describe(tmp_path / "m", log)))
    assert not page.intervals


def test_labels_of_one_place_do_not_cover_each_other(tmp_path: Path, drawn: Any) -> None:
    folder = describe(tmp_path / "m", *(synthetic_collective.machine(f"same-place-{i}") for i in range(5)))
    (page,) = pages_of("fabric_map", fabrics.load_fabric(folder))
    (panel,) = drawn("fabric_map", page).panels
    assert len({(*text.xyann, text.get_ha()) for text in panel.texts}) == 5


def test_alpha_that_no_small_message_supports_is_hollow(tmp_path: Path, drawn: Any) -> None:
    large = synthetic_collective.machine()
    large["collectives"][0]["points"] = large["collectives"][0]["points"][4:]
    (page,) = pages_of("fabric_map", fabrics.load_fabric(describe(tmp_path / "m", large)))
    (panel,) = drawn("fabric_map", page).panels
    assert lines(panel, "_marks")[0].get_markerfacecolor() == "#FFFFFF"
    assert "hollow: alpha extrapolated" in panel.get_legend_handles_labels()[1]


def test_idle_and_loaded_are_joined(collective: Path, drawn: Any) -> None:
    (page,) = pages(collective, "idle_loaded")
    alpha, bandwidth = drawn("idle_loaded", page).panels
    (pair,) = lines(alpha, "_pair")
    assert pair.get_xdata() == pytest.approx([20e-6, 30e-6])
    (idle,), (loaded,) = lines(alpha, "idle"), lines(alpha, "loaded")
    assert (idle.get_xdata()[0], loaded.get_xdata()[0]) == pytest.approx((20e-6, 30e-6))
    heights = [interval.get_segments()[0][0][1] for interval in alpha.collections]
    assert heights == [idle.get_ydata()[0], loaded.get_ydata()[0]], "a mark lies on its interval"
    assert [lines(bandwidth, load)[0].get_xdata()[0] for load in ("idle", "loaded")] == pytest.approx([100e9, 50e9])
    assert alpha.get_xlabel() == "alpha (µs)"
    assert bandwidth.get_xlabel() == "bus bandwidth (GB/s)"


def test_a_run_that_was_never_loaded_says_so(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="was measured both idle and loaded"):
        pages(synthetic_collective.build(tmp_path / "run", loaded=False), "idle_loaded")


def test_a_run_of_another_bench_lacks_the_table(run_directory: Path) -> None:
    for name in FIGURES:
        assert missing(get_figure(name), load_run(run_directory))


@pytest.mark.parametrize("name", FIGURES)
def test_every_picture_says_run_device_date_n_and_intervals(name: str, collective: Path) -> None:
    run = load_run(collective)
    for page in get_figure(name).pages(run, ""):
        paper = draw_page(get_figure(name), page, run)
        said = " ".join(text.get_text() for text in paper.texts).replace("\n", " ").replace("\u00a0", " ")
        for fact in ("run collective-run", "synthetic $device$", "2000-01-01", "n = 8 points", "95 % intervals"):
            assert fact in said


@pytest.mark.parametrize("name", FIGURES)
def test_emulated_rows_say_so_in_the_title(name: str, tmp_path: Path) -> None:
    run = load_run(synthetic_collective.build(tmp_path / "run", source="emulated"))
    page = get_figure(name).pages(run, "")[0]
    assert "emulated, not measured" in draw_page(get_figure(name), page, run).texts[0].get_text()


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_takes_its_units_from_the_schema(name: str, collective: Path) -> None:
    about = json.loads((collective / "run.json").read_text(encoding="utf-8"))
    for table in about["tables"].values():
        for column in table["columns"]:
            column["unit"] = {"s": "fortnight", "B": "furlong", "B/s": "knot"}.get(column["unit"], column["unit"])
    (collective / "run.json").write_text(json.dumps(about))
    run = load_run(collective)
    paper = draw_page(get_figure(name), get_figure(name).pages(run, "")[0], run)
    labels = "".join(axes.get_xlabel() + axes.get_ylabel() for axes in paper.axes)
    assert any(unit in labels for unit in ("fortnight", "furlong", "knot"))


# ---- the command -----------------------------------------------------------------------------------------------------


def test_compare_draws_runs_and_descriptions_together(
    tmp_path: Path, collective: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = describe(tmp_path / "m", synthetic_collective.machine())
    status = main(["compare", str(folder), str(collective), "--format", "svg", "--out", str(tmp_path / "out")])
    out = capsys.readouterr().out.split()
    assert status == 0
    assert [Path(line).name.split("-")[0] for line in out] == [
        "bus_bandwidth.svg",
        "cost_fit",
        "cost_fit",
        "fabric_map.svg",
        "idle_loaded.svg",
    ]
    assert all(Path(line).is_file() for line in out)


def test_compare_refuses_a_figure_of_one_run(collective: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(collective), "--figure", "stretch"]) == 2
    assert "stretch is of one run; type overlap-plots render RUN --figure stretch" in capsys.readouterr().err


def test_render_draws_the_figures_of_a_collective_run(collective: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(collective), "--format", "svg"]) == 0
    said = capsys.readouterr()
    assert {Path(line).name.split("-")[0].removesuffix(".svg") for line in said.out.split()} == set(FIGURES)
    assert "stretch of collective-run is not drawn" in said.err
    assert "combined_vs_isolated of collective-run is not drawn: no case of both at once" in said.err


def test_a_pair_run_and_a_description_have_no_common_picture_of_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = synthetic.build(tmp_path / "pair", synthetic.CASES[:1])
    folder = describe(tmp_path / "m", synthetic_collective.machine())
    assert main(["compare", str(run), str(folder), "--figure", "idle_loaded", "--out", str(tmp_path / "out")]) == 1
    err = capsys.readouterr().err
    assert "no series of a collective in pair; compare runs of overlap-collective or overlap-import" in err
    assert "idle_loaded is not drawn" in err


def test_compare_without_any_series_is_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic.build(tmp_path / "pair", synthetic.CASES[:1])
    assert main(["compare", str(run), "--out", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    said = "no series of a collective in pair; compare runs of overlap-collective or overlap-import"
    assert (out, err) == ("", f"overlap-plots: {said}\n")
    assert not (tmp_path / "out").exists()
