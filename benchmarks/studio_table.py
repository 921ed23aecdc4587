"""The studio's table of ten thousand demonstrations in a real browser: how soon it is there, and how soon it answers.

Needs Debian's chromium.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Page
from tests.studio.browsing import CHROMIUM, LARGE, chromium, open_page, studio

from attentiontuner.demos import Demonstration, PairTable
from attentiontuner.demos.annotations import Annotation, write_shard_annotations
from attentiontuner.demos.store.manifest import read_manifest
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.spaces import ObservationSpec
from benchmarks import Row

COUNT = 10_000
TIMES = 20

UNTIL_SEEN = """async (does) => {
    const took = [];
    for (const what of does) {
        const started = performance.now();
        const grid = document.querySelector('#grid');
        if (what.key) grid.dispatchEvent(new KeyboardEvent('keydown', { key: what.key, bubbles: true }));
        else if (what.sort) document.querySelector(`.head .${what.sort} button`).click();
        else {
            document.querySelector('#text').value = what.text;
            document.querySelector('#text').dispatchEvent(new Event('input'));
        }
        await new Promise((seen) => requestAnimationFrame(() => setTimeout(seen)));
        took.push(performance.now() - started);
        await new Promise((rested) => setTimeout(rested, 60));
    }
    return took;
}"""
"""Milliseconds from each of some keys, clicks and words until the next picture is on the screen."""


def bench() -> list[Row]:
    if not CHROMIUM.exists():
        return []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        data = made_data(Path(folder) / "many")
        with studio("annotate", data, "--port", "0") as running:
            page = open_page(browser.new_context(viewport=LARGE), running.url)  # type: ignore[arg-type]
            address = f"http://127.0.0.1:{running.port}/table"
            first, again = _opened(page, address), _opened(page, address)
            rows = f"table of {COUNT:,} rows"
            keys = _took(page, [{"key": "PageDown"}] * TIMES)
            sorts = _took(page, [{"sort": column} for column in ("length", "pairs", "agreement", "note")])
            words = _took(page, [{"text": text} for text in ("d", "do", "door", "door o", "")])
            return [
                Row(f"{rows}, opened at first", first, "s", "< 3 s"),
                Row(f"{rows}, opened again", again, "s", "< 1 s"),
                Row(f"{rows}, a screen further", keys, "ms", "< 50 ms"),
                Row(f"{rows}, sorted", sorts, "ms", "< 150 ms"),
                Row(f"{rows}, searched, a letter", words, "ms", "< 150 ms"),
            ]


def _took(page: Page, does: list[dict[str, str]]) -> float:
    return float(statistics.median(page.evaluate(UNTIL_SEEN, does)))


def _opened(page: Page, address: str) -> float:
    """Seconds until rows are on the screen."""
    started = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(".inner .line")
    return time.perf_counter() - started


def made_data(root: Path) -> Path:
    """Demonstrations of a few numbers; the expert has annotated all of them, ada and bob one half each, with notes."""
    generator = np.random.default_rng(0)
    writer = DemoWriter(root, task="many", observation=ObservationSpec("vector", (4,)), actions=("left", "right"))
    for _ in range(0, COUNT, 250):
        made = []
        for length in generator.integers(10, 60, 250).tolist():
            seen = generator.normal(size=(length, 4)).astype(np.float32)
            pairs = PairTable.of([(1, q) for q in range(5, length, 4)], length)
            made.append(Demonstration(seen, np.zeros(length, np.int64), pairs=pairs))
        writer.append(made, annotator="expert")
    for shard in read_manifest(root).readable_shards():
        for name in ("ada", "bob"):
            lines = {}
            for episode in range(shard.first, shard.end):
                if generator.random() < 0.5:
                    length = shard.lengths[episode - shard.first]
                    pairs = PairTable.of([(int(generator.integers(1, 3)), q) for q in range(5, length, 4)], length)
                    note = "the door was odd" if generator.random() < 0.1 else ""
                    lines[episode] = Annotation(pairs, note=note, seconds=9.0, revision=1)
            write_shard_annotations(root, name, shard.index, lines)
    return root
