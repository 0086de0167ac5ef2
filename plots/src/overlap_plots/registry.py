# SPDX-License-Identifier: Apache-2.0
"""The figures: every module of ``overlap_plots.figures``. A new figure is one new file there and no edit here."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from overlap_plots import figures
from overlap_plots.fabrics import Fabric
from overlap_plots.load import Run, RunError


@dataclass(frozen=True)
class Page:
    """One picture to draw: the frame that ``draw`` gets, how many panels it needs, and what is written around them."""

    frame: pd.DataFrame
    panels: tuple[int, int]  # rows, columns
    size: tuple[float, float]  # inches, of the panels alone
    subtitle: str
    captions: Sequence[str]  # what the marks mean, below the picture
    rounds: str  # n, for the footer
    sources: Sequence[str]  # what kinds of numbers these are: measured, model ...
    intervals: bool = True  # whether any mark has one; the footer says which it is
    notes: Sequence[str] = ()  # what was left out: drawn and said on the terminal
    name: str = ""  # part of the file's name that tells pages of one figure apart: derive.file_name() of the case


class Origin(Protocol):
    """Whose numbers a picture shows: a run, or several together."""

    @property
    def facts(self) -> tuple[str, ...]:
        """For the footer."""
        ...


@dataclass(frozen=True)
class Together:
    """Several runs and descriptions as one picture's origin."""

    facts: tuple[str, ...]


class Drawing(Protocol):
    """What puts a page's data onto its panels."""

    TITLE: str

    def draw(self, axes: Sequence[Axes], frame: pd.DataFrame) -> list[Artist]:
        """Draws onto the panels and returns the artists. Touches nothing else."""
        ...


class Figure(Drawing, Protocol):
    """What a module of ``figures`` provides."""

    DESCRIPTION: str  # one line for ``overlap-plots list``
    NEEDS: Mapping[str, Sequence[str]]  # table -> columns without which there is nothing to draw

    def pages(self, run: Run, case: str) -> list[Page]:
        """Chooses and shapes the data. Raises ``Absent`` when the run has none for this figure."""
        ...


@runtime_checkable
class Overview(Figure, Protocol):
    """A figure that also shows several runs and machine descriptions beside each other."""

    def pages_of(self, fabrics: Sequence[Fabric]) -> list[Page]:
        """As ``pages``, of all of them together."""
        ...


class Absent(Exception):
    """This run holds nothing that the figure could draw, and why."""


def figure_names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(figures.__path__))


def get_figure(name: str) -> Figure:
    names = figure_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=2, cutoff=0.4) or names
        raise RunError(f'there is no figure "{name}"; did you mean {" or ".join(near)}? (overlap-plots list)', status=2)
    return cast(Figure, importlib.import_module(f"{figures.__name__}.{name}"))


def missing(figure: Figure, run: Run) -> str:
    """Why the run cannot feed the figure: a table or column it lacks; "" when it has all."""
    for table, columns in figure.NEEDS.items():
        frame = run.frame(table)
        if frame is None:
            return f"{table}.csv is not in the run"
        lacking = [c for c in columns if c not in frame]
        if lacking:
            return f"{table}.csv has no column {', '.join(lacking)}"
    return ""
