"""`attentiontuner studio-times`."""

from pathlib import Path

import tyro

from attentiontuner.core.terminal import console


def studio_times(data: tyro.conf.Positional[Path]) -> None:
    """Print how long people needed to play and to annotate, scaled to ten demonstrations as in the paper's table.

    Args:
        data: the data set folder.
    """
    from rich.table import Table

    from attentiontuner.studio.times import TABLE_DEMONSTRATIONS, for_ten, times
    from attentiontuner.tasks.task import all_tasks

    task, rows = times(data)
    if not rows:
        print(f"Nobody has played or annotated in {data} with the clock running yet.")
        return
    title = all_tasks()[task].title if task in all_tasks() else task
    table = Table(title=f"Active time for {TABLE_DEMONSTRATIONS} demonstrations")
    for column in ("Task", "Person", "Demonstration collection time", "Annotation time", "Timed"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            title,
            row.who,
            for_ten(row.playing_seconds, row.played),
            for_ten(row.annotating_seconds, row.annotated),
            f"{row.played} played, {row.annotated} annotated",
        )
    console().print(table)
