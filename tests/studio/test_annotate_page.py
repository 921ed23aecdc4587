"""Annotating in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from attentiontuner.demos import Demonstration, DemoWriter
from attentiontuner.demos.annotations import read_annotation
from attentiontuner.spaces import ActionSpec, ObservationSpec
from tests.studio.browsing import (
    BROWSER,
    LARGE,
    SMALL,
    Studio,
    experts,
    interactions,
    name_of,
    on_episode,
    open_page,
    saved,
    settled,
    step,
    studio,
    summary,
)
from tests.studio.conftest import HALLWAY_EPISODES, write_toy

pytestmark = BROWSER


def test_a_whole_demonstration_by_mouse(page: Page, hallway: Path, request: pytest.FixtureRequest) -> None:
    expected = experts(hallway, 0)
    before = interactions(page)
    step(page, 1).click()
    for _, q, _ in expected:
        step(page, q).click()
    summary(page, f"{len(expected)} pair")
    settled(page)
    assert saved(hallway, name_of(request), 0) == expected
    assert (interactions(page) - before) / len(expected) <= 2


def test_a_whole_demonstration_by_keyboard(page: Page, hallway: Path, request: pytest.FixtureRequest) -> None:
    longest = max(range(HALLWAY_EPISODES), key=lambda episode: len(experts(hallway, episode)))
    expected, keys = experts(hallway, longest), page.keyboard
    for episode in range(longest):
        keys.press(".")
        on_episode(page, episode + 1)
    before = interactions(page)
    keys.press("ArrowRight")
    keys.press("p")
    cursor = 1
    for _, q, _ in expected[:2]:
        while cursor < q:
            keys.press("ArrowRight")
            cursor += 1
        keys.press("Enter")
    for _ in expected[2:]:
        keys.press("r")
    summary(page, f"{len(expected)} pair")
    settled(page)
    assert saved(hallway, name_of(request), longest) == expected
    assert (interactions(page) - before) / len(expected) <= 2


def test_moving_by_keyboard(page: Page, hallway: Path) -> None:
    def cursor() -> int:
        return int(page.locator(".step.cursor").get_attribute("data-step") or -1)

    last = page.locator(".step").count() - 1
    for key, expected in [("End", last), ("ArrowRight", last), ("Shift+ArrowLeft", last - 10), ("Home", 0)]:
        page.keyboard.press(key)
        page.wait_for_selector(f'.step.cursor[data-step="{expected}"]')
        assert cursor() == expected
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("q")
    page.wait_for_selector('.step.is-q[data-step="10"]')
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    summary(page, "1 pair")
    page.locator("#source").select_option("before")
    page.keyboard.press("]")
    page.keyboard.press("+")
    page.locator("#multiplicity", has_text="×2").wait_for()
    page.keyboard.press("Delete")
    summary(page, "Nothing to remember")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    assert page.locator("#help dd").count() >= 25
    page.keyboard.press("Escape")
    page.wait_for_selector("#help", state="hidden")


def test_every_control_is_reached_by_tab(page: Page) -> None:
    step(page, 0).focus()
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    wanted = {"episode", "next-open", "show-help", "source", "accept-all", "nothing", "note", "flag", "annotator"}
    assert wanted <= reached
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, textarea, canvas, [role=img]')]"
        ".filter(e => e.checkVisibility() && !(e.textContent.trim() || e.ariaLabel || e.labels?.length))"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []


def test_undo_redo_and_reload(page: Page, hallway: Path, request: pytest.FixtureRequest) -> None:
    step(page, 1).click()
    step(page, 5).click()
    step(page, 6).click()
    summary(page, "2 pairs")
    page.keyboard.press("z")
    summary(page, "1 pair")
    page.keyboard.press("z")
    summary(page, "Not annotated yet")
    assert page.locator("#undo").is_disabled()
    settled(page)
    assert saved(hallway, name_of(request), 0) is None
    page.keyboard.press("Shift+Z")
    page.locator("#redo").click()
    summary(page, "2 pairs")
    settled(page)
    page.reload()
    summary(page, "2 pairs")
    assert saved(hallway, name_of(request), 0) == [[1, 5, 1], [1, 6, 1]]
    page.keyboard.press("z")
    summary(page, "1 pair")


def test_dragging_marks_a_range(page: Page, hallway: Path, request: pytest.FixtureRequest) -> None:
    def drag(first: int, last: int) -> None:
        step(page, first).hover()
        page.mouse.down()
        step(page, (first + last) // 2).hover()
        step(page, last).hover()
        expect(page.locator(".step.range")).to_have_count(last - first + 1)
        page.mouse.up()

    step(page, 2).click()
    drag(4, 8)
    summary(page, "5 pairs")
    page.keyboard.press("z")
    summary(page, "Not annotated")
    page.locator('[data-keep="q"]').click()
    step(page, 9).click()
    drag(3, 5)
    summary(page, "3 pairs")
    step(page, 4).click()
    summary(page, "2 pairs")
    settled(page)
    assert saved(hallway, name_of(request), 0) == [[3, 9, 1], [5, 9, 1]]


def test_sticky_p_and_neither(page: Page) -> None:
    step(page, 3).click()
    expect(step(page, 2)).to_have_class(re.compile(r"\bfaded\b"))
    step(page, 6).click()
    summary(page, "1 pair")
    assert page.locator(".step.is-p").get_attribute("data-step") == "3"
    step(page, 9).click(modifiers=["Shift"])
    page.wait_for_selector('.step.is-p[data-step="9"]')
    page.locator('[data-keep="none"]').click()
    step(page, 1).click()
    step(page, 4).click()
    summary(page, "2 pairs")
    assert page.locator(".step.is-p").count() == 0


def test_arcs_and_matrix_are_linked_to_the_steps(page: Page) -> None:
    step(page, 1).click()
    step(page, 11).click()
    summary(page, "1 pair")
    page.keyboard.press("Escape")
    count = page.locator(".step").count()
    arcs, matrix = page.locator("#arcs").bounding_box(), page.locator("#matrix").bounding_box()
    assert arcs
    assert matrix
    size = (matrix["width"] - 22) / count
    page.mouse.move(matrix["x"] + 22 + 1.5 * size, matrix["y"] + 11.5 * size)
    page.wait_for_selector('.step.linked[data-step="11"]')
    assert page.locator(".step.linked").count() == 2
    assert page.locator("#view-p .where").text_content() == "step 1"
    assert page.locator("#view-q .where").text_content() == "step 11"
    page.mouse.click(matrix["x"] + 22 + 1.5 * size, matrix["y"] + 11.5 * size)
    page.locator("#hint", has_text="Selected: 1 → 11").wait_for()
    page.keyboard.press("Escape")
    # The arc starts and ends at its steps.
    page.mouse.click(arcs["x"] + 11.5 / count * arcs["width"] - 1, arcs["y"] + arcs["height"] - 21)
    page.locator("#hint", has_text="Selected: 1 → 11").wait_for()
    page.locator("#remove-pair").click()
    summary(page, "Nothing to remember")
    page.mouse.click(matrix["x"] + 22 + 3.5 * size, matrix["y"] + 20.5 * size)
    page.keyboard.press("Enter")
    summary(page, "1 pair")


def test_two_windows_the_second_writer_is_told(
    page: Page, context: BrowserContext, hallway: Path, running: Studio, request: pytest.FixtureRequest
) -> None:
    second = open_page(context, f"http://127.0.0.1:{running.port}/#0")
    second.evaluate(f"sessionStorage.setItem('studio.annotator', '{name_of(request)}')")
    second.reload()
    second.wait_for_selector(".step")
    page.bring_to_front()
    step(page, 1).click()
    step(page, 5).click()
    summary(page, "1 pair")
    # The second window has not looked since; its focus event is not awaited here.
    second.evaluate("window.addEventListener('focus', e => e.stopImmediatePropagation(), true)")
    step(second, 2).click()
    step(second, 7).click()
    second.locator("#banner", has_text="changed in another window").wait_for()
    summary(second, "1 pair")
    assert saved(hallway, name_of(request), 0) == [[1, 5, 1]]
    step(second, 7).click()
    summary(second, "2 pairs")
    settled(second)
    assert saved(hallway, name_of(request), 0) == [[1, 5, 1], [2, 7, 1]]


def test_a_killed_server_loses_nothing_that_was_saved(context: BrowserContext, tmp_path: Path) -> None:
    data = write_toy(tmp_path / "toy")
    first = Studio("annotate", data, "--annotator", "ada")
    try:
        page = open_page(context, first.url)
        step(page, 1).click()
        step(page, 5).click()
        summary(page, "1 pair")
        settled(page)
        first.kill()
        assert saved(data, "ada", 0) == [[1, 5, 1]]
        step(page, 6).click()
        step(page, 7).click()
        page.locator("#save-state", has_text="failed, retrying (2 waiting)").wait_for()
        assert saved(data, "ada", 0) == [[1, 5, 1]]
        with studio("annotate", data, "--annotator", "ada", "--port", str(first.port)) as second:
            page.locator("#banner", has_text="started anew").wait_for()
            assert page.locator("#save-state").get_attribute("data-state") == "failed"
            open_page(context, second.url).close()
            summary(page, "3 pairs")
            settled(page)
            assert saved(data, "ada", 0) == [[1, 5, 1], [1, 6, 1], [1, 7, 1]]
    finally:
        first.kill()


def test_nothing_to_remember_notes_flags_and_another_annotator(
    page: Page, hallway: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    page.keyboard.press("t")
    page.keyboard.type("the door is odd")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    page.wait_for_selector('#flag[aria-pressed="true"]')
    settled(page)
    assert saved(hallway, name, 0) is None
    page.keyboard.press("0")
    summary(page, "Nothing to remember")
    settled(page)
    annotation = read_annotation(hallway, name, 0)
    assert annotation is not None
    assert (len(annotation.pairs), annotation.note, annotation.flagged) == (0, "the door is odd", True)
    page.locator("#annotator").fill("grace")
    page.keyboard.press("Enter")
    summary(page, "Not annotated yet")
    assert page.locator("#note").input_value() == ""
    page.keyboard.press("Escape")
    step(page, 1).click()
    step(page, 5).click()
    summary(page, "1 pair")
    page.keyboard.press("g")
    page.locator("#agree-a").select_option("grace")
    page.locator("#agree-b").select_option("expert")
    page.locator("#agree-tolerance").fill("400")
    page.keyboard.press("Tab")
    page.locator("#agree-result", has_text="1pairs in common").wait_for()
    page.locator("#agree-b").select_option(name)
    page.locator("#agree-result", has_text="1 / 0").wait_for()
    page.locator("#agreement .chip", has_text="1 → 5").click()
    page.locator("#hint", has_text="Selected: 1 → 5").wait_for()


@pytest.fixture(scope="module")
def long_demonstration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with studio("annotate", write_toy(tmp_path_factory.mktemp("long") / "toy", (145, 30))) as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_everything_is_on_the_screen(
    browser: Browser, long_demonstration: Studio, size: dict[str, int], scheme: str
) -> None:
    context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    page = open_page(context, long_demonstration.url)
    on_episode(page, 0)
    outside = page.evaluate(
        "[...document.querySelectorAll('.step, button, input, canvas, .picture, textarea')]"
        ".filter(e => e.checkVisibility()).filter(e => { const r = e.getBoundingClientRect();"
        " return r.right > innerWidth + 1 || r.bottom > innerHeight + 1 || r.left < 0 || r.top < 0 })"
        ".map(e => e.id || e.className)"
    )
    assert outside == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.complaints == []  # type: ignore[attr-defined]
    context.close()


def test_small_windows_zoom_and_touch(browser: Browser, long_demonstration: Studio) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = open_page(context, long_demonstration.url)
    on_episode(page, 0)
    for width, height in ((800, 600), (640, 400), (390, 844)):  # 640 × 400: 1280 × 800 at 200 %
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        wide = (
            "[...document.querySelectorAll('button, input, select, canvas, .picture')].filter(e => e.checkVisibility())"
        )
        assert (
            page.evaluate(f"{wide}.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.id)") == []
        )
        strip = page.locator("#strip").bounding_box()
        assert strip
        assert strip["height"] >= 200
    page.evaluate("sessionStorage.setItem('studio.annotator', 'touch')")
    page.reload()
    on_episode(page, 0)
    step(page, 1).tap()
    step(page, 5).tap()
    summary(page, "1 pair")
    page.locator("#mark-range").tap()  # from step 5
    step(page, 8).tap()
    page.locator("#enter").tap()
    summary(page, "4 pairs")
    settled(page)
    assert page.complaints == []  # type: ignore[attr-defined]
    context.close()


def test_numbers_are_curves_under_the_steps(tmp_path: Path, browser: Browser, page: Page) -> None:
    expect(page.locator("#curves")).to_be_hidden()  # Hallway has none
    generator = np.random.default_rng(0)
    writer = DemoWriter(
        tmp_path / "arm",
        task="arm",
        settings={},
        observation=ObservationSpec("vector", (3,)),
        actions=ActionSpec.box([-1, -1], [1, 1]),
    )
    moves = generator.uniform(-1, 1, (10, 2)).astype(np.float32)
    writer.append([Demonstration(generator.normal(size=(10, 3)), moves, seed=0)])
    with studio("annotate", tmp_path / "arm", "--annotator", "ada") as running:
        other = browser.new_page(viewport=SMALL)
        other.goto(running.url)
        expect(other.locator("#curves canvas")).to_be_visible()
        box = other.locator("#curves canvas").bounding_box()
        assert box is not None
        assert box["height"] == 92  # actions and observations
        other.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 20)
        expect(step(other, 7)).to_have_class(re.compile("cursor"))
        other.close()
