"""Work that is said to be done outlives a loss of power: everything is synced before it is named, names after that."""

from dataclasses import replace
from pathlib import Path

import pytest

from attentiontuner.collecting.collection import collect
from attentiontuner.core.files import new_folder, write_json
from attentiontuner.demos import DemoStore, write_annotation
from attentiontuner.demos.annotations import Annotation, read_annotations
from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot
from attentiontuner.demos.merging import merge_annotators
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.players import RandomPolicy
from attentiontuner.experiments.planning.cells import expand
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.records import write_record
from attentiontuner.runs.run import Run
from attentiontuner.studio import review
from attentiontuner.studio.play import Player
from attentiontuner.studio.remarks import Remark, write_remark
from attentiontuner.training.train import train
from tests.demos.examples import write_store
from tests.experiments.made import make_record
from tests.killed.syncing import lost_without_power
from tests.toy_task import TOY
from tests.training.toys import toy_config, toy_store


def test_what_is_not_synced_is_found(tmp_path: Path) -> None:
    def carelessly() -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a" / ".half").write_text("x")
        (tmp_path / "a" / ".half").rename(tmp_path / "a" / "b" / "whole")

    lost = lost_without_power(carelessly, tmp_path / "a")
    assert {words.rpartition(": ")[2] for words in lost} == {"named before it was synced", "its content", "its name"}
    made = tmp_path / "c" / "d" / "e.json"
    assert lost_without_power(lambda: write_json(made, {}), tmp_path / "c") == []


def test_what_is_collected_and_annotated_stays(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"

    def work() -> None:
        collect(TOY, 6, 1, data, workers=1, shard_episodes=4)
        label = read_annotations(data, "expert")[0]
        write_annotation(data, "anna", 0, Annotation(label.pairs))
        write_remark(data, "anna", 5, Remark("a word", True))
        review.assign(data, "anna", [0, 1])
        merge_annotators(data, "anna,expert", "both")

    assert lost_without_power(work, tmp_path / "new") == []


def test_what_is_played_by_hand_stays(tmp_path: Path) -> None:
    def work() -> None:
        player = Player(tmp_path / "data", TOY, "ada")
        player.start(3)
        for step in range(5):
            player.step(0, step)
        player.save(3.0)
        player.close()

    assert lost_without_power(work, tmp_path / "data") == []


def test_what_is_trained_published_and_evaluated_stays(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data", episodes=12)
    config = toy_config(epochs=2, checkpoint_seconds=0.0)
    assert lost_without_power(lambda: train(config, store, tmp_path / "run", device="cpu"), tmp_path / "run") == []
    run = Run(tmp_path / "run")
    assert lost_without_power(lambda: run.copy_to(tmp_path / "kept" / "run"), tmp_path / "kept") == []
    played = tmp_path / "played"
    assert lost_without_power(lambda: evaluate(RandomPolicy(0), TOY, 3, 0, played, workers=0), played) == []


def test_a_record_stays(tmp_path: Path) -> None:
    cell = expand(RECIPES["table1"], "smoke")[0]
    made = [make_record(replace(cell, seed=seed), 0.5) for seed in (1, 2)]
    records = tmp_path / "records"
    assert lost_without_power(lambda: [write_record(records, each) for each in made], records) == []


def test_a_new_folder_stays_whoever_writes_into_it(tmp_path: Path) -> None:
    write_store(tmp_path / "data", 4)
    store = DemoStore.open(tmp_path / "data")
    assert lost_without_power(lambda: to_lerobot(store, tmp_path / "theirs"), tmp_path / "theirs") == []

    def work() -> None:
        with new_folder(tmp_path / "made" / "whole") as folder:
            (folder / "deep").mkdir()
            (folder / "deep" / "file").write_text("x")

    assert lost_without_power(work, tmp_path / "made") == []
    with pytest.raises(ValueError, match="is there already"):
        work()
