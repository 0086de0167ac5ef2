# SPDX-License-Identifier: Apache-2.0
"""All that is known of some runs as one page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from importlib.resources import files

from overlap_plots import derive, fabrics
from overlap_plots.lab.page import page_style
from overlap_plots.load import Run
from overlap_plots.markup import Child, Markup, element, join
from overlap_plots.report import pictures, sections
from overlap_plots.webpage import assemble, join_modules

MOST_BYTES = 5 << 20  # of the page
_FOR_PICTURES = 9 * MOST_BYTES // 10

_PARTS = {  # of a run, in their order: what the navigation calls them
    "verdict": "Verdict",
    "cases": "Cases",
    "figures": "Figures",
    "machine": "Machine",
    "again": "Reproduce",
}


def report_page(runs: Sequence[Run], lab: str | None = None) -> str:
    """The page; the same runs give the same bytes. ``lab``: the address of a lab page to link to, beside this one."""
    runs = _told_apart(runs)
    each = _FOR_PICTURES // (len(runs) + (len(runs) > 1))
    parts = [_run_section(run, number, each, lab) for number, run in enumerate(runs, start=1)]
    if len(runs) > 1:
        parts.append(_comparison(runs, each))
    heading = f"{len(runs)} runs, one after the other and beside each other" if len(runs) > 1 else _what(runs[0])
    return assemble(
        _read("page.html"),
        style=page_style() + _read("style.css"),
        script=join_modules([_read("theme.js", "overlap_plots.lab"), _read("main.js")]),
        footer="Nothing is loaded from anywhere. Definitions: the README of overlapbench.",
        markup={
            "title": element("title", f"overlapbench report: {', '.join(run.name for run in runs)}"),
            "nav": _navigation(runs),
            "heading": join([element("h1", heading), *(element("p", _lede(run), class_="lede") for run in runs)]),
            "sections": join(parts, between="\n"),
        },
    )


def _told_apart(runs: Sequence[Run]) -> list[Run]:
    """Runs of one name, from several folders, get a number behind it."""
    names = [run.name for run in runs]
    nth = [names[: at + 1].count(name) for at, name in enumerate(names)]
    numbered = (
        f"{run.name} ({n})" if names.count(run.name) > 1 else run.name for run, n in zip(runs, nth, strict=True)
    )
    return [dataclasses.replace(run, name=name) for run, name in zip(runs, numbered, strict=True)]


def _run_section(run: Run, number: int, most_bytes: int, lab: str | None) -> Markup:
    shown = pictures.of_run(run, most_bytes)
    own = f"run-{number}"
    contents: dict[str, tuple[str, Sequence[Child]]] = {
        "verdict": ("In words", [sections.verdict_section(run, number)]),
        "doubts": ("What to distrust", [sections.distrust_section(run)]),
        "cases": ("Cases", [sections.cases_section(run, number), sections.peers_section(run)]),
        "figures": ("Figures", [sections.figures_section(shown, "The run feeds no figure.")]),
        "machine": ("Machine and environment", [sections.environment_section(run)]),
        "again": ("How to reproduce", [sections.reproduce_section(run, lab)]),
    }
    return element(
        "section",
        element("h2", run.name, id=f"{own}-title"),
        *(
            element("section", element("h3", title), *parts, id=f"{own}-{name}", tabindex="-1")
            for name, (title, parts) in contents.items()
        ),
        **_names(own),
    )


def _comparison(runs: Sequence[Run], most_bytes: int) -> Markup:
    shown = pictures.of_several([fabrics.from_run(run) for run in runs], most_bytes)
    return element(
        "section",
        element("h2", "Comparison", id="comparison-title"),
        element("section", element("h3", "Cases that several have"), sections.shared_cases(runs)),
        element("section", element("h3", "What differs around them"), sections.differences(runs)),
        element(
            "section",
            element("h3", "Figures of all together"),
            sections.figures_section(shown, "No figure shows these runs beside each other."),
        ),
        **_names("comparison"),
    )


def _names(name: str) -> dict[str, str]:
    return {"id": name, "aria_labelledby": f"{name}-title", "tabindex": "-1"}


def _navigation(runs: Sequence[Run]) -> Markup:
    if len(runs) == 1:
        links = [element("a", title, href=f"#run-1-{name}") for name, title in _PARTS.items()]
    else:
        links = [element("a", run.name, href=f"#run-{number}") for number, run in enumerate(runs, start=1)]
        links.append(element("a", "Comparison", href="#comparison"))
    return element("nav", *links, aria_label="Sections")


def _what(run: Run) -> str:
    bench = sections.at(run.about, "identity", "bench")
    return f"overlap-{bench} on {run.device or 'an unknown device'}" if isinstance(bench, str) else run.name


def _lede(run: Run) -> str:
    """``5 cases, 5 with numbers, 1 of them noisy. Measured 2026-12-01 by overlapbench 0.1.0.``"""
    rows = run.tables["summary"].frame
    numbered = derive.with_numbers(rows)
    noisy = int((numbered["status"] == "noisy").sum())
    counts = [derive.count_cases(len(rows)), f"{len(numbered)} with numbers", f"{noisy or 'none'} of them noisy"]
    kinds = ", ".join(derive.sources(rows)) or "nothing"
    return f"{run.name}: {', '.join(counts)}; {kinds}. {run.date or 'Date unknown'}, {run.tool}."


def _read(name: str, package: str = "overlap_plots.report") -> str:
    return (files(package) / name).read_text(encoding="utf-8")
