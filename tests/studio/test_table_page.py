"""The table, the progress page and the instructions in a real browser."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from attentiontuner.demos.annotations import Annotation, read_annotations, write_annotation
from attentiontuner.demos.pairs import PairTable
from attentiontuner.studio.review import read_review
from tests.studio.browsing import BROWSER, SMALL, Studio, on_episode, open_page, studio
from tests.studio.conftest import write_toy
from tests.studio.together import work_together

pytestmark = BROWSER

COUNT = 300


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hundred demonstrations of 5 to 24 steps; ada has annotated three of them, and flagged one."""
    root = write_toy(tmp_path_factory.mktemp("table") / "toy", tuple(5 + 7 * n % 20 for n in range(COUNT)))
    for episode, pairs in ((3, [(0, 4)]), (120, [(0, 3)]), (250, [(0, 14), (1, 3)])):
        length = 5 + 7 * episode % 20
        remark = {"note": "the door is odd", "flagged": True} if episode == 120 else {}
        write_annotation(root, "ada", episode, Annotation(PairTable.of(pairs, length), seconds=9.0, **remark))  # type: ignore[arg-type]
    return root


@pytest.fixture(scope="module")
def running(data: Path) -> Iterator[Studio]:
    with studio("annotate", data, "--annotator", "ada") as started:
        yield started


@pytest.fixture
def table(context: BrowserContext, running: Studio) -> Iterator[Page]:
    page = open_page(context, running.url)
    page.goto(f"http://127.0.0.1:{running.port}/table")
    line(page, 0).wait_for()
    yield page
    assert page.complaints == []  # type: ignore[attr-defined]


def line(page: Page, episode: int):  # type: ignore[no-untyped-def]
    return page.locator(f'.inner .line[data-episode="{episode}"]:visible')


def shown(page: Page, text: str) -> None:
    """Wait until the line above the table says how many demonstrations are shown."""
    expect(page.locator("#count")).to_have_text(text)


def test_only_what_is_in_view_is_drawn(table: Page) -> None:
    asked: list[str] = []
    table.on("request", lambda request: asked.append(request.url) if "glance" in request.url else None)
    shown(table, f"{COUNT} demonstrations")
    assert table.locator(".inner .line").count() < 40
    assert table.locator("#grid").get_attribute("aria-rowcount") == str(COUNT + 1)
    table.locator("#grid").focus()
    table.keyboard.press("End")
    line(table, COUNT - 1).wait_for()
    assert line(table, COUNT - 1).get_attribute("aria-selected") == "true"
    assert table.locator(".inner .line").count() < 40
    picture = line(table, COUNT - 1).locator("img")
    expect(picture).to_have_attribute("src", re.compile("/299/glance"))
    picture.evaluate("image => image.decode()")
    # What was scrolled past was never asked for.
    assert not any(f"/{number}/glance" in url for url in asked for number in range(40, 250))


def test_sorting_filtering_searching_and_going_on(table: Page) -> None:
    def first() -> str:
        return table.locator('.inner .line[data-row="0"]').get_attribute("data-episode") or ""

    table.locator(".head .length button").click()
    table.locator(".head .length button").click()
    expect(table.locator(".head .length")).to_have_attribute("aria-sort", "descending")
    expect(table.locator('.inner .line[data-row="0"] .length')).to_have_text("24")
    table.locator("#who").select_option("ada")
    table.locator("#show").select_option("annotated")
    shown(table, f"3 of {COUNT} demonstrations")
    table.locator("#text").fill("DOOR odd")
    shown(table, f"1 of {COUNT} demonstrations")
    assert first() == "120"
    table.locator("#text").fill("")
    table.locator("#numbers").fill("0-9, 240-")
    shown(table, f"2 of {COUNT} demonstrations")
    table.locator("#everything").click()
    table.locator(".head .number button").click()
    table.locator("#grid").focus()
    table.keyboard.press("f")
    expect(line(table, 120)).to_have_attribute("aria-selected", "true")
    table.keyboard.press("d")
    expect(line(table, 250)).to_have_attribute("aria-selected", "true")
    table.locator("#who").select_option("ada")
    table.keyboard.press("Escape")
    table.keyboard.press("u")
    expect(line(table, 251)).to_have_attribute("aria-selected", "true")


def test_to_a_demonstration_and_back(table: Page, running: Studio) -> None:
    table.locator("#show").select_option("disagreeing")
    shown(table, f"3 of {COUNT} demonstrations")
    table.locator("#show").blur()
    table.keyboard.press("ArrowDown")
    table.keyboard.press("ArrowDown")
    table.keyboard.press("Enter")
    on_episode(table, 120)
    table.keyboard.press("m")
    shown(table, f"3 of {COUNT} demonstrations")
    expect(line(table, 120)).to_have_attribute("aria-selected", "true")
    line(table, 250).locator(".number a").click()
    on_episode(table, 250)
    table.go_back()
    shown(table, f"3 of {COUNT} demonstrations")
    table.goto(f"http://127.0.0.1:{running.port}/table#200")
    table.reload()
    expect(line(table, 200)).to_have_attribute("aria-selected", "true")
    assert line(table, 0).count() == 0


