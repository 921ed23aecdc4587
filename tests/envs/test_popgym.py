"""What is added to POPGym's games: where the last shot went, and who counts cards beside the player."""

import subprocess
import sys

import numpy as np
import pytest

from attentiontuner.tasks.task import get_task

WITHOUT_PACKAGE = """
import sys
sys.modules["popgym"] = None
from attentiontuner.core.errors import UserError
from attentiontuner.tasks.task import get_task
try:
    get_task("popgym-repeat-first-easy").make_env()
except UserError as error:
    print(error)
"""


def test_without_the_package_one_line_says_how_to_get_it():
    done = subprocess.run([sys.executable, "-c", WITHOUT_PACKAGE], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("pip install 'attentiontuner[popgym]'")


def test_battleship_shows_the_last_shot():
    pytest.importorskip("popgym")
    env = get_task("popgym-battleship-easy").make_env()
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [0, 0, 0]
    board = env.unwrapped.board
    for row, column in np.argwhere(board)[:2].tolist() + np.argwhere(board == 0)[:2].tolist():
        observation, *_ = env.step(np.array([row, column]))
        assert observation.tolist() == [board[row, column], row + 1, column + 1]
        assert env.observation_space.contains(observation)


def guesses(guess, seed):
    """Whether somebody who always guesses so has solved it, and the return."""
    env = get_task("popgym-higher-lower-easy").make_env()
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        _, reward, over, _, info = env.step(guess)
        total += reward
        assert ("success" in info) == over
    return info["success"], total


def test_higher_or_lower_is_solved_by_who_is_no_worse_than_a_counter():
    pytest.importorskip("popgym")
    task = get_task("popgym-higher-lower-easy")
    env = task.make_env()
    observation, _ = env.reset(seed=5)
    expert, total, over = task.make_expert(env), 0.0, False
    while not over:
        observation, reward, over, _, info = env.step(expert.decide(task.seen(observation)).action)
        total += reward
    assert info["success"]
    for guess in (0, 1):
        solved, of_guess = guesses(guess, 5)
        assert of_guess < total
        assert not solved
