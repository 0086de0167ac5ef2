# SPDX-License-Identifier: Apache-2.0
"""The report as text. test_report_verdict has its sentences, test_report_browser opens it."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import synthetic
import synthetic_collective

from overlap_plots.cli import main
from overlap_plots.load import Run, load_run
from overlap_plots.markup import element, join
from overlap_plots.report import pictures, sections
from overlap_plots.report.page import MOST_BYTES, report_page

ONE = synthetic.CASES[:1]


class Reader(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.skipped = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.skipped = tag if tag in ("style", "script") else ""

    def handle_endtag(self, tag: str) -> None:
        self.skipped = ""

    def handle_data(self, data: str) -> None:
        if not self.skipped and data.strip():
            self.words.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def change(run: Path, /, **entries: Any) -> Path:
    """Other entries in run.json; ``identity__build`` is an entry within ``identity``."""
    about = json.loads((run / "run.json").read_text())
    for path, value in entries.items():
        *steps, last = path.split("__")
        place = about
        for step in steps:
            place = place.setdefault(step, {})
        place[last] = value
    (run / "run.json").write_text(json.dumps(about))
    return run


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """For who does not look at pictures: they are empty, and so drawn at once."""
    monkeypatch.setattr(pictures, "panels_png", lambda *_: b"")


def page_of(run: Path) -> Reader:
    return Reader(report_page([load_run(run)]))


def read(markup: str) -> Reader:
    return Reader(markup)


# ---- elements --------------------------------------------------------------------------------------------------------


def test_text_of_an_element_is_escaped_and_elements_are_not_escaped_again() -> None:
    assert element("p", "a < b & c", element("b", "</p>")) == "<p>a &lt; b &amp; c<b>&lt;/p&gt;</b></p>"
    assert element("a", "x", href='" onclick="y', data_value="1", class_=None) == (
        '<a href="&quot; onclick=&quot;y" data-value="1">x</a>'
    )
    assert element("img", alt="'") == '<img alt="&#x27;">'
    assert join(["<", None, element("br")], between=" ") == "&lt; <br>"
    assert element("p", element("b", "x") + "<i>") == "<p>&lt;b&gt;x&lt;/b&gt;&lt;i&gt;</p>"  # a sum is only text
    assert element("p", "a\x00b\ud800") == "<p>a�b�</p>"


# ---- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load_run(synthetic.build(tmp_path_factory.mktemp("report") / "all-cases"))


@pytest.fixture(scope="module")
def page(all_cases: Run) -> str:
    return report_page([all_cases])


def test_a_page_is_one_file_that_asks_nobody(page: str) -> None:
    assert not re.findall(r"""\b(?:src|href|action)="(?!#|data:)""", page)
    assert not re.findall(r"@import|url\((?!#)|\bfetch\(|XMLHttpRequest|\bimport\b", page.partition("<style>")[2])
    assert "{{" not in page
    assert len(page.encode()) < MOST_BYTES == 5 * 1024 * 1024


def test_nothing_but_a_page_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic.build(tmp_path / "run", ONE)
    samples = (run / "samples.csv").read_bytes()
    for out, why in (
        (run / "samples.csv", "is there already and is no HTML page"),
        (run / "run.json", "is there already and is no HTML page"),
        (run, "is a directory; name a file, such as"),
    ):
        for command in ("report", "lab"):
            assert main([command, str(run), "-o", str(out)]) == 2
            assert why in capsys.readouterr().err
    assert (run / "samples.csv").read_bytes() == samples
    page = tmp_path / "page.html"
    assert main(["report", str(run), "-o", str(page)]) == 0
    assert main(["report", str(run), "-o", str(page)]) == 0, "a page is written again"


def test_every_file_of_the_folder_is_in_the_page(page: str) -> None:
    folder = Path(pictures.__file__).parent
    for file in [*folder.glob("*.js"), *folder.glob("*.css"), folder.parent / "lab" / "theme.js"]:
        last = file.read_text(encoding="utf-8").rstrip().splitlines()[-2].removeprefix("export ")
        assert last in page, file.name


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = load_run(synthetic.build(tmp_path / "run", ONE))
    assert report_page([run]) == report_page([run])


