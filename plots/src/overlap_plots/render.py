# SPDX-License-Identifier: Apache-2.0
"""Puts a page's panels on paper with what makes it readable alone (title, captions, legend, footer) and saves it."""

from __future__ import annotations

import io
import math
import os
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Paper

from overlap_plots import style
from overlap_plots.load import RunError
from overlap_plots.registry import Drawing, Origin, Page

FORMATS = ("png", "svg")

_LINE = 0.19  # inches of one line of small print
_LEGEND_LINE = 0.172
_CHARACTERS = 15.0  # of small print in an inch of width, on average
_SUBTITLE, _SMALL_PRINT = 9.0, 8.0  # sizes of letters, points
_EDGE = 0.12  # inches left free at the edges of the paper


def draw_page(figure: Drawing, page: Page, origin: Origin | None) -> Paper:
    """The whole picture, not yet saved; without an origin the panels and their legend alone, for a page that says the
    rest in its own text. Call within ``style.context()``."""
    width = page.size[0]
    header = _wrap(page.subtitle, width * _SMALL_PRINT / _SUBTITLE) if origin else []
    words = (*page.captions, *page.notes, _footer(page, origin)) if origin else ()
    foot = [line for text in words for line in _wrap(text, width)]

    paper = Paper()
    FigureCanvasAgg(paper)
    panels = list(paper.subplots(*page.panels, squeeze=False).ravel())
    figure.draw(panels, page.frame)
    for panel in panels:
        if not panel.has_data():
            panel.set_axis_off()
    handles, labels = _legend(panels)
    columns = _legend_columns(labels, width)

    # The frame around the panels is as high as its text: the panels keep the size that they asked for.
    legend_height = _LEGEND_LINE * math.ceil(len(labels) / columns) + 0.1 if labels else 0.0
    top = 0.42 + _LINE * len(header) if origin else _EDGE
    bottom = _EDGE + _LINE * len(foot) + legend_height + 0.06
    height = page.size[1] + top + bottom
    paper.set_size_inches(width, height)
    paper.set_layout_engine("constrained", rect=(0.005, bottom / height, 0.99, 1 - (top + bottom) / height))

    left = _EDGE / width
    if origin:
        title = f"{figure.TITLE}{not_measured(page.sources)}"
        paper.text(left, 1 - _EDGE / height, title, fontsize=12, fontweight="bold", va="top")
    for row, line in enumerate(header):
        paper.text(left, 1 - (0.38 + _LINE * row) / height, line, fontsize=_SUBTITLE, va="top")
    for row, line in enumerate(foot, start=1):
        at = (_EDGE + _LINE * (len(foot) - row)) / height
        paper.text(left, at, line, fontsize=_SMALL_PRINT, va="bottom", color=style.REFERENCE)
    if labels:
        paper.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(left, (_EDGE + _LINE * len(foot) + 0.02) / height),
            ncol=columns,
            borderaxespad=0,
            borderpad=0,
            handlelength=3,
            columnspacing=1.6,
            labelspacing=0.25,
        ).set_in_layout(False)
    _fix_layout(paper, panels)
    return paper


def _fix_layout(paper: Paper, panels: Sequence[Axes]) -> None:
    """Lays the panels out once and rounds where they are: the solver's last bits differ from run to run, and an SVG
    names its clip paths by them."""
    paper.draw_without_rendering()
    paper.set_layout_engine("none")
    for panel in panels:
        left, bottom, width, height = (round(value, 5) for value in panel.get_position().bounds)
        panel.set_position((left, bottom, width, height))


def save(paper: Paper, path: Path) -> None:
    """Writes beside the target and renames, so that a reader never sees half a picture. Same page, same bytes."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    kind = path.suffix.removeprefix(".")
    try:
        paper.savefig(part, format=kind, metadata={"Date": None} if kind == "svg" else None)
        part.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path} ({error.strerror}); name another folder with --out") from error
    finally:
        part.unlink(missing_ok=True)


def save_pages(
    name: str, figure: Drawing, pages: Sequence[Page], origin: Origin, out: Path, formats: Sequence[str]
) -> Iterator[Path]:
    """Draws and saves every page of a figure and yields the files."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {out} ({error.strerror}); name another with --out") from error
    with _drawing():
        for page in pages:
            paper = draw_page(figure, page, origin)
            for kind in formats:
                path = out / f"{name}{'-' if page.name else ''}{page.name}.{kind}"
                save(paper, path)
                yield path


def panels_png(figure: Drawing, page: Page) -> bytes:
    """The panels and their legend as PNG. Same page, same bytes."""
    file = io.BytesIO()
    with _drawing():
        draw_page(figure, page, None).savefig(file, format="png")
    return file.getvalue()


@contextmanager
def _drawing() -> Iterator[None]:
    with style.context(), warnings.catch_warnings():
        # A name may hold characters that no font here has; they are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _footer(page: Page, origin: Origin) -> str:
    intervals = "lines, bands and brackets: 95 % intervals" if page.intervals else "no intervals: of one launch or log"
    numbers = (", ".join(page.sources), page.rounds, intervals)
    return "\u00a0· ".join((*map(style.plain, origin.facts), *numbers))  # a line breaks behind a dot, never before


def not_measured(sources: Sequence[str]) -> str:
    """What a title adds where not all numbers were measured here."""
    others = ", ".join(source for source in sources if source != "measured")
    if not others:
        return ""
    elsewhere = all(source in ("measured", "imported", "published") for source in sources)  # measured by others
    return f" — {'partly ' if 'measured' in sources else ''}{others}{'' if elsewhere else ', not measured'}"


def _wrap(text: str, width: float) -> list[str]:
    kept = style.plain(text).replace(" %", "\u00a0%")  # a line ends behind a number and its sign, never between
    return textwrap.wrap(kept, int(_CHARACTERS * width)) if text else []


def _legend(panels: Sequence[Axes]) -> tuple[list[Artist], list[str]]:
    """One entry a label over all panels."""
    entries: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return list(entries.values()), list(entries)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    longest = max((len(label) for label in labels), default=0)
    return max(1, min(len(labels), int(width * 12 / (longest + 8))))
