"""What people are told at first: of every task, and where nobody wrote anything."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from attentiontuner.demos import Demonstration, DemoWriter, PairTable
from attentiontuner.demos.annotations import Annotation, read_annotation, write_annotation
from attentiontuner.spaces import ActionSpec, ObservationSpec
from attentiontuner.studio.desk import Desk, Missing
from attentiontuner.studio.guidance import Guidance
from attentiontuner.studio.server import create_app
from attentiontuner.studio.sprites import large_frame
from attentiontuner.tasks import Instructions, Task, all_tasks, get_task
from attentiontuner.tasks.instructions import ANY_GOAL, ANY_P
from tests.studio.conftest import write_hallway


@pytest.fixture(scope="module")
def hallway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hallway(tmp_path_factory.mktemp("guidance") / "hallway", 2)


def pixels(png: bytes) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture)


def test_every_task_has_instructions_of_its_own() -> None:
    for task in all_tasks().values():
        if task.register is not None and task.register.startswith("attentiontuner."):
            told = Instructions.of(task.instructions)
            assert told.goal != ANY_GOAL, task.name
            assert told.p != ANY_P, task.name
            assert max(map(len, (told.goal, told.p, told.q, told.advice))) <= 220, task.name


def test_a_text_is_the_goal_and_nothing_fits_every_task() -> None:
    shape = {"observation": ObservationSpec("vector", (1,)), "actions": ActionSpec.of(2)}
    assert Task(name="x", title="X", instructions="Go home.", **shape).instructions == Instructions("Go home.")
    assert Task(name="x", title="X", **shape).instructions == Instructions()


def test_the_pictures_are_a_pair_of_the_expert(hallway: Path) -> None:
    with TestClient(create_app(Desk(hallway), annotator="ada")) as client:
        told = client.get("/api/instructions").json()
        labels = read_annotation(hallway, "expert", 0)
        assert labels is not None
        p, q, _ = list(labels.pairs)[-1]
        assert told["example"] == {"p": p, "q": q}
        assert (told["task"], told["title"]) == ("hallway", "Hallway")
        seen = Desk(hallway).demonstration(0).observations
        for end, step in (("p", p), ("q", q)):
            expected = large_frame(Desk(hallway).store.observation, seen[step])  # type: ignore[index]
            assert np.array_equal(pixels(client.get(f"/api/instructions/{end}.png").content), pixels(expected))
        assert client.get("/api/instructions/r.png").status_code == 404


def test_who_shall_not_be_influenced_sees_another_episode(hallway: Path) -> None:
    open_hallway, blind = Guidance(Desk(hallway)), Guidance(Desk(hallway), labels=False)
    example = blind.as_json()["example"]
    assert example["p"] == 1
    assert blind.picture("p") != open_hallway.picture("p")


def test_what_is_played_has_pictures_before_there_is_a_data_set(tmp_path: Path) -> None:
    told = Guidance(Desk(tmp_path / "none"), get_task("ordering", {"length": 3})).as_json()
    assert told["title"] == "Ordering"
    assert told["example"]["q"] == 20


def test_a_data_set_without_a_task_shows_a_pair_once_somebody_has_marked_one(tmp_path: Path) -> None:
    writer = DemoWriter(tmp_path / "d", task="mine", observation=ObservationSpec("vector", (3,)), actions=("a", "b"))
    writer.append([Demonstration(np.eye(6, 3, dtype=np.float32), np.zeros(6, np.int64))])
    guidance = Guidance(Desk(tmp_path / "d"))
    told = guidance.as_json()
    assert (told["goal"], told["p"], told["title"]) == (ANY_GOAL, ANY_P, "mine")
    assert told["example"] is None
    with pytest.raises(Missing, match="no such picture"):
        guidance.picture("p")
    write_annotation(tmp_path / "d", "ada", 0, Annotation(PairTable.of([(1, 3), (2, 4)], 6)))
    assert guidance.as_json()["example"] == {"p": 2, "q": 4}
    assert guidance.picture("p") != guidance.picture("q")
    assert Guidance(Desk(tmp_path / "d"), labels=False).as_json()["example"] is None
