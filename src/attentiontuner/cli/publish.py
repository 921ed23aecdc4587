"""`attentiontuner publish`."""

from pathlib import Path

from tyro.conf import Positional

from attentiontuner.cli.evaluate import task_of
from attentiontuner.cli.values import check_device, check_folder
from attentiontuner.core.errors import at_least
from attentiontuner.core.seeds import evaluation_seed
from attentiontuner.core.wording import size
from attentiontuner.runs.run import Run


def publish(
    run: Positional[Path],
    /,
    out: Path,
    episodes: int = 1000,
    seed: int = 0,
    best: bool = False,
    device: str | None = None,
) -> None:
    """Make a folder of a run to give away: weights, configuration, a record of what it solves, and a card.

    The run is evaluated first, or its evaluation taken over. Weights are stored in float16 if they then solve as many
    of the same episodes, else in float32. Every command takes the folder for a run.

    Args:
        run: folder of a run made by `attentiontuner train`, or kept by `attentiontuner reproduce --keep-runs`.
        out: the new folder.
        episodes: how many are played.
        seed: evaluation seed; the environment seeds follow from it.
        best: the weights with the best success rate during training, not the latest.
        device: where the model computes, such as cpu or cuda; the GPU if there is one.
    """
    at_least("--episodes", episodes)
    evaluation_seed(seed, episodes - 1)
    check_folder("--out", out)
    check_device(device)
    opened = Run.open(run)
    opened.weights(best)
    task = task_of(opened, {}, "publish")
    from attentiontuner.evaluation.evaluate import describe
    from attentiontuner.evaluation.publishing import publish as give

    made = give(opened, task, out, episodes=episodes, seed=seed, best=best, device=device)
    print(f"{out}: {describe(dict(made.summary))}; weights in {made.precision}, {size(made.nbytes)}")
