"""Commands killed before every single change they make to files, and let go on: the results and the folder are those of
a command that nobody disturbed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from attentiontuner.cli.benchmark import benchmark
from attentiontuner.collecting.collection import collect
from attentiontuner.demos import Annotation, DemoStore, PairTable, read_annotations, write_annotation
from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot
from attentiontuner.demos.exchange.lerobot.importing import from_lerobot
from attentiontuner.demos.merging import merge_annotators
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.players import RandomPolicy
from attentiontuner.evaluation.publishing import publish
from attentiontuner.experiments.planning.cells import expand
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.running.jobs import Job
from attentiontuner.experiments.running.reproduce import make_plan, missing_cells
from attentiontuner.experiments.running.runner import clear_finished, run_cell
from attentiontuner.insight import looks, need, past
from attentiontuner.insight.memory_report import memory_report
from attentiontuner.runs.config import paper_config
from attentiontuner.runs.run import Run
from attentiontuner.studio.play import Player
from attentiontuner.training.train import train
from tests.demos.examples import write_store
from tests.insight.cues import cue_store
from tests.killed.killing import check_every_kill, contents
from tests.toy_task import TOY
from tests.training.toys import toy_config, toy_store

TIMES = ("seconds", "epoch_seconds", "demonstrations_per_second", "collect", "train", "evaluate", "seal", "sessions")


@pytest.fixture(autouse=True)
def _one_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the source, though somebody may be changing it meanwhile."""
    monkeypatch.setenv("ATTENTIONTUNER_REVISION", "tested")


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            name: without_times(part) for name, part in value.items() if name not in TIMES or isinstance(part, dict)
        }
        return {name: part for name, part in kept.items() if name != "sha256" or not isinstance(part, dict)}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def timeless(root: Path) -> dict[str, Any]:
    """Every file under a folder; of JSON everything but times."""
    found: dict[str, Any] = {}
    for name, content in contents(root).items():
        if name.endswith((".json", ".jsonl")):
            lines = content.decode().splitlines() if name.endswith("l") else [content.decode()]
            found[name] = [without_times(json.loads(line)) for line in lines]
        else:
            found[name] = content
    return found


def test_collect(tmp_path: Path) -> None:
    kills = check_every_kill(lambda folder: collect(TOY, 6, 1, folder, workers=1, shard_episodes=4), tmp_path)
    assert kills > 40


def annotate(folder: Path) -> None:
    """As the studio does with what its page sends again until it is saved."""
    for episode, pair in ((0, (0, 1)), (5, (1, 2)), (0, (0, 2))):
        annotation = Annotation(PairTable.of([pair], int(DemoStore.open(folder).lengths[episode])))
        present = read_annotations(folder, "anna").get(episode)
        if present is None or list(present.pairs) < list(annotation.pairs):
            write_annotation(folder, "anna", episode, annotation)


def test_annotate(tmp_path: Path) -> None:
    write_store(tmp_path / "data", 6)
    kills = check_every_kill(annotate, tmp_path, prepare=lambda folder: shutil.copytree(tmp_path / "data", folder))
    assert kills > 15


def test_evaluate(tmp_path: Path) -> None:
    kills = check_every_kill(lambda folder: evaluate(RandomPolicy(0), TOY, 3, 0, folder, workers=0), tmp_path, timeless)
    assert kills > 10


def test_convert(tmp_path: Path) -> None:
    write_store(tmp_path / "data", 6)
    store = DemoStore.open(tmp_path / "data")

    def there_and_back(folder: Path) -> None:
        if not (folder / "theirs").exists():
            to_lerobot(store, folder / "theirs")
        if not (folder / "ours").exists():
            from_lerobot(folder / "theirs", folder / "ours")

    assert check_every_kill(there_and_back, tmp_path, every=3) > 5


