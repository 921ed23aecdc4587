"""What a run draws for its labels: the run's seed decides all of it."""

import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.data.labels import choose_demonstrations, label_generator


def test_demonstrations_are_drawn_from_the_seed_and_too_many_are_refused() -> None:
    episodes = np.arange(100, 200)
    first = choose_demonstrations(episodes, 30, label_generator(1, "demos"))
    assert np.array_equal(first, choose_demonstrations(episodes, 30, label_generator(1, "demos")))
    assert not np.array_equal(first, choose_demonstrations(episodes, 30, label_generator(2, "demos")))
    assert len(set(first.tolist())) == 30
    assert set(first.tolist()) <= set(episodes.tolist())
    assert not np.array_equal(first, episodes[:30])
    assert np.array_equal(choose_demonstrations(episodes, None, label_generator(1, "demos")), episodes)
    with pytest.raises(UserError, match="101.*only 100"):
        choose_demonstrations(episodes, 101, label_generator(1, "demos"))


def test_draws_do_not_share_a_generator() -> None:
    first = [label_generator(1, draw).random() for draw in ("demos", "annotated", "noise", "random", "shuffled")]
    first.append(np.random.default_rng([1, 1]).random())
    assert len(set(first)) == 6
