"""The studio in a real browser: how soon frames appear and a click is saved, how many clicks and keys a pair takes.

Needs Debian's chromium. Interactions are counted by the page itself.
"""

import statistics
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Page
from tests.studio.browsing import (
    CHROMIUM,
    LARGE,
    chromium,
    interactions,
    on_episode,
    open_page,
    settled,
    step,
    studio,
    summary,
)

from attentiontuner.collecting.episode import record_episode
from attentiontuner.core.seeds import demonstration_seed
from attentiontuner.demos import Demonstration, PairTable
from attentiontuner.demos.annotations import read_annotation
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.tasks.task import get_task
from benchmarks import Row

LONGEST = 145
EPISODES = 8
CLICKS = 20


def bench() -> list[Row]:
    if not CHROMIUM.exists():
        return []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        data = _hallway(Path(folder) / "hallway")
        with studio("annotate", data, "--port", "0") as running:
            page = open_page(browser.new_context(viewport=LARGE), running.url)  # type: ignore[arg-type]
            on_episode(page, 0)
            first = _opened(page)
            later = []
            for episode in range(1, 4):
                _go_to(page, episode)
                later.append(_opened(page))
            return [
                Row(f"{LONGEST} frames on screen, first demonstration", first / 1000, "s", "< 0.5 s"),
                Row(f"{LONGEST} frames on screen, the next ones", statistics.median(later) / 1000, "s", "< 0.5 s"),
                Row("click on q until shown as saved", _click_until_saved(page), "ms"),
                Row("interactions per pair by mouse", _by_mouse(page, data, 4), "", "<= 2"),
                Row("interactions per pair by keyboard", _by_keyboard(page, data, 5), "", "<= 2"),
                Row("interactions per demonstration with good suggestions", _with_suggestions(page, data), "", "<= 3"),
            ]


def _hallway(root: Path) -> Path:
    """Hallway by its expert; the first four demonstrations are lengthened to the horizon with another one's frames."""
    task = get_task("hallway")
    env = task.make_env()
    writer = DemoWriter(
        root,
        task=task.name,
        settings=dict(task.settings),
        observation=task.observation,
        actions=task.actions,
        seed=None,
    )
    recorded = [record_episode(task, env, demonstration_seed(0, index)) for index in range(EPISODES + 8)]
    frames = np.concatenate([one.demonstration.observations for one in recorded[EPISODES:]])
    actions = np.concatenate([one.demonstration.actions for one in recorded[EPISODES:]])
    long = [
        Demonstration(
            observations=frames[start : start + LONGEST],
            actions=actions[start : start + LONGEST],
            rewards=np.zeros(LONGEST, np.float32),
            terminated=False,
            truncated=True,
            seed=start,
            success=False,
            pairs=PairTable.of([(1, 9)], LONGEST),
        )
        for start in (0, 90, 180, 270)
    ]
    whole = [one.demonstration.with_pairs(one.pairs["expert"]) for one in recorded[:EPISODES]]
    writer.append([*long, *whole], annotator="expert")
    return root


def _opened(page: Page) -> float:
    """Milliseconds from asking for the demonstration until its frames were on the screen."""
    page.wait_for_selector("html[data-opened-ms]")
    return float(page.evaluate("document.documentElement.dataset.openedMs"))


def _go_to(page: Page, episode: int) -> None:
    page.evaluate("delete document.documentElement.dataset.openedMs")
    page.locator("#episode").fill(str(episode))
    page.keyboard.press("Enter")
    on_episode(page, episode)


def _click_until_saved(page: Page) -> float:
    """Median milliseconds, measured in the page from the release of the button to `saved`."""
    page.evaluate(
        """() => {
            window.saves = [];
            let pressed = 0;
            addEventListener('pointerup', () => { pressed = performance.now() }, true);
            new MutationObserver(() => {
                if (document.querySelector('#save-state').dataset.state === 'saved' && pressed) {
                    window.saves.push(performance.now() - pressed);
                    pressed = 0;
                }
            }).observe(document.querySelector('#save-state'), { attributes: true });
        }"""
    )
    step(page, 1).click()
    for q in range(3, 3 + CLICKS):
        step(page, q).click()
        summary(page, f"{q - 2} pair")
    return float(statistics.median(page.evaluate("window.saves")))


def _expected(data: Path, episode: int) -> list[list[int]]:
    annotation = read_annotation(data, "expert", episode)
    assert annotation is not None
    pairs: list[list[int]] = np.asarray(annotation.pairs).tolist()
    return pairs


def _by_mouse(page: Page, data: Path, episode: int) -> float:
    _go_to(page, episode)
    expected, before = _expected(data, episode), interactions(page)
    step(page, expected[0][0]).click()
    for _, q, _ in expected:
        step(page, q).click()
    return _per_pair(page, data, episode, before)


def _by_keyboard(page: Page, data: Path, episode: int) -> float:
    """Mark p, add the first two pairs, then repeat their distance."""
    _go_to(page, episode)
    expected, before, cursor = _expected(data, episode), interactions(page), expected_p(data, episode)
    for _ in range(cursor):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("p")
    for _, q, _ in expected[:2]:
        for _ in range(q - cursor):
            page.keyboard.press("ArrowRight")
        cursor = q
        page.keyboard.press("Enter")
    for _ in expected[2:]:
        page.keyboard.press("r")
    return _per_pair(page, data, episode, before)


def expected_p(data: Path, episode: int) -> int:
    """The step every pair of the Hallway expert recalls."""
    (p,) = {p for p, _, _ in _expected(data, episode)}
    return p


def _per_pair(page: Page, data: Path, episode: int, before: int) -> float:
    expected = _expected(data, episode)
    summary(page, f"{len(expected)} pair")
    settled(page)
    made = read_annotation(data, "human", episode)
    assert made is not None
    assert np.asarray(made.pairs).tolist() == expected
    return (interactions(page) - before) / len(expected)


def _with_suggestions(page: Page, data: Path) -> float:
    """Accept all, go to the next: three demonstrations in a row."""
    _go_to(page, 6)
    before = interactions(page, total=True)
    for episode in (6, 7, 8):
        on_episode(page, episode)
        page.keyboard.press("a")
        summary(page, f"{len(_expected(data, episode))} pair")
        page.keyboard.press("n")
    on_episode(page, 9)
    return (interactions(page, total=True) - before) / 3
