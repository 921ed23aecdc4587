"""Every file we read, spoiled in every way we can think of: it is read, or refused in one line that names it."""

import hashlib
import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import zstandard

from attentiontuner.core.files import write_bytes
from attentiontuner.demos import Annotation, DemoStore, PairTable, read_annotations, write_annotation
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.players import RandomPolicy
from attentiontuner.experiments.planning.cells import expand
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.records import (
    decode_map,
    finished,
    read_record,
    read_records,
    record_path,
    write_record,
)
from attentiontuner.experiments.reporting.tables import make_table, result_grid, speed_grid
from attentiontuner.insight.inference import Inferred
from attentiontuner.insight.need import Need
from attentiontuner.insight.recommendations import read_recommendations
from attentiontuner.runs.run import Run
from attentiontuner.runs.states import State, weight_bytes
from attentiontuner.studio.remarks import Remark, read_remarks, write_remark
from attentiontuner.studio.times import record_playing, times
from tests.bad_input.kinds import Kind, check
from tests.bad_input.spoiling import without_seals
from tests.experiments.made import make_record
from tests.studio.reports import one, write_report
from tests.toy_task import TOY
from tests.training.toys import toy_config, toy_store

CELL = expand(RECIPES["table1"], "smoke")[0]


def read_data(root: Path) -> None:
    store = DemoStore.open(root / "data")
    store.summary()
    store.success()
    store.read_packed()
    _ = [len(demonstration) for demonstration in store]
    store.verify()


def read_labels(root: Path) -> None:
    store = DemoStore.open(root / "data", "anna")
    store.read_pairs()
    read_annotations(root / "data", "anna")


def read_run(root: Path) -> None:
    run = Run.open(root / "run")
    run.task()
    run.begun()
    run.load_model()
    run.longest()
    run.begin(toy_config(), {"frames": "x"}, {})


def load(root: Path, run: str) -> None:
    Run.open(root / run).load_model()


def go_on(root: Path) -> None:
    run = Run(root / "run")
    run.progress()
    run.load_state()


def read_epochs(root: Path) -> None:
    run = Run(root / "run")
    run.metrics()
    run.log(1)


def play(root: Path) -> None:
    evaluate(RandomPolicy(0), TOY, 2, 0, root / "played", workers=0)


def read_cell(root: Path) -> None:
    records = read_records(root / "records")
    result_grid(make_table(RECIPES["table1"], records, "smoke"))
    speed_grid(records, ["vanilla", "attentiontuner"])
    for record in records:
        _ = [decode_map(value) for value in record.attention.get("heads", {}).values()]
    path = record_path(root / "records", CELL)
    if path.exists():
        _ = read_record(path).success
        finished(root / "records", CELL)


def read_report(root: Path) -> None:
    read_recommendations(root / "data" / "report", DemoStore.open(root / "data"))


