"""Which demonstrations a run trains and tests on, and the generators of whatever is drawn of them and their labels."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.demos.store.reader import DemoStore

Integers = NDArray[np.int64]
Draw = Literal["demos", "annotated", "noise", "random", "shuffled"]

_STREAMS: dict[Draw, int] = {
    "demos": 2**31,
    "annotated": 2**31 + 1,
    "noise": 2**31 + 2,
    "random": 2**31 + 3,
    "shuffled": 2**31 + 4,
}
"""Far above every epoch number, because the batches of epoch e are drawn from the pair (seed, e)."""

MOST_TEST_EPISODES = 500
"""More would not make the test accuracy's curve any clearer, and would be missing from training."""


def label_generator(seed: int, draw: Draw) -> np.random.Generator:
    """The generator of one kind of draw under a run's seed, so that one draw does not move another."""
    return np.random.default_rng([seed, _STREAMS[draw]])


def split_episodes(
    store: DemoStore, test_store: DemoStore | None, test_fraction: float, include_failed: bool
) -> tuple[Integers, tuple[DemoStore, Integers]]:
    """The training episodes' numbers, and the store and numbers of the test episodes (the last ones of `store`)."""
    train = _worth_imitating(store, include_failed)
    if test_store is not None:
        test = (test_store, _worth_imitating(test_store, include_failed))
    else:
        count = min(round(len(train) * test_fraction), MOST_TEST_EPISODES)
        count = max(count, int(test_fraction > 0 and len(train) > 1))
        test = (store, train[len(train) - count :])
        train = train[: len(train) - count]
    if len(train) == 0:
        failed = len(store) - int(store.success().sum())
        why = f" ({failed} failed: --include-failed learns from them too)" if failed and not include_failed else ""
        raise UserError(f"{store.path} holds {counted(len(store), 'episode')}: none is left to train on{why}")
    return train, test


def _worth_imitating(store: DemoStore, include_failed: bool) -> Integers:
    return np.arange(len(store)) if include_failed else np.flatnonzero(store.success())


def choose_demonstrations(episodes: Integers, demos: int | None, rng: np.random.Generator) -> Integers:
    """`demos` of the episode numbers, in order; None: all of them."""
    if demos is None:
        return episodes
    if demos > len(episodes):
        raise UserError(
            f"--demos {demos}: only {counted(len(episodes), 'demonstration')} can be trained on; collect more"
        )
    return np.sort(rng.choice(episodes, demos, replace=False))
