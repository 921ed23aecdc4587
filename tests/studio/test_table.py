"""The data set as a table: what it says, who may write what, and that nothing of anybody's is lost."""

import csv
import io
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from attentiontuner.core.errors import UserError
from attentiontuner.demos.annotations import Annotation, read_annotation, read_annotations, write_annotation
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.studio import acceptance, review
from attentiontuner.studio.catalogue import Catalogue
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.presence import SILENT_SECONDS, Place, Presence
from attentiontuner.studio.ranges import format_ranges, parse_ranges
from attentiontuner.studio.remarks import Remark, write_remark
from attentiontuner.studio.suggest import Suggester
from attentiontuner.tasks.paper import MINIGRID_ACTIONS, MINIGRID_VIEW
from tests.studio.conftest import toy_demonstrations

LENGTHS = (12, 20, 5, 9, 7)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Five demonstrations in two shards; the expert has a pair in each, counted twice in the second."""
    made = toy_demonstrations(LENGTHS)
    made[1] = made[1].with_pairs(PairTable.of([(0, 19, 2)], 20))
    writer = DemoWriter(
        tmp_path / "toy", task="hallway", settings={}, observation=MINIGRID_VIEW, actions=MINIGRID_ACTIONS, seed=None
    )
    writer.append(made[:3], annotator="expert")
    writer.append(made[3:], annotator="expert")
    return tmp_path / "toy"


def mark(root: Path, name: str, episode: int, pairs: list[tuple[int, int]], **more: Any) -> None:
    write_annotation(root, name, episode, Annotation(PairTable.of(pairs, LENGTHS[episode]), **more))


def post(client: TestClient, path: str, **body: Any) -> Any:
    return client.post(path, json=body)


# --- ranges ----------------------------------------------------------------------------------------------------------


def test_ranges_there_and_back() -> None:
    assert format_ranges([7, 0, 2, 1, 7]) == "0-2,7"
    assert parse_ranges(" 0-2, 7", 8) == {0, 1, 2, 7}
    assert parse_ranges("", 8) == set()
    for wrong in ("8", "3-2", "a", "1-", "-1", "1 to 3"):
        with pytest.raises(UserError, match="demonstrations"):
            parse_ranges(wrong, 8)


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_table_says_what_is_there(toy: Path, client: TestClient) -> None:
    mark(toy, "ada", 0, [(0, 11)], seconds=12.34, note="hard", flagged=True)
    mark(toy, "ada", 1, [(0, 18), (0, 19)])
    write_remark(toy, "bob", 4, Remark("odd", True))
    table = client.get("/api/table").json()
    assert table["lengths"] == list(LENGTHS)
    assert table["failed"] == []
    assert table["people"]["ada"] == {
        **{"episodes": [0, 1], "pairs": [1, 2], "seconds": [12.3, 0.0], "flagged": [0], "notes": {"0": "hard"}},
    }
    assert table["people"]["bob"] == {
        **{"episodes": [], "pairs": [], "seconds": [], "flagged": [4], "notes": {"4": "odd"}},
    }
    assert table["agreement"] == [1.0, 0.5, None, None, None]
    assert table["scripts"] == ["expert"]


def test_a_table_that_is_known_is_not_sent_again(toy: Path, client: TestClient) -> None:
    stamp = client.get("/api/table").json()["stamp"]
    assert client.get("/api/table", params={"seen": stamp}).json() == {"present": []}
    mark(toy, "ada", 3, [(0, 8)])
    fresh = client.get("/api/table", params={"seen": stamp}).json()
    assert fresh["people"]["ada"]["episodes"] == [3]
    write_annotation(toy, "ada", 3, None)
    assert client.get("/api/table", params={"seen": fresh["stamp"]}).json()["people"]["ada"]["episodes"] == []


def test_agreement_is_the_lowest_of_two(toy: Path) -> None:
    mark(toy, "ada", 0, [(0, 11), (1, 11)])
    mark(toy, "bob", 0, [(2, 5)])
    assert Catalogue(Desk(toy)).table()["agreement"][0] == 0
    assert Catalogue(Desk(toy)).table(tolerance=10)["agreement"][0] == pytest.approx(0.667)


def test_glances(client: TestClient) -> None:
    assert client.get("/api/episodes/4/glance.png").content.startswith(b"\x89PNG")
    assert client.get("/api/episodes/5/glance.png").status_code == 404


# --- assignments and states ------------------------------------------------------------------------------------------


def test_assignments_and_states_are_kept(toy: Path, client: TestClient) -> None:
    assert post(client, "/api/assign", name="ada", episodes="0-2").status_code == 200
    assert post(client, "/api/assign", name="bob", episodes="2,4").status_code == 200
    assert post(client, "/api/assign", name="ada", episodes="1", take_away=True).status_code == 200
    assert post(client, "/api/state", by="cleo", episodes="0,3", state="to review", seen={}).status_code == 200
    table = client.get("/api/table").json()
    assert table["assigned"] == {"ada": "0,2", "bob": "2,4"}
    assert table["states"] == {"to review": "0,3", "accepted": "", "changed": ""}
    assert post(client, "/api/state", by="cleo", episodes="0", state="", seen={"to review": "0,3"}).status_code == 200
    assert review.read_review(toy).states == {3: review.Reviewed("to review", "cleo")}


def test_a_state_that_somebody_else_changed_is_not_overwritten(client: TestClient) -> None:
    post(client, "/api/state", by="ada", episodes="1", state="accepted", seen={})
    answer = post(client, "/api/state", by="bob", episodes="0-2", state="to review", seen={})
    assert answer.status_code == 409
    assert "demonstration 1" in answer.json()["reason"]
    assert client.get("/api/table").json()["states"]["to review"] == ""
    seen = {"accepted": "1"}
    assert post(client, "/api/state", by="bob", episodes="0-2", state="to review", seen=seen).status_code == 200


def test_accepted_labels_that_change_are_told_apart(toy: Path, client: TestClient) -> None:
    mark(toy, "ada", 0, [(0, 5)])
    post(client, "/api/state", by="bob", episodes="0-1", state="accepted", seen={})
    assert client.get("/api/table").json()["states"]["changed"] == ""
    mark(toy, "ada", 0, [(0, 5), (0, 6)])
    assert client.get("/api/table").json()["states"] == {"to review": "", "accepted": "0-1", "changed": "0"}
    mark(toy, "ada", 0, [(0, 5)])
    assert client.get("/api/table").json()["states"]["changed"] == ""


def test_two_writers_lose_nothing(toy: Path) -> None:
    """As two studios would: each gives away its own demonstrations, one at a time."""

    def work(name: str) -> None:
        for episode in range(5):
            review.assign(toy, name, [episode])
            review.set_state(toy, name, {episode: ""}, "to review", {})

    workers = [threading.Thread(target=work, args=(name,)) for name in ("ada", "bob", "cleo")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = review.read_review(toy)
    assert found.assigned == dict.fromkeys(("ada", "bob", "cleo"), frozenset(range(5)))
    assert len(found.states) == 5


def test_a_damaged_review_is_named(toy: Path, client: TestClient) -> None:
    review.review_file(toy).parent.mkdir(exist_ok=True)
    for content in ("{", "[]", '{"assigned": {"../x": "1"}, "states": {}}', '{"assigned": {}, "states": {"1": {}}}'):
        review.review_file(toy).write_text(content)
        answer = client.get("/api/table")
        assert (answer.status_code, "review.json" in answer.json()["reason"]) == (400, True)


# --- suggestions for many --------------------------------------------------------------------------------------------


def accept(client: TestClient, **more: Any) -> Any:
    body = {"by": "ada", "name": "accepted", "source": "labels:expert", "episodes": "0-4", "batch": "0123abcd"}
    return post(client, "/api/accept", **{**body, **more})


def test_suggestions_are_accepted_for_many_and_taken_back(toy: Path, client: TestClient) -> None:
    mark(toy, "ada", 0, [(2, 3)])
    before = {path: path.read_bytes() for path in (toy / "annotations").rglob("*.jsonl")}
    found = accept(client, episodes="0-3").json()
    assert found == {"done": 4, "labelled": 4, "pairs": 4, "before": 0, "nothing": 0}
    made = read_annotation(toy, "accepted", 1)
    assert made is not None
    assert np.asarray(made.pairs).tolist() == [[0, 19, 2]]  # as often as the expert says
    assert made.origins == {"labels:expert": frozenset({(0, 19)})}
    assert accept(client, batch="4567abcd").json() == {"done": 5, "labelled": 1, "pairs": 1, "before": 4, "nothing": 0}
    table = client.get("/api/table").json()
    assert table["scripts"] == ["expert", "accepted"]
    assert [entry["episodes"] for entry in table["batches"]["accepted"]] == ["0-3", "4"]
    mark(toy, "accepted", 2, [(1, 2)])  # somebody corrected it
    assert post(client, "/api/take-back", name="accepted", batch="0123abcd").json() == {"removed": 3, "changed": 1}
    assert sorted(read_annotations(toy, "accepted")) == [2, 4]
    assert post(client, "/api/take-back", name="accepted", batch="0123abcd").status_code == 400
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", ["ada", "bob", "cleo", "dora", "expert", "../x", ""])
def test_nobody_is_given_labels_they_did_not_make(toy: Path, client: TestClient, name: str) -> None:
    mark(toy, "bob", 0, [(2, 3)])
    write_remark(toy, "cleo", 0, Remark("odd", False))
    review.assign(toy, "dora", [4])
    before = {path: path.read_bytes() for path in (toy / "annotations").rglob("*.jsonl")}
    assert accept(client, name=name).status_code in (400, 422)
    assert {path: path.read_bytes() for path in (toy / "annotations").rglob("*.jsonl")} == before


def test_what_cannot_be_accepted_for_many(toy: Path, client: TestClient) -> None:
    assert accept(client, source="before").status_code == 400
    assert accept(client, source="labels:nobody").status_code == 400
    assert accept(client, episodes="0-5").status_code == 400
    assert accept(client, batch="x").status_code == 422
    assert accept(client, episodes="0").json()["labelled"] == 1
    assert accept(client, source="labels:accepted").status_code == 400


def test_what_nobody_suggests_is_no_label(toy: Path, client: TestClient) -> None:
    mark(toy, "bob", 1, [])
    found = accept(client, source="labels:bob").json()
    assert found == {"done": 5, "labelled": 1, "pairs": 0, "before": 0, "nothing": 4}
    assert list(read_annotations(toy, "accepted")) == [1]


def test_a_label_made_meanwhile_stays(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = acceptance._write

    def later(*arguments: Any) -> set[int]:
        mark(toy, "accepted", 1, [(2, 3)])
        return write(*arguments)

    monkeypatch.setattr(acceptance, "_write", later)
    suggester = Suggester(Desk(toy))
    found = acceptance.accept_many(suggester, "accepted", "ada", "labels:expert", [0, 1], "0123abcd")
    assert (found.labelled, found.before) == (1, 1)
    kept = read_annotation(toy, "accepted", 1)
    assert kept is not None
    assert np.asarray(kept.pairs).tolist() == [[2, 3, 1]]
    assert acceptance.take_back(toy, "accepted", "0123abcd") == (1, 0)


def test_a_long_acceptance_comes_in_parts(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "AT_ONCE", 0.0)
    suggester, waiting = Suggester(Desk(toy)), [4, 3, 1]
    while waiting:
        found = acceptance.accept_many(suggester, "accepted", "ada", "labels:expert", waiting, "0123abcd")
        assert found.done == 1
        waiting = sorted(waiting)[found.done :]
    assert sorted(read_annotations(toy, "accepted")) == [1, 3, 4]
    assert acceptance.take_back(toy, "accepted", "0123abcd").removed == 3


# --- files -----------------------------------------------------------------------------------------------------------


def test_what_is_filtered_is_exported(toy: Path, client: TestClient) -> None:
    mark(toy, "ada", 0, [(0, 11), (1, 11)], note='hard, "odd"\n=1', seconds=3.0)
    write_remark(toy, "bob", 2, Remark("later", True))
    review.assign(toy, "ada", [0, 2])
    lines = post(client, "/api/handout", episodes="0,2", form="jsonl").text.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["episode"], row["annotator"]) for row in rows] == [
        (0, "ada"),
        (0, "expert"),
        (2, "bob"),
        (2, "expert"),
    ]
    assert rows[0]["pairs"] == {"11": "0-1"}
    assert (rows[0]["solved"], rows[0]["assigned"], rows[0]["agreement"]) == (True, ["ada"], 0.667)
    assert (rows[2]["note"], rows[2]["flagged"], "pairs" in rows[2]) == ("later", True, False)
    table = list(csv.DictReader(io.StringIO(post(client, "/api/handout", episodes="0,2", form="csv").text)))
    assert [row["note"] for row in table] == ['hard, "odd"\n=1', "", "later", ""]
    assert (table[0]["count"], table[0]["pairs"], table[2]["count"]) == ("2", '{"11": "0-1"}', "")


# --- who is where ----------------------------------------------------------------------------------------------------


def test_who_is_where(client: TestClient) -> None:
    def here(window: str, name: str, episode: int, leaving: bool = False) -> None:
        answer = post(client, "/api/here", window=window, annotator=name, episode=episode, leaving=leaving)
        assert answer.status_code == 200

    here("w1", "ada", 3)
    here("w2", "ada", 3)
    here("w3", "bob", 1)
    here("w3", "bob", 2)
    assert client.get("/api/table").json()["present"] == [["ada", 3], ["bob", 2]]
    here("w3", "bob", 2, leaving=True)
    here("w1", "ada", 3, leaving=True)
    assert client.get("/api/table").json()["present"] == [["ada", 3]]


def test_who_is_silent_is_gone() -> None:
    now = 0.0
    presence = Presence(lambda: now)
    presence.here("w1", Place("ada", 3))
    now = SILENT_SECONDS - 1
    assert presence.places() == [("ada", 3)]
    now = SILENT_SECONDS + 1
    assert presence.places() == []


# --- nonsense --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("here", {"window": "", "annotator": "ada", "episode": 0}),
        ("here", {"window": "w", "annotator": "../x", "episode": 0}),
        ("here", {"window": "w", "annotator": "ada", "episode": -1}),
        ("assign", {"name": "Dana Lee", "episodes": "0"}),
        ("assign", {"name": "ada", "episodes": "0-5"}),
        ("assign", {"name": "ada", "episodes": [0]}),
        ("state", {"by": "ada", "episodes": "0", "state": "done", "seen": {}}),
        ("state", {"by": "ada", "episodes": "0", "state": "accepted", "seen": {"done": "0"}}),
        ("take-back", {"name": "ada", "batch": "0123abcd"}),
        ("handout", {"episodes": "0", "form": "exe"}),
        ("handout", {"episodes": "9", "form": "csv"}),
    ],
)
def test_nonsense_gets_a_reason_and_changes_nothing(toy: Path, client: TestClient, path: str, body: Any) -> None:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["reason"]
    assert not review.review_file(toy).exists()


@pytest.mark.parametrize("path", ["here", "assign", "state", "accept", "take-back", "handout"])
def test_strangers_change_nothing(toy: Path, client: TestClient, path: str) -> None:
    assert client.post(f"/api/{path}", json={}, headers={"origin": "http://evil.example"}).status_code == 403
    client.cookies.clear()
    assert client.post(f"/api/{path}", json={}).status_code == 401
