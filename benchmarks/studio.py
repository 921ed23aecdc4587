"""The studio in a real browser: how soon frames appear, a key is answered and a click is saved, how many clicks
and keys a pair and a demonstration take, in episodes of 20,000 steps too.

Needs Debian's chromium. Interactions are counted by the page itself.
"""

import statistics
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page
from tests.studio.browsing import (
    CHROMIUM,
    LARGE,
    SMALL,
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
from attentiontuner.tasks.task import Task, get_task
from benchmarks import Row

LONGEST = 145
EPISODES = 8
CLICKS = 20
LONG = (2000, 20_000)
PAIRS_IN_LONG = 1000
MOVES = 30


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
            rows = [
                Row(f"{LONGEST} frames on screen, first demonstration", first / 1000, "s", "< 0.5 s"),
                Row(f"{LONGEST} frames on screen, the next ones", statistics.median(later) / 1000, "s", "< 0.5 s"),
                Row("click on q until shown as saved", _click_until_saved(page), "ms"),
                Row("interactions per pair by mouse", _by_mouse(page, data, 4), "", "<= 2"),
                Row("interactions per pair by keyboard", _by_keyboard(page, data, 5), "", "<= 2"),
                Row("interactions per demonstration with good suggestions", _with_suggestions(page, data), "", "<= 3"),
            ]
            page.close()
        return [*rows, *_by_hand(Path(folder), browser), *_long(Path(folder), browser)]


def _by_hand(folder: Path, browser: Browser) -> list[Row]:
    """Whole demonstrations of three tasks marked as their experts would, by hand; each must come out as theirs."""
    rows = []
    for name, mark, unit, bar in (
        ("searing-spotlights", _mark_everything_before, "a demonstration", "<= 6"),
        ("hallway", _mark_at_a_distance, "a demonstration", "<= 4"),
        ("counting", _mark_by_q, "a pair", "<= 2"),
    ):
        task = get_task(name)
        if task.needs is not None and find_spec(task.needs[0]) is None:
            continue
        data = _recorded(folder / f"by-hand-{name}", task, 3)
        with studio("annotate", data, "--port", "0") as running:
            page = open_page(browser.new_context(viewport=LARGE), running.url)  # type: ignore[arg-type]
            if name == "counting":
                page.locator('[data-keep="q"]').click()
            counts = []
            for episode in range(3):
                _go_to(page, episode)
                expected, before = _expected(data, episode), interactions(page)
                mark(page, expected)
                summary(page, f"{len(expected)} pair")
                settled(page)
                made = read_annotation(data, "human", episode)
                assert made is not None
                assert np.asarray(made.pairs).tolist() == expected
                done = interactions(page) - before
                counts.append(done / len(expected) if unit == "a pair" else done)
            rows.append(Row(f"interactions {unit} by hand, {task.title}", statistics.mean(counts), "", bar))
            page.close()
    return rows


def _mark_everything_before(page: Page, expected: list[list[int]]) -> None:
    for key in ("s", "End", "b"):
        page.keyboard.press(key)


def _mark_at_a_distance(page: Page, expected: list[list[int]]) -> None:
    for number in (expected[0][0], expected[0][1], expected[1][1]):
        step(page, number).click()
    page.keyboard.press("Shift+R")


def _mark_by_q(page: Page, expected: list[list[int]]) -> None:
    last = None
    for p, q, times in expected:
        if q != last:
            step(page, q).click()
        step(page, p).click()
        for _ in range(times - 1):
            page.keyboard.press("+")
        last = q


def _long(folder: Path, browser: Browser) -> list[Row]:
    """Opening and moving about in long episodes with many pairs, every frame another one."""
    rows = []
    task, generator = get_task("hallway"), np.random.default_rng(0)
    for length in LONG:
        pairs = (
            generator.integers(0, length // 2, PAIRS_IN_LONG),
            generator.integers(length // 2, length, PAIRS_IN_LONG),
        )
        long = Demonstration(
            observations=generator.integers((1, 0, 0), (4, 2, 1), (length, 7, 7, 3)).astype(np.uint8),
            actions=generator.integers(0, 3, length),
            seed=length,
            pairs=PairTable.of(np.column_stack(pairs).tolist(), length),
        )
        other = replace(long, observations=long.observations[::-1], pairs=PairTable.of([(1, 9)], length))
        data = _written(folder / f"long-{length}", task, [long, other])
        with studio("annotate", data, "--port", "0") as running:
            page = open_page(browser.new_context(viewport=SMALL), running.url)  # type: ignore[arg-type]
            on_episode(page, 0)
            rows.append(
                Row(f"{length:,} steps: opening the first, as soon as the studio is up", _opened(page) / 1000, "s")
            )
            _go_to(page, 1)
            rows.append(Row(f"{length:,} steps: opening another", _opened(page) / 1000, "s", "<= 1 s"))
            _go_to(page, 0)
            page.keyboard.press("a")
            settled(page)
            rows.append(
                Row(f"{length:,} steps, {PAIRS_IN_LONG:,} pairs: an arrow key", _arrow_key(page), "ms", "<= 30")
            )
            page.close()
    return rows


def _arrow_key(page: Page) -> float:
    """Median milliseconds from the key until the page that answers it is drawn."""
    page.evaluate(
        """() => {
            window.moves = [];
            addEventListener('keydown', () => {
                const pressed = performance.now();
                requestAnimationFrame(() => setTimeout(() => window.moves.push(performance.now() - pressed)));
            }, true);
        }"""
    )
    for move in range(MOVES):
        page.keyboard.press("ArrowRight" if move % 3 else "ArrowDown")
        page.wait_for_timeout(60)
    return float(statistics.median(page.evaluate("window.moves")))


def _written(root: Path, task: Task, demonstrations: list[Demonstration]) -> Path:
    writer = DemoWriter(
        root,
        task=task.name,
        settings=dict(task.settings),
        observation=task.observation,
        actions=task.actions,
        seed=None,
    )
    writer.append(demonstrations, annotator="expert")
    return root


def _recorded(root: Path, task: Task, episodes: int) -> Path:
    """The first episodes of a task as its expert plays it."""
    env = task.make_env()
    recorded = [record_episode(task, env, demonstration_seed(0, index)) for index in range(episodes)]
    return _written(root, task, [one.demonstration.with_pairs(one.pairs["expert"]) for one in recorded])


def _hallway(root: Path) -> Path:
    """Hallway by its expert; the first four demonstrations are lengthened to the horizon with another one's frames."""
    task = get_task("hallway")
    env = task.make_env()
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
    return _written(root, task, [*long, *whole])


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
        settled(page)
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
