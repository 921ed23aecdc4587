"""Which demonstrations a run learns from and is tested on. Importing this needs no torch: what does not fit is refused
at once."""

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.data.labels import choose_demonstrations, label_generator, split_episodes
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.runs.config import TrainConfig

Integers = NDArray[np.int64]


def demonstrations_of(
    config: TrainConfig, data: DemoStore, test_data: DemoStore | None
) -> tuple[Integers, tuple[DemoStore, Integers]]:
    """The numbers of the training episodes in `data`, and the store and numbers of the test episodes, if they are what
    the run can learn from."""
    _check_data(config, data, "--data")
    if test_data is not None:
        _check_data(config, test_data, "--test-data")
    episodes, (test_store, tested) = split_episodes(data, test_data, config.test_fraction, config.include_failed)
    if config.heatmap_epochs and not len(tested):
        raise UserError("--heatmap-epochs: there is no test demonstration to draw; give --test-data or more --data")
    return choose_demonstrations(episodes, config.demos, label_generator(config.seed, "demos")), (test_store, tested)


def shared_with_training(data: DemoStore, test_data: DemoStore) -> str:
    """What the manifests tell of test demonstrations that are those of `data`; "" for nothing."""
    ours, theirs = ({shard.sha256 for shard in store.manifest.readable_shards()} for store in (data, test_data))
    if shared := len(ours & theirs):
        return f"{counted(shared, 'shard')} of it {'is' if shared == 1 else 'are'} in --data, too"
    if data.seed is not None and data.seed == test_data.seed:
        return f"it was collected with seed {data.seed}, as --data was"
    return ""


def _check_data(config: TrainConfig, data: DemoStore, option: str) -> None:
    if data.task != config.task:
        raise UserError(f"{option} {data.path} holds demonstrations of {data.task!r}, not of {config.task!r}")
    if data.settings != dict(config.settings):
        raise UserError(
            f"{option} {data.path} was recorded with settings {data.settings}, the run has {dict(config.settings)}"
        )
    model = config.model
    if data.observation != model.observation:
        raise UserError(
            f"{option} {data.path} holds observations {data.observation}, the model reads {model.observation}"
        )
    if data.actions != model.actions:
        raise UserError(f"{option} {data.path} has {data.actions}, the model {model.actions}")
    if len(data) == 0:
        raise UserError(f"{option} {data.path} holds no episodes yet: finish `attentiontuner collect`")
