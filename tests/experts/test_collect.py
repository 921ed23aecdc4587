import itertools
import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from attentiontuner.collecting.collection import collect
from attentiontuner.collecting.episode import record_episode
from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import demonstration_seed
from attentiontuner.demos import Annotation, DemoStore, PairTable, write_annotation
from attentiontuner.experts import Decision
from attentiontuner.spaces import ActionSpec, ObservationSpec
from attentiontuner.tasks.task import Task
from attentiontuner.viz.pictures import save_episode_picture
from tests.cli.command import ROOT, STOPPED, TOY, command, wait_until_workers_import, workers_of
from tests.toy_task import TOY as TASK
from tests.toy_task import ToyEnv, ToyExpert


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_task_may_be_named(tmp_path):
    assert len(collect("toy", 2, 1, tmp_path / "data", workers=1)) == 2
    with pytest.raises(UserError, match="^a dict is no task"):
        collect({"name": "toy"}, 2, 1, tmp_path / "other")


def test_an_episode_says_what_was_recalled():
    env = TASK.make_env()
    episode = record_episode(TASK, env, 7)
    assert len(episode.demonstration) == 5
    assert episode.demonstration.success
    assert episode.demonstration.terminated
    assert episode.demonstration.rewards.tolist() == [0, 0, 0, 0, 1]
    assert {name: np.asarray(pairs).tolist() for name, pairs in episode.pairs.items()} == {
        "expert": [[0, 4, 1]],
        "second": [[0, 4, 2]],
    }
    env.reset(seed=7)
    assert episode.demonstration.observations[0].tolist() == env.reset(seed=7)[0].tolist()


def test_the_bytes_do_not_depend_on_the_workers(tmp_path):
    for workers in (1, 2):
        collect(TASK, 22, 3, tmp_path / str(workers), workers=workers, shard_episodes=4)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    store = DemoStore.open(tmp_path / "1")
    store.verify()
    assert len(store) == 22
    assert store.annotators() == ["expert", "second"]
    seeds = store.read_packed().seeds
    expected = [demonstration_seed(3, 8 * shard + j) for shard in range(6) for j in range(4)][:22]
    assert seeds.tolist() == expected


def test_another_seed_gives_other_episodes(tmp_path):
    first = collect(TASK, 8, 1, tmp_path / "1", workers=1)
    second = collect(TASK, 8, 2, tmp_path / "2", workers=1)
    assert not np.array_equal(first.read_packed().frames, second.read_packed().frames)


def test_full_shards_are_extended_and_partial_ones_are_not(tmp_path):
    collect(TASK, 8, 3, tmp_path / "d", workers=1, shard_episodes=4)
    before = contents(tmp_path / "d")
    collect(TASK, 14, 3, tmp_path / "d", workers=1)
    after = contents(tmp_path / "d")
    assert all(after[name] == content for name, content in before.items() if name != "manifest.json")
    collect(TASK, 14, 3, tmp_path / "whole", workers=1, shard_episodes=4)
    assert contents(tmp_path / "whole") == after
    with pytest.raises(UserError, match=r"holds 14 episodes and its shard 3 is not full \(2 of 4\)"):
        collect(TASK, 20, 3, tmp_path / "d", workers=1)
    with pytest.raises(UserError, match="is a data set of 14 episodes: ask for as many"):
        collect(TASK, 3, 3, tmp_path / "d", workers=1)
    assert contents(tmp_path / "d") == after
    assert len(collect(TASK, 14, 3, tmp_path / "d", workers=1)) == 14


def test_a_lost_shard_is_made_again(tmp_path):
    collect(TASK, 8, 3, tmp_path / "d", workers=1, shard_episodes=4)
    before = contents(tmp_path / "d")
    (tmp_path / "d" / "shards" / "00001.safetensors.zst").unlink()
    (tmp_path / "d" / "shards" / ".00001.safetensors.zst.abc").write_bytes(b"half")
    (tmp_path / "d" / "annotations" / "expert" / ".00001.jsonl.abc").write_bytes(b"half")
    (tmp_path / "d" / ".manifest.json.abc").write_bytes(b"half")
    collect(TASK, 8, 3, tmp_path / "d", workers=1)
    assert contents(tmp_path / "d") == before


def test_a_shard_with_one_wrong_bit_is_made_again(tmp_path):
    collect(TASK, 8, 3, tmp_path / "d", workers=1, shard_episodes=4)
    before = contents(tmp_path / "d")
    shard = tmp_path / "d" / "shards" / "00000.safetensors.zst"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    collect(TASK, 8, 3, tmp_path / "d", workers=1)
    assert contents(tmp_path / "d") == before


