"""Demonstrations for the tests of the store."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attentiontuner.demos import Demonstration, DemoWriter, PairTable
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import MINIGRID_SYMBOLS, ObservationSpec, Part

SPEC = ObservationSpec("grid", (3, 3, 3), MINIGRID_SYMBOLS)
ACTIONS = ("left", "right", "forward")


def demonstration(seed: int, pairs: Any = (), length: int | None = None) -> Demonstration:
    """An episode drawn from `seed`; its frames come from a pool of 12, so that many are equal."""
    rng = np.random.default_rng(seed)
    pool = (np.random.default_rng(0).integers(0, 60, (12, 3, 3, 3)) % np.array(MINIGRID_SYMBOLS)).astype(np.uint8)
    steps = length or int(rng.integers(4, 12))
    return Demonstration(
        observations=pool[rng.integers(0, 12, steps)],
        actions=rng.integers(0, 3, steps),
        rewards=rng.random(steps),
        terminated=bool(seed % 2),
        truncated=not seed % 2,
        seed=seed,
        success=bool(seed % 3),
        pairs=pairs,
    )


def pair_rows(steps: int) -> "st.SearchStrategy[tuple[int, int, int]]":
    """Any (p, q, multiplicity) of an episode of `steps` steps, for Hypothesis."""
    return st.integers(1, steps - 1).flatmap(lambda q: st.tuples(st.integers(0, q - 1), st.just(q), st.integers(1, 3)))


UncertainRow = tuple[int, int, int, int, int, int, float]


def uncertain_rows(steps: int, episodes: int = 1) -> "st.SearchStrategy[UncertainRow]":
    """Any (episode, p, p_last, q, q_last, multiplicity, weight), for Hypothesis."""
    times, weights = st.integers(1, 3), st.sampled_from([1.0, 0.5, 0.1])

    def intervals(ends: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        p, p_last, q, q_last = ends
        q, q_last = sorted((1 + q % (steps - 1), 1 + q_last % (steps - 1)))
        p = p % q
        return p, max(p, p_last % q_last), q, q_last

    ends = st.tuples(*[st.integers(0, steps)] * 4).map(intervals)
    return st.tuples(st.integers(0, episodes - 1), ends, times, weights).map(lambda x: (x[0], *x[1], x[2], x[3]))


def uncertain_table(rows: "list[UncertainRow]", length: int, episodes: int = 1) -> PairTable:
    """The table of rows of `uncertain_rows`, every episode annotated."""
    episode, p, p_last, q, q_last, times, weight = np.array(rows, float).reshape(-1, 7).T
    steps = [column.astype(int) for column in (episode, p, q, times, p_last, q_last)]
    return PairTable(np.full(episodes, length), np.ones(episodes, bool), *steps, weight)


def make_writer(path: Path, **changes: Any) -> DemoWriter:
    arguments: dict[str, Any] = {
        "task": "made-up",
        "settings": {"length": 3},
        "observation": SPEC,
        "actions": ACTIONS,
        "seed": 1,
        "shard_episodes": 4,
    }
    return DemoWriter(path, **{**arguments, **changes})


def some_pairs(seed: int) -> Any:
    """None, nothing, or a few pairs, by turns."""
    return [None, (), [(0, 3), (1, 3, 2)], [(0, 1), (0, 2), (1, 2)]][seed % 4]


def write_store(path: Path, count: int = 10) -> list[Demonstration]:
    """A data set of `count` episodes in shards of four, annotated by `expert`."""
    demonstrations = [demonstration(seed, some_pairs(seed)) for seed in range(count)]
    writer = make_writer(path, episodes=count)
    for index in range(-(-count // 4)):
        part = demonstrations[4 * index : 4 * index + 4]
        writer.write_shard(index, part, {"expert": [d.pairs for d in part]})
    return demonstrations


def assert_equal(found: Demonstration, expected: Demonstration) -> None:
    for name in ("observations", "actions", "rewards"):
        here, there = getattr(found, name), getattr(expected, name)
        if isinstance(there, dict):
            assert list(here) == list(there)
        parts = [(here[part], there[part]) for part in there] if isinstance(there, dict) else [(here, there)]
        for one, other in parts:
            np.testing.assert_array_equal(one, other, err_msg=name)
            assert one.dtype == other.dtype
    for name in ("terminated", "truncated", "seed", "success"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.pairs == expected.pairs


PARTS = ObservationSpec(
    parts={"view": Part("grid", (2, 2, 1), (5,)), "camera": Part("image", (4, 6, 1)), "arm": Part("vector", (3,))}
)
KINDS_OF_ACTIONS = (
    ActionSpec.discrete(("left", "right")),
    ActionSpec.multi_discrete((3, 2)),
    ActionSpec.box([-1.0, -np.inf], [1.0, np.inf]),
)


def parts_demonstrations(actions: ActionSpec, count: int = 3) -> tuple[ObservationSpec, list[Demonstration]]:
    """Episodes of observations with three parts, annotated with a pair each, and actions of any kind."""
    rng = np.random.default_rng(5)
    made = []
    for seed in range(count):
        steps = int(rng.integers(3, 7))
        seen = {
            "view": rng.integers(0, 2, (steps, 2, 2, 1)).astype(np.uint8),
            "camera": rng.integers(0, 256, (steps, 4, 6, 1)).astype(np.uint8),
            "arm": rng.normal(size=(steps, 3)).astype(np.float32),
        }
        acted = np.stack([actions.draw(rng) for _ in range(steps)])
        made.append(Demonstration(seen, acted, pairs=[(0, steps - 1)], seed=seed))
    return PARTS, made
