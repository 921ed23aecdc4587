"""Bad requests to the studio: every route, with wrong paths, queries, headers and bodies. 4xx, never 5xx."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Match
from starlette.testclient import TestClient

from attentiontuner.studio.desk import Desk
from attentiontuner.studio.play import Player
from attentiontuner.studio.server import create_app, guarded
from tests.bad_input.spoiling import WRONG, spoil
from tests.demos.examples import write_store
from tests.toy_task import TOY

TOKEN, PORT = "secret-of-this-launch", 8765
EDIT = {"kind": "add", "pairs": [[0, 3]], "source": None, "multiplicity": 1, "text": "x", "flagged": False}
BODIES: dict[str, Any] = {
    "/api/episodes/0/change": {"annotator": "ada", "version": "", "edit": EDIT, "seconds": 0.5},
    "/api/episodes/1/time": {"annotator": "ada", "seconds": 1.0},
    "/api/play/start": {"seed": 3},
    "/api/play/step": {"action": 1, "made": 0},
    "/api/play/discard": {},
    "/api/play/save": {"seconds": 1.0, "seed": 3, "made": 2},
    "/api/here": {"window": "w", "annotator": "ada", "episode": 0, "leaving": False},
    "/api/assign": {"name": "ada", "episodes": "0-2", "take_away": False},
    "/api/state": {"by": "ada", "episodes": "0-2", "state": "to review", "seen": {"": "0-2"}},
    "/api/accept": {"by": "ada", "name": "bot", "source": "labels:expert", "episodes": "0-2", "batch": "5f0c92b1"},
    "/api/take-back": {"name": "bot", "batch": "5f0c92b1"},
    "/api/handout": {"episodes": "0-2", "form": "csv", "tolerance": 1},
}
QUERIES: dict[str, dict[str, str]] = {
    "/": {}, "/annotate": {}, "/table": {}, "/progress": {}, "/static/annotate.html": {}, "/api/play": {},
    "/api/dataset": {"annotator": "ada"},
    "/api/episodes/0": {"annotator": "ada"},
    "/api/episodes/0/sprites/0.png": {}, "/api/episodes/0/glance.png": {},
    "/api/table": {"annotator": "ada", "seen": "x", "tolerance": "1"},
    "/api/instructions": {}, "/api/instructions/first.png": {},
    "/api/episodes/0/frames/0.png": {},
    "/api/episodes/0/suggestions": {"annotator": "ada", "source": "labels:expert"},
    "/api/agreement": {"a": "ada", "b": "expert", "tolerance": "1", "episode": "0"},
}  # fmt: skip
PARTS = [
    "-1",
    "0",
    "999",
    "9" * 30,
    "x",
    "..",
    "%2e%2e",
    "%00",
    "%ff",
    "ü",
    "a" * 5000,
    "",
    "1.5",
    "nan",
    "{}",
    "~",
    "//",
]
HEADERS: list[dict[str, str]] = [
    {}, {"content-type": "text/plain"}, {"content-type": "application/json; charset=utf-7"}, {"content-encoding": "br"},
    {"origin": "http://evil.example"}, {"host": "evil.example"}, {"range": "bytes=9-1"}, {"cookie": "a={}; b"},
    {"transfer-encoding": "x"}, {"if-none-match": "x" * 500}, {"x" * 200: "y"}, {"content-length": "5"},
]  # fmt: skip


def test_every_route_is_asked(tmp_path: Path) -> None:
    """A new route has to be named above."""
    write_store(tmp_path / "data", 4)
    player = Player(tmp_path / "played", TOY, "ada")
    app = create_app(Desk(tmp_path / "data"), annotator="ada", player=player)
    player.close()
    asked = [("POST", path) for path in BODIES] + [("GET", path) for path in QUERIES]

    def routed(route: Any) -> bool:
        scopes = [{"type": "http", "method": method, "path": path, "headers": []} for method, path in asked]
        return any(route.matches(scope)[0] == Match.FULL for scope in scopes)

    assert [route.path for route in app.routes if not routed(route)] == []


def request(client: TestClient, rng: random.Random) -> Any:
    """One request with something wrong in it, or perhaps nothing."""
    post = rng.random() < 0.6
    path = rng.choice(sorted(BODIES if post else QUERIES))
    query = dict(QUERIES.get(path, {}))
    content = b""
    if post:
        content = json.dumps(BODIES[path]).encode()
        content = spoil(content, rng) if rng.random() < 0.8 else content
    elif query and rng.random() < 0.7:
        query[rng.choice(sorted(query))] = rng.choice([*PARTS, *map(str, WRONG)])
    if rng.random() < 0.3:
        parts = path.split("/")
        parts[rng.randrange(1, len(parts))] = rng.choice(PARTS)
        path = "/".join(parts)
    method = rng.choice(["POST" if post else "GET"] * 9 + ["PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
    headers = {"content-type": "application/json", **(rng.choice(HEADERS) if rng.random() < 0.4 else {})}
    return client.request(method, "/" + path.lstrip("/"), params=query, content=content, headers=headers)


def check(folder: Path, numbers: range) -> None:
    write_store(folder / "data", 4)
    desk, player = Desk(folder / "data"), Player(folder / "played", TOY, "ada")
    outside, wrong, refused = sorted(folder.iterdir()), [], 0
    app = guarded(create_app(desk, annotator="ada", player=player), TOKEN, "127.0.0.1", PORT)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", cookies={f"studio_{PORT}": TOKEN}) as client:
        for number in numbers:
            try:
                answer = request(client, random.Random(f"request {number}"))
            except Exception as error:
                wrong.append(f"request {number}: {type(error).__name__}: {str(error)[:200]}")
                continue
            refused += answer.status_code >= 400
            if answer.status_code >= 500:
                wrong.append(f"request {number}: {answer.status_code} {answer.text[:200]}")
            elif answer.status_code >= 400 and "\n" in answer.text:
                wrong.append(f"request {number}: {answer.text}")
    player.close()
    assert not wrong, f"{len(wrong)} of {len(numbers)}:\n" + "\n".join(wrong)
    assert refused > len(numbers) / 3
    assert sorted(folder.iterdir()) == outside, "something was written elsewhere"


def test_a_bad_request_is_refused(tmp_path: Path) -> None:
    check(tmp_path, range(600))


@pytest.mark.slow
def test_many_bad_requests_are_refused(tmp_path: Path) -> None:
    check(tmp_path, range(600, 4000))