def test_lost_annotations_are_made_again(tmp_path, capsys):
    collect(TASK, 8, 3, tmp_path / "d", workers=1, shard_episodes=4)
    before = contents(tmp_path / "d")
    write_annotation(tmp_path / "d", "anna", 0, Annotation(PairTable.of([], len(DemoStore.open(tmp_path / "d")[0]))))
    (tmp_path / "d" / "annotations" / "expert" / "00001.jsonl").unlink()
    (tmp_path / "d" / "annotations" / "second" / "00000.jsonl").write_bytes(b"")
    (tmp_path / "d" / "annotations" / "anna" / "00000.jsonl").unlink()
    collect(TASK, 8, 3, tmp_path / "d", workers=1)
    after = contents(tmp_path / "d")
    assert {name: text for name, text in after.items() if name != "manifest.json"} == {
        name: text for name, text in before.items() if name != "manifest.json"
    }
    assert "anna/00000.jsonl is gone or empty" in capsys.readouterr().err, "nobody but anna can say it again"


class OtherwiseExpert(ToyExpert):
    """Does something else at the steps that do not matter."""

    def decide(self, observation):
        decision = super().decide(observation)
        return replace(decision, action=decision.action or 2)


def test_lost_annotations_of_other_episodes_are_not_made_up(tmp_path):
    """The task plays otherwise by now: what it would recall is not what is stored."""
    collect(TASK, 4, 3, tmp_path / "d", workers=1)
    lost = tmp_path / "d" / "annotations" / "expert" / "00000.jsonl"
    lost.unlink()
    changed = replace(TASK, expert=OtherwiseExpert)
    with pytest.raises(UserError, match="shard 0 is whole, but recorded now it would be another"):
        collect(changed, 4, 3, tmp_path / "d", workers=1)
    assert not lost.exists()


def test_an_expert_that_should_never_fail(tmp_path):
    careless = replace(TASK, expert="tests.toy_task:CarelessExpert")
    with pytest.raises(UserError, match=r"seed 10000\d\d: the expert failed \(it ended after 5 steps with reward 0\)"):
        collect(careless, 8, 1, tmp_path / "d", workers=1)


class Broken(ToyEnv):
    """A toy with one mistake, by its name."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake = mistake
        self.own_seeds = itertools.chain([1, 1], itertools.count(2))  # few first observations: the second is the first
        if mistake == "actions":
            self.action_space = gym.spaces.Discrete(4)
        if mistake == "text actions":
            self.action_space = gym.spaces.Text(4)

    def reset(self, *, seed=None, options=None):
        if self.mistake == "unseeded":
            seed = next(self.own_seeds)
        observation, info = super().reset(seed=seed)
        if self.mistake == "dict":
            return {"image": observation}, info
        if self.mistake == "reset":
            return observation
        return (observation / 4, info) if self.mistake == "floats" else (observation, info)

    def step(self, action):
        if self.mistake == "raises" and self.steps == 2:
            raise KeyError("door")
        observation, *rest = super().step(action)
        if self.mistake == "shape":
            observation = observation[:1]
        if self.mistake == "symbols":
            observation = observation + np.uint8(9)
        return (observation, *rest[:-1], {}) if self.mistake == "silent" else (observation, *rest)


class Strange(ToyExpert):
    """An expert with one mistake, by the name of its environment's."""

    def __init__(self, env):
        super().__init__(env)
        self.mistake = env.unwrapped.mistake

    def decide(self, observation):
        decision = super().decide(observation)
        if self.mistake == "number":
            return decision.action
        if self.mistake == "range":
            return Decision(7)
        if self.mistake == "one step":
            return Decision(decision.action, recalled=0)
        return Decision(0) if self.mistake == "silent" else decision


@pytest.mark.parametrize(
    ("mistake", "line"),
    [
        ("actions", r"task 'toy' promises 3 actions, its environment has Discrete\(4\)"),
        ("text actions", r"task 'toy', seed 1000000: actions of Text.* cannot be learned"),
        ("unseeded", r"reset\(seed=1000000\) gives another observation each time"),
        (
            "floats",
            r"observations that task 'toy' does not promise: float64, not uint8: give whole numbers from 0 to 255",
        ),
        ("dict", r"observations that task 'toy' does not promise: no array of numbers"),
        ("reset", r"observations that task 'toy' does not promise: uint8 of shape \(2, 1\), not uint8 of"),
        ("shape", r"seed 1000000, step 1: the environment gives .* uint8 of shape \(1, 2, 1\), not uint8 of shape"),
        ("symbols", r"seed 1000000, step 1: .* symbol 9 in channel 0, which has 5 symbols"),
        ("raises", r"seed 1000000, step 2: .*test_collect.py, line \d+: KeyError: 'door'"),
        ("number", r"step 0: the expert decides with a int, not with a Decision"),
        ("range", r"step 0: the expert chose action 7, but there are only 3 actions, counted from 0"),
        ("one step", r"step 0: the expert recalls 0: give a list of steps, such as \[0\]"),
        ("silent", r"the expert failed \(it ended after 5 steps with reward 0, and info says nothing of 'success'\)"),
    ],
)
def test_a_mistake_in_a_task_of_ones_own_is_one_line(tmp_path, mistake, line):
    gym.register("Broken-v0", entry_point=Broken)
    task = replace(TASK, env_id="Broken-v0", settings={"mistake": mistake}, expert=Strange, horizon=5)
    try:
        with pytest.raises(UserError, match=line):
            collect(task, 4, 1, tmp_path / "d", workers=1)
    finally:
        gym.registry.pop("Broken-v0")


