"""Tiny data sets that need a memory, or none: a cue is shown once, and at a fork it says where to go."""

from pathlib import Path

import numpy as np

from attentiontuner.demos import Demonstration, DemoWriter
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.spaces import ActionSpec, ObservationSpec
from attentiontuner.spaces.observation import Part

FLOOR, CUE_LEFT, CUE_RIGHT, FORK = range(4)
LEFT, RIGHT, FORWARD = range(3)
STEPS, FORK_AT = 8, 6
VECTOR = ObservationSpec("vector", (5,))
GRID = ObservationSpec("grid", (2, 2, 1), (4,))
IMAGE = ObservationSpec("image", (12, 12, 3))
BOTH = ObservationSpec(parts={"camera": Part("image", (12, 12, 3)), "state": Part("vector", (5,))})
ACTIONS = ActionSpec.discrete(("left", "right", "forward"))
TWO_CHOICES = ActionSpec.multi_discrete((3, 2))
STEERING = ActionSpec.box([-1.0], [1.0])


def shown(what: np.ndarray, part: Part, rng: np.random.Generator) -> np.ndarray:
    """What is there at each step, `[T]`, as one part of an observation."""
    if part.kind == "vector":
        return np.c_[np.eye(4)[what], rng.random(len(what))].astype(np.float32)
    if part.kind == "grid":
        return np.broadcast_to(what[:, None, None, None], (len(what), *part.shape)).astype(np.uint8)
    images = np.zeros((len(what), *part.shape), np.uint8)
    for step, kind in enumerate(what):
        images[step, 6 * (kind // 2) : 6 * (kind // 2) + 6, 6 * (kind % 2) : 6 * (kind % 2) + 6] = 200
    return images


def acted(taken: np.ndarray, actions: ActionSpec, rng: np.random.Generator, scale: float) -> np.ndarray:
    """What is done at each step, `[T]`, as actions of a kind; numbers are never quite the same."""
    if actions.kind == "discrete":
        return taken
    if actions.kind == "multi-discrete":
        return np.stack([taken, taken % 2], 1)
    steered = np.array([-0.8, 0.8, 0.0])[taken] + 0.05 * rng.standard_normal(len(taken))
    return (scale * steered).astype(np.float32)[:, None]


def cue_store(
    path: Path,
    episodes: int = 40,
    observation: ObservationSpec = VECTOR,
    actions: ActionSpec = ACTIONS,
    remembered: bool = True,
    scale: float = 1.0,
) -> DemoStore:
    """A data set whose expert recalls at step 6 the cue of step 1 or 2; not `remembered`: it turns left, always.
    Numbers as actions are multiplied by `scale`."""
    writer = DemoWriter(
        path,
        task="cues",
        observation=observation,
        actions=actions,
    )
    rng = np.random.default_rng(0)
    made = []
    for seed in range(episodes):
        cue_at, side = 1 + seed % 2, int(rng.integers(2)) if remembered else LEFT
        what, taken = np.full(STEPS, FLOOR), np.full(STEPS, FORWARD)
        what[cue_at], what[FORK_AT], taken[FORK_AT] = CUE_LEFT + side, FORK, side
        parts = {name: shown(what, part, rng) for name, part in observation.parts}
        made.append(
            Demonstration(
                observations=parts[""] if observation.plain else parts,
                actions=acted(taken, actions, rng, scale),
                rewards=np.zeros(STEPS),
                terminated=True,
                truncated=False,
                seed=seed,
                success=True,
                pairs=[(cue_at, FORK_AT)] if remembered else [],
            )
        )
    for first in range(0, episodes, 16):
        writer.append(made[first : first + 16], annotator="expert")
    return DemoStore.open(path)


def parity_store(path: Path, episodes: int, told: bool = True) -> DemoStore:
    """A data set whose expert turns right at step 6 where the lamps of steps 1 and 2 were not the same: either alone
    tells nothing. Not `told`: it turns as it likes."""
    writer = DemoWriter(path, task="lamps", observation=VECTOR, actions=ACTIONS)
    rng = np.random.default_rng(1)
    made = []
    for seed in range(episodes):
        lamps, what, taken = rng.integers(2, size=2), np.full(STEPS, FLOOR), np.full(STEPS, FORWARD)
        what[1:3], what[FORK_AT] = CUE_LEFT + lamps, FORK
        taken[FORK_AT] = lamps[0] ^ lamps[1] if told else rng.integers(2)
        made.append(Demonstration(shown(what, VECTOR.parts[0][1], rng), taken, seed=seed))
    writer.append(made)
    return DemoStore.open(path)


def reach_store(path: Path, episodes: int, shown: bool = False) -> DemoStore:
    """A data set whose finger waits until a lamp is lit, then goes to the place that it saw at the first two steps; or
    `shown` at every step, so that there is nothing to remember. It sees where it is, the lamp, and the place."""
    writer = DemoWriter(path, task="reach", observation=VECTOR, actions=ActionSpec.box([-1.0, -1.0], [1.0, 1.0]))
    rng = np.random.default_rng(2)
    made = []
    for seed in range(episodes):
        place, finger, wait = rng.uniform(-1, 1, 2), rng.normal(0, 0.1, 2), int(rng.integers(3, 7))
        seen, taken = [], []
        for step in range(wait + 5):
            going = step >= wait
            seen.append([*finger, going, *(place if shown or step < 2 else (0, 0))])
            taken.append(np.clip(2 * (place * going - finger), -1, 1))
            finger = finger + 0.3 * taken[-1] + rng.normal(0, 0.02, 2)
        made.append(Demonstration(np.array(seen, np.float32), np.array(taken, np.float32), seed=seed))
    writer.append(made)
    return DemoStore.open(path)
