# SPDX-License-Identifier: Apache-2.0
"""What the page says of a run, section by section, as elements. All text of a run is a child or an attribute of an
element, which escapes it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from overlap_plots import derive, style
from overlap_plots.load import Run
from overlap_plots.markup import Child, Markup, element, join
from overlap_plots.peers import PEERS, peer_metrics, peer_times
from overlap_plots.report.pictures import Picture, Shown
from overlap_plots.report.verdict import MOST_CASES, Sentence, over_launches, verdict


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None = None  # what the column is sorted by; None: the text


@dataclass(frozen=True)
class Column:
    heading: str
    needs: str  # a column of summary.csv without which this one is left out
    cell: Callable[[Mapping[str, Any]], Cell]


def case_id(run: int, key: str, launch: float, rows: pd.DataFrame) -> str | None:
    """The id of a case's row in the page; None where the table has no such row."""
    for at, row in enumerate(rows.itertuples(index=False)):
        if row.key == key and row.launch == launch:
            return f"run-{run}-case-{at + 1}"
    return None


# The space between a number and its unit, at which no line ends.
_UNIT = re.compile(r"(?<=\d) (?=(?:[nµmkMGT]?(?:s|B/s)|%|[KMGT]iB)(?!\w))")


# ---- verdict ---------------------------------------------------------------------------------------------------------


def verdict_section(run: Run, number: int) -> Markup:
    rows = run.tables["summary"].frame
    said = verdict({name: table.frame for name, table in run.tables.items()}, rounds_asked(run))
    if not said:
        return element("p", "No case has the numbers and intervals that a sentence would need.", class_="soft")
    items = [element("li", *_sentence(sentence, number, rows)) for sentence in said]
    cases = len(derive.with_numbers(rows)["key"].unique())
    more = f"Of {cases} cases the {MOST_CASES} that are best balanced are told; the table below has all."
    return join(
        [
            element("ul", *items, class_="sentences"),
            element("p", more, class_="soft") if cases > MOST_CASES else None,
            element(
                "p",
                "Medians; in brackets 95 % intervals. Each sentence is of the row that it links to; what an interval "
                "does not tell is not claimed. A claim between runs needs several process launches (",
                element("code", "--launches 5"),
                ").",
                class_="soft",
            ),
        ]
    )


def _sentence(sentence: Sentence, number: int, rows: pd.DataFrame) -> list[Child]:
    row = case_id(number, *sentence.row, rows) if sentence.row else None
    about = element("a", sentence.about, href=f"#{row}") if row else sentence.about
    labels = [element("strong", label, class_="label") for label in sentence.labels]
    text = _UNIT.sub("\u00a0", sentence.text[:1].upper() + sentence.text[1:])
    return [element("span", about, class_="about"), *labels, element("span", f"{text}.", class_="text")]


def rounds_asked(run: Run) -> float:
    """``--min-samples``, NaN where run.json does not say."""
    asked = at(run.about, "identity", "settings", "min_samples")
    return float(asked) if isinstance(asked, str) and asked.isascii() and asked.isdigit() else math.nan


# ---- figures ---------------------------------------------------------------------------------------------------------


def figures_section(shown: Shown, why_none: str) -> Markup:
    drawn = [_figure(picture) for picture in shown.pictures if not picture.of_a_case]
    of_cases = [_figure(picture) for picture in shown.pictures if picture.of_a_case]
    if of_cases:
        said = f"{len(of_cases)} picture{'s' if len(of_cases) > 1 else ''} of single cases"
        drawn.append(element("details", element("summary", said), *of_cases))
    remarks = [f"Not drawn: {why}." for why in shown.absent]
    if shown.left_out:
        remarks.append(
            f"Left out so that this page stays small: pictures of {', '.join(shown.left_out)}; "
            "overlap-plots render draws them all."
        )
    if not drawn:
        remarks.insert(0, why_none)
    return join([*drawn, *(element("p", remark, class_="soft") for remark in remarks)])


def _figure(picture: Picture) -> Markup:
    return element(
        "figure",
        element("h4", picture.title),
        element("p", picture.page.subtitle, class_="soft") if picture.page.subtitle else None,
        element("div", element("img", src=picture.address, alt=picture.alternative), class_="picture"),
        element("figcaption", *(element("p", caption) for caption in picture.captions)),
        data_figure=picture.figure,
    )


# ---- cases -----------------------------------------------------------------------------------------------------------