def test_every_figure_that_the_run_feeds_is_in_the_page_with_what_it_shows(page: str) -> None:
    reader = Reader(page)
    assert {figure["data-figure"] for figure in reader.all("figure")} == set(synthetic.FIGURES)
    images = reader.all("img")
    assert len(images) == len(reader.all("figure")) == len(reader.all("figcaption"))
    for image in images:
        assert image["src"].startswith("data:image/png;base64,iVBOR")
        assert len(image["alt"]) > 40
    combined = next(image["alt"] for image in images if image["alt"].startswith("Combined against isolated"))
    assert combined.startswith(
        "Combined against isolated — partly model, not measured. per case: compute, communication, both in a row"
    )
    assert "2 ranks" in combined
    assert "hidden_share: about hidden_share" in reader.text  # a caption, from the schema
    assert "n = 7 rounds; lines, bands and brackets are 95 % intervals." in reader.text


def test_the_verdict_links_to_the_rows_that_it_is_from(page: str) -> None:
    reader = Reader(page)
    ids = {attributes["id"]: tag for tag, attributes in reader.elements if "id" in attributes}
    links = [link["href"][1:] for link in reader.all("a")]
    assert set(links) <= set(ids)
    assert [ids[link] for link in links if "-case-" in link] == ["tr"] * 6  # those with numbers
    assert (
        "Of 8.000\u00a0ms [7.980, 8.020] of communication 7.00\u00a0ms hides and" in page
    )  # no line ends before a unit
    assert len(ids) == len([a for _, a in reader.elements if "id" in a])


@pytest.mark.usefixtures("undrawn")
def test_noise_failures_and_what_was_not_measured_are_said(page: str, tmp_path: Path) -> None:
    text = Reader(page).text
    assert "Not all rows were measured by this run: model." in text
    assert "6 rounds were spoilt; they are in samples.csv with used = 0 and count nowhere." in text
    assert "partitioned · mlp:gpt2-small · 16 MiB noisy synthetic" in text
    assert re.search(r"graph · mlp:gpt2-small · 1 MiB \S*\s?unsupported synthetic", text)
    run = synthetic.build(tmp_path / "run", ONE)
    assert "No case is noisy and none failed." in page_of(run).text
    text = page_of(change(run, identity__build={"release": False, "git_state": "dirty"})).text
    assert "This was no Release build: its times say little." in text
    assert "The build was of changed sources" in text


def test_the_table_has_every_case_and_sorts_by_numbers(all_cases: Run) -> None:
    reader = read(sections.cases_section(all_cases, 1))
    assert len(reader.all("tr")) == 1 + len(synthetic.CASES)
    assert [row["id"] for row in reader.all("tr")[1:]] == [f"run-1-case-{n}" for n in range(1, 8)]
    first = [cell for tag, cell in reader.elements if tag == "td"][:3]
    assert [cell.get("data-value") for cell in first[:2]] == [None, "7.0"]  # status, n
    assert float(first[2]["data-value"]) == pytest.approx(0.875)  # hidden share
    assert "87.5 % [85.5, 89.5]" in reader.text
    assert "bubble" not in reader.text  # a column of other benches
    region = reader.all("div")[0]
    assert (region["role"], region["tabindex"], region["aria-label"]) == ("region", "0", "Cases of all-cases")


def test_peers_definitions_come_from_the_samples(tmp_path: Path) -> None:
    # 10 and 8 ms in 11: OSU 100 − 100 · 1 / 8, IMB NBC 7 / 10, IMB 7 / 8; FLUX 1 − 1 / 8; max / step 10 / 11.
    run = load_run(synthetic.build(tmp_path / "run", ONE))
    markup = sections.peers_section(run)
    assert markup is not None
    reader = read(markup)
    assert reader.elements[0][0] == "details"
    cells = re.findall(r'<td[^>]*data-value="([^"]+)"', markup)
    assert [float(cell) for cell in cells[:4]] == pytest.approx([87.5, 87.5, 70, 87.5])
    assert [float(cell) for cell in cells[7:9]] == pytest.approx([0.001, 0.875])
    assert float(cells[11]) == pytest.approx(10 / 11)
    assert "intel/mpi-benchmarks 46e8757" in reader.text
    del run.tables["samples"]
    assert sections.peers_section(run) is None


