# SPDX-License-Identifier: Apache-2.0
"""The files of this folder and a run's numbers as one page."""

from __future__ import annotations

from importlib.resources import files

from overlap_plots.lab.numbers import measured_numbers
from overlap_plots.load import Run
from overlap_plots.webpage import assemble, join_modules

# Each after what it imports.
MODULES = (
    *("model.js", "format.js", "svg.js", "controls.js", "theme.js"),
    *("timeline.js", "buckets.js", "queue.js", "main.js"),
)


def lab_page(run: Run | None) -> str:
    """The page; the same run gives the same bytes."""
    footer = "Computed in this page, without a network. Definitions: the README of overlapbench."
    return assemble(
        _read("page.html"),
        style=page_style(),
        script=join_modules([_read(name) for name in MODULES]),
        measured=measured_numbers(run),
        footer=footer,
    )


def page_style() -> str:
    """Colours, light and dark, and type: also those of the report."""
    return _read("style.css").replace("{{dark}}", _read("dark.css"))


def _read(name: str) -> str:
    return (files("overlap_plots.lab") / name).read_text(encoding="utf-8")