def _interval(name: str, unit: str) -> Callable[[Mapping[str, Any]], Cell]:
    def cell(row: Mapping[str, Any]) -> Cell:
        value, low, high = (row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high"))
        return Cell(style.si_interval(value, low, high, unit), value) if math.isfinite(value) else Cell("–")

    return cell


def _share(name: str) -> Callable[[Mapping[str, Any]], Cell]:
    def cell(row: Mapping[str, Any]) -> Cell:
        value, low, high = (row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high"))
        if not math.isfinite(value) or (name == "hidden_share" and row["little"]):
            return Cell("–")
        spread = f" [{_one_digit(100 * low)}, {_one_digit(100 * high)}]" if math.isfinite(low + high) else ""
        return Cell(f"{_one_digit(100 * value)} %{spread}", value)

    return cell


def _number(name: str, words: str = "{:.2f}") -> Callable[[Mapping[str, Any]], Cell]:
    def cell(row: Mapping[str, Any]) -> Cell:
        value, low, high = (row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high"))
        if not math.isfinite(value):
            return Cell("–")
        spread = f" [{words.format(low)}, {words.format(high)}]" if math.isfinite(low + high) else ""
        return Cell((words.format(value) + spread).replace("-", "−"), value)

    return cell


def _bandwidth(name: str) -> Callable[[Mapping[str, Any]], Cell]:
    def cell(row: Mapping[str, Any]) -> Cell:
        value = row[name]
        return Cell(style.si(value, "B/s"), value) if math.isfinite(value) else Cell("–")

    return cell


def _text(name: str) -> Callable[[Mapping[str, Any]], Cell]:
    return lambda row: Cell(str(row[name]) or "–")


COLUMNS = (
    Column("status", "status", _text("status")),
    Column("n", "rounds", _number("rounds", "{:.0f}")),
    Column("hidden share", "hidden_share", _share("hidden_share")),
    Column("exposed", "t_exposed", _interval("t_exposed", "s")),
    Column("speedup", "speedup", _number("speedup")),
    Column("bound", "speedup_bound", _number("speedup_bound")),
    Column("compute", "t_compute", _interval("t_compute", "s")),
    Column("communication", "t_comm", _interval("t_comm", "s")),
    Column("serial", "t_serial", _interval("t_serial", "s")),
    Column("overlapped", "t_step", _interval("t_step", "s")),
    Column("beside GEMMs", "t_loaded", _interval("t_loaded", "s")),
    Column("bus bandwidth", "bus_bandwidth", _bandwidth("bus_bandwidth")),
    Column("tail", "t_tail", _interval("t_tail", "s")),
    Column("bubble", "bubble_rate", _share("bubble_rate")),
    Column("victim slowed", "victim_slowdown", _number("victim_slowdown")),
    Column("aggressor slowed", "aggressor_slowdown", _number("aggressor_slowdown")),
    Column("elements wrong", "elements_wrong", _number("elements_wrong", "{:.0f}")),
    Column("source", "source", _text("source")),
    Column("key", "key", _text("key")),
)


def cases_section(run: Run, number: int) -> Markup:
    rows = run.tables["summary"].frame
    if rows.empty:
        return element("p", "The run holds no case.", class_="soft")
    records = _records(rows)
    kept = [column for column in COLUMNS if column.needs in rows and rows[column.needs].map(_is_known).any()]
    body = [[Cell(row["name"]), *(column.cell(row) for column in kept)] for row in records]
    ids = [f"run-{number}-case-{at + 1}" for at in range(len(records))]
    return table(f"Cases of {run.name}", ["case", *(column.heading for column in kept)], body, ids)


def distrust_section(run: Run) -> Markup:
    """What is noisy, failed, not measured, or was built in a way that a number should not be trusted for."""
    rows = run.tables["summary"].frame
    said = []
    if at(run.about, "identity", "build", "release") is False:
        said.append("This was no Release build: its times say little.")
    if at(run.about, "identity", "build", "git_state") not in ("clean", None):
        said.append("The build was of changed sources: the revision alone does not make it again.")
    others = [source for source in derive.sources(rows) if source != "measured"]
    if others:
        said.append(f"Not all rows were measured by this run: {', '.join(others)}.")
    spoilt = rows["rounds_spoilt"].sum() if "rounds_spoilt" in rows else 0
    if spoilt > 0:
        said.append(f"{spoilt:.0f} rounds were spoilt; they are in samples.csv with used = 0 and count nowhere.")
    bad = [row for row in _records(rows) if row["status"] != "ok"]
    if not bad:
        said.insert(0, "No case is noisy and none failed.")
    body = [[Cell(row["name"]), Cell(str(row["status"])), Cell(str(row["reason"]) or "–")] for row in bad]
    listed = table(f"Cases of {run.name} that are not ok", ["case", "status", "reason"], body) if bad else None
    return join([*(element("p", text) for text in said), listed])


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    named = rows.assign(name=derive.case_names(rows), little=False)
    if {"t_compute", "t_comm", "t_step"} <= set(rows.columns):
        named["little"] = derive.little_to_hide(rows)
    return [dict(zip(named.columns, values, strict=True)) for values in named.itertuples(index=False, name=None)]


def table(caption: str, headings: Sequence[str], body: Sequence[Sequence[Cell]], ids: Sequence[str] = ()) -> Markup:
    """A table whose columns the page's script sorts; its first column names the row."""
    head = element("tr", *(element("th", heading, scope="col") for heading in headings))
    lines = []
    for at_, cells in enumerate(body):
        first, *rest = cells
        written = [_cell("td", cell) for cell in rest]
        lines.append(element("tr", _cell("th", first, scope="row"), *written, id=ids[at_] if ids else None))
    whole = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", head),
        element("tbody", *lines),
        class_="sortable",
    )
    return element("div", whole, class_="scroll", role="region", tabindex="0", aria_label=caption)


def _cell(name: str, cell: Cell, **attributes: str) -> Markup:
    value = None if cell.value is None else repr(float(cell.value))
    return element(name, cell.text, data_value=value, class_="number" if value else None, **attributes)


# ---- peers -----------------------------------------------------------------------------------------------------------


def peers_section(run: Run) -> Markup | None:
    """The peers' definitions of the cases that overlap compute and communication; None where there are none."""
    samples, summary = run.frame("samples"), derive.with_numbers(run.tables["summary"].frame)
    if samples is None or samples.empty or summary.empty:
        return None
    asked = [column for column in ("victim", "bubble_rate") if column in summary]
    times = peer_times(samples, summary)
    known = times[["t_compute", "t_comm", "t_step"]].notna().all(axis=1)
    times = times[known]
    if asked or times.empty:
        return None
    ours = derive.overlap_algebra(times)["hidden_share"]
    values = peer_metrics(times)
    body = []
    for row in _records(summary):
        case = (row["key"], row["launch"])
        if case in values.index and not row["little"]:
            of_peers = (_peer_cell(float(values.loc[case, peer.name]), peer.unit) for peer in PEERS)
            body.append([Cell(row["name"]), _peer_cell(100 * float(ours.loc[case]), "%"), *of_peers])
    if not body:
        return None
    definitions = [
        element("div", element("dt", peer.name), element("dd", f"{peer.definition}. {peer.source}.")) for peer in PEERS
    ]
    return element(
        "details",
        element("summary", "The same samples by the definitions of other tools"),
        element(
            "p",
            "They give 0 % to 100 % on one run. From the medians of samples.csv; running_* are spans within the "
            "overlapped arm, mean of the ranks, median of the rounds, known where a lane does one thing back to back. "
            "They clamp where the peer clamps; hidden share, ours, never does.",
        ),
        table(
            f"Definitions of other tools, {run.name}", ["case", "hidden share", *(peer.name for peer in PEERS)], body
        ),
        element("dl", *definitions, class_="definitions"),
    )


def _peer_cell(value: float, unit: str) -> Cell:
    if not math.isfinite(value):
        return Cell("–")
    text = f"{_one_digit(value)} %" if unit == "%" else style.si(value, "s") if unit == "s" else f"{value:.3f}"
    return Cell(text.replace("-", "−"), value)


# ---- where the numbers come from -------------------------------------------------------------------------------------

_FACTS = (
    ("device", ("identity", "backend", "device")),
    ("backend", ("identity", "backend", "name")),
    ("processor", ("identity", "machine", "cpu")),
    ("cores", ("identity", "machine", "logical_cpus")),
    ("memory", ("run", "memory")),
    ("system", ("identity", "machine", "kernel")),
    ("host", ("identity", "machine", "hostname")),
    ("measured", ("run", "date")),
    ("version", ("identity", "build", "version")),
    ("revision", ("identity", "build", "git_revision")),
    ("build", ("identity", "build", "build_type")),
    ("compiler", ("identity", "build", "compiler")),
)


def facts(run: Run) -> dict[str, str]:
    """What run.json says of machine and build, unknown entries left out."""
    found = {}
    for name, path in _FACTS:
        value = at(run.about, *path)
        if name == "memory" and isinstance(value, int | float):
            value = style.iec(float(value))
        if value not in (None, "") and not isinstance(value, dict | list):
            found[name] = str(value)
    return found


def environment_section(run: Run) -> Markup:
    named = [element("div", element("dt", name), element("dd", text)) for name, text in facts(run).items()]
    everything = {name: value for name, value in run.about.items() if name != "tables"}
    body = [[Cell(path), Cell(text)] for path, text in flat(everything)]
    return join(
        [
            element("dl", *named, class_="facts") if named else element("p", "run.json does not say.", class_="soft"),
            element(
                "details",
                element("summary", "Everything that run.json says: libraries as loaded, settings, environment"),
                table(f"run.json of {run.name}", ["entry", "value"], body),
            ),
        ]
    )


def flat(value: Any, path: str = "") -> list[tuple[str, str]]:
    """``("identity.build.version", "0.1.0")`` for each entry of a JSON document that holds something."""
    if isinstance(value, dict):
        return [line for name, entry in value.items() for line in flat(entry, f"{path}.{name}" if path else str(name))]
    if isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value):
        return [line for index, entry in enumerate(value) for line in flat(entry, f"{path}[{index}]")]
    if isinstance(value, list):
        return [(path, " ".join(map(str, value)))] if value else []
    return [] if value in (None, "") else [(path, str(value))]


def reproduce_section(run: Run, lab: str | None) -> Markup:
    revision = at(run.about, "identity", "build", "git_revision")
    commands = [f"git checkout {shlex.quote(revision)}"] if isinstance(revision, str) and revision else []
    for entry in (at(run.about, "run"), *_list(at(run.about, "resumed"))):
        words = _list(entry.get("command_line")) if isinstance(entry, dict) else []
        commands += [shlex.join(map(str, words))] if words else []
    directory = shlex.quote(style.plain(str(run.directory)))
    again = [
        f"overlap-plots check {directory}",
        f"overlap-plots render {directory}",
        f"overlap-plots lab {directory} -o lab.html",
        f"overlap-plots report {directory} -o report.html",
    ]
    return join(
        [
            element("p", "Measured by" if commands else "run.json holds no command line."),
            _code(commands, f"Commands that measured {run.name}") if commands else None,
            element("p", "Every number recomputed from the samples; the pictures; a page to try models in; this page:"),
            _code(again, f"Commands on {run.name}"),
            element("p", element("a", "The lab page of this run", href=lab)) if lab else None,
        ]
    )


def _code(lines: Sequence[str], name: str) -> Markup:
    code = join([element("code", line) for line in lines], between="\n")
    return element("pre", code, role="region", tabindex="0", aria_label=name)


# ---- several runs ----------------------------------------------------------------------------------------------------


def shared_cases(runs: Sequence[Run]) -> Markup:
    """The cases that several runs asked for in the same words, side by side."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for number, run in enumerate(runs):
        rows = over_launches(derive.with_numbers(run.tables["summary"].frame), run.frame("launches"))
        for row in _records(rows) if not rows.empty else []:
            found.setdefault(row["key"], {}).setdefault(number, row)
    shared = {key: rows for key, rows in found.items() if len(rows) > 1}
    if not shared:
        return element("p", "No case was asked for in the same words in two of the runs.", class_="soft")
    names = derive.differing_words(list(shared))
    body = []
    for name, key in zip(names, shared, strict=True):
        cells: list[Cell] = []
        for number in range(len(runs)):
            cells += _side(shared[key].get(number))
        body.append([Cell(name or key), *cells])
    headings = [f"{run.name}: {what}" for run in runs for what in ("exposed", "hidden share")]
    return join(
        [
            table("Cases that several runs have", ["case", *headings], body),
            element("p", "overlap-compare says of every quantity whether it changed.", class_="soft"),
        ]
    )


def _side(row: Mapping[str, Any] | None) -> list[Cell]:
    """One run's exposed time and hidden share of a case."""
    if row is None:
        return [Cell("–"), Cell("–")]
    cells = [_interval("t_exposed", "s")(row), _share("hidden_share")(row)]
    noisy = " noisy" if row["status"] == "noisy" else ""
    return [Cell(cell.text + noisy, cell.value) if cell.value is not None else cell for cell in cells]


def differences(runs: Sequence[Run]) -> Markup:
    """What differs around the runs."""
    of_runs = [facts(run) for run in runs]
    names = dict.fromkeys(name for known in of_runs for name in known)
    rows: Iterable[list[Cell]] = (
        [Cell(name), *(Cell(known.get(name, "–")) for known in of_runs)]
        for name in names
        if len({known.get(name) for known in of_runs}) > 1
    )
    return table("What differs around the runs", ["entry", *(run.name for run in runs)], list(rows))


def at(document: Any, *path: str) -> Any:
    """An entry of a JSON document, None where it has none."""
    for step in path:
        document = document.get(step) if isinstance(document, Mapping) else None
    return document


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_known(value: Any) -> bool:
    return bool(value) if isinstance(value, str) else bool(math.isfinite(value))


def _one_digit(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}".replace("-", "−")
