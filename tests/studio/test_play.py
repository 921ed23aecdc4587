"""Playing: steps, undo of an episode, saving, seeds, and the data set that comes out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from attentiontuner.collecting.episode import record_episode
from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import EVALUATION_START
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.play import OutOfStep, Player
from attentiontuner.studio.server import create_app
from attentiontuner.studio.times import read_playing
from attentiontuner.tasks.task import get_task

TASK = get_task("hallway", {"length": 3})


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    person = Player(tmp_path / "played", TASK, "ada")
    yield person
    person.close()


def play_like_the_expert(player: Player) -> list[int]:
    seed = player.state()["seed"]
    actions = record_episode(TASK, TASK.make_env(), seed).demonstration.actions.tolist()
    for made, action in enumerate(actions):
        player.step(action, made)
    return [int(action) for action in actions]


def test_a_played_episode_is_what_the_expert_would_have_recorded(player: Player) -> None:
    expected = record_episode(TASK, TASK.make_env(), player.state()["seed"]).demonstration
    play_like_the_expert(player)
    state = player.state()
    assert state["ended"]
    assert state["success"]
    assert player.save(12.5) == 0
    store = DemoStore.open(player.root)
    recorded = store[0]
    np.testing.assert_array_equal(recorded.observations, expected.observations)
    np.testing.assert_array_equal(recorded.actions, expected.actions)
    np.testing.assert_array_equal(recorded.rewards, expected.rewards)
    assert (recorded.seed, recorded.success, recorded.terminated) == (expected.seed, True, True)
    assert recorded.pairs is None
    assert store.settings == {"length": 3}
    assert read_playing(player.root) == [(0, "ada", 12.5)]


def test_only_whole_episodes_are_saved(player: Player) -> None:
    player.step(0, 0)
    with pytest.raises(UserError, match="not over"):
        player.save(1.0)
    assert len(DemoStore.open(player.root)) == 0


def test_an_episode_whose_time_could_not_be_noted_is_saved_once(
    player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise UserError("no room left on the disk")

    play_like_the_expert(player)
    monkeypatch.setattr("attentiontuner.studio.play.record_playing", full)
    with pytest.raises(UserError, match="no room"):
        player.save(1.0)
    with pytest.raises(UserError, match="not over"):
        player.save(1.0)
    assert len(DemoStore.open(player.root)) == len(player.saved) == 1


def test_undo_of_a_whole_episode(player: Player) -> None:
    first = player.state()
    play_like_the_expert(player)
    again = player.discard()
    assert again == first
    play_like_the_expert(player)
    assert player.state()["success"]


def test_a_step_the_page_did_not_see_is_refused(player: Player) -> None:
    player.step(0, 0)
    with pytest.raises(OutOfStep, match="1 step made so far, not 0"):
        player.step(0, 0)
    with pytest.raises(UserError, match="action 9, but there are only 7 actions"):
        player.step(9, 1)
    assert player.state()["step"] == 1


def test_seeds_come_in_order_and_saved_ones_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "played"
    first = Player(root, TASK, "ada", seeds=[5, 6, 7])
    assert first.state()["comingSeeds"] == [5, 6, 7]
    play_like_the_expert(first)
    first.save(1.0)
    assert first.state()["seed"] == 6
    assert first.start(7)["seed"] == 7
    again = Player(root, TASK, "ada", seeds=[5, 6, 7])
    assert again.state()["comingSeeds"] == [6, 7]
    assert again.state()["saved"] == 1
    with pytest.raises(UserError, match="out of range"):
        again.start(EVALUATION_START)


@pytest.mark.parametrize(
    "name",
    [
        *("hallway", "ordering", "counting", "mortar-mayhem", "mystery-path", "searing-spotlights"),
        *("remember-reach", "remember-colour", "blink-count"),
    ],
)
def test_every_task_can_be_played_with_its_keys(tmp_path: Path, name: str) -> None:
    task = get_task(name)
    if task.needs is not None:
        pytest.importorskip(task.needs[0], reason=f"needs the package {task.needs[0]}")
    player = Player(tmp_path / "played", task, "ada")
    assert set(task.keys.values()) <= set(range(len(task.playable)))
    for action in sorted(set(task.keys.values())):
        state = player.state()
        if state["ended"]:
            state = player.discard()
        assert player.step(action, state["step"])["lastAction"] == task.playable[action][0]
    player.close()


def test_moves_of_a_robot_are_saved_as_its_actions(tmp_path: Path) -> None:
    task = get_task("remember-reach")
    pytest.importorskip("mujoco")
    player = Player(tmp_path / "played", replace(task, horizon=3), "ada")
    with pytest.raises(UserError, match="action 7, but there are only 7 actions, counted from 0"):
        player.step(7, 0)
    for step, move in enumerate(("up", "left", "stay")):
        player.step(list(task.moves).index(move), step)
    player.save(1.0)
    player.close()
    actions = DemoStore.open(tmp_path / "played")[0].actions
    assert np.array_equal(actions, np.float32([task.moves[move] for move in ("up", "left", "stay")]))


def test_next_leaves_a_seed_that_is_not_saved(tmp_path: Path) -> None:
    person = Player(tmp_path / "played", TASK, "ada")
    assert [person.start()["seed"] for _ in range(3)] == [1, 2, 3]
    person.start(1)
    play_like_the_expert(person)
    person.save(1.0)
    assert person.state()["seed"] == 2
    assert person.state()["comingSeeds"][:2] == [0, 2]
    person.close()
    listed = Player(tmp_path / "listed", TASK, "ada", seeds=[5, 6])
    assert [listed.start()["seed"] for _ in range(3)] == [6, 5, 6]
    listed.close()


def test_a_killed_studio_goes_on_where_the_episode_was(tmp_path: Path) -> None:
    root = tmp_path / "played"
    first = Player(root, TASK, "ada", seeds=[3])
    for made in range(3):
        shown = first.step(2, made)
    # Nothing is closed: this is a kill. Somebody else's studio, and one of another task, do not go on with it.
    other = Player(root, TASK, "bob")
    assert (other.state()["step"], other.state()["resumed"]) == (0, False)
    first._journal.close()  # the system lets go of a killed process's locks
    again = Player(root, TASK, "ada")
    assert again.state() == {**shown, "resumed": True, "comingSeeds": again.state()["comingSeeds"]}
    again._journal.close()
    (root / "studio" / "underway" / "ada.jsonl").open("a").write("1")  # a line that was cut short
    assert Player(root, TASK, "ada").state()["step"] == 3


def test_an_ended_episode_outlives_a_kill_and_is_saved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "played"
    first = Player(root, TASK, "ada")
    play_like_the_expert(first)
    first._journal.close()
    second = Player(root, TASK, "ada")
    assert (second.state()["ended"], second.state()["success"]) == (True, True)
    monkeypatch.setattr(Player, "_restart", lambda *_: None)  # killed between the save and the next episode
    second.save(1.0)
    monkeypatch.undo()
    second._journal.close()
    third = Player(root, TASK, "ada")
    assert (third.state()["seed"], third.state()["step"], third.saved) == (1, 0, [0])


def test_two_studios_of_one_player_do_not_mix(tmp_path: Path) -> None:
    first, second = (Player(tmp_path / "played", TASK, "ada") for _ in range(2))
    first.step(0, 0)
    second.step(1, 0)
    first._journal.close()
    assert Player(tmp_path / "played", TASK, "ada").state()["lastAction"] == "left"


def test_another_task_does_not_get_into_the_data_set(player: Player) -> None:
    with pytest.raises(UserError, match="task"):
        Player(player.root, get_task("ordering"), "ada")


def test_playing_over_the_web(tmp_path: Path) -> None:
    player = Player(tmp_path / "played", TASK, "ada")
    client = TestClient(create_app(Desk(player.root), annotator="ada", player=player))
    game = client.get("/api/play").json()
    assert game["keys"]["ArrowLeft"] == 0
    assert game["frame"].startswith("data:image/png;base64,")
    assert client.post("/api/play/step", json={"action": 0, "made": 0}).json()["step"] == 1
    assert client.post("/api/play/step", json={"action": 0, "made": 0}).status_code == 409
    assert client.post("/api/play/step", json={"action": 99, "made": 1}).status_code == 400
    assert client.post("/api/play/step", json={"action": "left", "made": 1}).status_code == 422
    unfinished = {"seconds": 1, "seed": 0, "made": 1}
    assert client.post("/api/play/save", json=unfinished).status_code == 400
    assert client.post("/api/play/start", json={"seed": 2**30}).status_code == 400
    assert client.post("/api/play/discard").json()["step"] == 0
    steps = len(play_like_the_expert(player))
    ended = {"seconds": 3.5, "seed": 0, "made": steps}
    assert client.post("/api/play/save", json={**ended, "made": steps - 1}).status_code == 409
    for _ in range(2):  # sent again because the answer was lost, it is saved once
        assert client.post("/api/play/save", json=ended).json()["episode"] == 0
    assert len(player.saved) == 1
    assert client.get("/api/dataset").json()["lengths"] == [len(DemoStore.open(player.root)[0])]


def test_a_task_without_keys_is_played_with_digits(tmp_path: Path) -> None:
    from dataclasses import replace

    player = Player(tmp_path / "played", replace(TASK, keys={}), "ada")
    client = TestClient(create_app(Desk(player.root), annotator="ada", player=player))
    assert client.get("/api/play").json()["keys"] == {str(n + 1): n for n in range(7)}


def test_an_episode_ends_at_the_tasks_horizon(tmp_path: Path) -> None:
    person = Player(tmp_path / "played", replace(TASK, horizon=2), "ada")
    assert not person.step(0, 0)["ended"]
    state = person.step(0, 1)
    assert (state["ended"], state["success"]) == (True, False)
    person.save(1.0)
    person.close()
    assert DemoStore.open(tmp_path / "played")[0].truncated


def test_what_has_neither_single_actions_nor_moves_is_not_played(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"task 'hallway' takes choices 2×3: .* name some in Task\(moves=...\)"):
        Player(tmp_path / "played", replace(TASK, actions=ActionSpec.multi_discrete((2, 3))), "ada")
    assert not (tmp_path / "played").exists()


def test_a_robot_is_played_by_camera_from_any_thread_of_the_server(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    task = get_task("remember-reach", {"cameras": 64})
    try:
        person = Player(tmp_path / "played", task, "ada")
    except UserError as error:
        pytest.skip(str(error))
    # Every request has a thread of its own here.
    client = TestClient(create_app(Desk(person.root), annotator="ada", player=person))
    for made in range(3):
        assert client.post("/api/play/step", json={"action": 0, "made": made}).status_code == 200
        example = client.get("/api/instructions").json()["example"]
        assert example["p"] < example["q"]
    person.close()
