# SPDX-License-Identifier: Apache-2.0
"""The lab page as text, and what it takes from a run. test_lab_arithmetic and test_lab_browser run it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import synthetic

from overlap_plots.cli import main
from overlap_plots.lab.numbers import fit_line, measured_numbers
from overlap_plots.lab.page import MODULES, lab_page
from overlap_plots.load import RunError, load_run

MIB = 1 << 20


def data_of(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="measured">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_a_page_is_one_file_that_asks_nobody(run_directory: Path) -> None:
    page = lab_page(load_run(run_directory))
    addresses = set(re.findall(r"""https?://[^"'\s]+|//[a-z0-9-]+\.[a-z]{2,}""", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a language, never loaded
    assert not re.findall(r"""\b(?:src|href|action)="(?!#|data:,")""", page)
    assert not re.findall(r"@import|url\((?!#)|\bfetch\(|XMLHttpRequest|\bimport\b", page.partition("<style>")[2])
    assert len(page.encode()) < 200_000


def test_every_file_of_the_folder_is_in_the_page() -> None:
    folder = Path(main.__code__.co_filename).parent / "lab"
    assert sorted(MODULES) == sorted(file.name for file in folder.glob("*.js"))
    page = lab_page(None)
    for file in folder.glob("*.js"):
        last = file.read_text(encoding="utf-8").rstrip().splitlines()[-2].removeprefix("export ")
        assert last in page, file.name
    assert "{{" not in page


def test_the_same_run_gives_the_same_bytes(run_directory: Path) -> None:
    assert lab_page(load_run(run_directory)) == lab_page(load_run(run_directory))


def test_without_a_run_the_numbers_are_examples() -> None:
    assert data_of(lab_page(None)) == {"run": None, "cases": []}


def test_a_case_brings_its_times_and_slowdowns(tmp_path: Path) -> None:
    run = load_run(synthetic.build(tmp_path / "run", (synthetic.CASES[0],)))
    data = measured_numbers(run)
    assert data["run"] == "run · synthetic $device$, no machine · 2000-01-01T00:00:00Z · overlapbench 0.1.0"
    (case,) = data["cases"]
    # 10 ms of compute and 8 ms of communication took 11 ms: 7 of 8 hidden. 1 MiB over two ranks: the factor is 1.
    assert (case["compute"], case["comm"], case["step"]) == (0.010, 0.008, 0.011)
    assert case["hiddenFraction"] == pytest.approx(0.875)
    assert (case["slowCompute"], case["slowComm"]) == (1.1, 1.3)
    assert case["busBandwidth"] == pytest.approx(MIB / 0.008)
    assert (case["latency"], case["bandwidth"], case["fitSizes"], case["fitError"]) == (None, None, None, None)


def test_cases_without_numbers_are_left_out_and_others_say_what_they_are(run_directory: Path) -> None:
    data = measured_numbers(load_run(run_directory))
    assert len(data["cases"]) == 6  # of seven, one unsupported
    assert [case["remark"] for case in data["cases"]] == ["", "", "", " (noisy: synthetic)", "", ""]
    assert data["run"].endswith(" · numbers: model")


def test_latency_and_bandwidth_are_fitted_over_the_sizes_of_a_series(tmp_path: Path) -> None:
    # t = 1 ms + 1 ms for each MiB: 2, 5 and 17 ms. The second case of 4 MiB changes no median; a dtype of its own is in
    # no series with the others.
    cases = [
        synthetic.Case("concurrent", (10, 2, 12, 10), MIB),
        synthetic.Case("concurrent", (10, 5, 15, 10), 4 * MIB),
        synthetic.Case("serial", (10, 5, 15, 15), 4 * MIB),
        synthetic.Case("concurrent", (10, 17, 27, 17), 16 * MIB),
        synthetic.Case("concurrent", (10, 99, 109, 99), 64 * MIB, more={"dtype": "bf16"}),
    ]
    fitted = measured_numbers(load_run(synthetic.build(tmp_path / "run", tuple(cases))))["cases"]
    for case in fitted[:4]:
        assert case["latency"] == pytest.approx(1e-3, rel=1e-9)
        assert case["bandwidth"] == pytest.approx(MIB / 1e-3, rel=1e-9)
        assert case["fitSizes"] == 3
        assert case["fitError"] == pytest.approx(0, abs=1e-9)
    assert fitted[4]["latency"] is None


def test_a_fit_weighs_relative_errors() -> None:
    # A byte takes 1 and 1.1 us, a megabyte 1 ms. The megabyte is met by the slope; a latency of a us is then off by
    # a - 1 and a / 1.1 - 1 from the others, and least for a = (1 + 1 / 1.1) / (1 + 1 / 1.21) = 1.04525: 4.98 % at most.
    fit = fit_line([1, 1, 1_000_000], [1e-6, 1.1e-6, 1e-3])
    assert fit is not None
    assert fit.latency == pytest.approx(1.04525e-6, rel=1e-3)
    assert fit.error == pytest.approx(0.0498, abs=2e-4)


@pytest.mark.parametrize(
    ("sizes", "times"),
    [([MIB], [1e-3]), ([MIB, MIB], [1e-3, 2e-3]), ([MIB, 2 * MIB], [1e-3, 3e-3]), ([MIB, 2 * MIB], [2e-3, 1e-3])],
    ids=["one size", "one size twice", "no latency above zero", "faster when larger"],
)
def test_no_fit_where_no_line_explains_the_times(sizes: list[float], times: list[float]) -> None:
    assert fit_line(sizes, times) is None


def test_text_of_a_run_stays_text(tmp_path: Path) -> None:
    bad = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    run = synthetic.build(tmp_path / "run", (synthetic.Case(bad, status="noisy", more={"reason": bad}),))
    page = lab_page(load_run(run))
    assert page.count("<script") == lab_page(None).count("<script")
    assert "<img" not in page
    assert bad in data_of(page)["cases"][0]["name"]


def test_lab_writes_where_it_is_told_and_says_so(
    run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["lab", str(run_directory), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text(encoding="utf-8") == lab_page(load_run(run_directory))


def test_errors_say_what_to_do(run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*arguments: object) -> str:
        assert main(["lab", *map(str, arguments)]) == 1
        return capsys.readouterr().err

    missing = tmp_path / "missing" / "lab.html"
    assert error(run_directory, "-o", missing) == (
        f"overlap-plots: cannot write {missing} (No such file or directory); name another file with -o\n"
    )
    assert error(tmp_path / "missing") == (
        f"overlap-plots: {tmp_path / 'missing'} is not a directory; name one that an overlap bench wrote with --out\n"
    )
    empty = synthetic.build(tmp_path / "empty", (synthetic.CASES[5],))
    assert error(empty) == (
        f"overlap-plots: {empty} has no case with times of compute, comm and both; "
        "name another run, or none for examples\n"
    )


def test_a_run_of_another_bench_is_refused_by_its_columns(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = [column for column in synthetic.SCHEMAS["summary"] if column["name"] not in ("bytes", "collective")]
    monkeypatch.setitem(synthetic.SCHEMAS, "summary", kept)
    rows = synthetic.summary_row(synthetic.CASES[0])
    other = synthetic.build(tmp_path / "other", ())
    synthetic.write(other, "summary", [{name: rows[name] for name in rows if name not in ("bytes", "collective")}])
    with pytest.raises(RunError, match=r": no column collective, bytes in summary\.csv; name a run of overlap-pair$"):
        measured_numbers(load_run(other))