def list_shard(root: Path) -> None:
    """The manifest says that the spoiled shard is the right one."""
    manifest = json.loads((root / "data" / "manifest.json").read_bytes())
    path = root / "data" / "shards" / "00000.safetensors.zst"
    manifest["shards"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (root / "data" / "manifest.json").write_text(json.dumps(manifest))


def pack_shard(root: Path) -> None:
    """The same for what is inside the compressed file."""
    path = root / "data" / "shards" / "00000.safetensors.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress((root / "inside").read_bytes()))
    list_shard(root)


def list_state(root: Path) -> None:
    """The state says that the spoiled tensors are its own."""
    folder = root / "run" / "state" / "00001-00000"
    value = json.loads((folder / "state.json").read_bytes())
    for name in value["sha256"]:
        value["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "state.json").write_text(json.dumps(value))


OTHERS = "recall", "lru", "slots"
"""Methods whose networks have fields of their own."""

STATE = "run/state/00001-00000"
KINDS = {
    "manifest": Kind("data/manifest.json", read_data),
    "shard": Kind("data/shards/00000.safetensors.zst", read_data, agree=list_shard),
    "inside of a shard": Kind("inside", read_data, agree=pack_shard, folder="data"),
    "annotations": Kind("data/annotations/anna/00000.jsonl", read_labels, lines=True),
    "configuration": Kind("run/config.json", read_run),
    "weights": Kind("run/model.safetensors", read_run, agree=lambda root: shutil.rmtree(root / "run" / "state")),
    **{
        f"configuration of {name}": Kind(f"{name}-run/config.json", partial(load, run=f"{name}-run")) for name in OTHERS
    },
    "metrics": Kind("run/metrics.jsonl", read_epochs, lines=True),
    "state": Kind(f"{STATE}/state.json", go_on),
    "latest": Kind("run/state/latest", go_on),
    "tensors of a state": Kind(f"{STATE}/training.safetensors", go_on, agree=list_state),
    "need": Kind("run/need.safetensors", lambda root: Need.load(root / "run" / "need.safetensors")),
    "inferred pairs": Kind("run/pairs.safetensors", lambda root: Inferred.load(root / "run" / "pairs.safetensors")),
    "played episodes": Kind("played/episodes.jsonl", play, lines=True, tolerant=True),
    "summary": Kind("played/summary.json", play),
    "recommended": Kind("data/report/recommended.json", read_report),
    "suggested pairs": Kind("data/report/pairs.jsonl", read_report, lines=True),
    "record": Kind(f"records/{record_path(Path(), CELL)}", read_cell),
    "remarks": Kind("data/studio/remarks/anna.json", lambda root: read_remarks(root / "data", "anna")),
    "playing times": Kind("data/studio/playing.jsonl", lambda root: times(root / "data"), lines=True, tolerant=True),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of every file."""
    root = tmp_path_factory.mktemp("sound")
    store = toy_store(root / "data", episodes=12)
    lengths = store.lengths
    inside = zstandard.ZstdDecompressor().decompress((root / "data/shards/00000.safetensors.zst").read_bytes())
    (root / "inside").write_bytes(inside)
    for episode in range(3):
        pairs = PairTable.of([(0, 1), (1, 2, 3), (0, 2)], int(lengths[episode]))
        made = Annotation(pairs, {"expert": frozenset({(0, 1)})}, note="n", flagged=True, seconds=1.5)
        write_annotation(root / "data", "anna", episode, made)
    write_remark(root / "data", "anna", 5, Remark("a word", True))
    record_playing(root / "data", 0, "anna", 3.0)
    for method in OTHERS:
        other = toy_config(method=method)
        Run(root / f"{method}-run").begin(other, {"frames": "x"}, {}, longest=8)
        write_bytes(root / f"{method}-run" / "model.safetensors", weight_bytes(other.network.build().state_dict()))
    config, run = toy_config(), Run(root / "run")
    run.begin(config, {"frames": "x"}, {"python": "3"}, longest=8)
    epoch = {"epoch": 1, "imitation_loss": 1.0, "memory_loss": 0.5, "seconds": 1.0}
    (run.path / "metrics.jsonl").write_text(json.dumps(epoch) + "\n")
    run.save_state(State(1, 0, config.network.build().state_dict(), {"sums": torch.ones(3)}, {"seconds": 1.0}), 2)
    Need(np.ones(3, np.float32), np.ones(3, np.float32), np.array([3])).save(run.need)
    Inferred(store.read_pairs(), True, late=(0,), spreads=((1.0, 1.0),)).save(run.pairs)
    play(root)
    write_record(root / "records", make_record(CELL, 0.5))
    write_report(root / "data" / "report", root / "data", {2: [one(2, 0), one(1, None)], 0: [one(1, 0)]}, order=(2, 0))
    without_seals(root)
    for kind in KINDS.values():
        assert (root / kind.file).is_file(), kind.file
        again = root.parent / "again"
        shutil.copytree(root, again)
        kind.agree(again)
        kind.read(again)
        shutil.rmtree(again)
    return root


@pytest.mark.parametrize("name", KINDS)
def test_a_spoiled_file_is_one_line(sound: Path, tmp_path: Path, name: str) -> None:
    check(KINDS[name], sound, tmp_path / "spoiled", name, range(70))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_spoiled_files_are_one_line_each(sound: Path, tmp_path: Path, name: str) -> None:
    check(KINDS[name], sound, tmp_path / "spoiled", name, range(70, 900))
