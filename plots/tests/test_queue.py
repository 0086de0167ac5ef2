# SPDX-License-Identifier: Apache-2.0
"""The backlog over time, read back from the artists, and its numbers recomputed."""

import re
from pathlib import Path
from typing import Any

import pytest
import synthetic
import synthetic_queue

from overlap_plots.check import check_run
from overlap_plots.load import load_run
from overlap_plots.registry import Absent, get_figure
from overlap_plots.report.verdict import verdict


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return synthetic_queue.build(tmp_path / "run")


def test_replays_stand_beside_the_fluid_line_of_their_rates(run: Path, drawn: Any) -> None:
    measured, given = get_figure("backlog").pages(load_run(run), "")
    assert measured.name != given.name
    assert list(measured.sources) == ["measured"]
    one, two = drawn("backlog", measured).panels
    assert (one.get_title(loc="left"), two.get_title(loc="left")) == ("one lane", "2 lanes")
    lines = {line.get_label() + line.get_linestyle(): line for line in one.get_lines()}
    growing = [line for line in one.get_lines() if line.get_ydata()[-1] == 12]
    assert {line.get_linestyle() for line in growing} == {"-", "--"}, "the median of three replays is the line itself"
    assert list(growing[0].get_ydata()) == [4 + t for t in synthetic_queue.SECONDS]
    assert lines["ρ = 1.33-"].get_color() == growing[0].get_color()
    assert list(lines["ρ = 0.667-"].get_ydata()) == [4, 3, 2, 1, 0, 0, 0, 0, 0]
    band = one.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((3.05, 12.95)), "95 % of what lies from 1 below to 1 above"
    assert list(two.get_lines()[-1].get_ydata())[:3] == [4, 2, 0]
    assert one.get_xlabel() == "time (s)"


def test_given_rates_are_a_line_and_no_replay(run: Path, drawn: Any) -> None:
    (page,) = get_figure("backlog").pages(load_run(run), "service_rate=3")
    (panel,) = drawn("backlog", page).panels
    (line,) = panel.get_lines()
    assert (line.get_linestyle(), line.get_label()) == ("--", "ρ = 1.33")
    assert list(page.sources) == ["model"]
    assert page.captions[1].endswith("Nothing was replayed.")


def test_the_verdict_says_whether_a_backlog_grows_or_drains(run: Path) -> None:
    rows = load_run(run).tables["summary"].frame
    growth = rows["growth_rate"]
    rows = rows.assign(fluid_growth_rate=growth, utilization=1 + growth / 3)
    intervals = rows.assign(growth_rate_low=growth - 0.25, growth_rate_high=growth + 0.25)
    said = [sentence.text for sentence in verdict({"summary": intervals})]
    assert any("the backlog grows: it changes by 1 [0.75, 1.25] a second, the fluid line by 1" in text for text in said)
    assert any("the backlog drains: it changes by −1 [−1.25, −0.75] a second" in text for text in said)
    unsure = rows.assign(growth_rate_low=growth - 2, growth_rate_high=growth + 3)
    assert all("neither grows nor drains measurably" in s.text for s in verdict({"summary": unsure}))
    assert verdict({"summary": unsure})


def test_a_run_of_something_else_has_no_backlog(run: Path) -> None:
    with pytest.raises(Absent, match="no case of overlap-queue"):
        get_figure("backlog").pages(load_run(run), "nothing of that name")


def test_slopes_and_drain_times_are_recomputed(run: Path) -> None:
    said, problems = check_run(run)
    assert [p for p in problems if p.file != "samples.csv"] == []
    assert "series.csv: 4 cases, looked up in summary.csv" in said
    assert said[-1] == "recomputed from series.csv: 15 numbers of 9 replays"


def test_a_slope_that_its_points_do_not_give_is_found(run: Path) -> None:
    text = (run / "series.csv").read_text()
    (run / "series.csv").write_text(re.sub(r"^8,13,", "8,14,", text, flags=re.MULTILINE))
    found = [str(p) for p in check_run(run)[1] if p.file == "series.csv"]
    assert len(found) == 1
    assert re.match(r'series\.csv: growth_rate: got 1 in round 0 of "queue .*", expected 1\.06', found[0])


def test_a_summary_that_its_replays_do_not_give_is_found(run: Path) -> None:
    text = (run / "summary.csv").read_text()
    (run / "summary.csv").write_text(text.replace(",0.6666666666666666,-1,", ",0.6666666666666666,-1.5,"))
    found = [str(p) for p in check_run(run)[1] if p.file == "summary.csv"]
    assert found == ["summary.csv:3: column growth_rate: got -1.5, expected -1, as series.csv gives"]


SCHEMA_SOURCE = Path(__file__).parents[2] / "harness" / "results" / "schema.cpp"
QUEUE_SOURCE = Path(__file__).parents[2] / "harness" / "measure" / "queue.cpp"


@pytest.mark.skipif(not SCHEMA_SOURCE.is_file(), reason="not within the source tree of overlapbench")
def test_the_synthetic_run_has_the_columns_of_the_harness() -> None:
    body = SCHEMA_SOURCE.read_text(encoding="utf-8").split("series_schema() {", 1)[1].split("\n}\n", 1)[0]
    columns = re.findall(r'\b(text|integer|real)\(\s*"(\w+)"(?:, "([^"]*)")?', body)
    written = [(name, kind, "" if kind == "text" else unit) for kind, name, unit in columns]
    assert written == [(c["name"], c["type"], c["unit"]) for c in synthetic_queue.SCHEMAS["series"]]
    own = QUEUE_SOURCE.read_text(encoding="utf-8").split("queue_columns() {", 1)[1]
    names = re.findall(r'(?:real|with_interval|push_back)\(\{?"(\w+)"', own)
    known = {c["name"] for c in synthetic_queue.SCHEMAS["summary"]}
    assert [name for name in names if name not in known] == []
    assert len(synthetic_queue.SCHEMAS["summary"]) > len(synthetic.SCHEMAS["summary"])