@pytest.mark.usefixtures("undrawn")
def test_how_to_reproduce_quotes_what_a_shell_would_read(tmp_path: Path) -> None:
    run = synthetic.build(tmp_path / "a run", ONE)
    change(run, run__command_line=["overlap-pair", "--gemm", "$(x) y", "--out", "it's"])
    change(run, resumed=[{"command_line": ["overlap-pair", "--resume"]}, {}], identity__build__git_revision="abc")
    code = re.findall(r"<code>(.*?)</code>", sections.reproduce_section(load_run(run), None))
    assert code[:3] == [
        "git checkout abc",
        "overlap-pair --gemm &#x27;$(x) y&#x27; --out &#x27;it&#x27;&quot;&#x27;&quot;&#x27;s&#x27;",
        "overlap-pair --resume",
    ]
    assert f"overlap-plots check &#x27;{run}&#x27;" in code
    assert "run.json holds no command line." in page_of(synthetic.build(tmp_path / "b", ONE)).text


def test_what_run_json_lacks_is_left_out(tmp_path: Path) -> None:
    run = synthetic.build(tmp_path / "run", ONE)
    change(run, identity__machine={"cpu": "Z80", "kernel": "", "caches": {"L1": "32K"}}, run__memory=2**34)
    change(run, environment={"NCCL_MAX_CTAS": "8"}, list=[{"a": 1}, {"b": None}], plain=[1, 2])
    about = load_run(run)
    assert sections.facts(about) == {
        "device": "synthetic $device$, no machine",
        "backend": "host",
        "processor": "Z80",
        "memory": "16 GiB",
        "measured": "2000-01-01T00:00:00Z",
        "version": "0.1.0",
    }
    lines = sections.flat({name: value for name, value in about.about.items() if name != "tables"})
    assert ("environment.NCCL_MAX_CTAS", "8") in lines
    assert ("identity.machine.caches.L1", "32K") in lines
    assert ("list[0].a", "1") in lines
    assert ("plain", "1 2") in lines
    assert not [name for name, _ in lines if name.startswith(("list[1]", "identity.machine.kernel", "tables"))]


@pytest.mark.parametrize(
    "about", [{"run": 3, "identity": []}, {"run": {"command_line": "x", "memory": {}}}, {"resumed": {}}]
)
@pytest.mark.usefixtures("undrawn")
def test_a_run_json_of_another_shape_is_no_error(tmp_path: Path, about: dict[str, Any]) -> None:
    run = change(synthetic.build(tmp_path / "run", ONE), **about)
    assert "In words" in page_of(run).text


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_numbers_has_a_page_without_a_verdict(tmp_path: Path) -> None:
    text = page_of(synthetic.build(tmp_path / "run", (synthetic.CASES[5],))).text
    assert "No case has the numbers and intervals that a sentence would need." in text
    assert "The run feeds no figure." in text
    assert "unsupported synthetic" in text
    text = page_of(synthetic.build(tmp_path / "empty", ())).text
    assert "The run holds no case." in text
    assert "0 cases, 0 with numbers" in text


def test_pictures_that_do_not_fit_are_named(all_cases: Run) -> None:
    whole = pictures.of_run(all_cases, MOST_BYTES)
    assert whole.left_out == ()
    sizes = [len(picture.address) for picture in whole.pictures]
    small = pictures.of_run(all_cases, sizes[0] + sizes[1])
    assert [picture.figure for picture in small.pictures] == [picture.figure for picture in whole.pictures[:2]]
    assert small.left_out == ("stretch", "samples", "timeline")  # nothing after the first that does not fit
    said = read(sections.figures_section(small, "")).text
    assert (
        "Left out so that this page stays small: pictures of stretch, samples, timeline; overlap-plots render" in said
    )
    assert [picture.of_a_case for picture in whole.pictures] == sorted(picture.of_a_case for picture in whole.pictures)


