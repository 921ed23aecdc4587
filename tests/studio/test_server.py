"""What the server answers: to its page, to strangers, and to nonsense."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from starlette.testclient import TestClient

from attentiontuner.core.errors import UserError
from attentiontuner.demos import merge_annotators
from attentiontuner.demos.annotations import read_annotation
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.guard import MAX_BODY
from attentiontuner.studio.server import STATIC, create_app, guarded
from tests.demos.examples import KINDS_OF_ACTIONS, make_writer, parts_demonstrations
from tests.studio.conftest import PORT, TOKEN


def state(client: TestClient, episode: int = 0, annotator: str = "ada") -> dict[str, Any]:
    answer = client.get(f"/api/episodes/{episode}", params={"annotator": annotator})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()["state"]
    return found


def change(client: TestClient, edit: dict[str, Any], episode: int = 0, version: str | None = None) -> Any:
    seen = version if version is not None else state(client, episode)["version"]
    body = {"annotator": "ada", "version": seen, "edit": edit, "seconds": 0.5}
    return client.post(f"/api/episodes/{episode}/change", json=body)


# --- the page's own requests -----------------------------------------------------------------------------------------


def test_the_data_set(client: TestClient) -> None:
    found = client.get("/api/dataset").json()
    assert found["title"] == "Hallway"
    assert found["lengths"] == [12, 20, 5]
    assert found["annotators"] == ["ada", "expert"]
    assert [source["name"] for source in found["sources"]] == ["labels:expert", "before", "before-stretched"]
    assert found["annotated"] == []


def test_an_episode_says_its_task_in_words_where_lerobot_did(client: TestClient, toy: Path) -> None:
    assert client.get("/api/episodes/0", params={"annotator": "ada"}).json()["words"] == ""
    (toy / "lerobot.json").write_text(json.dumps({"fps": 10, "tasks": ["open the door"], "names": {}}))
    with TestClient(create_app(Desk(toy), annotator="ada")) as opened:
        found = opened.get("/api/episodes/0", params={"annotator": "ada"}).json()
    assert found["words"] == "open the door"


def test_merged_annotators_are_one_like_any_other(client: TestClient, toy: Path) -> None:
    change(client, {"kind": "add", "pairs": [[1, 4]]})
    merge_annotators(toy, "ada,expert", "both")
    found = client.get("/api/dataset", params={"annotator": "both"}).json()
    assert found["annotators"] == ["ada", "both", "expert"]
    assert found["annotated"] == [0, 1, 2]
    shown = state(client, annotator="both")
    assert (shown["pairs"], shown["origins"]) == ([[1, 4, 1], [0, 11, 1]], [[0, 11, "expert"], [1, 4, "ada"]])
    edit = {"kind": "add", "pairs": [[2, 5]]}
    body = {"annotator": "both", "version": shown["version"], "edit": edit, "seconds": 0.5}
    assert client.post("/api/episodes/0/change", json=body).json()["pairs"] == [[1, 4, 1], [2, 5, 1], [0, 11, 1]]
    assert client.get("/api/dataset", params={"annotator": "ada,both"}).status_code == 400


def test_a_change_is_saved_and_answered_with_the_new_state(client: TestClient, toy: Path) -> None:
    answer = change(client, {"kind": "add", "pairs": [[1, 4], [1, 6]]})
    assert answer.status_code == 200
    assert answer.json()["pairs"] == [[1, 4, 1], [1, 6, 1]]
    assert answer.json()["canUndo"]
    saved = read_annotation(toy, "ada", 0)
    assert saved is not None
    assert np.asarray(saved.pairs).tolist() == [[1, 4, 1], [1, 6, 1]]
    assert saved.seconds == 0.5


def test_every_kind_of_edit(client: TestClient) -> None:
    expected = [
        ({"kind": "add", "pairs": [[1, 4]], "source": "labels:expert"}, "origins", [[1, 4, "labels:expert"]]),
        ({"kind": "count", "pairs": [[1, 4]], "multiplicity": 3}, "pairs", [[1, 4, 3]]),
        ({"kind": "reject", "pairs": [[2, 4]], "source": "before"}, "rejected", [["before", 2, 4]]),
        ({"kind": "note", "text": "odd"}, "note", "odd"),
        ({"kind": "flag", "flagged": True}, "flagged", True),
        ({"kind": "remove", "pairs": [[1, 4]]}, "pairs", []),
        ({"kind": "undo"}, "pairs", [[1, 4, 3]]),
        ({"kind": "redo"}, "pairs", []),
        ({"kind": "clear"}, "annotated", False),
        ({"kind": "nothing"}, "annotated", True),
        ({"kind": "add", "blocks": [[0, 3, 2, 3]]}, "pairs", [[0, 2, 1], [1, 2, 1], [0, 3, 1], [1, 3, 1], [2, 3, 1]]),
        ({"kind": "remove", "blocks": [[1, 2, 2, 3]]}, "pairs", [[0, 2, 1], [0, 3, 1]]),
        (
            {"kind": "add", "pairs": [[1, 9], [4, 9]], "counts": [2, 1], "about": [None, [2, 7, 8, 11, 1]]},
            "about",
            [[4, 9, 2, 7, 8, 11, 1.0]],
        ),
        ({"kind": "flag", "flagged": False}, "pairs", [[0, 2, 1], [0, 3, 1], [1, 9, 2], [4, 9, 1]]),
    ]
    for edit, field, value in expected:
        answer = change(client, edit)
        assert answer.status_code == 200, (edit, answer.text)
        assert answer.json()[field] == value, edit


def test_an_older_version_is_refused(client: TestClient) -> None:
    seen = state(client)["version"]
    change(client, {"kind": "add", "pairs": [[0, 1]]}, version=seen)
    answer = change(client, {"kind": "add", "pairs": [[2, 3]]}, version=seen)
    assert answer.status_code == 409
    assert "changed elsewhere" in answer.json()["reason"]
    assert state(client)["pairs"] == [[0, 1, 1]]


def test_a_full_disk_is_told_and_the_same_change_works_later(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise UserError("cannot write: no room left on the disk")

    edit = {"kind": "add", "pairs": [[0, 1]]}
    with monkeypatch.context() as broken:
        broken.setattr("attentiontuner.studio.desk.write_annotation", full)
        answer = change(client, edit)
        assert answer.status_code == 503
        assert "no room" in answer.json()["reason"]
        assert state(client)["pairs"] == []
    assert change(client, edit).json()["pairs"] == [[0, 1, 1]]


def test_sprites_hold_every_frame(client: TestClient, tmp_path: Path) -> None:
    layout = client.get("/api/episodes/1", params={"annotator": "ada"}).json()["sprites"]
    (tmp_path / "sheet.png").write_bytes(client.get("/api/episodes/1/sprites/0.png").content)
    with Image.open(tmp_path / "sheet.png") as sheet:
        pixels = np.asarray(sheet)
    assert pixels.shape[:2] == (layout["height"], 20 * layout["width"])
    assert (layout["cells"], layout["count"]) == ([*range(20)], 20)
    frame = client.get("/api/episodes/1/frames/3.png")
    assert frame.headers["content-type"] == "image/png"
    cell = layout["cells"][3]
    row, column = divmod(cell, min(layout["columns"], layout["count"]))
    part = pixels[row * layout["height"] : (row + 1) * layout["height"], column * layout["width"] :][
        :, : layout["width"]
    ]
    (tmp_path / "frame.png").write_bytes(frame.content)
    with Image.open(tmp_path / "frame.png") as large:
        small = np.asarray(large.resize((layout["width"], layout["height"]), Image.Resampling.BOX), np.float64)
    assert np.abs(small - part).mean() < 12


def test_suggestions(client: TestClient) -> None:
    def suggested(source: str, episode: int) -> list[list[float]]:
        query = {"annotator": "ada", "source": source}
        found = client.get(f"/api/episodes/{episode}/suggestions", params=query).json()["pairs"]
        assert all(pair[3:] == [1, None, ""] for pair in found)
        return [pair[:3] for pair in found]

    assert suggested("labels:expert", 1) == [[0, 19, 1.0]]
    assert suggested("before", 1) == []
    change(client, {"kind": "add", "pairs": [[2, 4], [2, 11]]})
    assert suggested("before", 1) == [[2, 4, 1.0], [2, 11, 1.0]]
    assert suggested("before", 2) == [[2, 4, 1.0]]
    assert suggested("before-stretched", 1) == [[3, 7, 1.0], [3, 19, 1.0]]
    assert state(client, 1)["annotated"] is False


def test_agreement(client: TestClient) -> None:
    change(client, {"kind": "add", "pairs": [[1, 11], [2, 5]]})
    query: dict[str, Any] = {"a": "ada", "b": "expert", "tolerance": 1, "episode": 0}
    found = client.get("/api/agreement", params=query).json()
    assert (found["common"], found["matched"], found["onlyFirst"], found["onlySecond"]) == (1, 1, 1, 0)
    assert found["f1"] == pytest.approx(2 / 3)
    assert found["here"]["onlyFirst"] == [[2, 5]]
    exact = client.get("/api/agreement", params={**query, "tolerance": 0}).json()
    assert exact["f1"] == 0
    nobody = client.get("/api/agreement", params={**query, "b": "nobody"}).json()
    assert (nobody["common"], nobody["f1"], nobody["here"]) == (0, None, None)


def test_no_suggestions_where_labels_must_not_be_influenced(toy: Path) -> None:
    from attentiontuner.studio.suggest import Suggester

    desk = Desk(toy)
    app = create_app(desk, annotator="ada", suggester=Suggester(desk, enabled=False))
    client = TestClient(app)
    assert client.get("/api/dataset").json()["sources"] == []
    answer = client.get("/api/episodes/0/suggestions", params={"annotator": "ada", "source": "labels:expert"})
    assert answer.status_code == 400


# --- strangers -------------------------------------------------------------------------------------------------------


def test_the_token_is_taken_from_the_address_into_a_cookie(toy: Path) -> None:
    app = guarded(create_app(Desk(toy), annotator="ada"), TOKEN, "127.0.0.1", PORT)
    client = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
    assert client.get("/api/dataset").status_code == 401
    assert client.get("/", params={"token": "wrong"}).status_code == 401
    answer = client.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/").status_code == 200
    assert client.get("/api/dataset").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": f"127.0.0.1.evil.example:{PORT}"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"cookie": "studio_8765=wrong"}, 401),
        ({"cookie": 'studio_8765="\\"; ='}, 401),
        ({"cookie": "studio_8765=é".encode()}, 401),
    ],
)
def test_strangers_are_refused_with_a_reason(client: TestClient, headers: dict[str, Any], status: int) -> None:
    version = state(client)["version"]
    if "cookie" in headers:
        client.cookies.clear()
    body = {"annotator": "ada", "version": version, "edit": {"kind": "nothing"}}
    answer = client.post("/api/episodes/0/change", json=body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["reason"]
    client.cookies.set(f"studio_{PORT}", TOKEN)
    assert not state(client)["annotated"]


@pytest.mark.parametrize(
    "others",
    ['prefs={"theme":"dark"}; ', "odd; =; ", 'a="; ', "x=[1,2]; studio_9=1; "],
    ids=["json", "bare", "quote", "list"],
)
def test_cookies_of_other_programs_lock_nobody_out(client: TestClient, others: str) -> None:
    client.cookies.clear()
    answer = client.get("/api/dataset", headers={"cookie": f"{others}studio_{PORT}={TOKEN}; more={{}}"})
    assert answer.status_code == 200


def test_a_link_clicked_on_another_page_and_a_forwarded_port_work(toy: Path) -> None:
    app = guarded(create_app(Desk(toy), annotator="ada"), TOKEN, "127.0.0.1", PORT)
    client = TestClient(app, base_url="http://127.0.0.1:9000")  # ssh -L 9000:127.0.0.1:8765
    clicked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "accept": "text/html"}
    assert client.get("/", params={"token": "wrong"}, headers=clicked).status_code == 403
    answer = client.get("/annotate", params={"token": TOKEN}, headers=clicked, follow_redirects=False)
    assert answer.status_code == 200
    assert 'content="0;url=/annotate"' in answer.text
    assert "studio_9000=" in answer.headers["set-cookie"]
    assert client.get("/api/dataset", headers={"origin": "http://127.0.0.1:9000"}).status_code == 200
    assert client.get("/api/dataset", headers={"origin": f"http://127.0.0.1:{PORT}"}).status_code == 403
    assert client.get("/", headers=clicked).status_code == 403  # without the token the other site learns nothing


def test_people_get_a_page_and_the_page_gets_json(client: TestClient) -> None:
    client.cookies.clear()
    page = client.get("/", headers={"accept": "text/html,*/*"})
    assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "ssh -L 8737:127.0.0.1:8737" in page.text
    assert client.get("/api/dataset", headers={"accept": "text/html,*/*"}).json()["reason"]
    client.cookies.set(f"studio_{PORT}", TOKEN)
    assert "The studio cannot show this" in client.get("/nowhere", headers={"accept": "text/html"}).text


def test_the_own_origin_is_welcome(client: TestClient) -> None:
    for name in ("127.0.0.1", "localhost"):
        answer = client.get("/api/dataset", headers={"host": f"{name}:{PORT}", "origin": f"http://{name}:{PORT}"})
        assert answer.status_code == 200


def test_every_answer_forbids_what_is_not_ours(client: TestClient) -> None:
    for path in ("/", "/api/dataset", "/static/annotate.js", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_pages_load_nothing_from_elsewhere() -> None:
    for page in STATIC.glob("*"):
        text = page.read_text()
        assert "http://" not in text.replace("http://www.w3.org", ""), page.name
        assert "https://" not in text, page.name
        if page.suffix == ".html":
            assert "style=" not in text
            assert "onclick" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static//etc/passwd",
        "/api/episodes/0/frames/..%2f..%2fmanifest.json",
        "/api/dataset?annotator=../expert",
        "/api/agreement?a=..%2fexpert&b=expert",
        "/api/episodes/0?annotator=%2fetc",
    ],
)
def test_no_path_leads_out_of_the_folders(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert 400 <= answer.status_code < 500
    assert answer.json()["reason"]


# --- nonsense --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/episodes/3?annotator=ada", 404),
        ("/api/episodes/-1?annotator=ada", 404),
        ("/api/episodes/0/frames/12.png", 404),
        ("/api/episodes/0/frames/-1.png", 404),
        ("/api/episodes/0/sprites/1.png", 404),
        ("/api/episodes/0/sprites/-1.png", 404),
        ("/api/episodes/zero?annotator=ada", 422),
        ("/api/episodes/99999999999999999999999?annotator=ada", 404),
        ("/api/episodes/0", 422),
        ("/api/episodes/0/suggestions?annotator=ada&source=nobody", 400),
        ("/api/agreement?a=ada&b=expert&tolerance=-1", 422),
        ("/api/play", 404),
        ("/nowhere", 404),
    ],
)
def test_wrong_addresses_get_a_reason(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.json()["reason"]


GOOD = {"annotator": "ada", "version": "", "edit": {"kind": "nothing"}, "seconds": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"annotator": "../x"},
        {"annotator": ""},
        {"annotator": "expert"},
        {"seconds": -1},
        {"seconds": 1e99},
        {"version": 3},
        {"extra": 1},
        {"edit": {"kind": "explode"}},
        {"edit": {"kind": "add", "pairs": [[4, 4]]}},
        {"edit": {"kind": "add", "pairs": [[0, 12]]}},
        {"edit": {"kind": "add", "pairs": [[0, 1.5]]}},
        {"edit": {"kind": "add", "pairs": [["0", "1"]]}},
        {"edit": {"kind": "add", "pairs": [[0, 1, 2]]}},
        {"edit": {"kind": "add", "pairs": [[0, 10**40]]}},
        {"edit": {"kind": "add", "pairs": "0,1"}},
        {"edit": {"kind": "add", "pairs": [[0, 1]], "source": "\u2028"}},
        {"edit": {"kind": "count", "pairs": [[0, 1]], "multiplicity": 2}},
        {"edit": {"kind": "count", "pairs": []}},
        {"edit": {"kind": "add", "pairs": [[0, 1]], "counts": [0]}},
        {"edit": {"kind": "add", "pairs": [[0, 1]], "counts": [1, 1]}},
        {"edit": {"kind": "add", "pairs": [[0, 1]], "about": [[0, 1, 1, 1, 1]]}},
        {"edit": {"kind": "add", "pairs": [[2, 9]], "about": [[0, 3, 9, 9, 1]]}},
        {"edit": {"kind": "add", "pairs": [[1, 11]], "about": [[0, 3, 11, 12, 1]]}},
        {"edit": {"kind": "add", "pairs": [[1, 9]], "about": [[0, 3, 9, 9, -1]]}},
        {"edit": {"kind": "add", "blocks": [[0, 3, 5, 12]]}},
        {"edit": {"kind": "add", "blocks": [[3, 2, 5, 6]]}},
        {"edit": {"kind": "reject", "pairs": [[0, 1]]}},
        {"edit": {"kind": "note", "text": "x" * 5000}},
        {"edit": {"kind": "flag", "flagged": "yes"}},
    ],
)
def test_malformed_changes_get_a_reason_and_change_nothing(client: TestClient, toy: Path, change: Any) -> None:
    body = {**GOOD, "version": state(client)["version"], **change}
    answer = client.post("/api/episodes/0/change", json=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["reason"]
    assert read_annotation(toy, "ada", 0) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"annotator": "ada"', b'"x"', b"[" * 5000, b'{"seconds": NaN}'],
)
def test_bodies_that_are_no_change_get_a_reason(client: TestClient, content: bytes) -> None:
    answer = client.post("/api/episodes/0/change", content=content, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.json()["reason"]


def test_half_a_surrogate_cannot_be_saved(client: TestClient) -> None:
    body = {**GOOD, "version": state(client)["version"], "edit": {"kind": "note", "text": "\ud800"}}
    answer = client.post(
        "/api/episodes/0/change", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422


def test_bodies_are_bounded(client: TestClient) -> None:
    body = b" " * (MAX_BODY + 1)
    assert client.post("/api/episodes/0/change", content=body).status_code == 413
    chunks = (b" " * 100_000 for _ in range(10))
    assert client.post("/api/episodes/0/change", content=chunks).status_code == 413


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
nearly_a_change = st.fixed_dictionaries(
    {
        "annotator": st.just("ada") | json_values,
        "version": st.just("") | json_values,
        "edit": st.fixed_dictionaries(
            {"kind": st.sampled_from(["add", "remove", "count", "note", "reject", "undo"]) | json_values},
            optional={
                "pairs": st.lists(st.tuples(st.integers(-2, 30), st.integers(-2, 30))) | json_values,
                "source": st.text() | json_values,
                "text": st.text(st.characters(exclude_categories=[])) | json_values,
            },
        )
        | json_values,
    }
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nearly_a_change | json_values)
def test_no_body_makes_the_server_fail(client: TestClient, body: Any) -> None:
    # The client raises what the server does not answer, so a bug fails this test with its traceback.
    answer = client.post(
        "/api/episodes/0/change", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200 or 400 <= answer.status_code < 500


@pytest.mark.parametrize("actions", KINDS_OF_ACTIONS, ids=lambda actions: actions.kind)
def test_parts_and_every_kind_of_action_are_shown(tmp_path, actions):
    spec, made = parts_demonstrations(actions)
    make_writer(tmp_path / "d", observation=spec, actions=actions).append(made, annotator="expert")
    app = create_app(Desk(tmp_path / "d"), annotator="ada")
    with TestClient(app) as client:
        data = client.get("/api/dataset").json()
        assert (data["kind"], data["actions"]) == ("grid", list(actions.names))
        shown = client.get("/api/episodes/1?annotator=ada").json()
        first = int(made[1].actions[0]) if actions.kind == "discrete" else actions.name(made[1].actions[0])
        assert (shown["length"], shown["steps"][0]) == (len(made[1]), first)
        numbers = actions.kind == "box"
        assert any(curves["name"] == "actions" for curves in shown["curves"]) == numbers
        for curves in shown["curves"]:
            assert {len(line) for line in curves["heights"] + curves["values"]} == {len(made[1])}
        for address in ("sprites/0.png", "frames/0.png"):
            assert client.get(f"/api/episodes/1/{address}").content.startswith(b"\x89PNG")
