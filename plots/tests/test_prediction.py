# SPDX-License-Identifier: Apache-2.0
"""What the model predicted against what was measured, by an example that is worked by hand."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
import synthetic
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Paper
from synthetic import MS, Case

from overlap_plots import style
from overlap_plots.cli import main
from overlap_plots.load import RunError, load_run
from overlap_plots.prediction import cases, figure, table
from overlap_plots.registry import Absent, Together
from overlap_plots.render import draw_page

# Compute, comm, serial, step in ms. Measured and predicted; errors of the step: +10 %, -25 %, +50 %.
MEASURED = (
    Case("concurrent", (10, 8, 18, 10)),  # overlap 8 of 8: hidden share 1
    Case("serial", (10, 10, 20, 20)),  # 0
    Case("partitioned", (4, 2, 6, 4), status="noisy"),  # 1
)
MODEL = (
    Case("concurrent", (11, 8, 19, 11), source="model"),  # 1; compute +10 %, comm 0 %
    Case("serial", (10, 5, 15, 15), source="model"),  # 0; 0 %, -50 %
    Case("partitioned", (4, 4, 8, 6), source="model"),  # 2 of 4: 0.5; 0 %, +100 %
)


Changes = dict[str, dict[str, Any]]  # placement -> fields of its rows


def write(directory: Path, of: tuple[Case, ...], changes: Changes | None = None) -> Path:
    """A run of the cases."""
    synthetic.build(directory, of, operations=False)
    rows = [synthetic.summary_row(case) | (changes or {}).get(case.placement, {}) for case in of]
    synthetic.write(directory, "summary", rows)
    return directory


def join(
    tmp_path: Path,
    measured: tuple[Case, ...] = MEASURED,
    model: tuple[Case, ...] = MODEL,
    changes: tuple[Changes, Changes] = ({}, {}),
) -> cases.Joined:
    ours = write(tmp_path / "mine", measured, changes[0])
    theirs = write(tmp_path / "model", model, changes[1])
    return cases.join(load_run(ours), load_run(theirs))


# ---- joining ---------------------------------------------------------------------------------------------------------


def test_errors_of_three_cases_are_those_worked_by_hand(tmp_path: Path) -> None:
    joined = join(tmp_path)
    frame = joined.frame.set_index("name")
    assert list(frame.index) == ["concurrent", "serial", "partitioned"]
    assert list(frame["t_step_error"]) == pytest.approx([0.1, -0.25, 0.5])
    assert list(frame["t_compute_error"]) == pytest.approx([0.1, 0, 0])
    assert list(frame["t_comm_error"]) == pytest.approx([0, -0.5, 1])
    assert list(frame["hidden_share_error"]) == pytest.approx([0, 0, -0.5])
    assert (frame.loc["serial", "t_step"], frame.loc["serial", "t_step_model"]) == pytest.approx((20 * MS, 15 * MS))
    assert joined.apart == {}
    step, _, comm, share = cases.errors(joined.frame)
    assert (step.quantity, step.cases, step.worst_case) == ("t_step", 3, "partitioned")
    assert (step.median, step.median_absolute, step.worst) == pytest.approx((0.1, 0.25, 0.5))
    assert (comm.median, comm.median_absolute, comm.worst) == pytest.approx((0, 0.5, 1))
    assert (share.quantity, share.worst, share.worst_case) == ("hidden_share", -0.5, "partitioned")


def test_the_backend_s_transport_is_not_asked_for(tmp_path: Path) -> None:
    def keys(transport: str) -> Changes:
        return {case.placement: {"key": f"{case.key} transport={transport}"} for case in MEASURED}

    joined = join(tmp_path, changes=(keys("shm"), keys("nccl")))
    assert len(joined.frame) == 3
    assert joined.frame["model_key"][0].endswith("transport=nccl")


def test_of_several_transports_it_is_the_same_then_that_of_the_family() -> None:
    keys = ["pair a=1 transport=nccl", "pair a=1 transport=mpi", "pair a=2 transport=nccl"]
    assert cases._match("pair a=1 transport=mpi-openmpi", keys) == "pair a=1 transport=mpi"
    assert cases._match("pair a=1 transport=nccl", keys) == "pair a=1 transport=nccl"
    assert cases._match("pair a=1 transport=shm", keys) is None  # two, and nothing says which
    assert cases._match("pair a=2 transport=shm", keys) == "pair a=2 transport=nccl"
    assert cases._match("pair a=3 transport=nccl", keys) is None


def test_cases_of_one_run_are_listed_with_the_reason(tmp_path: Path) -> None:
    measured = (*MEASURED, Case("graph", status="timeout"), Case("copy_engine"), Case("global_sync"))
    model = (*MODEL, Case("copy_engine", status="unsupported", source="model"), Case("comm_first", source="model"))
    joined = join(tmp_path, measured, model)
    assert len(joined.frame) == 3
    why = {key.rpartition("=")[2]: reason for key, reason in joined.apart.items()}
    assert why == {
        "graph": "timeout in mine",
        "copy_engine": "unsupported in model",
        "global_sync": "only in mine",
        "comm_first": "only in model",
    }


def test_with_another_number_of_gemms_only_communication_is_the_same_work(tmp_path: Path) -> None:
    balanced = {"key": f"{MEASURED[1].key} balance=on"}
    joined = join(
        tmp_path, changes=({"serial": {"gemm_repeat": 4, **balanced}}, {"serial": {"gemm_repeat": 2, **balanced}})
    )
    (serial,) = joined.frame[joined.frame["name"] == "serial"].to_dict("records")
    assert [math.isnan(serial[f"{q}_error"]) for q in ("t_step", "t_compute", "hidden_share")] == [True] * 3
    assert serial["t_comm_error"] == pytest.approx(-0.5)
    note = "other work, gemm_repeat 4 measured, 2 by the model (leave out --balance in both)"
    assert list(joined.frame["note"]) == ["", note, ""]
    assert table.left_out(joined) == [f"compared in part, {note}: {balanced['key']}"]
    assert {error.quantity: error.cases for error in cases.errors(joined.frame)}["t_step"] == 2
    page = figure.page(joined, {"seconds": "s"})
    assert len(page.frame) == 2
    assert page.notes == ["1 case of one run only, or of other work, not shown"]


def test_a_number_that_nothing_compared_depends_on_is_not_said(tmp_path: Path) -> None:
    """As overlap-collective's GEMM, which only covers the collective."""
    blank = {"t_step": "", "t_compute": "", "hidden_share": ""}
    measured, model = ({c.placement: {"gemm_repeat": n, **blank} for c in MEASURED} for n in (70, 1))
    joined = join(tmp_path, changes=(measured, model))
    assert list(joined.frame["t_comm_error"]) == pytest.approx([0, -0.5, 1])
    assert list(joined.frame["note"]) == ["", "", ""]


