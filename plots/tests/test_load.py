# SPDX-License-Identifier: Apache-2.0
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import synthetic
import synthetic_queue

from overlap_plots.load import RunError, load_run, read_run


def test_tables_are_typed_by_the_schemas_of_run_json(run_directory: Path) -> None:
    run = load_run(run_directory)
    frame = run.tables["summary"].frame
    assert run.name == "synthetic-run"
    assert run.device == "synthetic $device$, no machine"
    assert run.date == "2000-01-01T00:00:00Z"
    assert frame["t_step"][0] == 0.011
    assert frame["bytes"][0] == 1 << 20
    assert math.isnan(frame["t_step"][5])  # unsupported: unknown, never zero
    assert frame["reason"][0] == ""
    assert frame["gemm"][6] == '$\\alpha$, "quoted", Größe_№ 3'
    assert frame.attrs["columns"]["t_step"].unit == "s"


def test_lines_count_those_within_quoted_fields(run_directory: Path) -> None:
    rows = [synthetic.summary_row(case) for case in synthetic.CASES[:2]]
    rows[0]["reason"] = "two\nlines"
    synthetic.write(run_directory, "summary", rows)
    table = load_run(run_directory).tables["summary"]
    assert table.lines == [2, 4]
    assert table.frame["reason"][0] == "two\nlines"


@pytest.mark.parametrize("cut", ["x", 'x,"within', '"'])
def test_an_unterminated_last_line_is_ignored(run_directory: Path, cut: str) -> None:
    path = run_directory / "samples.csv"
    path.write_text(path.read_text(encoding="utf-8") + cut, encoding="utf-8")
    table = load_run(run_directory).tables["samples"]
    assert table.unterminated
    assert len(table.frame) == 480


def edit_schemas(directory: Path, edit: Any) -> None:
    about = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    edit(about)
    (directory / "run.json").write_text(json.dumps(about), encoding="utf-8")


def problem(directory: Path) -> str:
    problems = read_run(directory)[1]
    assert len(problems) == 1
    return str(problems[0])


def test_a_newer_schema_is_refused(run_directory: Path) -> None:
    edit_schemas(run_directory, lambda about: about["tables"]["samples"].update(version=2))
    problems = [str(p) for p in read_run(run_directory)[1]]
    assert problems[0] == "run.json: tables.samples: got schema version 2, expected 1, the one this package reads"


def test_a_table_without_schema_is_a_problem(run_directory: Path) -> None:
    edit_schemas(run_directory, lambda about: about["tables"].pop("operations"))
    assert problem(run_directory).startswith("operations.csv: got a table without a schema")


def test_an_unknown_type_is_a_problem(run_directory: Path) -> None:
    edit_schemas(run_directory, lambda about: about["tables"]["operations"]["columns"][1].update(type="int"))
    found = str(read_run(run_directory)[1][0])
    assert found == 'run.json: tables.operations.launch: got type "int", expected text, integer or real'


@pytest.mark.parametrize("text", ["nan", "inf", "0x10", "1_0", " 1", "1e", "NA"])
def test_only_plain_finite_numbers_are_numbers(run_directory: Path, text: str) -> None:
    rows = [synthetic.summary_row(case) for case in synthetic.CASES]
    rows[1]["t_step"] = text
    synthetic.write(run_directory, "summary", rows)
    expected = f'summary.csv:3: column t_step: got "{text}", expected a real number (s) or an empty field'
    assert problem(run_directory) == expected


def test_only_a_time_that_may_never_come_is_infinite(tmp_path: Path) -> None:
    run = synthetic_queue.build(tmp_path / "run")
    assert load_run(run).tables["series"].frame["drain_time_s"].tolist().count(math.inf) == 9
    (run / "series.csv").write_text((run / "series.csv").read_text().replace("\n0,4,1,inf", "\n0,inf,1,inf", 1))
    assert problem(run) == 'series.csv:2: column backlog: got "inf", expected a real number or an empty field'


def test_what_is_no_run_directory_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a directory; name one that an overlap bench wrote with --out"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"holds no run\.json"):
        load_run(tmp_path)


def test_broken_json_and_broken_encoding_are_problems(run_directory: Path) -> None:
    (run_directory / "samples.csv").write_bytes(b"\xff\xfe")
    assert "CSV text in UTF-8" in problem(run_directory)
    (run_directory / "run.json").write_text("{")
    assert "JSON text in UTF-8" in problem(run_directory)


SCHEMA_SOURCE = Path(__file__).parents[2] / "harness" / "results" / "schema.cpp"


@pytest.mark.skipif(not SCHEMA_SOURCE.is_file(), reason="not within the source tree of overlapbench")
@pytest.mark.parametrize(
    ("table", "begin"),
    [("summary", "common() {"), ("samples", "samples_schema() {"), ("operations", "operations_schema() {")],
)
def test_the_synthetic_run_has_the_columns_of_the_harness(table: str, begin: str) -> None:
    """What the figures are tested on is what the benches write: names, types and units, in order."""
    body = SCHEMA_SOURCE.read_text(encoding="utf-8").split(begin, 1)[1].split("\n}\n", 1)[0]
    pattern = r'\b(text|integer|real|with_interval)\(\s*(?:c, )?"(\w+)"(?:, "([^"]*)")?'
    columns = []
    for kind, name, unit in re.findall(pattern, body):
        ends = ("", "_low", "_high") if kind == "with_interval" else ("",)
        type_ = "real" if kind == "with_interval" else kind
        columns += [(name + end, type_, "" if kind == "text" else unit) for end in ends]
    synthetic_columns = [(c["name"], c["type"], c["unit"]) for c in synthetic.SCHEMAS[table]]
    assert len(columns) > 10
    assert synthetic_columns[: len(columns)] == columns
