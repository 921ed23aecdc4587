"""Nothing wrong is ever saved, and nothing that waits is lost: in a real browser."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from attentiontuner.demos.annotations import Annotation, annotators, read_annotation, write_annotation
from attentiontuner.demos.pair_text import format_pairs, parse_pairs
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.tasks.task import get_task
from tests.studio.browsing import (
    BROWSER,
    SMALL,
    Studio,
    experts,
    name_of,
    on_episode,
    open_page,
    saved,
    settled,
    step,
    studio,
    summary,
)
from tests.studio.conftest import write_toy
from tests.studio.test_play_page import expert_keys, press

pytestmark = BROWSER


def slow(page: Page, part: str, milliseconds: int) -> None:
    """Let requests whose address has this part take longer, as over a slow line."""
    page.evaluate(
        """([part, pause]) => {
            const quick = window.fetch;
            window.fetch = async (...words) => {
                if (String(words[0]).includes(part)) await new Promise((resume) => setTimeout(resume, pause));
                return quick(...words);
            };
        }""",
        [part, milliseconds],
    )


def text_of(root: Path, annotator: str, episode: int) -> dict[str, str]:
    annotation = read_annotation(root, annotator, episode)
    assert annotation is not None
    return format_pairs(annotation.pairs)


def test_keys_pressed_while_the_next_one_loads_change_nothing(
    page: Page, hallway: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    slow(page, "?annotator=", 400)
    page.keyboard.press("a")
    page.keyboard.press(".")
    page.keyboard.press("0")
    page.locator("#message", has_text="Demonstration 1 is being opened").wait_for()
    page.keyboard.press("f")
    on_episode(page, 1)
    settled(page)
    assert saved(hallway, name, 0) == experts(hallway, 0)
    assert saved(hallway, name, 1) is None
    for _ in range(4):
        page.keyboard.press(".")
    on_episode(page, 5)
    assert page.evaluate("location.hash") == "#5"
    annotation = read_annotation(hallway, name, 0)
    assert annotation is not None
    assert not annotation.flagged


def test_an_edit_is_shown_at_once_and_says_when_it_is_saved(
    page: Page, hallway: Path, request: pytest.FixtureRequest
) -> None:
    slow(page, "/change", 500)
    step(page, 1).click()
    step(page, 5).click()
    summary(page, "1 pair")
    assert page.locator("#save-state").get_attribute("data-state") == "saving"
    assert saved(hallway, name_of(request), 0) is None
    page.keyboard.press("z")
    summary(page, "Not annotated")
    page.keyboard.press("Control+y")
    summary(page, "1 pair")
    settled(page)
    assert saved(hallway, name_of(request), 0) == [[1, 5, 1]]


def test_what_is_shown_before_it_is_saved_is_what_is_saved(page: Page) -> None:
    """Random edits: the page foresees the state that the server answers."""
    differing = page.evaluate(
        """async () => {
            const { Draft } = await import('/static/draft.js');
            let seed = 5;
            const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
            const pair = () => { const q = 1 + random(7); return [random(q), q]; };
            const kinds = ['add', 'add', 'block', 'somewhere', 'remove', 'unblock', 'count', 'nothing', 'clear', 'note',
                           'flag', 'reject', 'undo', 'undo', 'redo'];
            const ask = async (body) => (await fetch('/api/episodes/7/change', {
                method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })).json();
            const query = new URLSearchParams({ annotator: 'random', window: 'w' });
            const draft = new Draft((await (await fetch(`/api/episodes/7?${query}`)).json()).state);
            const seen = ({ version, origins, about, rejected, ...rest }) => JSON.stringify(
                [rest, ...[origins, about, rejected].map((rows) => rows.map(String).sort())]);
            for (let turn = 0; turn < 150; turn++) {
                const kind = kinds[random(kinds.length)];
                const [p, q] = pair();
                const edit = { kind };
                if (kind === 'add') Object.assign(edit, { pairs: [pair(), [p, q]], counts: [1, 2] },
                                                  random(2) ? { source: 'run' } : {});
                if (kind === 'block' || kind === 'unblock')
                    Object.assign(edit, { kind: kind === 'block' ? 'add' : 'remove', blocks: [[p, p + 1, q, q + 1]] });
                if (kind === 'somewhere')
                    Object.assign(edit, { kind: 'add', pairs: [[p, q]], about: [[p, p + 1, q, q + 1, 1]] });
                if (kind === 'remove') edit.pairs = [[p, q]];
                if (kind === 'count') {
                    if (!draft.state.pairs.length) continue;
                    Object.assign(edit, { pairs: [draft.state.pairs[0].slice(0, 2)], multiplicity: 1 + random(3) });
                }
                if (kind === 'note') edit.text = String(random(3));
                if (kind === 'flag') edit.flagged = random(2) === 1;
                if (kind === 'reject') Object.assign(edit, { pairs: [[p, q]], source: 'run' });
                const before = draft.saved.version;
                if (!draft.try(edit)) continue;
                const shown = draft.state;
                const answer = await ask({ annotator: 'random', version: before, edit, window: 'w' });
                if (seen(shown) !== seen(answer)) return [turn, edit, shown, answer];
                draft.answered(answer);
            }
            return null;
        }"""
    )
    assert differing is None


def test_counts_and_intervals_come_through_suggestions(
    page: Page, hallway: Path, request: pytest.FixtureRequest
) -> None:
    text = {"6": "1x2", "9": "2~4,5"}
    write_annotation(hallway, "twice", 0, Annotation(parse_pairs(text, len(DemoStore.open(hallway)[0]))))
    page.reload()
    page.locator("#source").select_option("labels:twice")
    expect(page.locator("#suggestion-list li .pair")).to_have_text(["1 → 6 ×2", "2~4 → 9", "5 → 9"])
    on_episode(page, 0)
    page.keyboard.press("a")
    summary(page, "3 pairs")
    settled(page)
    assert text_of(hallway, name_of(request), 0) == text
    expect(page.locator("#pair-list .pair")).to_have_text(["1 → 6 ×2", "2~4 → 9", "5 → 9"])
    page.keyboard.press("]")
    page.locator("#hint", has_text="Selected: 1 → 6 ×2").wait_for()
    drawn = [page.evaluate(f"document.querySelector('#{canvas}').toDataURL()") for canvas in ("arcs", "matrix")]
    page.keyboard.press("-")
    page.locator("#hint", has_text="Selected: 1 → 6,").wait_for()
    for canvas, before in zip(("arcs", "matrix"), drawn, strict=True):
        assert page.evaluate(f"document.querySelector('#{canvas}').toDataURL()") != before
    settled(page)
    page.keyboard.press("g")
    page.locator("#agree-b").select_option("twice")
    page.locator("#agree-result", has_text="Counted differently: 1 → 6 ×1 / ×2").wait_for()
    assert page.locator("#agree-result strong").first.text_content() == "85.7 %"


def test_a_refused_name_is_not_worked_under(page: Page, hallway: Path, request: pytest.FixtureRequest) -> None:
    name = name_of(request)
    for wanted, instead in [("Dana Lee", "Dana-Lee"), ("Jörg", "Jorg"), ("../x", "x")]:
        page.locator("#annotator").fill(wanted)
        page.keyboard.press("Enter")
        page.locator("#banner", has_text=f"Try {instead}. You are still annotating as {name}").wait_for()
        assert page.locator("#annotator").input_value() == name
    page.locator("#annotator").fill("expert")
    page.keyboard.press("Enter")
    summary(page, f"{len(experts(hallway, 0))} pair")
    page.keyboard.press("0")
    page.locator("#banner", has_text="not saved. the labels of 'expert' belong").wait_for()
    expect(page.locator("#save-state")).to_have_text("not saved")
    page.locator("#banner-close").click()
    expect(page.locator("#save-state")).to_have_text("saved")
    summary(page, f"{len(experts(hallway, 0))} pair")
    page.complaints.clear()  # type: ignore[attr-defined]  # of the refusal
    assert {"Dana", "Dana-Lee", "Jorg", "x"} & set(annotators(hallway)) == set()


def test_what_waits_outlives_a_closed_tab_and_overwrites_nothing(context: BrowserContext, tmp_path: Path) -> None:
    data = write_toy(tmp_path / "toy")
    first = Studio("annotate", data, "--annotator", "ada")
    page = open_page(context, first.url)
    step(page, 1).click()
    step(page, 5).click()
    settled(page)
    first.kill()
    step(page, 6).click()
    page.keyboard.press("z")
    step(page, 7).click()
    page.locator("#banner", has_text="3 changes wait here").wait_for()
    page.goto("about:blank")  # closing runs the same: the page is gone
    page.close()
    write_annotation(data, "ada", 1, Annotation(parse_pairs({"9": "2"}, 20)))
    with studio("annotate", data, "--annotator", "ada", "--port", str(first.port)) as second:
        page = open_page(context, second.url)
        page.locator("#banner", has_text="3 changes that had waited in this browser are saved").wait_for()
        assert saved(data, "ada", 0) == [[1, 5, 1], [1, 7, 1]]
        on_episode(page, 2)
        # Changes to a demonstration that was changed since are not made, those to others are.
        waiting = [
            {"annotator": "ada", "episode": number, "version": "of another day", "edit": edit, "seconds": 0.0}
            | {"window": "gone", "mark": str(number)}
            for number, edit in [(1, {"kind": "nothing"}), (2, {"kind": "flag", "flagged": False})]
        ]
        page.evaluate(
            """(waiting) => {
                return fetch('/api/dataset').then((answer) => answer.json()).then(({ folder }) =>
                    localStorage.setItem(`studio.waiting.${folder}.gone`, JSON.stringify(waiting)));
            }""",
            waiting,
        )
        page.reload()
        page.locator("#banner", has_text="Demonstration 1: your last change was not saved. It was changed").wait_for()
        expect(page.locator("#save-state")).to_have_text("not saved")
        assert saved(data, "ada", 1) == [[2, 9, 1]]
        assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('studio.waiting'))") == []


def test_played_episodes_are_not_dropped_unasked_and_outlive_a_kill(browser: Browser, tmp_path: Path) -> None:
    task, data = get_task("hallway", {"length": 3}), tmp_path / "played"
    context = browser.new_context(viewport=SMALL)  # type: ignore[arg-type]
    words = ("play", "hallway", "--out", data, "--set", "length=3", "--seeds", "0", "1")
    first = Studio(*words)
    page = open_page(context, first.url, "[data-key]")
    keys = expert_keys(task, 0)
    press(page, keys[:2])
    for key in ("n", "Backspace"):
        page.keyboard.press(key)
        page.locator("#sure").get_by_text("Its 2 steps will be gone.").wait_for()
        page.keyboard.press(keys[2])  # the game does not hear it
        page.keyboard.press("Escape")
        expect(page.locator("html")).to_have_attribute("data-step", "2")
    page.keyboard.press("n")
    page.locator("#sure-yes").click()
    page.locator("#subtitle", has_text="seed 1").wait_for()
    page.keyboard.press("n")
    page.locator("#subtitle", has_text="seed 0").wait_for()
    press(page, keys[:3])
    first.kill()
    port = str(first.port)
    with studio(*words, "--port", port) as second:
        page = open_page(context, second.url, "[data-key]")
        page.locator("#status", has_text="Step 3 of at most").wait_for()
        page.locator("#status", has_text="where you were").wait_for()
        press(page, keys[3:])
        page.locator("#status", has_text="Solved").wait_for()
        second.kill()
        page.keyboard.press("Enter")
        page.locator("#save-state", has_text="failed, retrying").wait_for()
    with studio(*words, "--port", port) as third:
        page.locator("#save-state", has_text="started anew").wait_for()
        open_page(context, third.url, "[data-key]").close()
        page.locator("#save-state", has_text="saved as demonstration 0").wait_for()
        page.locator("#subtitle", has_text="seed 1").wait_for()
        page.bring_to_front()
        fail(page, task.max_steps)
        page.keyboard.press("Enter")
        page.locator("#sure").get_by_text("The task was not solved").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")  # at once: the button that was closed away still has the focus
        page.locator("#sure-yes").click()
        page.locator("#save-state", has_text="saved as demonstration 1").wait_for()
    context.close()
    store = DemoStore.open(data)
    assert [(one.seed, one.success) for one in store] == [(0, True), (1, False)]
    assert np.array_equal(store[0].actions, [task.keys[key] for key in keys])


def fail(page: Page, most: int) -> None:
    """Turn round and round until the time is over."""
    for _ in range(most):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#status")).to_have_text(re.compile("Not solved"))