class Crane(gym.Env):
    """Shows a picture and a number; at the last step the crane must go where the first number said, to 0.01."""

    observation_space = gym.spaces.Dict(
        {"camera": gym.spaces.Box(0, 255, (4, 4), np.uint8), "load": gym.spaces.Box(-1, 1, (1,), np.float32)}
    )

    def __init__(self, continuous):
        low_high = {"low": np.array([-1, 0]), "high": np.array([1, 9])}
        self.action_space = gym.spaces.Box(**low_high, dtype=np.float32) if continuous else Turned
        self.continuous = continuous

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal, self.steps = self.np_random.uniform(-1, 1), 0
        self.seen = {"camera": np.zeros((4, 4), np.uint8), "load": np.array([self.goal], np.float32)}
        return self.seen, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        self.seen["camera"] += 1  # the environment's own array, given out again and again
        self.seen["load"][:] = 0
        near = abs(action[0] - self.goal) < 0.01 if self.continuous else action[0] == int(self.goal > 0)
        return self.seen, 0.0, self.steps == 3, False, {"success": bool(self.steps == 3 and near)}


Turned = gym.spaces.MultiDiscrete([2, 3])


class CraneExpert:
    def __init__(self, env):
        self.continuous, self.step = env.unwrapped.continuous, 0

    def decide(self, observation):
        if self.step == 0:
            self.goal = float(observation["load"][0])
        self.step += 1
        first = self.goal if self.continuous else int(self.goal > 0)
        return Decision([first, 2], recalled=[0] if self.step == 3 else [])


@pytest.mark.parametrize("continuous", [False, True])
def test_a_task_of_parts_and_other_actions_is_collected(tmp_path, continuous):
    gym.register("Crane-v0", entry_point=Crane)
    try:
        env = Crane(continuous)
        task = Task(
            name="crane",
            title="Crane",
            env_id="Crane-v0",
            settings={"continuous": continuous},
            observation=ObservationSpec.from_space(env.observation_space),
            actions=ActionSpec.from_space(env.action_space),
            horizon=3,
            expert=CraneExpert,
        )
        store = collect(task, 5, 1, tmp_path / "d", workers=1, shard_episodes=3)
    finally:
        gym.registry.pop("Crane-v0")
    store.verify()
    assert (store.observation, store.actions) == (task.observation, task.actions)
    assert [list(one.pairs) for one in store] == [[(0, 2, 1)]] * 5
    for one in store:
        assert one.observations["camera"][:, 0, 0, 0].tolist() == [0, 1, 2]
        assert one.observations["load"][1:].tolist() == [[0], [0]]
        goal = one.observations["load"][0, 0]
        assert one.actions.shape == (3, 2)
        assert one.actions[2, 0] == (goal if continuous else goal > 0)
    save_episode_picture(store.observation, store.actions, store[0], tmp_path / "e.png")
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")


def test_an_expert_that_may_fail_keeps_only_successes(tmp_path):
    careless = replace(TASK, expert="tests.toy_task:CarelessExpert", every_attempt_succeeds=False)
    collect(careless, 5, 1, tmp_path / "d", workers=1, shard_episodes=10)
    store = DemoStore.open(tmp_path / "d")
    assert len(store) == 5
    assert store.summary()["success_rate"] == 1.0
    assert store.read_packed().seeds.max() > 1_000_004, "failed attempts were skipped"
    with pytest.raises(UserError, match=r"solved only \d of 20 attempts of shard 0"):
        collect(replace(careless, settings={"length": 6}, success=_never), 5, 1, tmp_path / "e", 1, shard_episodes=10)


def _never(reward: float, terminated: bool, info: object) -> bool:
    return False