def test_of_several_launches_it_is_the_median_without_an_interval(tmp_path: Path) -> None:
    steps = ((10, 8, 18, 10), (10, 8, 18, 14), (10, 8, 18, 11))
    launches = tuple(Case("concurrent", times, launch=i) for i, times in enumerate(steps))
    (case,) = join(tmp_path, launches, MODEL[:1]).frame.to_dict("records")
    assert case["t_step"] == pytest.approx(11 * MS)
    assert case["t_step_error"] == pytest.approx(0)
    assert case["launches"] == 3
    assert math.isnan(case["t_step_low"])


def test_a_share_of_next_to_nothing_has_no_error(tmp_path: Path) -> None:
    small = Case("concurrent", (100, 1, 101, 101))
    (case,) = join(tmp_path, (small,), MODEL[:1]).frame.to_dict("records")
    assert case["hidden_share"] == pytest.approx(0)
    assert math.isnan(case["hidden_share_error"])
    assert case["t_comm_error"] == pytest.approx(7)


def test_a_quantity_that_no_case_has_is_not_said(tmp_path: Path) -> None:
    blank = {case.placement: {"t_comm": "", "hidden_share": ""} for case in MEASURED}
    joined = join(tmp_path, changes=(blank, {}))
    assert [error.quantity for error in cases.errors(joined.frame)] == ["t_step", "t_compute"]


@pytest.mark.parametrize(
    ("measured", "model", "said"),
    [
        (MEASURED, MEASURED, "model is measured; name a run of --backend model there, after the measured one"),
        (MODEL, MODEL, "mine was predicted by the model; name a measured run there"),
        (
            MEASURED[:1],
            MODEL[1:],
            "no case to compare: only in mine, only in model; give --backend model the options of the measured run",
        ),
    ],
)
def test_what_cannot_be_joined_is_said(
    tmp_path: Path, measured: tuple[Case, ...], model: tuple[Case, ...], said: str
) -> None:
    with pytest.raises(RunError, match=said) as caught:
        join(tmp_path, measured, model)
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)


def test_cases_without_a_common_time_are_said(tmp_path: Path) -> None:
    blank = dict.fromkeys((*cases.TIMES, cases.SHARE), "")
    with pytest.raises(RunError, match="have nothing to compare: no time is in both") as caught:
        join(tmp_path, changes=({case.placement: blank for case in MEASURED}, {}))
    assert caught.value.status == 2


# ---- the figure ------------------------------------------------------------------------------------------------------


def drawn(joined: cases.Joined) -> Any:
    page = figure.page(joined, {"seconds": "s"})
    panel = Paper().subplots()
    figure.draw([panel], page.frame)
    return page, panel


