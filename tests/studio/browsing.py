"""A real studio in a process of its own, and a real Chromium in front of it. Used by the tests and the benchmark."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from attentiontuner.demos.annotations import read_annotation

CHROMIUM = Path("/usr/bin/chromium")
BROWSER = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's chromium")]
"""The marks of tests that drive one."""

INSTRUCTED = "localStorage.setItem('studio.instructed', localStorage.getItem('studio.instructed') ?? '[\"*\"]')"
SMALL, LARGE = {"width": 1280, "height": 800}, {"width": 1920, "height": 1080}


class Studio:
    """`attentiontuner annotate …` or `play …` as a user starts it."""

    def __init__(self, *words: str | Path) -> None:
        self.words = [str(word) for word in words]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "attentiontuner", *self.words, "--no-browser"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\S+", line)
        assert found, f"the studio printed {line!r}"
        self.url, self.port = found.group(), int(found.group(1))

    def kill(self) -> None:
        """As if the power failed: no chance to tidy up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


@contextmanager
def studio(*words: str | Path) -> Iterator[Studio]:
    running = Studio(*words)
    try:
        yield running
    finally:
        running.kill()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of somebody who has read the instructions of every task."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        fresh = browser.new_context

        def new_context(**options: Any) -> BrowserContext:
            context = fresh(**options)
            context.add_init_script(INSTRUCTED)
            return context

        browser.new_context = new_context  # type: ignore[method-assign]
        browser.new_page = lambda **options: new_context(**options).new_page()  # type: ignore[method-assign]
        yield browser
        browser.close()


def open_page(context: Any, url: str, selector: str = ".step") -> Page:
    """A page on `url`, ready; what it complains about is collected in `page.complaints`."""
    page: Page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.complaints = complaints  # type: ignore[attr-defined]
    page.goto(url)
    page.wait_for_selector(selector)
    return page


def step(page: Page, number: int) -> Any:
    return page.locator(f'.step[data-step="{number}"]')


def settled(page: Page) -> None:
    """Wait until everything that was done is shown as saved."""
    page.locator('#save-state[data-state="saved"]').wait_for()


def summary(page: Page, text: str) -> None:
    """Wait until the card of this demonstration says `text`."""
    page.locator("#summary", has_text=text).wait_for()


def on_episode(page: Page, number: int) -> None:
    """Wait until demonstration `number` is open, its suggestions too."""
    page.wait_for_selector(f'#suggestions[data-episode="{number}"]', state="attached")


def interactions(page: Page, total: bool = False) -> int:
    """How many clicks and keys the page itself has counted on this demonstration (or in all)."""
    return int(page.evaluate(f"document.documentElement.dataset.{'totalInteractions' if total else 'interactions'}"))


def name_of(request: pytest.FixtureRequest) -> str:
    """The annotator of a test."""
    return str(request.node.originalname)[5:60]


def saved(root: Path, annotator: str, episode: int) -> list[list[int]] | None:
    found = read_annotation(root, annotator, episode)
    return None if found is None else np.asarray(found.pairs).tolist()


def experts(root: Path, episode: int) -> list[list[int]]:
    pairs = saved(root, "expert", episode)
    assert pairs
    assert {p for p, _, _ in pairs} == {1}
    return pairs
