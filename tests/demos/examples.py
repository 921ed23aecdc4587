"""Demonstrations for the tests of the store."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attentiontuner.demos import Demonstration, DemoWriter
from attentiontuner.observations import MINIGRID_SYMBOLS, ObservationSpec

SPEC = ObservationSpec("grid", (3, 3, 3), MINIGRID_SYMBOLS)
ACTIONS = ("left", "right", "forward")


def demonstration(seed: int, pairs: Any = (), length: int | None = None) -> Demonstration:
    """An episode drawn from `seed`; its frames come from a pool of 12, so that many are equal."""
    rng = np.random.default_rng(seed)
    pool = (np.random.default_rng(0).integers(0, 60, (12, *SPEC.shape)) % np.array(SPEC.symbols)).astype(np.uint8)
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


def make_writer(path: Path, **changes: Any) -> DemoWriter:
    arguments: dict[str, Any] = {
        "task": "made-up",
        "settings": {"length": 3},
        "observation": SPEC,
        "action_names": ACTIONS,
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
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
        assert getattr(found, name).dtype == getattr(expected, name).dtype
    for name in ("terminated", "truncated", "seed", "success"):
        assert getattr(found, name) == getattr(expected, name), name
    if expected.pairs is None:
        assert found.pairs is None
    else:
        assert found.pairs is not None
        assert found.pairs.tolist() == expected.pairs.tolist()