def test_states_assignments_and_undo(table: Page, data: Path) -> None:
    table.locator("#numbers").fill("10-19")
    shown(table, f"10 of {COUNT} demonstrations")
    table.locator("#with-these").click()
    table.locator("#assignee").fill("Dana Lee")
    table.locator("#assign").click()
    expect(table.locator("#many-problem")).to_contain_text("letters, digits")
    table.locator("#assignee").fill("bob")
    table.locator("#assign").click()
    expect(table.locator("#banner")).to_contain_text("10 demonstrations assigned to bob")
    table.keyboard.press("w")
    table.locator('#many [data-state="to review"]').click()
    expect(line(table, 12).locator(".state button")).to_have_text("to review")
    assert read_review(data).assigned == {"bob": frozenset(range(10, 20))}
    table.locator("#banner-undo").click()
    expect(line(table, 12).locator(".state button")).to_have_text("–")
    line(table, 12).locator(".length").click()
    table.keyboard.press("a")
    expect(line(table, 12).locator(".state button")).to_have_text("accepted")
    assert {episode: one.state for episode, one in read_review(data).states.items()} == {12: "accepted"}


def test_suggestions_for_all_that_are_shown(table: Page, data: Path) -> None:
    table.locator("#numbers").fill("30-44")
    shown(table, f"15 of {COUNT} demonstrations")
    table.locator("#with-these").click()
    table.locator("#accept-name").fill("ada")
    table.locator("#accept").click()
    expect(table.locator("#many-problem")).to_contain_text("'ada' is somebody")
    table.complaints.clear()  # type: ignore[attr-defined]  # the refusal
    table.locator("#accept-name").fill("unseen")
    expect(table.locator("#accept")).to_have_text("Accept for 15")
    table.locator("#accept").click()
    expect(table.locator("#banner")).to_contain_text("Accepted 15 pairs on 15 demonstrations as unseen")
    expect(line(table, 30).locator(".who")).to_contain_text("unseen")
    assert sorted(read_annotations(data, "unseen")) == list(range(30, 45))
    table.locator("#banner-undo").click()
    expect(table.locator("#banner")).to_contain_text("Taken back: 15 demonstrations")
    assert read_annotations(data, "unseen") == {}
    assert sorted(read_annotations(data, "ada")) == [3, 120, 250]


def test_export_and_progress(table: Page, running: Studio) -> None:
    table.locator("#numbers").fill("118-120")
    table.locator("#with-these").click()
    with table.expect_download() as download:
        table.locator('[data-form="csv"]').click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert [(row["episode"], row["annotator"]) for row in rows][-2:] == [("120", "ada"), ("120", "expert")]
    assert rows[-2]["note"] == "the door is odd"
    table.goto(f"http://127.0.0.1:{running.port}/progress")
    expect(table.locator(".figures")).to_contain_text(f"{COUNT}demonstrations")
    expect(table.locator(".figures")).to_contain_text("3annotated by people")
    expect(table.locator("main")).to_contain_text("the door is odd")


def test_it_fits(table: Page) -> None:
    for width, height in ((1280, 800), (800, 600), (390, 844)):
        table.set_viewport_size({"width": width, "height": height})
        line(table, 2).wait_for()
        assert table.evaluate("document.documentElement.scrollWidth <= innerWidth")
        outside = table.evaluate(
            "[...document.querySelectorAll('.bar *, .doing *, .inner .line:first-child .cell')]"
            ".filter(e => e.checkVisibility()).filter(e => { const r = e.getBoundingClientRect();"
            " return r.right > innerWidth + 1 || r.left < 0 }).map(e => e.id || e.className)"
        )
        assert outside == []
        nameless = table.evaluate(
            "[...document.querySelectorAll('button, input, select, a, img')].filter(e => e.checkVisibility()"
            " && !e.closest('[aria-hidden]') && !(e.textContent.trim() || e.ariaLabel || e.labels?.length"
            " || e.alt === '')).map(e => e.outerHTML)"
        )
        assert nameless == []


def test_instructions_are_shown_at_first_and_under_a_key(browser: Browser, running: Studio) -> None:
    context = browser.new_context(viewport=SMALL)  # type: ignore[arg-type]
    context.add_init_script("if (localStorage.getItem('studio.instructed') === '[\"*\"]') localStorage.clear()")
    page = open_page(context, running.url)
    told = page.locator("#help .instructions")
    expect(told).to_contain_text("What to do here: Hallway")
    expect(told.locator("img")).to_have_count(2)
    for picture in told.locator("img").all():
        picture.evaluate("image => image.decode()")
    page.keyboard.press("Escape")
    expect(told).to_be_hidden()
    page.keyboard.press("?")
    expect(told).to_be_visible()
    page.keyboard.press("Escape")
    page.reload()
    page.wait_for_selector("#help .instructions", state="attached")
    expect(told).to_be_hidden()
    context.close()


def test_instructions_of_what_is_played(context: BrowserContext, tmp_path: Path) -> None:
    with studio("play", "hallway", "--out", tmp_path / "played") as started:
        page = open_page(context, started.url, "#show-help")
        played: list[str] = []
        page.on("request", lambda request: played.append(request.url) if "/step" in request.url else None)
        page.wait_for_selector('html[data-step="0"]')
        page.keyboard.press("?")
        expect(page.locator("#help")).to_contain_text("same shape, same colour")
        expect(page.locator("#help .keylist")).to_contain_text("forward")
        page.keyboard.press("ArrowUp")  # is not played
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()
        page.keyboard.press("ArrowUp")
        page.wait_for_selector('html[data-step="1"]')
        assert len(played) == 1


def test_three_people_at_once(browser: Browser, tmp_path: Path) -> None:
    made = work_together(browser, write_toy(tmp_path / "toy", (12,) * 6), seconds=2)
    assert len(made) == 3
