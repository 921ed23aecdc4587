"""`attentiontuner reproduce`: the cells of a table or figure of the paper, as records."""

from importlib.util import find_spec
from pathlib import Path
from typing import cast

import tyro

from attentiontuner.cli.values import check_folder, parse_duration, parse_seeds
from attentiontuner.core.errors import UserError, at_least


def reproduce(
    recipe: tyro.conf.Positional[str],
    records: Path = Path("results"),
    methods: str = "",
    only: str = "",
    seeds: str = "",
    scale: str = "paper",
    budget: str = "",
    jobs: int = 1,
    executor: str = "local",
    data: Path | None = None,
    keep_runs: bool = False,
    dry_run: bool = False,
) -> int:
    """Run the cells of a recipe that have no record yet. Stopped at any moment, the same command goes on.

    Args:
        recipe: from the paper: table1, placement, missing, imprecise-p, imprecise-pq, scaling, split, value;
            beyond it: few, robots, robots-camera, memories, popgym, minigrid-memory, controls, padding, precision,
            recall, first-edition, recall-ablation, recall-ablation-images, sloppy, sparse, recall-labels, modulus,
            longer.
        records: folder of the records; those of several machines are merged by copying files.
        methods: other methods to run on the recipe's tasks, such as one of your own, separated by commas.
        only: tasks, methods and conditions to keep, separated by commas.
        seeds: seeds to keep, such as 1-5 or 1,3.
        scale: paper (its own settings), small (two CPU cores, an hour for table1), demo (Hallway and Counting in
            minutes) or smoke (seconds).
        budget: time such as 25m; no cell is started that it cannot finish, and the command ends in time.
        jobs: cells side by side; with Ray, on each GPU (or each node without one).
        executor: local, or ray (a cluster at RAY_ADDRESS, or one on this machine).
        data: folder of the data sets (RECORDS/.data).
        keep_runs: keep the trained models, under RECORDS/.runs.
        dry_run: only list the cells.
    """
    from attentiontuner.experiments.planning.scales import get_scale

    # What can be refused without torch, which takes seconds to import, is refused before.
    if executor not in ("local", "ray"):
        raise UserError(f"--executor {executor}: it is local or ray")
    if executor == "ray" and find_spec("ray") is None and not dry_run:
        raise UserError("--executor ray needs a package: pip install 'attentiontuner[ray]'")
    at_least("--jobs", jobs)
    chosen_seeds, seconds = parse_seeds(seeds), parse_duration(budget) if budget else None
    check_folder("--records", records)
    check_folder("--data", data)
    get_scale(scale)
    from attentiontuner.experiments.running.reproduce import Executor, make_plan
    from attentiontuner.experiments.running.reproduce import dry_run as list_cells
    from attentiontuner.experiments.running.reproduce import reproduce as run

    plan = make_plan(
        recipe,
        records,
        methods=_listed(methods),
        only=_listed(only),
        seeds=chosen_seeds,
        scale=scale,
        budget=seconds,
        jobs=jobs,
        executor=cast(Executor, executor),
        data=data,
        keep_runs=keep_runs,
    )
    if dry_run:
        print(list_cells(plan))
        return 0
    return run(plan)


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
