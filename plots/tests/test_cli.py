# SPDX-License-Identifier: Apache-2.0
import json
import os
import string
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic
import synthetic_contention

import overlap_plots
from overlap_plots.cli import main
from overlap_plots.registry import figure_names

FIGURES = sorted(
    [
        *synthetic.FIGURES,
        *synthetic_contention.FIGURES,
        *("bus_bandwidth", "cost_fit", "fabric_map", "idle_loaded"),
        *("bucket_curve", "bucket_timeline", "prefetch", "tiles"),
        *("ordering", "pipeline"),
        "backlog",
    ]
)


def run_main(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(a) for a in arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_list_names_every_figure_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_main(capsys, "list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == FIGURES == figure_names()


def test_render_draws_all_figures_in_both_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_directory = synthetic.build(tmp_path / "run", (synthetic.CASES[0], synthetic.CASES[5]))
    status, out, err = run_main(capsys, "render", run_directory)
    files = [Path(line) for line in out.splitlines()]
    assert status == 0
    assert all(file.is_file() and file.parent == run_directory / "plots" for file in files)
    assert {file.suffix for file in files} == {".png", ".svg"}
    assert {file.name.split("-")[0].split(".")[0] for file in files} == set(synthetic.FIGURES)
    assert sorted(files) == sorted((run_directory / "plots").iterdir())  # no part files stay behind
    assert "combined_vs_isolated of run: 1 case without numbers (1 unsupported)" in err


def test_an_svg_drawn_twice_has_the_same_bytes(tmp_path: Path) -> None:
    run_directory = synthetic.build(tmp_path / "run", (synthetic.CASES[0], synthetic.CASES[3], synthetic.CASES[6]))
    for out in ("a", "b"):
        assert main(["render", str(run_directory), "--format", "svg", "--out", str(tmp_path / out)]) == 0
    names = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "b").iterdir())
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert b"<dc:date>" not in (tmp_path / "a" / name).read_bytes()


def test_names_from_the_run_never_become_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic.build(tmp_path / "run", (synthetic.Case(gemm="../../up/$HOME\n<b>&"),))
    status, out, _ = run_main(capsys, "render", run, "--figure", "samples", "--format", "svg")
    (file,) = [Path(line) for line in out.splitlines()]
    assert status == 0
    assert file.parent == run / "plots"
    assert not set(file.stem) - set(string.ascii_letters + string.digits + "-_+=,")


