"""A memory report in the studio: what is read of its folder, what is refused, and what requests are told of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.core.files import read_json, write_json
from attentiontuner.demos.annotations import read_annotations
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.insight.recommendations import read_recommendations
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.server import create_app, guarded
from attentiontuner.studio.suggest import Deciding, Suggester, Suggestion
from attentiontuner.tasks.paper import MINIGRID_ACTIONS, MINIGRID_VIEW
from tests.studio.conftest import PORT, TOKEN, toy_demonstrations, write_toy
from tests.studio.reports import WHY, one, write_report

LINE = '{"episode": 2, "suggestions": []}\n'


@pytest.fixture
def report(toy: Path, tmp_path: Path) -> Path:
    return write_report(tmp_path / "report", toy, {1: [one(19, 0), one(9, None)], 0: [one(11, 0)]}, order=(1, 0))


def suggester(toy: Path, report: Path, **settings: bool) -> Suggester:
    return Suggester(Desk(toy), report=read_recommendations(report, DemoStore.open(toy)), **settings)


def test_a_report_suggests_pairs_steps_and_an_order(toy: Path, report: Path) -> None:
    told = suggester(toy, report)
    assert [source.title for source in told.sources("ada")][:2] == ["memory report", "scripted expert"]
    assert told.suggest("ada", 1, "memory-report") == [Suggestion(0, 19, 0.9, reason=f"{WHY} 19")]
    assert told.deciding(1, "memory-report") == [Deciding(9, f"{WHY} 9")]
    assert told.deciding(1, "labels:expert") == []
    assert told.suggest("ada", 2, "memory-report") == told.deciding(2, "memory-report") == []
    assert told.recommended() == [(1, "demonstration 1 teaches most"), (0, "demonstration 0 teaches most")]


def test_of_labels_that_nobody_must_influence_only_the_order_is_told(toy: Path, report: Path) -> None:
    told = suggester(toy, report, enabled=False)
    assert told.sources("ada") == []
    assert told.deciding(1, "memory-report") == []
    assert told.recommended() == [(1, ""), (0, "")]


def test_requests_are_told_and_pairs_are_accepted_unseen(toy: Path, report: Path) -> None:
    app = guarded(create_app(Desk(toy), annotator="ada", suggester=suggester(toy, report)), TOKEN, "127.0.0.1", PORT)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", cookies={f"studio_{PORT}": TOKEN}) as client:
        ordered = [[1, "demonstration 1 teaches most"], [0, "demonstration 0 teaches most"]]
        assert client.get("/api/dataset").json()["recommended"] == ordered
        table = client.get("/api/table").json()
        assert table["recommended"] == ordered
        assert table["sources"][0]["name"] == "memory-report"
        query = {"annotator": "ada", "source": "memory-report"}
        answer = client.get("/api/episodes/1/suggestions", params=query).json()
        assert answer["pairs"] == [[0, 19, 0.9, 1, None, f"{WHY} 19"]]
        assert answer["deciding"] == [[9, f"{WHY} 9"]]
        body = {"by": "ada", "name": "seen", "source": "memory-report", "episodes": "0-2", "batch": "5f0c92b1"}
        assert client.post("/api/accept", json=body).json()["labelled"] == 2
    assert read_annotations(toy, "seen")[1].origins == {"memory-report": {(0, 19)}}


def test_a_data_set_that_has_grown_keeps_its_report(toy: Path, report: Path) -> None:
    writer = DemoWriter(
        toy, task="hallway", settings={}, observation=MINIGRID_VIEW, actions=MINIGRID_ACTIONS, seed=None
    )
    writer.append(toy_demonstrations((9,)), annotator="expert")
    assert len(read_recommendations(report, DemoStore.open(toy)).first) == 2


def change(path: Path, edit: Callable[[Any], object]) -> None:
    value = read_json(path)
    edit(value)
    write_json(path, value)


def first(value: Any) -> Any:
    return value["demonstrations"][0]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda value: value.update(schema=2), "its schema is 2, not 1"),
        (lambda value: value.update(task="counting"), "is a memory report of counting, but"),
        (lambda value: value.pop("data"), "does not say of which demonstrations it is: make the report again"),
        (lambda value: value["data"].update(fingerprint="0" * 16), "of other demonstrations than"),
        (lambda value: value["data"].update(shards=2), "of other demonstrations than"),
        (lambda value: first(value).update(episode=3), "demonstration 1 of the list: episode is 3, not a whole number"),
        (lambda value: value["demonstrations"].append(first(value)), "demonstration 3 of the list: episode 1 is there"),
        (lambda value: first(value).update(reason="x" * 1001), "a text of at most 1000 characters"),
        (lambda value: first(value).update(reason="\ud800"), "surrogates not allowed"),
        (lambda value: first(value)["suggestions"][0].update(q=20), "q is 20, not a whole number from 0 to 19"),
    ],
)  # fmt: skip
def test_a_report_that_does_not_fit_is_one_line(toy: Path, report: Path, edit: Callable, said: str) -> None:
    change(report / "recommended.json", edit)
    with pytest.raises(UserError) as refused:
        read_recommendations(report, DemoStore.open(toy))
    assert said in str(refused.value)
    assert str(report) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("suggestion", "said"),
    [
        ({"p": 11, "q": 11}, "line 2: p is 11, not a whole number from 0 to 10"),
        ({"p": True}, "line 2: p is True"),
        ({"weight": 1.5}, "line 2: weight is 1.5, not a number from 0 to 1"),
        ({"weight": float("nan")}, "line 2: weight is nan"),
        ({"gain": float("inf")}, "line 2: gain is inf"),
        ({"reason": None}, "line 2: None stands where a text"),
        ({"reason": "x" * 1001}, "a text of at most 1000 characters"),
    ],
)  # fmt: skip
def test_a_pair_that_cannot_be_is_named_by_its_line(toy: Path, report: Path, suggestion: dict, said: str) -> None:
    path = report / "pairs.jsonl"
    line = json.dumps({"episode": 0, "suggestions": [{**one(11, 0), **suggestion}]})
    path.write_text(f"{LINE}{line}\n")
    with pytest.raises(UserError, match=r"pairs\.jsonl is damaged") as refused:
        read_recommendations(report, DemoStore.open(toy))
    assert said in str(refused.value)


def test_pairs_that_are_there_twice_or_not_at_all(toy: Path, report: Path) -> None:
    path, store = report / "pairs.jsonl", DemoStore.open(toy)
    for text, said in (
        (LINE + LINE, "line 2: episode 2 is there twice"),
        (json.dumps({"episode": 0, "suggestions": [one(11, 0)] * 2}), "line 1: the pair of q = 11 and p = 0 is there"),
        (LINE + "[", "line 2: Expecting value"),
        (LINE + "{}", "line 2: KeyError"),
    ):
        path.write_text(text)
        with pytest.raises(UserError) as refused:
            read_recommendations(report, store)
        assert said in str(refused.value)
    path.unlink()
    with pytest.raises(UserError, match=r"pairs\.jsonl does not exist"):
        read_recommendations(report, store)


def test_the_command_says_what_it_cannot_take(toy: Path, report: Path, tmp_path: Path, capsys: Any) -> None:
    other = write_toy(tmp_path / "other", (12, 20, 6))
    (tmp_path / "empty").mkdir()
    for words, said in (
        ([other, "--suggest", report], "is a memory report of other demonstrations than"),
        ([toy, "--suggest", report, "--threshold", "0.2"], "leave out --threshold"),
        ([toy, "--suggest", tmp_path / "empty"], "neither a trained run (config.json) nor a memory report"),
    ):
        assert main(["annotate", *map(str, words), "--no-browser"]) == 2
        message = capsys.readouterr().err
        assert said in message
        assert message.startswith("attentiontuner: --suggest")
        assert message.count("\n") == 1
