# SPDX-License-Identifier: Apache-2.0
"""Pages in a browser: Debian's Chromium, driven by playwright; nothing is downloaded. Whoever imports this is skipped
where they are not there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="type: pip install playwright axe-playwright-python")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="type: pip install axe-playwright-python")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; type: apt-get install chromium")


def launched() -> Iterator[Any]:
    """The body of a fixture."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


class Watched:
    """A page, what it said on the console, and what it asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def was_quiet(self) -> bool:
        """Nothing on the console, nothing loaded but the file itself and what it holds."""
        return not self.said and all(address.startswith(("file:", "data:")) for address in self.asked)

    def violations(self) -> Any:
        """What axe finds, [] when nothing."""
        found = axe.Axe().run(self.page)
        return found.response["violations"] and found.generate_report()
