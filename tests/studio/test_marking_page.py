"""Marking much with few keys, and going about in a demonstration: in a real browser."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from attentiontuner.demos.store.reader import DemoStore
from tests.studio.browsing import (
    BROWSER,
    SMALL,
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
from tests.studio.conftest import write_toy
from tests.studio.test_safety_page import text_of

pytestmark = BROWSER


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_everything_before_every_step_takes_three_keys(
    page: Page, hallway: Path, request: pytest.FixtureRequest
) -> None:
    length = len(DemoStore.open(hallway)[0])
    before = interactions(page)
    press(page, "s", "End", "b")
    summary(page, f"{length * (length - 1) // 2} pairs")
    assert interactions(page) - before == 3
    settled(page)
    pairs = saved(hallway, name_of(request), 0)
    assert pairs == [[p, q, 1] for q in range(length) for p in range(q)]
    press(page, "Home", "ArrowRight", "ArrowRight", "s", "ArrowRight", "Delete")  # all pairs of steps 2 and 3
    summary(page, f"{(length - 2) * (length - 3) // 2} pairs")
    press(page, "End", "b")
    summary(page, f"{(length - 2) * (length - 3) // 2 + 2} pairs")
    press(page, "b")  # again, and they are taken back
    settled(page)
    pairs = saved(hallway, name_of(request), 0)
    assert pairs == [[p, q, 1] for q in range(length - 1) for p in range(q) if not {p, q} & {2, 3}]


def test_the_same_distance_to_the_end_and_in_the_next_one(
    page: Page, hallway: Path, request: pytest.FixtureRequest
) -> None:
    counts = []
    for episode in (0, 1):
        expected = experts(hallway, episode)
        before = interactions(page)
        step(page, 1).click()
        for _, q, _ in expected[: 2 - episode]:
            step(page, q).click()
        page.keyboard.press("Shift+R")
        summary(page, f"{len(expected)} pair")
        counts.append(interactions(page) - before)
        settled(page)
        assert saved(hallway, name_of(request), episode) == expected
        page.keyboard.press("n")
        on_episode(page, episode + 1)
    assert counts == [4, 3]


def test_ranges_by_keyboard_and_steps_that_look_alike(
    page: Page, hallway: Path, request: pytest.FixtureRequest
) -> None:
    frames = DemoStore.open(hallway)[0].observations
    press(page, "ArrowRight", "p", "ArrowRight", "ArrowRight", "s", "ArrowRight", "ArrowRight", "Enter")
    summary(page, "3 pairs")
    press(page, "ArrowLeft", "s", "ArrowRight", "Delete")
    summary(page, "1 pair")
    press(page, "+")
    page.locator("#message", has_text="Select a pair first").wait_for()  # the pair added last is gone
    alike = [q for q in range(2, len(frames)) if np.array_equal(frames[q], frames[5])]
    press(page, "l")
    summary(page, f"{1 + len(alike)} pair")
    settled(page)
    assert saved(hallway, name_of(request), 0) == [[1, q, 1] for q in sorted({3, *alike})]


def test_somewhere_here_is_an_interval(page: Page, hallway: Path, request: pytest.FixtureRequest) -> None:
    press(page, "h", "s", "ArrowRight", "ArrowRight", "Enter")  # p is one of 0 to 2
    page.locator("#view-p .where", has_text="somewhere in 0~2").wait_for()
    press(page, "ArrowRight", "ArrowRight", "s", "ArrowRight", "ArrowRight", "Enter")  # q one of 4 to 6
    summary(page, "1 pair")
    step(page, 9).click()  # and a q that is known
    summary(page, "2 pairs")
    settled(page)
    assert text_of(hallway, name_of(request), 0) == {"4~6": "0~2", "9": "0~2"}
    page.reload()
    expect(page.locator("#pair-list .pair")).to_have_text(["0~2 → 4~6", "0~2 → 9"])
    page.locator('[data-range="somewhere"]').click()
    step(page, 3).click()
    step(page, 5).hover()
    page.mouse.down()
    step(page, 6).hover()
    step(page, 7).hover()
    page.mouse.up()
    summary(page, "3 pairs")
    page.locator("#pair-list li", has_text="0~2 → 9").get_by_title("Remove").click()
    summary(page, "2 pairs")
    settled(page)
    assert text_of(hallway, name_of(request), 0) == {"4~6": "0~2", "5~7": "3"}


def test_undo_is_the_windows_own(page: Page, context: BrowserContext, request: pytest.FixtureRequest) -> None:
    step(page, 1).click()
    step(page, 5).click()
    settled(page)
    second = open_page(context, page.url)
    second.evaluate(f"sessionStorage.setItem('studio.annotator', '{name_of(request)}')")
    second.reload()
    summary(second, "1 pair")
    expect(second.locator("#undo")).to_be_disabled()
    step(second, 2).click()
    step(second, 7).click()
    settled(second)
    page.bring_to_front()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    summary(page, "2 pairs")
    page.keyboard.press("z")
    expect(page.locator("#undo")).to_be_disabled()
    summary(page, "2 pairs")
    second.keyboard.press("z")
    summary(second, "1 pair")


@pytest.fixture(scope="module")
def long_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with studio(
        "annotate", write_toy(tmp_path_factory.mktemp("long") / "toy", (2000,)), "--annotator", "ada"
    ) as running:
        context = browser.new_context(viewport=SMALL)  # type: ignore[arg-type]
        page = open_page(context, running.url)
        on_episode(page, 0)
        yield page
        context.close()


def test_a_long_demonstration_is_scrolled_jumped_and_played(long_page: Page) -> None:
    page = long_page
    assert page.locator(".step").count() < 400  # those in view, and no others
    press(page, "j")
    page.keyboard.type("1500")
    page.keyboard.press("Enter")
    expect(step(page, 1500)).to_be_focused()
    expect(step(page, 1500)).to_be_in_viewport()
    expect(page.locator(".step.is-p")).to_have_count(0)  # it is looked at, not picked
    page.locator("#episode").press("Enter")
    expect(step(page, 1500)).to_be_focused()
    expect(page.locator(".step.is-p")).to_have_count(0)
    press(page, "ArrowRight", "p", "End")
    expect(step(page, 1999)).to_be_focused()
    press(page, "Enter")
    expect(page.locator("#pair-list .pair")).to_have_text(["1501 → 1999"])
    press(page, "i", "i")
    expect(page.locator("#strip")).to_have_attribute("style", "--thumb: 74px;")
    expect(step(page, 1999)).to_be_in_viewport()
    press(page, "o", "o", "Home")
    page.locator("#speed").select_option("40")
    press(page, "v")
    expect(page.locator("#play-back")).to_have_attribute("aria-label", "Pause")
    expect(page.locator("#step")).not_to_have_value("0")
    press(page, "v", "Escape")
    expect(page.locator("#play-back")).to_have_attribute("aria-label", "Play")


def test_a_drag_scrolls(long_page: Page) -> None:
    page = long_page
    press(page, "Home", "Escape")
    step(page, 0).click()
    strip = page.locator("#strip").bounding_box()
    assert strip
    step(page, 30).hover()
    page.mouse.down()
    page.mouse.move(strip["x"] + 20, strip["y"] + strip["height"] - 4, steps=3)
    expect(step(page, 400)).to_be_attached()  # it was far out of view
    page.mouse.up()
    expect(page.locator("#summary")).to_have_text(re.compile(r"^([2-9]\d\d|\d,?\d{3}) pairs"))  # more than 200
    expect(page.locator("#pair-list .pair").first).to_have_text("0 → 30")
