"""`attentiontuner inspect`."""

import json
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from attentiontuner.core.terminal import console
from attentiontuner.core.wording import counted, size


def inspect(
    path: Positional[Path],
    /,
    verify: bool = False,
    json: bool = False,
    picture: Path | None = None,
    episode: int = 0,
    annotator: str | None = None,
) -> None:
    """Say what a data set holds; check it; draw one of its episodes.

    Args:
        path: folder of the data set.
        verify: check every checksum, every annotation and what lies beside them; a damaged file ends with its name and
            exit code 2.
        json: print JSON instead of a table.
        picture: draw an episode, its frames and expert matrix, to this PNG file.
        episode: the episode to draw.
        annotator: whose pairs to draw, such as anna, or anna,bob for those of either; the expert's, or the only
            annotator's, if not given.
    """
    from attentiontuner.core.errors import UserError
    from attentiontuner.demos import DemoStore
    from attentiontuner.demos.exchange.lerobot.features import read_came_with, words_of

    store = DemoStore.open(path, annotator)
    came = read_came_with(path)
    if verify:
        store.verify()
        _verify_beside(path)
    summary = store.summary()
    if verify:
        summary["verified"] = True
    if came:
        summary["lerobot"] = {name: came.get(name) for name in ("fps", "robot_type", "tasks")}
    if picture is not None:
        from attentiontuner.viz.pictures import save_episode_picture

        if not 0 <= episode < len(store):
            episodes = counted(len(store), "episode")
            raise UserError(f"--episode {episode}: the data set holds {episodes}, numbered from 0")
        words = words_of(came, store[episode])
        title = f"{store.task}{f' ({words})' if words else ''}, episode"
        save_episode_picture(store.observation, store.actions, store[episode], picture, title)
        summary["picture"] = str(picture)
    print_json(summary) if json else print_table(summary)


def _verify_beside(root: Path) -> None:
    """Read what the studio keeps of a data set, and what it brought along from LeRobot."""
    from attentiontuner.demos.exchange.lerobot.features import read_came_with
    from attentiontuner.studio.acceptance import accepting, read_batches
    from attentiontuner.studio.remarks import read_remarks, remarking
    from attentiontuner.studio.review import read_review

    read_came_with(root)
    read_review(root)
    for name in remarking(root):
        read_remarks(root, name)
    for name in accepting(root):
        read_batches(root, name)


def print_json(summary: dict[str, Any]) -> None:
    print(json.dumps(summary, indent=2))


def print_table(summary: dict[str, Any]) -> None:
    """The summary for people."""
    from rich.table import Table

    from attentiontuner.spaces import ActionSpec, ObservationSpec

    table = Table(show_header=False, title=summary["path"], title_justify="left")
    unfinished = "" if summary["complete"] else " (unfinished: the same `collect` command goes on)"
    settings = ", ".join(f"{name}={value}" for name, value in summary["settings"].items())
    actions = ActionSpec.from_json(summary["actions"])
    share = summary["bytes"] / summary["raw_bytes"] if summary["raw_bytes"] else 0.0
    shards = counted(summary["shards"], "shard")
    rows = {
        "task": f"{summary['task']} ({settings})" if settings else summary["task"],
        "seed": "none" if summary["seed"] is None else str(summary["seed"]),
        "observation": str(ObservationSpec.from_json(summary["observation"])),
        "actions": ", ".join(actions.names) or str(actions),
        "episodes": f"{summary['episodes']:,}{unfinished}",
        "length": f"{summary['mean_length']:.1f} steps on average, {summary['max_length']} at most",
        "success rate": f"{summary['success_rate']:.1%}",
        "on disk": f"{size(summary['bytes'])} in {shards} ({share:.2%} of the raw frames)",
    }
    if "lerobot" in summary:
        came = summary["lerobot"]
        robot = f", robot {came['robot_type']}" if came["robot_type"] else ""
        rows["from LeRobot"] = (f"fps {came['fps']:g}" if came["fps"] else "no fps") + robot
        tasks = [f"{number}: {words}" for number, words in enumerate(came["tasks"])]
        rows["tasks in words"] = "; ".join(tasks) if len(tasks) > 1 else "".join(came["tasks"])
    people = dict(summary["annotators"])
    if summary["annotator"] is not None:
        people.setdefault(summary["annotator"], summary)  # several together
    for name, found in people.items():
        flagged = f", {found['flagged_episodes']} flagged" if found.get("flagged_episodes") else ""
        rows[f"annotator {name}"] = (
            f"{counted(found['annotated_episodes'], 'episode', form=',')}, "
            f"{found['pairs_per_episode']:.1f} pairs each{flagged}"
        )
    if not summary["annotators"]:
        rows["annotators"] = "none"
    if summary.get("verified"):
        rows["checked"] = "every shard and annotation is sound, and what lies beside them"
    if "picture" in summary:
        rows["picture"] = summary["picture"]
    for name, text in rows.items():
        table.add_row(name, text)
    console().print(table)