def test_a_figure_that_has_no_data_says_why(tmp_path: Path) -> None:
    run = load_run(synthetic.build(tmp_path / "run", ONE, operations=False))
    shown = pictures.of_run(run, MOST_BYTES)
    assert shown.absent == (
        "timeline, neither operations.csv nor timeline/*.json holds an operation; measure with --timeline",
    )
    assert "Not drawn: timeline, neither operations.csv" in read(sections.figures_section(shown, "")).text


# ---- several runs ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_several_runs_are_compared(tmp_path: Path) -> None:
    a = synthetic.build(tmp_path / "a", synthetic.CASES[:2])
    b = synthetic.build(tmp_path / "b", (synthetic.Case(times=(10, 8, 18, 12), status="noisy"),))
    reader = Reader(report_page([load_run(change(a, identity__machine__cpu="Z80")), load_run(b)]))
    headings = [words for words in reader.words if words in ("a", "b", "Comparison")]
    assert headings[:3] == ["a", "b", "Comparison"]  # the navigation
    comparison = reader.text.partition("Cases that several have")[2]
    assert "1.000 ms [0.9800, 1.020] 87.5 % [85.5, 89.5] 2.000 ms [1.980, 2.020] noisy 75.0 % [73.0, 77.0] noisy" in (
        comparison
    )
    assert "processor Z80 –" in comparison
    assert "placement=serial" not in comparison.partition("What differs")[0]  # only one of them has it
    assert "No figure shows these runs beside each other." in comparison


@pytest.mark.usefixtures("undrawn")
def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    runs = [load_run(synthetic.build(tmp_path / parent / "run", ONE)) for parent in ("a", "b")]
    links = [word for word in Reader(report_page(runs)).words if word.startswith("run (")]
    assert links[:2] == ["run (1)", "run (2)"]


def test_runs_without_a_case_in_common_say_so(tmp_path: Path) -> None:
    runs = [load_run(synthetic.build(tmp_path / str(n), (synthetic.CASES[n],))) for n in (0, 1)]
    assert "No case was asked for in the same words" in sections.shared_cases(runs)


@pytest.mark.usefixtures("undrawn")
def test_collectives_are_drawn_together_as_compare_does(tmp_path: Path) -> None:
    runs = [load_run(synthetic_collective.build(tmp_path / name)) for name in ("a", "b")]
    below = Reader(report_page(runs).partition('id="comparison"')[2])
    assert {figure["data-figure"] for figure in below.all("figure")} == {
        "bus_bandwidth",
        "cost_fit",
        "fabric_map",
        "idle_loaded",
    }


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_report_writes_where_it_is_told_and_links_to_a_lab_page_beside_it(
    all_cases: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["report", str(all_cases.directory), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text(encoding="utf-8") == report_page([all_cases])
    (tmp_path / "lab.html").write_text("")
    assert main(["report", str(all_cases.directory), "-o", str(out)]) == 0
    assert '<a href="lab.html">The lab page of this run</a>' in out.read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_errors_say_what_to_do_and_write_nothing(
    run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(status: int, *arguments: object) -> str:
        assert main(["report", *map(str, arguments)]) == status
        said = capsys.readouterr()
        assert said.out == ""
        return said.err

    missing = tmp_path / "missing" / "report.html"
    assert error(1, run_directory, "-o", missing) == (
        f"overlap-plots: cannot write {missing} (No such file or directory); name another file with -o\n"
    )
    out = tmp_path / "report.html"
    assert error(1, run_directory, tmp_path / "none", "-o", out) == (
        f"overlap-plots: {tmp_path / 'none'} is not a directory; name one that an overlap bench wrote with --out\n"
    )
    assert "the following arguments are required: RUN" in error(2, "-o", out)
    assert not out.exists()
