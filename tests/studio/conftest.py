"""Small data sets to annotate, and the studio as a client and as a browser sees it."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page
from starlette.testclient import TestClient

from attentiontuner.collecting.episode import record_episode
from attentiontuner.core.seeds import demonstration_seed
from attentiontuner.demos import Demonstration, PairTable
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.server import create_app, guarded
from attentiontuner.tasks.paper import MINIGRID_ACTIONS, MINIGRID_VIEW
from attentiontuner.tasks.task import get_task
from tests.studio.browsing import SMALL, Studio, chromium, name_of, on_episode, open_page, studio

TOKEN, PORT = "secret-of-this-launch", 8765
HALLWAY_SETTINGS = {"length": 18}
HALLWAY_EPISODES = 8


def toy_demonstrations(lengths: tuple[int, ...]) -> list[Demonstration]:
    """Random views with one pair each: the first step is recalled at the last."""
    generator = np.random.default_rng(7)
    return [
        Demonstration(
            observations=generator.integers((1, 0, 0), (4, 2, 1), (length, 7, 7, 3)).astype(np.uint8),
            actions=generator.integers(0, 3, length),
            rewards=np.zeros(length, np.float32),
            terminated=True,
            truncated=False,
            seed=number,
            success=True,
            pairs=PairTable.of([(0, length - 1)], length),
        )
        for number, length in enumerate(lengths)
    ]


def write_toy(root: Path, lengths: tuple[int, ...] = (12, 20, 5)) -> Path:
    writer = DemoWriter(
        root, task="hallway", settings={}, observation=MINIGRID_VIEW, actions=MINIGRID_ACTIONS, seed=None
    )
    writer.append(toy_demonstrations(lengths), annotator="expert")
    return root


def write_hallway(root: Path, episodes: int) -> Path:
    """Hallway as its scripted expert walks it."""
    task = get_task("hallway", HALLWAY_SETTINGS)
    env = task.make_env()
    writer = DemoWriter(
        root,
        task=task.name,
        settings=dict(task.settings),
        observation=task.observation,
        actions=task.actions,
        seed=None,
    )
    recorded = [record_episode(task, env, demonstration_seed(0, index)) for index in range(episodes)]
    writer.append([one.demonstration.with_pairs(one.pairs["expert"]) for one in recorded], annotator="expert")
    return root


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_toy(tmp_path / "toy")


@pytest.fixture
def client(toy: Path) -> Iterator[TestClient]:
    """A page that was opened with the token."""
    app = guarded(create_app(Desk(toy), annotator="ada"), TOKEN, "127.0.0.1", PORT)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", cookies={f"studio_{PORT}": TOKEN}) as opened:
        yield opened


# --- in a real browser -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def hallway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hallway(tmp_path_factory.mktemp("studio") / "hallway", HALLWAY_EPISODES)


@pytest.fixture(scope="module")
def running(hallway: Path) -> Iterator[Studio]:
    with studio("annotate", hallway) as started:
        yield started


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport=SMALL)
    opened.set_default_timeout(15_000)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, running: Studio, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The demonstration the test asks for, for an annotator of the test's own name."""
    number = getattr(request, "param", 0)
    opened = open_page(context, running.url)
    opened.evaluate(f"sessionStorage.setItem('studio.annotator', '{name_of(request)}')")
    opened.goto(f"http://127.0.0.1:{running.port}/#{number}")
    opened.reload()
    opened.wait_for_selector(".step")
    on_episode(opened, number)
    yield opened
    assert opened.complaints == []  # type: ignore[attr-defined]
