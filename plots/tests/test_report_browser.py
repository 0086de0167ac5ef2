# SPDX-License-Identifier: Apache-2.0
"""The report in a browser: it opens without a network and a word on the console, by keyboard, in light and dark, from
wide to narrow; and no text of a run becomes more than text."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browsing
import pytest
import synthetic
import synthetic_collective

from overlap_plots.load import load_run
from overlap_plots.report.page import MOST_BYTES, report_page

pytestmark = browsing.needs_chromium

COMMITTED = sorted(path.parent for path in (Path(__file__).parents[2] / "results").glob("*/run.json"))
HOSTILE = '<script>window.ran = 1</script><img src=x onerror="window.ran = 1">'
HOSTILE_NAME = "<img src=x onerror=window.ran=1>'\""  # of a folder: without a slash


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from browsing.launched()


Opener = Callable[..., browsing.Watched]


@pytest.fixture
def opened(browser: Any) -> Iterator[Opener]:
    """Opens a page in a context of its own, without a network; in the end none may have complained or asked."""
    contexts: list[Any] = []
    pages: list[browsing.Watched] = []

    def open_page(file: Path, **options: Any) -> browsing.Watched:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        contexts[-1].set_offline(True)
        contexts[-1].set_default_timeout(10_000)
        pages.append(browsing.Watched(contexts[-1].new_page()))
        pages[-1].page.goto(file.as_uri())
        return pages[-1]

    yield open_page
    for page in pages:
        assert page.was_quiet(), (page.said, page.asked)
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a run that has cases of every kind."""
    folder = tmp_path_factory.mktemp("report")
    file = folder / "one.html"
    file.write_text(report_page([load_run(synthetic.build(folder / "all-cases"))]), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    runs = [
        load_run(synthetic.build(folder / "pair", synthetic.CASES[:1])),
        load_run(synthetic.build(folder / "again", synthetic.CASES[:1])),
        load_run(synthetic_collective.build(folder / "collective")),
    ]
    file = folder / "several.html"
    file.write_text(report_page(runs), encoding="utf-8")
    return file


@pytest.mark.parametrize("run", COMMITTED, ids=[run.name for run in COMMITTED])
def test_a_report_of_each_committed_run(run: Path, opened: Opener, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_page([load_run(run)]), encoding="utf-8")
    assert file.stat().st_size < MOST_BYTES
    page = opened(file).page
    assert page.locator("img").count() > 1
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 300)")
    assert page.locator(".sentences li").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    assert "Left out so that this page stays small" not in page.inner_text("body")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 390), ("light", 1280)])
@pytest.mark.parametrize("which", ["one", "several"])
def test_axe_finds_nothing_and_nothing_sticks_out(
    opened: Opener, request: pytest.FixtureRequest, which: str, scheme: str, width: int
) -> None:
    viewport = {"width": width, "height": 900}
    watched = opened(request.getfixturevalue(which), color_scheme=scheme, viewport=viewport)
    watched.page.locator("details").evaluate_all("all => all.forEach((details) => { details.open = true; })")
    watched.page.wait_for_function("document.querySelectorAll('details[open]').length > 0")
    assert watched.page.evaluate("document.documentElement.scrollWidth") == width
    assert watched.violations() == []


def test_the_keyboard_reaches_everything_in_the_order_in_which_it_is_read(opened: Opener, one: Path) -> None:
    page = opened(one, viewport={"width": 390, "height": 900}).page
    stops = "a, button, summary, [tabindex='0']"
    visible = page.locator(stops).evaluate_all(
        "all => all.filter((e) => e.matches('summary') || !e.closest('details')).map((e, at) => e.dataset.stop = at)"
    )
    reached = []
    for _ in range(len(visible) + 5):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        reached.append(int(page.evaluate("document.activeElement.dataset.stop ?? -1")))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert reached == list(range(len(visible)))
    assert page.locator(".picture[tabindex='0']").count() > 0  # wider than this page: the arrow keys scroll it


def test_a_picture_that_fits_is_no_stop(opened: Opener, one: Path) -> None:
    page = opened(one).page
    assert page.locator("figure:not(details figure) .picture[tabindex]").count() == 0