def test_case_picks_cases_literally(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_main(
        capsys, "render", run_directory, "--figure", "samples", "--format", "png", "--case", "$\\alpha$"
    )
    assert len(out.splitlines()) == 1
    status, _, err = run_main(capsys, "render", run_directory, "--case", "nothing")
    assert status == 2
    assert err.endswith('holds "nothing"; the keys are in its summary.csv\n')


def test_several_runs_go_to_folders_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [synthetic.build(tmp_path / "in" / name, synthetic.CASES[:1]) for name in ("one", "two")]
    options = ("--figure", "stretch", "--format", "png", "--out", tmp_path / "out")
    _, out, _ = run_main(capsys, "render", *runs, *options)
    assert out.split() == [str(tmp_path / "out" / name / "stretch.png") for name in ("one", "two")]
    status, _, err = run_main(capsys, "render", runs[0], runs[0], *options)
    assert status == 2
    assert "two runs have one name" in err


def test_a_figure_without_data_is_skipped_unless_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic.build(tmp_path / "run", synthetic.CASES[:1], operations=False)
    status, _, err = run_main(capsys, "render", run, "--format", "png")
    assert status == 0
    assert "timeline of run is not drawn: neither operations.csv nor timeline/*.json holds an operation" in err
    assert len([line for line in err.splitlines() if "has not the columns of" in line and "pipeline" in line]) == 1
    status, out, _ = run_main(capsys, "render", run, "--format", "png", "--figure", "timeline", "stretch")
    assert status == 1
    assert out.splitlines() == [str(run / "plots" / "stretch.png")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "strech"), 'there is no figure "strech"; did you mean stretch or prefetch? (overlap-plots list)'),
        (("--figure", "stretch", "."), ". is a directory, not a figure; write runs before --figure"),
        (("--format", "pdf"), '--format "pdf" is not known; type png, svg or png,svg'),
        (("--frobnicate",), "unrecognized arguments: --frobnicate; `overlap-plots --help` shows what can be typed"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    run_directory: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    status, out, err = run_main(capsys, "render", run_directory, *arguments)
    assert (status, out, err) == (2, "", f"overlap-plots: {message}\n")
    assert not (run_directory / "plots").exists()


def test_a_bad_run_directory_is_one_line_and_exit_1(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_directory / "summary.csv").write_text("key\n")
    status, _, err = run_main(capsys, "render", run_directory)
    assert status == 1
    assert err.count("\n") == 1
    assert "summary.csv:1: got 1 columns, expected 96, as run.json says" in err
    assert f"`overlap-plots check {run_directory}` lists everything" in err


def test_check_prints_its_verdict(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_main(capsys, "check", run_directory)
    assert status == 0
    assert out.endswith(": sound\n")
    rows = [synthetic.summary_row(case) for case in synthetic.CASES]
    rows[0]["t_step"] = 1
    synthetic.write(run_directory, "summary", rows)
    status, out, _ = run_main(capsys, "check", run_directory)
    assert status == 1
    assert "summary.csv:2: column t_step: got 1, expected 0.011" in out
    assert out.endswith(": 1 problem\n")


def test_a_folder_that_cannot_be_made_is_said(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_directory / "plots").write_text("in the way")
    status, _, err = run_main(capsys, "render", run_directory, "--figure", "stretch")
    assert status == 1
    assert "cannot make the folder" in err
    assert "name another with --out" in err


def test_the_module_runs_from_the_source_tree(run_directory: Path) -> None:
    source = Path(overlap_plots.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "overlap_plots", "check", str(run_directory)],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.endswith("sound\n")
    assert done.stderr == ""


def test_a_python_without_the_libraries_is_named_in_one_line() -> None:
    source = Path(overlap_plots.__file__).parents[1]
    program = "import runpy, sys; sys.modules['pandas'] = None; runpy.run_module('overlap_plots', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"overlap-plots: {os.path.normpath(sys.executable)} has no pandas; type: apt-get install "
    )
    assert done.stderr.count("\n") == 1


COMMANDS = "\x1b[2J\x1b]0;owned\x07\r\x9b31m"  # clear the screen, name the window, red


def hostile_run(folder: Path) -> Path:
    """Every text of its tables and of run.json is what a terminal would obey."""
    cases = tuple(replace(case, gemm=f"mlp:{COMMANDS}") for case in (synthetic.CASES[0], synthetic.CASES[5]))
    directory = synthetic.build(folder, cases)
    about = json.loads((directory / "run.json").read_text())
    about["identity"]["backend"]["device"] = COMMANDS
    about["run"]["date"] = COMMANDS
    (directory / "run.json").write_text(json.dumps(about))
    return directory


@pytest.mark.parametrize(
    "arguments", ["check RUN", "render RUN --format svg", "schemes RUN", "compare RUN RUN", "predicted RUN RUN"]
)
def test_no_text_of_a_run_commands_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    run_directory = hostile_run(tmp_path / "run")
    text = (run_directory / "summary.csv").read_text()
    (run_directory / "summary.csv").write_text(text.replace("concurrent", f"con{COMMANDS}", 1))
    more = ["--out", str(tmp_path / "out")] if arguments.split()[0] in ("compare", "predicted") else []
    _, out, err = run_main(capsys, *(run_directory if w == "RUN" else w for w in arguments.split()), *more)
    assert out + err
    assert not [c for c in out + err if unicodedata.category(c) == "Cc" and c != "\n"]


def test_a_run_nested_too_deep_is_a_problem_of_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_directory = synthetic.build(tmp_path / "run", (synthetic.CASES[0],))
    (run_directory / "run.json").write_text("[" * 100_000)
    status, out, err = run_main(capsys, "check", run_directory)
    assert (status, err) == (1, "")
    assert out.startswith("run.json: ")
    assert run_main(capsys, "render", run_directory)[0] == 1


def test_pictures_stay_in_the_run_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_directory = synthetic.build(tmp_path / "run", (synthetic.CASES[0],))
    (tmp_path / "elsewhere").mkdir()
    (run_directory / "plots").symlink_to(tmp_path / "elsewhere")
    status, _, err = run_main(capsys, "render", run_directory)
    assert status == 1
    assert "is a link" in err
    assert not list((tmp_path / "elsewhere").iterdir())