def test_points_lie_beside_the_line_with_bands_and_the_worst_are_named(tmp_path: Path) -> None:
    page, panel = drawn(join(tmp_path))
    assert panel.get_xscale() == panel.get_yscale() == "log"
    assert panel.get_xlim() == panel.get_ylim()
    assert panel.get_xlabel() == "t_step, measured (s)"
    assert panel.get_ylabel() == "t_step, predicted by the model (s)"
    marks = [line for line in panel.get_lines() if line.get_label() == "_marks"]
    points = {(round(line.get_xdata()[0] / MS, 9), round(line.get_ydata()[0] / MS, 9)) for line in marks}
    assert points == {(10, 11), (20, 15), (4, 6)}
    assert sum(to_hex(line.get_markerfacecolor()) == "#ffffff" for line in marks) == 1  # the noisy one
    (identity,) = [line for line in panel.get_lines() if line.get_label() == "model = measured"]
    assert list(identity.get_xdata()) == list(identity.get_ydata())
    bands = {found.get_label(): found for found in panel.collections if found.get_label().startswith("within")}
    for label, error in (("within ±10 %", 0.1), ("within ±30 %", 0.3)):
        ratios = [y / x for x, y in bands[label].get_paths()[0].vertices]
        assert (min(ratios), max(ratios)) == pytest.approx((1 - error, 1 + error))
    assert {text.get_text() for text in panel.texts} == {"concurrent +10 %", "serial −25 %", "partitioned +50 %"}
    assert "the median is +10.0 %, the median absolute error 25.0 %, the worst 50.0 %" in page.captions[0]


def test_only_the_worst_of_many_are_named(tmp_path: Path) -> None:
    sizes = range(1, 9)
    measured = tuple(Case(bytes=size << 20) for size in sizes)
    model = tuple(Case(bytes=size << 20, times=(10, 8, 18, 11 + size), source="model") for size in sizes)
    _, panel = drawn(join(tmp_path, measured, model))
    assert {text.get_text().split(" MiB")[0] for text in panel.texts} == {"4", "5", "6", "7", "8"}


def test_the_picture_stands_alone(tmp_path: Path) -> None:
    joined = join(tmp_path, (*MEASURED, Case("graph")), MODEL)
    runs = (load_run(tmp_path / "mine"), load_run(tmp_path / "model"))
    with style.context():
        paper = draw_page(figure, figure.page(joined, {"seconds": "s"}), Together(tuple(run.origin for run in runs)))
    said = " ".join(text.get_text() for text in paper.texts).replace("\n", " ").replace("\u00a0", " ")
    for fact in (
        *("Step time: model over measurement — partly model, not measured", "run mine", "run model"),
        *("synthetic $device$", "2000-01-01", "n = 7 rounds", "95 % intervals", "1 case of one run only"),
    ):
        assert fact in said


def test_without_a_step_time_there_is_no_picture(tmp_path: Path) -> None:
    blank = {case.placement: {"t_step": ""} for case in MEASURED}
    joined = join(tmp_path, changes=(blank, {}))
    with pytest.raises(Absent, match="no case has a t_step in both runs"):
        figure.page(joined, {"seconds": "s"})


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_errors_lists_what_is_apart_and_writes_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "mine", (*MEASURED, Case("graph")))
    model = write(tmp_path / "model", MODEL)
    before = {path: path.stat().st_mtime_ns for folder in (run, model) for path in folder.rglob("*")}
    out = tmp_path / "out"
    assert main(["predicted", str(run), str(model), "--out", str(out), "--format", "svg"]) == 0
    said = capsys.readouterr()
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[0] == "quantity cases median error median |error| worst of".split()
    assert rows[1] == "t_step 3 +10.0 % 25.0 % +50.0 % partitioned".split()
    assert rows[4] == "hidden_share 3 +0.0 pp 0.0 pp -50.0 pp partitioned".split()
    assert said.out.splitlines()[-2:] == [str(out / "predicted.csv"), str(out / "predicted.svg")]
    assert said.err == f"overlap-plots: not compared, only in mine: {Case('graph').key}\n"
    with (out / "predicted.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["note"] for row in rows] == ["", "", "", "only in mine"]
    assert float(rows[1]["t_step"]) == 20 * MS  # to the last bit
    assert float(rows[1]["t_step_error"]) == pytest.approx(-0.25)
    assert (rows[2]["status"], rows[3]["t_step"]) == ("noisy", "")
    assert {path: path.stat().st_mtime_ns for folder in (run, model) for path in folder.rglob("*")} == before
    assert sorted(path.name for path in out.iterdir()) == ["predicted.csv", "predicted.svg"]


def test_without_out_it_goes_to_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "mine", MEASURED[:1])
    write(tmp_path / "model", MODEL[:1])
    monkeypatch.chdir(tmp_path)
    assert main(["predicted", "mine", "model", "--format", "svg"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["prediction/predicted.csv", "prediction/predicted.svg"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mine", "mine"), "mine is measured; name a run of --backend model there, after the measured one"),
        (("mine", "other"), "have no case to compare"),
        (("mine", "model", "--out", "mine/plots"), "--out mine/plots lies in the run mine; name a folder of its own"),
        (("mine", "model", "--format", "pdf"), '--format "pdf" is not known; type png, svg or png,svg'),
        (("mine",), "the following arguments are required: MODEL_RUN"),
    ],
)
def test_bad_usage_is_one_line_exit_2_and_nothing_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    write(tmp_path / "mine", MEASURED[:1])
    write(tmp_path / "model", MODEL[:1])
    write(tmp_path / "other", MODEL[1:])
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["predicted", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert sorted(tmp_path.rglob("*")) == before
