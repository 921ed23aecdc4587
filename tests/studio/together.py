"""Several people on one data set at once, for the test and, for longer, by hand:

python -m tests.studio.together 600
"""

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from attentiontuner.demos.annotations import annotators
from tests.studio.browsing import SMALL, chromium, on_episode, open_page, saved, settled, step, studio

NAMES = ("ada", "bob", "cleo")


def work_together(browser: Browser, root: Path, seconds: float, seed: int = 0) -> Counter[str]:
    """Three browsers mark and unmark pairs for `seconds`; ada and bob on the same demonstrations, cleo on them and on
    others. Afterwards the folder holds what each of them did, to the last pair, and nothing else, and the table shows
    where each of them is. How many changes each of them made."""
    generator, made = random.Random(seed), Counter[str]()
    done: dict[tuple[str, int], set[tuple[int, int]]] = {}
    with studio("annotate", root, "--port", "0") as running:
        pages = {name: _enter(browser, running.url, name) for name in NAMES}
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            name = generator.choice(NAMES)
            page = pages[name]
            if generator.random() < 0.2:
                _open(page, generator.randrange(6) if name == "cleo" else generator.randrange(2))
            episode = int(page.evaluate("location.hash.slice(1)"))
            p, q = sorted(generator.sample(range(12), 2))
            step(page, p).click(modifiers=["Shift"])
            step(page, q).click()
            done.setdefault((name, episode), set()).symmetric_difference_update({(p, q)})
            made[name] += 1
        for page in pages.values():
            settled(page)
            assert not page.locator("#banner").is_visible()
        table = open_page(pages["cleo"].context, f"http://127.0.0.1:{running.port}/table", ".inner .line")
        for name, page in pages.items():
            expect(table.locator("#present")).to_contain_text(f"{name} at {page.evaluate('location.hash.slice(1)')}")
        for page in pages.values():
            page.context.close()
    for (name, episode), pairs in done.items():
        found = saved(root, name, episode) or []
        assert {(p, q) for p, q, _ in found} == pairs, (name, episode)
    assert set(annotators(root)) == {"expert", *(name for name, _ in done)}
    for name in NAMES:
        for episode in range(6):
            assert (name, episode) in done or saved(root, name, episode) is None
    return made


def _enter(browser: Browser, url: str, name: str) -> Page:
    context = browser.new_context(viewport=SMALL)  # type: ignore[arg-type]
    page = open_page(context, url)
    page.evaluate(f"sessionStorage.setItem('studio.annotator', '{name}')")
    page.reload()
    expect(page.locator("#annotator")).to_have_value(name)
    _open(page, 0)
    return page


def _open(page: Page, episode: int) -> None:
    page.locator("#episode").fill(str(episode))
    page.keyboard.press("Enter")
    on_episode(page, episode)


if __name__ == "__main__":
    from tests.studio.conftest import write_toy

    with tempfile.TemporaryDirectory() as folder, chromium() as opened:
        print(dict(work_together(opened, write_toy(Path(folder) / "toy", (12,) * 6), float(sys.argv[1]))))