def test_merge(tmp_path: Path) -> None:
    write_store(tmp_path / "data", 6)
    for name, episodes in (("anna", (0, 5)), ("bob", (0, 3))):
        for episode in episodes:
            write_annotation(tmp_path / "data", name, episode, Annotation(PairTable.of([(0, 1)], 3)))
    kills = check_every_kill(
        lambda folder: merge_annotators(folder, "anna,bob", "both"),
        tmp_path,
        prepare=lambda folder: shutil.copytree(tmp_path / "data", folder),
    )
    assert kills > 5


def play_two(folder: Path) -> None:
    """Two episodes by hand, from wherever it stands."""
    player = Player(folder, TOY, "ada")
    try:
        while len(player.saved) < 2:
            state = player.state()
            if state["ended"]:
                player.save(1.0)
            else:
                player.step(0, state["step"])
    finally:
        player.close()


def without_playing_times(root: Path) -> dict[str, Any]:
    """A kill right after an episode was saved takes the seconds it was played."""
    return {name: content for name, content in contents(root).items() if name != "studio/playing.jsonl"}


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_play(tmp_path: Path, every: int) -> None:
    assert check_every_kill(play_two, tmp_path, without_playing_times, every=every) > 5


def test_benchmark(tmp_path: Path) -> None:
    def score(folder: Path) -> None:
        if not list(folder.glob("*.json")):
            benchmark("random", task=TOY.name, episodes=2, board=folder)

    assert check_every_kill(score, tmp_path, timeless) > 3


@pytest.mark.slow
def test_publish(tmp_path: Path) -> None:
    config = paper_config(TOY, model={"d_model": 16, "layers": 2, "heads": 2, "feedforward": 32})
    run = Run(tmp_path / "learned")
    run.begin(config, {"demonstrations": 5, "annotated": 4}, {"python": "3"})
    torch.manual_seed(3)
    run.save_best(config.network.build())
    (run.path / "best.safetensors").rename(run.path / "model.safetensors")

    def give_away(folder: Path) -> None:
        if not (folder / "given").exists():
            publish(Run(folder / "run"), TOY, folder / "given", episodes=3, device="cpu")

    def prepare(folder: Path) -> None:
        shutil.copytree(run.path, folder / "run")

    assert check_every_kill(give_away, tmp_path, timeless, prepare) > 20


@pytest.mark.slow
def test_memory_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (need, looks, past):
        monkeypatch.setattr(room, "PASSES", 1)
    data = cue_store(tmp_path / "data", 8).path

    def work(folder: Path) -> None:
        memory_report(data, folder, count=2)

    assert check_every_kill(work, tmp_path, nameless, prepare=lambda folder: None) > 20


def nameless(root: Path) -> dict[str, bytes]:
    """Every file under a folder without the name of the folder, which the page of a report says."""
    return {name: content.replace(str(root).encode(), b"") for name, content in contents(root).items()}


def learn(folder: Path, data: Path, batches: int) -> None:
    config = toy_config(epochs=2, checkpoint_seconds=0.0, keep=2, batch_size=batches)
    train(config, DemoStore.open(data), folder, device="cpu")


def test_train(tmp_path: Path) -> None:
    toy_store(tmp_path / "data", episodes=12)
    kills = check_every_kill(lambda folder: learn(folder, tmp_path / "data", 12), tmp_path, timeless, every=5)
    assert kills > 10


@pytest.mark.slow
def test_train_at_every_change(tmp_path: Path) -> None:
    toy_store(tmp_path / "data", episodes=12)
    kills = check_every_kill(lambda folder: learn(folder, tmp_path / "data", 5), tmp_path, timeless)
    assert kills > 100


@pytest.mark.slow
def test_reproduce_with_kept_runs(tmp_path: Path) -> None:
    cell = expand(RECIPES["table1"], "smoke")[0]
    data = tmp_path / "data"

    def reproduce(folder: Path) -> None:
        plan = replace(make_plan("table1", folder, scale="smoke", keep_runs=True, data=data), cells=[cell])
        if cell in missing_cells(plan):
            run_cell(Job(cell, folder, data, keep_run=True))
        else:
            clear_finished(folder, cell, keep_run=True)

    reproduce(tmp_path / "first")  # collects the data, which has its own test
    assert check_every_kill(reproduce, tmp_path, timeless) > 100