def test_columns_sort_both_ways_with_the_keyboard_and_the_unknown_last(opened: Opener, one: Path) -> None:
    page = opened(one).page
    table = page.locator("#run-1-cases > .scroll table")
    heading = table.locator("thead th", has_text="hidden share")
    column = heading.evaluate("(th) => th.cellIndex")

    def shares() -> list[str]:
        return [
            row.locator("td, th").nth(column).inner_text().split(" %")[0] for row in table.locator("tbody tr").all()
        ]

    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert shares() == ["−50.0", "0.0", "50.0", "87.5", "100.0", "100.0", "–"]
    page.keyboard.press("Space")
    assert heading.get_attribute("aria-sort") == "descending"
    assert shares() == ["100.0", "100.0", "87.5", "50.0", "0.0", "−50.0", "–"]
    table.locator("thead th", has_text="status").locator("button").click()
    assert heading.get_attribute("aria-sort") is None
    assert table.locator("tbody tr td:nth-child(2)").all_inner_texts() == ["noisy", *["ok"] * 5, "unsupported"]


def test_a_sentence_leads_to_its_row(opened: Opener, one: Path) -> None:
    page = opened(one).page
    link = page.locator(".sentences a").nth(3)
    link.click()
    row = page.locator(":target")
    assert row.evaluate("(row) => row.tagName") == "TR"
    assert row.locator("th").inner_text() == link.inner_text()


def test_the_theme_is_the_systems_until_it_is_chosen(opened: Opener, one: Path) -> None:
    page = opened(one, color_scheme="dark").page
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.locator("#theme").click()
    assert page.evaluate(paper) != dark
    assert page.locator("#theme").get_attribute("aria-pressed") == "false"


def test_the_page_is_readable_without_javascript(opened: Opener, one: Path) -> None:
    page = opened(one, java_script_enabled=False).page
    assert page.locator(".sentences li").first.is_visible()
    assert page.locator("thead th").first.inner_text() == "case"
    page.locator("details").first.locator("summary").click()
    assert page.locator("details").first.locator("table").is_visible()


def hostile_run(folder: Path) -> Path:
    """A run whose every text is hostile: names, run.json, the schema's words, and each text column of each table."""
    run = synthetic.build(folder / HOSTILE_NAME, synthetic.CASES[:2] + synthetic.CASES[5:6])
    about = json.loads((run / "run.json").read_text())
    texts = {
        name: {c["name"] for c in table["columns"] if c["type"] == "text"} for name, table in about["tables"].items()
    }

    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {HOSTILE + key if key.startswith("x") else key: spoil(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [spoil(entry) for entry in value]
        return HOSTILE + value if isinstance(value, str) else value

    tables = about.pop("tables")
    texts = {name: {c["name"] for c in tables[name]["columns"] if c["type"] == "text"} for name in tables}
    machine = {"cpu": "c", "hostname": "h", "kernel": "k"}
    build = {"git_revision": "g", "git_state": "changed", "build_type": "t", "compiler": "c", "release": False}
    about["identity"] |= {"bench": "pair", "machine": machine, "environment": {"xNCCL": "8"}}
    about["identity"]["build"] |= build
    about["run"]["command_line"] = ["overlap-pair", "--out"]
    about["resumed"] = [{"command_line": ["overlap-pair"]}]
    for table in tables.values():
        for column in table["columns"]:
            column["description"] = HOSTILE + column["description"]
    (run / "run.json").write_text(json.dumps(spoil(about) | {"tables": tables}))
    for name, columns in texts.items():
        with (run / f"{name}.csv").open(newline="") as file:
            header, *rows = csv.reader(file)
        kept = {"arm", "bench"}  # what decides which rows are read at all
        for row in rows:
            for at, column in enumerate(header):
                decides = column in kept or (column == "status" and row[at] in ("ok", "noisy"))
                if column in columns and not decides:
                    row[at] = HOSTILE + row[at]
        with (run / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return run


def test_text_of_a_run_stays_text(opened: Opener, tmp_path: Path) -> None:
    text = report_page([load_run(hostile_run(tmp_path)), load_run(hostile_run(tmp_path / "other"))])
    # Also without the policy, so that the escaping alone has to hold.
    without_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert without_policy != text
    for name, page_text in (("with", text), ("without", without_policy)):
        (tmp_path / f"{name}.html").write_text(page_text, encoding="utf-8")
        page = opened(tmp_path / f"{name}.html").page
        page.locator("details").evaluate_all("all => all.forEach((details) => { details.open = true; })")
        page.locator("thead button").first.click()
        assert page.evaluate("window.ran === undefined")
        assert page.locator("script").count() == 1
        assert page.locator("img:not([src^='data:image/png'])").count() == 0
        assert page.locator("[onerror]").count() == 0
        shown = page.inner_text("body")
        assert shown.count(HOSTILE) > 100  # it is there to be read
        assert HOSTILE_NAME in shown
        assert HOSTILE_NAME in page.title()


def test_no_script_but_its_own_runs(browser: Any, one: Path) -> None:
    page = browser.new_page()
    page.goto(one.as_uri())
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), { text: 'window.ran = 1' }))")
    assert page.evaluate("window.ran === undefined")
    page.close()
