"""Suggested pairs in a real browser."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from attentiontuner.demos.annotations import read_annotations
from tests.studio.browsing import BROWSER, experts, interactions, name_of, on_episode, saved, settled, summary

pytestmark = BROWSER


def test_good_suggestions_take_three_interactions(page: Page, hallway: Path, request: pytest.FixtureRequest) -> None:
    before = interactions(page, total=True)
    for episode in range(3):
        on_episode(page, episode)
        page.keyboard.press("a")
        summary(page, f"{len(experts(hallway, episode))} pair")
        page.keyboard.press("n")
    on_episode(page, 3)
    settled(page)
    assert (interactions(page, total=True) - before) / 3 <= 3
    labels = read_annotations(hallway, name_of(request))
    assert sorted(labels) == [0, 1, 2]
    for episode, annotation in labels.items():
        assert np.asarray(annotation.pairs).tolist() == experts(hallway, episode)
        assert annotation.origins == {"labels:expert": {(p, q) for p, q, _ in experts(hallway, episode)}}
        assert annotation.seconds > 0


def test_suggestions_one_by_one(page: Page, hallway: Path, request: pytest.FixtureRequest) -> None:
    rows = page.locator("#suggestion-list li[data-pair]")
    first = experts(hallway, 0)[0]
    expect(rows).not_to_have_count(0)
    total = rows.count()
    assert total >= 3
    assert saved(hallway, name_of(request), 0) is None
    page.get_by_label(f"Accept {first[0]} to {first[1]}", exact=True).click()
    summary(page, "1 pair, 1 of them suggested")
    page.keyboard.press("]")
    page.keyboard.press("]")
    page.keyboard.press("Delete")
    expect(rows).to_have_count(total - 2)
    page.keyboard.press("Enter")
    summary(page, "2 pairs")
    page.keyboard.press("z")
    expect(rows).to_have_count(total - 2)
    rows.last.get_by_title("Reject").click()
    expect(rows).to_have_count(total - 3)
    page.keyboard.press("z")
    expect(rows).to_have_count(total - 2)
    page.keyboard.press("x")
    page.locator("#suggestion-list", has_text="All of them are dealt with").wait_for()
    page.keyboard.press("z")
    expect(rows).to_have_count(total - 2)
    settled(page)
    assert saved(hallway, name_of(request), 0) == [first]
    page.locator("#following").click()
    on_episode(page, 1)
    page.locator("#source").select_option("before")
    page.locator(f'#suggestion-list li[data-pair="{first[0]},{first[1]}"]').wait_for()