def test_memory_of_the_present_is_refused(tmp_path):
    with pytest.raises(UserError, match="task 'toy', seed 1000000, step 0: the expert recalls step 0 at step 0"):
        collect(replace(TASK, expert="tests.toy_task:ForesightedExpert"), 4, 1, tmp_path / "d", workers=1)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"expert": None}, {}, "has no scripted expert"),
        ({"settings": {"width": 3, "length": 5}}, {}, "does not take these settings"),
        ({"horizon": 3}, {}, "seed 1000000, step 3: no end within the horizon of 3 steps; raise the task's horizon"),
        ({"needs": ("no_such_package", "pip install it")}, {}, "no_such_package.*pip install it"),
        ({}, {"episodes": 0}, "at least 1"),
        ({}, {"workers": 0}, "at least 1"),
        ({}, {"shard_episodes": 0}, "--shard-episodes 0: give at least 1"),
        ({}, {"seed": 2**32}, "seed 4294967296 is out of range"),
    ],
)
def test_what_cannot_be_collected(tmp_path, change, arguments, message):
    wanted = {"episodes": 4, "seed": 1, "workers": 1, **arguments}
    with pytest.raises(UserError, match=message):
        collect(replace(TASK, **change), out=tmp_path / "d", **wanted)


def test_one_collection_at_a_time(tmp_path):
    from attentiontuner.core.files import locked

    collect(TASK, 4, 1, tmp_path / "d", workers=1, shard_episodes=4)
    with locked(tmp_path / "d" / ".collect.lock"), pytest.raises(UserError, match="written by another process"):
        collect(TASK, 8, 1, tmp_path / "d", workers=1)


def start(out: Path, shards: int = 5, pause: float = 0.01) -> "subprocess.Popen[str]":
    """A collection of many small shards in two workers, returned once both run and the manifest lists `shards`; all of
    it takes 600 times as many seconds as the `pause` of an episode."""
    size = ["--episodes", 1200, "--shard-episodes", 20, "--set", "length=30"]
    words = command(*TOY, "collect", "toy", "--seed", 5, "--out", out, "--workers", 2, *size)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TOY_PAUSE": str(pause)}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 120
    while len(workers_of(process)) != 2 or len(listed(out)) < shards:
        assert process.poll() is None, "the collection ended before it could be stopped"
        assert time.monotonic() < until, "the collection did not get going"
        time.sleep(0.01)
    return process


def listed(out: Path) -> list[int]:
    """The shards the manifest lists by now."""
    try:
        return [shard["index"] for shard in json.loads((out / "manifest.json").read_text())["shards"]]
    except FileNotFoundError:
        return []


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_stopped_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path, stop):
    process = start(tmp_path / "d")
    process.send_signal(stop)
    _, said = process.communicate(timeout=60)
    if stop == signal.SIGINT:
        assert process.returncode == 130, said
        assert "Traceback" not in said
        assert "goes on from what is finished" in said
    kept = len(listed(tmp_path / "d"))
    assert 5 <= kept < 60
    store = DemoStore.open(tmp_path / "d")
    store.verify()
    assert not store.complete
    task = TASK.with_settings({"length": 30})
    finished = [tmp_path / f"d/shards/{index:05d}.safetensors.zst" for index in listed(tmp_path / "d")]
    times = {path: path.stat().st_mtime_ns for path in finished}
    collect(task, 1200, 5, tmp_path / "d", workers=1)
    assert {path: path.stat().st_mtime_ns for path in times} == times, "a finished shard was collected again"
    collect(task, 1200, 5, tmp_path / "undisturbed", workers=1, shard_episodes=20)
    assert contents(tmp_path / "d") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("shards", [0, 5])
def test_ctrl_c_at_a_terminal_is_one_line(tmp_path, shards):
    """It reaches every process at once: workers that are still importing (no shard yet), and those at work."""
    process = start(tmp_path / "d", shards)
    wait_until_workers_import(process, 2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, STOPPED)


def test_ctrl_c_pressed_again_neither_hangs_nor_leaks(tmp_path):
    process = start(tmp_path / "d")
    while process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.05)
    assert process.communicate(timeout=60)[1] == STOPPED


def test_a_terminated_collection_cleans_up(tmp_path):
    process = start(tmp_path / "d")
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (143, "")
    DemoStore.open(tmp_path / "d").verify()


def test_a_dead_worker_is_one_clear_line(tmp_path):
    process = start(tmp_path / "d", pause=0.1)  # nobody is done before one of them is killed
    os.kill(workers_of(process)[0], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2, said
    assert "a worker process died" in said
    assert "Traceback" not in said
    DemoStore.open(tmp_path / "d").verify()


def test_a_task_whose_functions_cannot_be_sent_says_so_before_any_worker_starts(tmp_path):
    task = replace(TASK, horizon=lambda settings: 5)
    with pytest.raises(UserError, match=r"task 'toy' cannot be sent .*lambda.*: define .* top of a file, or use"):
        collect(task, 8, 1, tmp_path / "d", workers=2, shard_episodes=4)
    assert len(collect(task, 8, 1, tmp_path / "d", workers=1)) == 8
