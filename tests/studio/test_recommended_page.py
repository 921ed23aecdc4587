"""A memory report in a real browser: its order, its reasons, its pairs, and steps of which no frame tells."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from attentiontuner.demos.annotations import read_annotation
from tests.studio.browsing import BROWSER, Studio, on_episode, open_page, saved, settled, step, studio, summary
from tests.studio.conftest import write_toy
from tests.studio.reports import WHY, one, write_report

pytestmark = BROWSER


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("recommended") / "toys", (12, 20, 5, 30))


@pytest.fixture(scope="module")
def reported(toys: Path) -> Iterator[Studio]:
    found = {3: [one(29, 2), one(25, 0)], 1: [one(9, None), one(15, None)], 0: [one(11, 0)]}
    report = write_report(toys.parent / "report", toys, found, order=(3, 1))
    with studio("annotate", toys, "--suggest", report) as started:
        yield started


@pytest.fixture
def opened(context: BrowserContext, reported: Studio) -> Iterator[Page]:
    page = open_page(context, reported.url)
    yield page
    assert page.complaints == []  # type: ignore[attr-defined]


def test_recommended_demonstrations_are_offered_in_order_with_reasons(opened: Page, toys: Path) -> None:
    page, reason = opened, opened.locator("#reason")
    on_episode(page, 3)
    expect(page.locator("#source option").first).to_have_text("memory report")
    expect(page.locator("#progress-text")).to_have_text("0 annotated, 0 of 2 recommended")
    expect(reason).to_have_text("No. 1 of the 2 to annotate first: demonstration 3 teaches most")
    expect(page.locator('#suggestion-list li[data-pair="0,25"]')).to_contain_text(f"{WHY} 25")
    page.keyboard.press("]")
    expect(reason).to_have_text(f"0 → 25: {WHY} 25")
    step(page, 29).hover()
    expect(reason).to_have_text(f"Step 29: {WHY} 29")
    assert f"suggested as deciding: {WHY} 29" in str(step(page, 29).get_attribute("aria-label"))
    page.keyboard.press("a")
    summary(page, "2 pairs, 2 of them suggested")
    settled(page)
    annotation = read_annotation(toys, "human", 3)
    assert annotation is not None
    assert annotation.origins == {"memory-report": {(2, 29), (0, 25)}}
    page.locator("#next-recommended").click()
    on_episode(page, 1)
    expect(page.locator("#progress-text")).to_have_text("1 annotated, 1 of 2 recommended")

    # Of these steps no frame tells: one is marked as deciding, and the person looks for what was recalled.
    rows = page.locator("#suggestion-list li[data-deciding]")
    expect(rows).to_have_count(2)
    page.keyboard.press("]")
    expect(reason).to_have_text(f"Step 9: {WHY} 9")
    expect(page.locator("#hint")).to_contain_text("Deciding: step 9")
    step(page, 4).click()
    summary(page, "1 pair")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"{WHY} 15")
    settled(page)
    assert saved(toys, "human", 1) == [[4, 9, 1]]
    page.keyboard.press("e")
    expect(page.locator("#message")).to_have_text("All 2 recommended demonstrations are annotated.")


def test_the_table_has_rank_and_reason(opened: Page) -> None:
    page = opened
    page.locator("#to-table").click()
    cells = page.locator(".inner .line:not([hidden]) .recommended")
    expect(cells).to_have_text(["", "2 · demonstration 1 teaches most", "", "1 · demonstration 3 teaches most"])
    page.get_by_role("button", name="Recommended").click()
    expect(cells).to_have_text(["1 · demonstration 3 teaches most", "2 · demonstration 1 teaches most", "", ""])
    page.locator("#show").select_option("recommended")
    expect(cells).to_have_count(2)
