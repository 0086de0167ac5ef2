# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Paper

from overlap_plots import style
from overlap_plots.registry import Page, get_figure


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return synthetic.build(tmp_path / "synthetic-run")


@pytest.fixture(autouse=True)
def in_style() -> Iterator[None]:
    """Figures are drawn within the style, as ``render`` does; text would be parsed as mathematics without it."""
    with style.context():
        yield


class Drawn:
    """A page's panels as ``draw`` leaves them."""

    def __init__(self, name: str, page: Page) -> None:
        self.page = page
        self.panels: list[Axes] = list(Paper().subplots(*page.panels, squeeze=False).ravel())
        self.artists = get_figure(name).draw(self.panels, page.frame)


@pytest.fixture
def drawn() -> type[Drawn]:
    return Drawn
