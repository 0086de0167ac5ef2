# SPDX-License-Identifier: Apache-2.0
"""What is drawn, read back from the artists."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

from overlap_plots import derive, style
from overlap_plots.load import RunError, load_run
from overlap_plots.registry import Absent, get_figure, missing
from overlap_plots.render import draw_page

MS = synthetic.MS


def pages(directory: Path, name: str, case: str = "") -> list[Any]:
    return get_figure(name).pages(load_run(directory), case)


def line(axes: Axes, label: str) -> Line2D:
    return next(found for found in axes.get_lines() if found.get_label() == label)


def texts(paper: Any) -> str:
    return "\n".join(text.get_text() for text in paper.texts)


# ---- combined_vs_isolated --------------------------------------------------------------------------------------------


def test_bars_are_the_four_times_with_the_exposed_part_on_top(run_directory: Path, drawn: Any) -> None:
    figure = drawn("combined_vs_isolated", pages(run_directory, "combined_vs_isolated")[0])
    first = figure.panels[0]  # compute 10, comm 8, serial 18, overlapped 11 ms
    heights = [patch.get_height() / MS for patch in first.patches]
    assert heights == pytest.approx([10, 8, 18, 10, 1])
    exposed = first.patches[4]
    assert exposed.get_y() == pytest.approx(10 * MS)
    assert to_hex(exposed.get_facecolor()) == style.EXPOSED.lower()
    assert line(first, "bound").get_ydata()[0] == 10 * MS
    assert first.get_ylabel() == "time (ms)"
    assert [tick.get_text() for tick in first.get_xticklabels()] == ["t_compute", "t_comm", "t_serial", "t_step"]
    assert "hidden 88 % [86, 90], n = 7" in first.get_title(loc="left")


def test_every_bar_has_its_interval(run_directory: Path, drawn: Any) -> None:
    first = drawn("combined_vs_isolated", pages(run_directory, "combined_vs_isolated")[0]).panels[0]
    (intervals,) = first.collections
    ends = np.array([[point[1] for point in segment] for segment in intervals.get_segments()]) / MS
    assert ends == pytest.approx(np.array([[9.98, 10.02], [7.98, 8.02], [17.98, 18.02], [10.98, 11.02]]))


def test_noisy_bars_are_hollow_and_model_bars_hatched(run_directory: Path, drawn: Any) -> None:
    figure = drawn("combined_vs_isolated", pages(run_directory, "combined_vs_isolated")[0])
    noisy, model = figure.panels[3], figure.panels[4]
    assert {to_hex(patch.get_facecolor()) for patch in noisy.patches} == {"#ffffff"}
    assert "noisy" in noisy.get_title(loc="left")
    assert {patch.get_hatch() for patch in model.patches} == {"///"}
    assert "(model)" in model.get_title(loc="left")


def test_nothing_is_exposed_when_the_step_is_as_short_as_its_compute(tmp_path: Path, drawn: Any) -> None:
    run = synthetic.build(tmp_path / "run", (synthetic.Case(times=(10, 8, 18, 9.5)),))
    panel = drawn("combined_vs_isolated", pages(run, "combined_vs_isolated")[0]).panels[0]
    assert [patch.get_height() / MS for patch in panel.patches] == pytest.approx([10, 8, 18, 9.5])


def test_five_panels_leave_none_alone_and_no_title_ends_with_a_dot(tmp_path: Path, drawn: Any) -> None:
    gemms = ("192x192x192", "mlp:gpt2-small@32")
    five = tuple(synthetic.Case(p, gemm=g, bytes=25 << 20) for p in ("partitioned", "serial") for g in gemms)
    run = synthetic.build(tmp_path / "run", (*five, synthetic.Case("shared_core", (100, 2, 102, 103))))
    (page,) = pages(run, "combined_vs_isolated")
    assert page.panels == (2, 3)
    titles = [panel.get_title(loc="left") for panel in drawn("combined_vs_isolated", page).panels[:5]]
    assert titles[1].splitlines()[:2] == ["partitioned · mlp:gpt2-small@32", "25 MiB"]
    assert not any(line.endswith("·") for title in titles for line in title.splitlines())
    assert titles[4].endswith("little to hide, n = 7")  # 2 of 103 ms: its share would be −50 %


def test_an_arm_that_no_case_has_leaves_no_gap_and_a_step_alone_is_no_picture(tmp_path: Path, drawn: Any) -> None:
    blank = dict.fromkeys(("t_serial", "t_serial_low", "t_serial_high"), "")
    run = synthetic.build(tmp_path / "run", (synthetic.Case(more=blank), synthetic.Case("serial", more=blank)))
    panel = drawn("combined_vs_isolated", pages(run, "combined_vs_isolated")[0]).panels[0]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["t_compute", "t_comm", "t_step"]
    assert "both in a row" not in panel.get_legend_handles_labels()[1]
    alone = synthetic.build(tmp_path / "alone", (synthetic.Case(more={"t_compute": ""}),))
    with pytest.raises(Absent, match="no case of both at once and of compute alone"):
        pages(alone, "combined_vs_isolated")


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    many = tuple(synthetic.Case(bytes=1024 * (i + 1)) for i in range(20))
    run = synthetic.build(tmp_path / "run", (*many, synthetic.Case("graph", status="timeout")))
    (page,) = pages(run, "combined_vs_isolated")
    assert len(page.frame) == 12
    assert page.notes[0].startswith("shows 12 of 20 cases")
    assert page.notes[1] == "1 case without numbers (1 timeout)"


# ---- hidden_share ----------------------------------------------------------------------------------------------------


def test_hidden_share_has_references_bound_and_a_shade_for_worse_than_serial(run_directory: Path, drawn: Any) -> None:
    over_bytes, over_ratio, speedup = drawn("hidden_share", pages(run_directory, "hidden_share")[0]).panels
    for panel in (over_bytes, over_ratio):
        assert line(panel, "_1: all hidden").get_ydata()[0] == 1
        assert line(panel, "_0: serial").get_ydata()[0] == 0
        assert panel.get_ylim()[0] < -0.52  # the interval of the negative share is in the picture
        assert panel.get_ylabel() == "hidden share (ratio)"
    bound = line(speedup, "bound: (1 + r) / max(1, r)")
    ratio, value = bound.get_xdata(), bound.get_ydata()
    assert value == pytest.approx((1 + ratio) / np.maximum(1, ratio))
    assert max(value) == pytest.approx(2)
    assert over_bytes.get_xlabel() == "bytes of one collective"


def test_one_series_a_placement_and_the_source_in_its_name(run_directory: Path, drawn: Any) -> None:
    over_bytes, over_ratio, _ = drawn("hidden_share", pages(run_directory, "hidden_share")[0]).panels
    names = over_bytes.get_legend_handles_labels()[1]
    assert names == [
        "worse than serial",
        "concurrent",
        "serial",
        "shared_core",
        "partitioned",
        "concurrent (model)",
        "hollow: noisy",
    ]
    marks = [found for found in over_bytes.get_lines() if found.get_label() == "_marks"]
    assert marks[0].get_xdata().tolist() == [1 << 20, 25 << 20]
    assert marks[0].get_ydata() == pytest.approx([0.875, 0.5])
    noisy = marks[3]
    assert to_hex(noisy.get_markerfacecolor()) == "#ffffff"
    assert "_line" not in [found.get_label() for found in over_ratio.get_lines()]


def test_lines_join_only_cases_that_differ_in_their_bytes(tmp_path: Path, drawn: Any) -> None:
    grid = tuple(synthetic.Case(gemm=g, bytes=b) for g in ("small", "large") for b in (1 << 20, 4 << 20))
    run = synthetic.build(tmp_path / "run", grid)
    over_bytes = drawn("hidden_share", pages(run, "hidden_share")[0]).panels[0]
    lines = [found.get_xdata().tolist() for found in over_bytes.get_lines() if found.get_label() == "_line"]
    assert lines == [[1 << 20, 4 << 20]] * 2


def test_what_lies_far_outside_is_marked_at_the_edge_and_what_has_little_to_hide_is_left_out(
    tmp_path: Path, drawn: Any
) -> None:
    cases = (synthetic.Case(), synthetic.Case("serial", (10, 1, 11, 16)), synthetic.Case("graph", (100, 0.1, 100, 150)))
    (page,) = pages(synthetic.build(tmp_path / "run", cases), "hidden_share")
    over_bytes, _, speedup = drawn("hidden_share", page).panels
    bottom, top = over_bytes.get_ylim()
    assert -2 < bottom < top < 2  # (11 − 16) / 1: −500 %; (100.1 − 150) / 0.1: −49900 %
    outside = [found for found in over_bytes.get_lines() if found.get_label() == "_outside"]
    assert len(outside) == 1
    assert bottom < outside[0].get_ydata()[0] < bottom + 0.1
    assert "−500 % [−502, −498]" in [text.get_text() for text in over_bytes.texts]
    assert page.notes == [
        "1 case left out of the hidden share, with little to hide: the smaller part is under 5 % of the step"
    ]
    marks = [found for found in speedup.get_lines() if found.get_label() == "_marks"]
    assert len(marks) == 3


def test_an_interval_that_the_axis_cuts_is_marked_with_both_its_ends(tmp_path: Path, drawn: Any) -> None:
    wide = {"hidden_share_low": -2.4, "hidden_share_high": 3.0}
    cases = (synthetic.Case(more=wide), synthetic.Case("serial", more=wide), synthetic.Case("graph"))
    (page,) = pages(synthetic.build(tmp_path / "run", cases), "hidden_share")
    over_bytes, over_ratio, _ = drawn("hidden_share", page).panels
    assert any(caption.startswith("Triangles at the edge") for caption in page.captions)
    for panel in (over_bytes, over_ratio):
        cut = [found for found in panel.get_lines() if found.get_label() == "_cut"]
        assert [found.get_marker() for found in cut] == ["v", "^"] * 2
        assert {to_hex(found.get_markerfacecolor()) for found in cut} == {"#ffffff"}
        words = [text for text in panel.texts if text.get_text() == "[−240, 300] %"]
        assert len({text.xyann for text in words}) == 4, "two cases at one place: their words stand in rows"
    (plain,) = pages(synthetic.build(tmp_path / "plain", synthetic.CASES[:2]), "hidden_share")
    assert not any("Triangles" in caption for caption in plain.captions)


def test_ticks_are_sizes_and_ratios(run_directory: Path, drawn: Any) -> None:
    over_bytes, over_ratio, _ = drawn("hidden_share", pages(run_directory, "hidden_share")[0]).panels
    assert "1 MiB" in [over_bytes.xaxis.get_major_formatter()(at) for at in over_bytes.get_xticks()]
    assert [over_ratio.xaxis.get_major_formatter()(at) for at in (0.5, 1, 2)] == ["1/2", "1", "2"]


# ---- stretch ---------------------------------------------------------------------------------------------------------


def test_stretch_shows_both_sides_with_intervals_from_the_samples(run_directory: Path, drawn: Any) -> None:
    page = pages(run_directory, "stretch")[0]
    assert page.frame.loc[0, "compute_stretch_low"] <= 1.1 / 1.05 <= page.frame.loc[0, "compute_stretch_high"]
    (panel,) = drawn("stretch", page).panels
    assert panel.get_xlabel() == "beside the other side / alone (ratio)"
    assert panel.get_yticklabels()[0].get_text() == "concurrent · mlp:gpt2-small · 1 MiB  n = 7"
    assert line(panel, "1: as alone").get_xdata()[0] == 1
    compute = panel.get_lines()[1]
    assert compute.get_xdata()[0] == pytest.approx(1.1 / 1.05)
    assert "comm slowdown" in panel.get_legend_handles_labels()[1]


def test_of_two_rounds_there_is_no_interval_and_n_is_said(run_directory: Path, drawn: Any) -> None:
    text = (run_directory / "samples.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    at = text[0].split(",").index("round")
    two = [row for row in csv.reader(text) if row[at] in ("round", "0", "1")]
    with (run_directory / "samples.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(two)
    run = load_run(run_directory)
    run.tables["summary"].frame["rounds"] = 2.0
    (page,) = get_figure("stretch").pages(run, "")
    (panel,) = drawn("stretch", page).panels
    assert not panel.collections
    assert panel.get_yticklabels()[0].get_text().endswith("n = 2")
    assert not page.intervals
    assert "No intervals: of fewer than six rounds no 95 % interval of the median follows." in page.captions


def test_a_stretch_far_above_the_others_leaves_them_apart(tmp_path: Path, drawn: Any) -> None:
    far = synthetic.Case(more={"comm_stretch": 800})
    (page,) = pages(synthetic.build(tmp_path / "run", (far, synthetic.Case("serial"))), "stretch")
    (panel,) = drawn("stretch", page).panels
    assert panel.get_xscale() == "log"
    assert panel.xaxis.get_major_formatter()(1000) == "1000"
    (near,) = pages(synthetic.build(tmp_path / "near", synthetic.CASES[:2]), "stretch")
    assert drawn("stretch", near).panels[0].get_xscale() == "linear"


def test_stretch_without_samples_has_no_intervals_and_does_not_claim_any(run_directory: Path, drawn: Any) -> None:
    (run_directory / "samples.csv").unlink()
    page = pages(run_directory, "stretch")[0]
    assert not any("interval" in caption for caption in page.captions)
    assert not drawn("stretch", page).panels[0].collections


# ---- samples ---------------------------------------------------------------------------------------------------------


def test_samples_are_in_order_with_the_spoilt_one_on_the_edge(run_directory: Path, drawn: Any) -> None:
    page = pages(run_directory, "samples", case="placement=concurrent")[0]
    panels = drawn("samples", page).panels
    assert [panel.get_title(loc="left").split(":")[0] for panel in panels] == list(derive.ARMS)
    compute = panels[1]
    used = line(compute, "_")
    assert used.get_xdata().tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert used.get_ydata()[:3] == pytest.approx([10 * MS, 9.99 * MS, 10.01 * MS])
    spoilt = line(compute, "spoilt, above the panel")
    assert spoilt.get_xdata().tolist() == [7]
    assert spoilt.get_ydata()[0] == compute.get_ylim()[1]
    assert line(compute, "median of the used rounds").get_ydata()[0] == 10 * MS
    assert "95 % interval" in compute.get_legend_handles_labels()[1]


# ---- timeline --------------------------------------------------------------------------------------------------------


def bars(panel: Axes, label: str) -> list[tuple[float, float]]:
    """(start, end) in ms of all boxes with the label."""
    boxes = [path for found in panel.collections if found.get_label() == label for path in found.get_paths()]
    return [(box.vertices[:, 0].min() / MS, box.vertices[:, 0].max() / MS) for box in boxes]


def test_timeline_draws_the_middle_replay_and_the_exposed_end_in_red(run_directory: Path, drawn: Any) -> None:
    page = pages(run_directory, "timeline")[0]  # four repeats of compute 10 and step 11 ms
    (panel,) = drawn("timeline", page).panels
    assert bars(panel, "compute") == [pytest.approx((0, 40))] * 2
    assert bars(panel, "exposed") == [pytest.approx((40, 44))] * 2
    assert bars(panel, "comm") == [pytest.approx((4.4, 44))]
    assert bars(panel, "comm, from ready: start not seen") == [pytest.approx((4.4, 44))]
    labels = [tick.get_text() for tick in panel.get_yticklabels()]
    assert labels == ["rank 0 · compute", "rank 0 · comm", "rank 1 · compute", "rank 1 · comm"]
    assert line(panel, "t_ideal (bound)").get_xdata()[0] == pytest.approx(40 * MS)
    assert "11.00 ms [10.98, 11.02]" in page.captions[0]


def rows_of(case: synthetic.Case, *spans: tuple[str, str, float, float], **more: Any) -> list[dict[str, Any]]:
    """Operations of one rank: lane, role, begin and end in ms."""
    common = {"key": case.key, "launch": 0, "arm": "overlapped", "replay": 0, "rank": 0, "kind": "work", **more}
    return [
        {**common, "op": op, "lane": lane, "role": role, "start": begin * MS, "end": end * MS}
        for op, (lane, role, begin, end) in enumerate(spans)
    ]


def test_gaps_of_less_than_a_pixel_are_neither_white_nor_red_pixels(tmp_path: Path, drawn: Any) -> None:
    case = synthetic.Case()
    run = synthetic.build(tmp_path / "run", (case,))
    gemms = [("compute", "compute", 0.1 * i, 0.1 * i + 0.09996) for i in range(440)]  # 40 ns between them
    synthetic.write(run, "operations", rows_of(case, *gemms, ("comm", "comm", 0, 44)))
    (panel,) = drawn("timeline", pages(run, "timeline")[0]).panels
    assert bars(panel, "compute") == [pytest.approx((0, 44), abs=1e-3)]
    (red,) = [found for found in panel.collections if found.get_label() == "exposed"]
    assert red.get_linewidth() == [0]
    assert sum(end - begin for begin, end in bars(panel, "exposed")) == pytest.approx(440 * 40e-6)


def test_waiting_is_no_work_behind_which_communication_hides(tmp_path: Path, drawn: Any) -> None:
    case = synthetic.Case()
    run = synthetic.build(tmp_path / "run", (case,))
    rows = rows_of(case, ("compute", "compute", 0, 5), ("compute", "compute", 5, 12), ("comm", "comm", 2, 12))
    rows[1]["kind"] = "wait"
    synthetic.write(run, "operations", rows)
    (panel,) = drawn("timeline", pages(run, "timeline")[0]).panels
    assert bars(panel, "compute") == [pytest.approx((0, 5))]
    assert bars(panel, "exposed") == [pytest.approx((5, 12))]
    assert "wait" not in [text.get_text() for text in panel.texts]


def test_the_picture_ends_where_the_record_of_a_lane_does(tmp_path: Path, drawn: Any) -> None:
    case = synthetic.Case()
    run = synthetic.build(tmp_path / "run", (case,))
    spans = (("compute", "compute", 0, 5), ("comm", "comm", 0, 20))
    synthetic.write(run, "operations", rows_of(case, *spans, kept_until=6 * MS))
    page = pages(run, "timeline")[0]
    (panel,) = drawn("timeline", page).panels
    assert bars(panel, "exposed") == [pytest.approx((5, 6))]
    assert panel.get_xlim() == pytest.approx((0, 6 * MS))
    assert "up to 6.00 ms, where the record of a lane ends" in page.captions[0]
    assert not any(found.get_label().startswith("t_ideal") for found in panel.get_lines())


def test_a_lane_whose_work_begins_behind_the_cut_keeps_its_row(tmp_path: Path, drawn: Any) -> None:
    case = synthetic.Case()
    run = synthetic.build(tmp_path / "run", (case,))
    late = rows_of(case, ("compute", "compute", 0, 5), arm="compute")
    synthetic.write(run, "operations", [*late, *rows_of(case, ("comm", "comm", 0, 20), kept_until=6 * MS)])
    (panel,) = drawn("timeline", pages(run, "timeline")[0]).panels
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["rank 0 · compute", "rank 0 · comm"]
    assert bars(panel, "compute") == []


def test_what_began_before_the_last_rank_was_released_is_left_of_a_line(tmp_path: Path, drawn: Any) -> None:
    case = synthetic.Case("serial")
    run = synthetic.build(tmp_path / "run", (case,))
    spans = (("compute", "compute", -4, 20), ("compute", "comm", 20, 40))
    synthetic.write(run, "operations", rows_of(case, *spans))
    page = pages(run, "timeline")[0]
    (panel,) = drawn("timeline", page).panels
    assert panel.get_xlim()[0] == pytest.approx(-4 * MS)
    assert line(panel, "the last rank is released").get_xdata()[0] == 0
    assert "Before 0: a rank that was released earlier than the last one." in page.captions
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["rank 0 · one lane for both"]
    assert [text.get_color() for text in panel.texts] == [style.PAPER] * 2  # white on blue and on red


def trace(case: synthetic.Case) -> dict[str, Any]:
    """As overlapbench writes it: the first operation begins at 0, two microseconds before the common origin."""
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "rank 0"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 4, "args": {"name": "lane $4$"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 5, "args": {"name": "comm"}},
        {"ph": "C", "name": "exposed communication", "pid": 1, "tid": 6, "ts": 0, "args": {"exposed": 0}},
    ]
    for tid, role, begin, end, source in ((4, "compute", 0, 40002, "worker"), (5, "comm", 1002, 44002, "ready")):
        args = {"start_source": source}
        events.append(
            {"ph": "X", "name": role, "cat": role, "pid": 1, "tid": tid, "ts": begin, "dur": end - begin}
            | {"args": args}
        )
    other = {"case": case.key, "arm": "overlapped", "origin_us": 2.0}
    return {"traceEvents": events, "otherData": other}


def test_timeline_reads_the_trace_files_where_no_operations_were_kept(tmp_path: Path, drawn: Any) -> None:
    case = synthetic.Case(launch=3)
    run = synthetic.build(tmp_path / "run", (case,), operations=False)
    synthetic.write(run, "operations", [])
    (run / "timeline").mkdir()
    (run / "timeline" / "a.json").write_text(json.dumps(trace(case)))
    (panel,) = drawn("timeline", pages(run, "timeline")[0]).panels
    assert bars(panel, "compute") == [pytest.approx((-0.002, 40))]
    assert bars(panel, "comm, from ready: start not seen") == [pytest.approx((1, 44))]
    assert bars(panel, "exposed") == [pytest.approx((40, 44))]
    assert panel.get_yticklabels()[0].get_text() == "rank 0 · lane $4$"
    assert panel.get_xlim()[0] == pytest.approx(-0.002 * MS)


def test_a_file_that_is_no_timeline_is_named(tmp_path: Path) -> None:
    run = synthetic.build(tmp_path / "run", operations=False)
    (run / "timeline").mkdir()
    for text in ("{", "[]", '{"traceEvents": []}'):
        (run / "timeline" / "a.json").write_text(text)
        with pytest.raises(RunError, match=r"a\.json .*; measure again with --timeline"):
            pages(run, "timeline")


def test_many_ranks_are_cut_and_it_is_said(run_directory: Path) -> None:
    rows = [{**row, "rank": rank} for rank in range(20) for row in synthetic.operation_rows(synthetic.CASES[0])]
    synthetic.write(run_directory, "operations", rows)
    (page,) = pages(run_directory, "timeline")
    assert page.frame["rank"].max() == 7
    assert page.notes == ["shows ranks 0 to 7 of 20"]


def test_no_timeline_says_how_to_get_one(tmp_path: Path) -> None:
    run = synthetic.build(tmp_path / "run", operations=False)
    with pytest.raises(Absent, match="measure with --timeline"):
        pages(run, "timeline")


# ---- all figures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", synthetic.FIGURES)
def test_every_picture_says_run_device_date_n_and_intervals(name: str, run_directory: Path) -> None:
    run = load_run(run_directory)
    for page in get_figure(name).pages(run, ""):
        said = texts(draw_page(get_figure(name), page, run)).replace("\n", " ").replace("\u00a0", " ")
        for fact in ("run synthetic-run", "synthetic $device$", "2000-01-01", "n = 7 rounds", "95 % intervals"):
            assert fact in said
        if "model" in page.sources:
            assert "model, not measured" in said


@pytest.mark.parametrize("name", synthetic.FIGURES)
def test_unknown_numbers_are_not_drawn_as_zero_and_break_nothing(name: str, tmp_path: Path) -> None:
    blank = dict.fromkeys(("t_serial", "t_serial_low", "t_serial_high", "t_ideal", "hidden_share", "comm_stretch"), "")
    run = load_run(synthetic.build(tmp_path / "run", (synthetic.Case(more=blank), synthetic.Case("serial"))))
    for page in get_figure(name).pages(run, ""):
        draw_page(get_figure(name), page, run).canvas.draw()


@pytest.mark.parametrize("name", synthetic.FIGURES)
def test_a_picture_takes_its_units_from_the_schema(name: str, run_directory: Path) -> None:
    about = json.loads((run_directory / "run.json").read_text(encoding="utf-8"))
    for table in about["tables"].values():
        for column in table["columns"]:
            column["unit"] = {"s": "fortnight", "1": "parts"}.get(column["unit"], column["unit"])
    (run_directory / "run.json").write_text(json.dumps(about))
    run = load_run(run_directory)
    paper = draw_page(get_figure(name), get_figure(name).pages(run, "")[0], run)
    labels = "".join(axes.get_xlabel() + axes.get_ylabel() for axes in paper.axes)
    assert "fortnight" in labels or "(parts)" in labels


def test_a_figure_without_its_columns_says_which(run_directory: Path) -> None:
    run = load_run(run_directory)
    del run.tables["samples"]
    assert missing(get_figure("samples"), run) == "samples.csv is not in the run"
    del run.tables["summary"].frame["bytes"]
    assert missing(get_figure("hidden_share"), run) == "summary.csv has no column bytes"
