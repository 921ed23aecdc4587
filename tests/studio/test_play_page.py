"""Playing in a real browser: an LTMB and a Memory Gym episode, annotated, then trained on."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from attentiontuner.cli import main
from attentiontuner.collecting.episode import record_episode
from attentiontuner.demos.annotations import read_annotation
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.suggest import Suggester
from attentiontuner.studio.times import read_playing
from attentiontuner.tasks.task import Task, get_task
from tests.studio.browsing import BROWSER, SMALL, open_page, step, studio, summary

pytestmark = BROWSER

TINY_NETWORK = ["--d-model", "16", "--layers", "1", "--model-heads", "1", "--feedforward", "16"]


def expert_keys(task: Task, seed: int) -> list[str]:
    """The keys a person who knows the way would press."""
    key_of = {action: key for key, action in task.keys.items()}
    demonstration = record_episode(task, task.make_env(), seed).demonstration
    return [key_of[int(action)] for action in demonstration.actions]


def press(page: Page, keys: list[str]) -> None:
    made = int(page.evaluate("document.documentElement.dataset.step"))
    for key in keys:
        page.keyboard.press("Space" if key == " " else key)
    page.wait_for_selector(f'html[data-step="{made + len(keys)}"]')


def play_to_the_end(page: Page, task: Task, episodes: int) -> None:
    """One episode begun and undone, then played to its end and saved; then the next ones."""
    first = expert_keys(task, 0)
    press(page, first[:2])
    page.keyboard.press("Backspace")
    page.locator("#sure-yes").click()
    page.wait_for_selector('html[data-step="0"]')
    press(page, first)
    page.locator("#status", has_text="Solved").wait_for()
    page.keyboard.press("Enter")
    page.locator("#save-state", has_text="saved as demonstration 0").wait_for()
    for seed in range(1, episodes):
        page.wait_for_selector('html[data-step="0"]')
        page.locator("#subtitle", has_text=f"seed {seed}").wait_for()
        press(page, expert_keys(task, seed))
        page.locator("#save").click()
        page.locator("#save-state", has_text=f"saved as demonstration {seed}").wait_for()


@pytest.mark.parametrize(("name", "settings", "episodes"), [("hallway", {"length": 3}, 2), ("mortar-mayhem", {}, 1)])
def test_play_annotate_and_train(
    browser: Browser, tmp_path: Path, name: str, settings: dict[str, int], episodes: int
) -> None:
    data, task = tmp_path / "played", get_task(name, settings)
    if task.needs is not None:
        pytest.importorskip(task.needs[0], reason=f"needs the package {task.needs[0]}")
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    context = browser.new_context(viewport=SMALL)  # type: ignore[arg-type]
    with studio("play", name, "--out", data, "--player", "ada", *options) as running:
        page = open_page(context, running.url, "[data-key]")
        play_to_the_end(page, task, episodes)
        page.locator("#annotate").click()
        step(page, 1).click()
        step(page, 4).click()
        step(page, 5).click()
        summary(page, "2 pairs")
        page.locator('#save-state[data-state="saved"]').wait_for()
        assert page.complaints == []  # type: ignore[attr-defined]
    context.close()
    store = DemoStore.open(data)
    assert [demonstration.seed for demonstration in store] == list(range(episodes))
    assert all(demonstration.success for demonstration in store)
    timed = [(episode, who) for episode, who, seconds in read_playing(data) if seconds > 0]
    assert timed == [(episode, "ada") for episode in range(episodes)]
    annotation = read_annotation(data, "ada", 0)
    assert annotation is not None
    assert np.asarray(annotation.pairs).tolist() == [[1, 4, 1], [1, 5, 1]]
    train_on(name, data, tmp_path / "run")
    if episodes > 1:
        suggest_from(tmp_path / "run", data)


def train_on(name: str, data: Path, run: Path) -> None:
    words = ["train", name, "--data", str(data), "--out", str(run), "--annotator", "ada", "--epochs", "1"]
    assert main([*words, *TINY_NETWORK, "--test-fraction", "0", "--device", "cpu"]) == 0
    assert (run / "model.safetensors").is_file()


def suggest_from(run: Path, data: Path) -> None:
    """With a threshold of 0 the run's attention recalls every earlier step."""
    suggested = Suggester(Desk(data), run, threshold=0.0).suggest("ada", 0, "run")
    length = len(DemoStore.open(data)[0])
    assert len(suggested) == length * (length - 1) // 2


def test_seeds_and_keys_on_screen(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(viewport=SMALL)  # type: ignore[arg-type]
    words = ("--set", "length=3", "--seeds", "11", "12")
    with studio("play", "hallway", "--out", tmp_path / "played", *words) as running:
        page = open_page(context, running.url, "[data-key]")
        assert page.locator("#subtitle").text_content() == "seed 11"
        assert page.locator("#keys li").count() == len(get_task("hallway").keys)
        for width, height in ((800, 600), (640, 400), (390, 844), (1280, 800)):
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#keys button").first.click()
        page.wait_for_selector('html[data-step="1"]')
        page.locator("#seed").fill("40")
        page.locator("#start").click()
        page.locator("#sure-yes").click()
        page.locator("#subtitle", has_text="seed 40").wait_for()
        page.keyboard.press("n")
        page.locator("#subtitle", has_text="seed 11").wait_for()
        assert page.locator("#ended").is_hidden()
        assert page.complaints == []  # type: ignore[attr-defined]
    context.close()


def test_in_real_time_a_held_key_goes_on(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(viewport=SMALL)  # type: ignore[arg-type]
    words = ("--set", "length=6", "--realtime", "20")
    with studio("play", "hallway", "--out", tmp_path / "played", *words) as running:
        page = open_page(context, running.url, "[data-key]")
        page.keyboard.down("ArrowLeft")
        expect(page.locator("html")).to_have_attribute("data-step", re.compile(r"[3-9]|\d\d"))
        page.keyboard.up("ArrowLeft")
        page.wait_for_timeout(1000)  # what is on its way may still arrive
        stopped = page.evaluate("document.documentElement.dataset.step")
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.dataset.step") == stopped
    context.close()
