"""`attentiontuner collect`."""

from pathlib import Path

from tyro.conf import Positional

from attentiontuner.cli.options import Settings
from attentiontuner.cli.values import parse_settings
from attentiontuner.core.wording import counted, size


def collect(
    task: Positional[str],
    /,
    out: Path,
    episodes: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    shard_episodes: int | None = None,
    settings: Settings = (),
) -> None:
    """Record demonstrations of a task with its scripted expert, memory pairs included.

    The same seed gives the same bytes whatever the number of workers. Interrupted, the same command goes on; with a
    larger --episodes it extends a data set whose shards are full.

    Args:
        task: name of the task, see `attentiontuner tasks`.
        out: folder of the data set.
        episodes: how many demonstrations; the task's own number if not given.
        seed: seed of the data set; environment seeds follow from it and are never those of evaluation.
        workers: processes to collect in; one per core if not given.
        shard_episodes: episodes per shard; 250, or 50 where observations are images, if not given.
        settings: environment settings as name=value, such as length=10; `attentiontuner tasks TASK` lists them.
    """
    from attentiontuner.collecting.collection import collect as collect_demonstrations
    from attentiontuner.tasks.task import get_task

    chosen = get_task(task, parse_settings(settings))
    wanted = chosen.demonstrations if episodes is None else episodes
    store = collect_demonstrations(chosen, wanted, seed, out, workers, shard_episodes)
    nbytes = sum(path.stat().st_size for path in (store.path / "shards").iterdir())
    length = f"{store.lengths.mean():.1f} steps on average"
    print(f"{out}: {counted(len(store), 'episode')} of {store.task}, {length}, {size(nbytes)}")
