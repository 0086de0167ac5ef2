# SPDX-License-Identifier: Apache-2.0
"""The lab page in a browser: Debian's Chromium, driven by playwright; nothing is downloaded. The page's clock is
scripted, so that no test waits for real time or depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import browsing
import pytest
import synthetic

from overlap_plots.lab.page import lab_page
from overlap_plots.load import load_run

pytestmark = browsing.needs_chromium

HOSTILE = '</script><img src=x onerror="document.title=1">'
CASES = (
    synthetic.Case(more={"compute_slowdown": 1.1, "comm_slowdown": 1.25}),
    synthetic.Case("serial", (10, 10, 20, 20), 4 << 20, more={"compute_slowdown": "", "comm_slowdown": ""}),
    synthetic.Case(HOSTILE, status="noisy"),
)


class Lab(browsing.Watched):
    """A page whose clock is scripted."""

    def __init__(self, page: Any, address: str) -> None:
        super().__init__(page)
        page.clock.install(time=0)
        page.goto(address)
        page.clock.pause_at(60)

    def numbers(self, widget: str) -> dict[str, str]:
        """The list of numbers under a widget's picture."""
        rows = self.page.locator(f"#{widget} .numbers > div").all()
        return {row.locator("dt").inner_text(): plain(row.locator("dd").first.inner_text()) for row in rows}

    def verdict(self, widget: str) -> str:
        return plain(self.page.locator(f"#{widget} .verdict").inner_text())

    def picture(self, widget: str) -> str:
        return plain(self.page.locator(f"#{widget} svg").first.get_attribute("aria-label"))

    def slide(self, slider: str, position: float) -> None:
        move = "(e, to) => { e.value = to; e.dispatchEvent(new Event('input', { bubbles: true })); }"
        self.page.locator(f"#{slider}").evaluate(move, position)

    def press(self, name: str) -> None:
        self.page.locator(f"#queue button[name={name}]").click()


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from browsing.launched()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of a page of examples and of one that starts from a run."""
    folder = tmp_path_factory.mktemp("lab")
    run = load_run(synthetic.build(folder / "run", CASES))
    texts = {"examples": lab_page(None), "run": lab_page(run)}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in texts}


Opener = Callable[..., Lab]


@pytest.fixture
def opened(browser: Any, pages: dict[str, str]) -> Iterator[Opener]:
    """Opens a page in a context of its own; in the end no page may have complained or asked for anything."""
    contexts: list[Any] = []
    labs: list[Lab] = []

    def open_page(name: str = "examples", **options: Any) -> Lab:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        labs.append(Lab(contexts[-1].new_page(), pages[name]))
        return labs[-1]

    yield open_page
    for lab in labs:
        assert lab.was_quiet(), (lab.said, lab.asked)
    for context in contexts:
        context.close()


def test_the_timeline_follows_its_sliders(opened: Opener) -> None:
    lab = opened()
    # 100 ms and 80 ms of which 70 % run beside: 56 hide and 24 stay, (100 + 80) / 124.
    assert lab.numbers("timeline") == {
        "Step": "124 ms",
        "Exposed": "24 ms",
        "Hidden share": "70 %",
        "Speedup": "1.45×",
    }
    assert lab.verdict("timeline") == "56 ms of 80 ms communication hides; 24 ms stays exposed."
    lab.slide("timeline-beside", 1)
    assert lab.verdict("timeline") == "All of the communication hides: the step is as long as compute alone."
    # Both 2.5 times slower beside each other: communication ends at 200 ms, compute has done 80 of its 100 ms by then.
    lab.slide("timeline-slowCompute", 2.5)
    lab.slide("timeline-slowComm", 2.5)
    assert lab.numbers("timeline")["Step"] == "220 ms"
    assert lab.verdict("timeline") == (
        "Worse than serial by 40 ms. Running both at once is slower than taking turns: each slows the other too much."
    )
    assert "between 100 ms and 180 ms" in lab.picture("timeline")
    # Compute helped to half its time ends at 50 ms; communication takes its 80.
    lab.slide("timeline-slowCompute", 0.5)
    lab.slide("timeline-slowComm", 1)
    assert lab.numbers("timeline") == {
        "Step": "80 ms",
        "Exposed": "−20 ms",
        "Hidden share": "125 %",
        "Speedup": "2.25×",
    }
    assert lab.verdict("timeline").startswith("Shorter than the longer part alone")


def test_the_buckets_follow_their_sliders(opened: Opener) -> None:
    lab = opened()
    # 14 GB in buckets of 25 MiB: 535. On the wire 28 GB × 63 / 64 at 360 GB/s: 76.56 ms, and 535 × 50 us of latency;
    # the first is there after 100 / 535 ms.
    assert lab.numbers("buckets")["Buckets"] == "535"
    assert lab.numbers("buckets")["Communication"] == "103 ms"
    assert lab.numbers("buckets")["Exposed"] == "3.5 ms"
    # One bucket: nothing overlaps, all is exposed.
    lab.slide("buckets-bucket", 420)
    assert lab.numbers("buckets")["Buckets"] == "1"
    assert lab.numbers("buckets")["Exposed"] == "76.6 ms"
    assert "too few buckets, the last begins late" in lab.verdict("buckets")
    # The bottom: (100 − 76.5625) / 0.05 = 468.75 buckets, so 468 or 469.
    assert lab.numbers("buckets")["Best bucket"] == "28.53 MiB"
    lab.slide("buckets-bucket", 154)
    assert lab.verdict("buckets").startswith("At the bottom of the U: buckets of 28.")
    assert lab.page.locator("#buckets figure.lanes svg, #buckets figure.curve svg").count() == 2


def test_the_queue_steps_resets_and_predicts_when_asked(opened: Opener) -> None:
    lab = opened()
    assert lab.verdict("queue") == "At 0 s the backlog is 4."
    assert lab.page.locator("#queue .prediction").count() == 0
    for _ in range(5):
        lab.press("step")
    assert lab.verdict("queue") == "At 5 s the backlog is 9."  # 4 + (4 − 3) × 5
    lab.press("predict")
    assert lab.verdict("queue").endswith("Prediction: it grows by 1 a second and never drains.")
    assert lab.page.locator("#queue .prediction").count() == 1
    assert lab.page.locator("#queue button[name=predict]").get_attribute("aria-pressed") == "true"
    lab.slide("queue-arrival", 2)
    assert (
        lab.verdict("queue") == "At 0 s the backlog is 4. Prediction: it shrinks by 1 a second and is empty after 4 s."
    )
    for _ in range(5):
        lab.press("step")
    assert lab.numbers("queue") == {"Time": "5.0 s", "Backlog": "0.0", "Leaving": "2 a second", "Load, ρ": "0.67"}
    lab.press("reset")
    assert lab.numbers("queue")["Backlog"] == "4.0"


def test_the_queue_plays_and_pauses(opened: Opener) -> None:
    lab = opened()
    play = lab.page.locator("#queue button[name=play]")
    play.click()
    assert play.inner_text() == "Pause"
    lab.page.clock.run_for(2000)  # at 1.5 seconds of the lab a second
    play.click()
    assert play.inner_text() == "Play"
    time = float(lab.numbers("queue")["Time"].removesuffix(" s"))
    assert 2.9 <= time <= 3  # less than a frame is lost
    assert float(lab.numbers("queue")["Backlog"]) == pytest.approx(4 + time, abs=0.11)
    lab.page.clock.run_for(2000)
    assert lab.numbers("queue")["Time"] == f"{time:.1f} s"
    play.click()
    lab.page.clock.fast_forward(60_000)  # as a machine that slept: to the end, where it stops by itself
    assert lab.numbers("queue")["Time"] == "60.0 s"
    assert play.inner_text() == "Play"
    assert lab.page.locator("#queue button[name=step]").is_disabled()


def test_who_asked_for_less_motion_sees_whole_seconds(opened: Opener) -> None:
    lab = opened(reduced_motion="reduce")
    lab.press("play")
    seen = []
    for _ in range(10):  # two and a half seconds, at a second of the lab in two thirds of one
        lab.page.clock.run_for(250)
        seen.append(lab.numbers("queue")["Time"])
    assert set(seen) == {"0.0 s", "1.0 s", "2.0 s", "3.0 s"}


def test_means_are_unstable_at_full_load_and_never_negative(opened: Opener) -> None:
    lab = opened()
    cells = lab.page.locator("#queue .means td")
    assert set(cells.all_inner_texts()) == {"unstable"}  # 4 of 3
    lab.slide("queue-arrival", 2)
    assert [plain(text) for text in cells.all_inner_texts()] == (
        ["2", "1.33", "1 s", "0.667 s", "1.33", "0.667", "0.667 s", "0.333 s"]  # L, W, Lq, Wq of M/M/1 and M/D/1
    )
    assert lab.page.locator("#mm1-assumptions").inner_text().startswith("Poisson arrivals; exponential service times;")


def test_no_position_of_the_sliders_gives_what_is_no_number(opened: Opener) -> None:
    lab = opened()
    # Each slider at both ends while the others of its widget stand at the start or at an end.
    bad = lab.page.evaluate(
        """() => {
          const bad = [];
          for (const widget of document.querySelectorAll("section")) {
            const sliders = [...widget.querySelectorAll("input")];
            const move = (slider, share) => {
              slider.value = Number(slider.min) + share * (slider.max - slider.min);
              slider.dispatchEvent(new Event("input"));
            };
            for (const others of [null, 0, 1]) {
              for (const slider of sliders) {
                if (others !== null) sliders.forEach((other) => move(other, others));
                for (const end of [0, 1]) {
                  move(slider, end);
                  const found = widget.outerHTML.match(/NaN|Infinity|undefined/);
                  if (found) bad.push(`${slider.id} at ${end}, others at ${others}: ${found[0]}`);
                }
              }
            }
          }
          return bad;
        }"""
    )
    assert bad == []


def test_a_measured_case_sets_all_three(opened: Opener) -> None:
    lab = opened("run")
    # 10 and 8 ms; slowed 1.1 and 1.25 times: communication ends at 10 ms, compute has 10 / 1.1 = 9.09 done: 10.909 ms.
    assert lab.numbers("timeline")["Step"] == "10.9 ms"
    assert lab.numbers("timeline")["Measured step"] == "11 ms"
    assert lab.page.locator("#timeline .interval").count() == 1
    assert "solved from this case’s own spans" in lab.page.locator("#timeline .from-case").inner_text()
    assert lab.page.locator("#buckets-gradients").get_attribute("aria-valuetext") == "1\u00a0MiB"
    assert "a load of 0.8" in lab.page.locator("#queue .from-case").inner_text()
    lab.page.select_option("#case", index=2)  # one after the other: no slowdowns, nothing hidden
    assert lab.numbers("timeline")["Step"] == "20 ms"
    assert lab.verdict("timeline") == "Nothing hides: 10 ms of communication stays exposed."
    assert "has no slowdowns" in lab.page.locator("#timeline .from-case").inner_text()
    lab.page.select_option("#case", "")
    assert lab.numbers("timeline")["Step"] == "124 ms"
    assert "Measured step" not in lab.numbers("timeline")


def test_text_of_a_run_stays_text(opened: Opener) -> None:
    lab = opened("run")
    assert any(HOSTILE in name for name in lab.page.locator("#case option").all_inner_texts())
    assert lab.page.locator("img").count() == 0
    assert lab.page.title() == "overlapbench lab"


def test_no_script_but_its_own_runs(browser: Any, pages: dict[str, str]) -> None:
    page = browser.new_page()
    page.goto(pages["examples"])
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), { text: 'window.ran = 1' }))")
    assert page.evaluate("window.ran === undefined")
    page.close()


def test_the_keyboard_reaches_and_moves_everything(opened: Opener) -> None:
    lab = opened()
    reached = []
    for _ in range(60):
        lab.page.keyboard.press("Tab")
        focused = lab.page.evaluate(
            "(({ id, name, tagName, hash }) => id || name || hash || tagName)(document.activeElement)"
        )
        if focused == "BODY":
            break
        reached.append(focused)
        assert lab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", focused
    inputs = lab.page.locator("input, button, summary, a").evaluate_all(
        "all => all.map((e) => e.id || e.name || e.hash || e.tagName)"
    )
    assert reached == inputs  # all, in the order in which they are read
    lab.page.locator("#timeline-beside").focus()
    lab.page.keyboard.press("ArrowRight")
    assert lab.page.locator("#timeline-beside").get_attribute("aria-valuetext") == "71\u00a0%"
    lab.page.locator("#queue button[name=step]").focus()
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.press("Space")
    assert lab.verdict("queue") == "At 2 s the backlog is 6."


def test_results_are_spoken_once_they_have_settled(opened: Opener) -> None:
    lab = opened()
    lab.page.clock.run_for(1000)
    spoken = lab.page.locator("#timeline .spoken")
    assert spoken.get_attribute("role") == "status"
    before = spoken.inner_text()
    for position in (0.5, 0.4, 0.3):
        lab.slide("timeline-beside", position)
        lab.page.clock.run_for(100)
    assert spoken.inner_text() == before
    lab.page.clock.run_for(1000)
    assert (
        plain(spoken.inner_text())
        == lab.verdict("timeline")
        == ("24 ms of 80 ms communication hides; 56 ms stays exposed.")
    )


@pytest.mark.parametrize(("scheme", "width"), [("dark", 320), ("light", 1280)])
def test_axe_finds_nothing_and_nothing_sticks_out(opened: Opener, scheme: str, width: int) -> None:
    lab = opened("run", color_scheme=scheme, viewport={"width": width, "height": 900})
    assert lab.page.evaluate("document.documentElement.scrollWidth") == width
    lab.press("predict")
    lab.page.locator("details").evaluate_all("all => all.forEach((details) => { details.open = true; })")
    lab.page.clock.resume()  # axe waits for time to pass
    assert lab.violations() == []


def test_the_theme_is_the_systems_until_it_is_chosen(opened: Opener) -> None:
    lab = opened(color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = lab.page.evaluate(paper)
    theme = lab.page.locator("#theme")
    assert theme.get_attribute("aria-pressed") == "true"
    theme.click()
    assert theme.get_attribute("aria-pressed") == "false"
    light = lab.page.evaluate(paper)
    assert light != dark
    lab.page.reload()
    assert lab.page.evaluate(paper) == light


def test_a_picture_is_drawn_to_the_width_it_has(opened: Opener) -> None:
    lab = opened()
    before = lab.page.locator("#queue svg").bounding_box()["width"]
    lab.page.set_viewport_size({"width": 600, "height": 900})
    lab.page.wait_for_function(f"document.querySelector('#queue svg').getAttribute('width') < {before}")
    assert lab.page.locator("#queue figure").bounding_box()["width"] == pytest.approx(
        lab.page.locator("#queue svg").bounding_box()["width"], abs=1
    )


def test_the_page_is_readable_without_javascript(browser: Any, pages: dict[str, str]) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(pages["examples"])
    assert "need JavaScript; nothing is loaded from anywhere" in page.locator("noscript").inner_text()
    page.context.close()
