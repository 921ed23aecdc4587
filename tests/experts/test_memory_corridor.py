"""The expert of Minigrid's memory corridor."""

import numpy as np
import pytest

from attentiontuner.collecting.episode import record_episode
from attentiontuner.experts.memory_corridor import BALL, KEY
from attentiontuner.tasks.task import all_tasks, get_task

CORRIDORS = sorted(name for name in all_tasks() if name.startswith("minigrid-memory-"))


@pytest.mark.parametrize("name", CORRIDORS)
def test_it_finds_the_twin_and_recalls_where_it_saw_the_object(name):
    task = get_task(name)
    env = task.make_env()
    assert env.unwrapped.max_steps == task.max_steps
    for seed in range(25):
        episode = record_episode(task, env, seed)  # which refuses a failure
        ((p, q, times),) = np.asarray(episode.pairs["expert"]).tolist()
        kinds = episode.demonstration.observations[:, :, :, 0]
        assert times == 1
        assert np.isin((KEY, BALL), kinds[p]).sum() == 1
        assert q == len(episode.demonstration) - 2


def test_there_are_the_six_that_minigrid_registers():
    assert [get_task(name).env_id for name in CORRIDORS] == [
        f"MiniGrid-MemoryS{size}-v0" for size in ("11", "13", "13Random", "17Random", "7", "9")
    ]
