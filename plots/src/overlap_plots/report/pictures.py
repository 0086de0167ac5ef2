# SPDX-License-Identifier: Apache-2.0
"""The figures of a run as pictures within a page: panels and legend as PNG, title and captions as the page's text."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from overlap_plots import registry
from overlap_plots.fabrics import Fabric
from overlap_plots.load import Run
from overlap_plots.registry import Absent, Figure, Page
from overlap_plots.render import not_measured, panels_png

_OF_EACH_CASE = ("samples", "timeline")  # a picture a case: after those of all cases together


@dataclass(frozen=True)
class Picture:
    figure: str
    drawing: Figure
    page: Page

    @property
    def title(self) -> str:
        """Says where not all numbers were measured."""
        return self.drawing.TITLE + not_measured(self.page.sources)

    @property
    def alternative(self) -> str:
        """What the picture shows, for who does not see it; the numbers are in the table of cases."""
        of = f" Of {self.page.subtitle}." if self.page.subtitle else ""
        return f"{self.title}. {self.drawing.DESCRIPTION}.{of}"

    @property
    def captions(self) -> tuple[str, ...]:
        intervals = "lines, bands and brackets are 95 % intervals" if self.page.intervals else "no intervals"
        return (*self.page.captions, *self.page.notes, f"{self.page.rounds}; {intervals}.")

    @property
    def of_a_case(self) -> bool:
        return self.figure in _OF_EACH_CASE

    @functools.cached_property
    def address(self) -> str:
        """The picture itself, as an address that holds it."""
        return "data:image/png;base64," + base64.b64encode(panels_png(self.drawing, self.page)).decode("ascii")


@dataclass(frozen=True)
class Shown:
    pictures: tuple[Picture, ...]
    absent: tuple[str, ...]  # figures that could have been drawn and were not, each with its reason
    left_out: tuple[str, ...]  # figures of which pictures did not fit into the page


def of_run(run: Run, most_bytes: int) -> Shown:
    """Every figure that the run feeds, as far as the pictures have room."""

    def made() -> Iterator[Picture | str]:
        for name in sorted(registry.figure_names(), key=lambda name: name in _OF_EACH_CASE):
            figure = registry.get_figure(name)
            if not registry.missing(figure, run):
                yield from _pictures(name, figure, functools.partial(figure.pages, run, ""))

    return _that_fit(made(), most_bytes)


def of_several(fabrics: Sequence[Fabric], most_bytes: int) -> Shown:
    """The figures that show several runs beside each other, as ``overlap-plots compare`` draws them."""

    def made() -> Iterator[Picture | str]:
        for name in registry.figure_names():
            figure = registry.get_figure(name)
            if isinstance(figure, registry.Overview):
                yield from _pictures(name, figure, functools.partial(figure.pages_of, fabrics))

    return _that_fit(made(), most_bytes)


def _pictures(name: str, figure: Figure, pages: Callable[[], list[Page]]) -> Iterator[Picture | str]:
    try:
        yield from (Picture(name, figure, page) for page in pages())
    except Absent as absent:
        yield f"{name}, {absent}"


def _that_fit(made: Iterator[Picture | str], most_bytes: int) -> Shown:
    """In their order, until one does not fit: what comes after it is not drawn at all."""
    shown: list[Picture] = []
    absent: list[str] = []
    left_out: dict[str, None] = {}
    used = 0
    for item in made:
        if isinstance(item, str):
            absent.append(item)
        elif left_out or used + len(item.address) > most_bytes:
            left_out[item.figure] = None
        else:
            used += len(item.address)
            shown.append(item)
    return Shown(tuple(shown), tuple(absent), tuple(left_out))
