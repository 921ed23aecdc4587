"""Test demonstrations count against the memory limit: they are held where they fit beside what is trained on, else read
in pieces after every epoch, with the same numbers."""

import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.data.source import Source, frame_bytes
from attentiontuner.demos import DemoStore
from attentiontuner.demos.store import shards
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.methods.tuner import AttentionTuner
from attentiontuner.runs.config import TrainConfig
from attentiontuner.training.step import held_out_metrics
from attentiontuner.training.train import _test_source, train
from tests.insight.cues import BOTH, cue_store
from tests.training.toys import toy_config, toy_store

CPU = torch.device("cpu")


def metrics_of_tests(metrics: list[dict]) -> list[dict]:
    return [{name: value for name, value in epoch.items() if name.startswith("test_")} for epoch in metrics]


@pytest.mark.parametrize("choices", [{}, {"method": "recall", "labels": "exact", "window": 3}])
def test_in_pieces_they_give_the_same_numbers_and_pictures(tmp_path: Path, choices: dict) -> None:
    store, tests = toy_store(tmp_path / "data"), toy_store(tmp_path / "tests", seed=1, shard_episodes=4)
    drawn_after = () if "window" in choices else (0, 2)
    config = toy_config(heatmap_epochs=drawn_after, **choices)
    whole = train(config, store, tmp_path / "whole", test_data=tests, device="cpu")
    limit = frame_bytes(store, np.arange(24)) + frame_bytes(tests, np.arange(24)) - 1
    config = toy_config(heatmap_epochs=drawn_after, memory_limit=limit, **choices)
    pieces = train(config, store, tmp_path / "pieces", test_data=tests, device="cpu")
    for one, other in zip(metrics_of_tests(whole.metrics), metrics_of_tests(pieces.metrics), strict=True):
        assert one == pytest.approx(other, rel=1e-6)
        assert {"test_accuracy_at_pairs", "test_recall"} <= one.keys()
    trained = [(result.run / "model.safetensors").read_bytes() for result in (whole, pieces)]
    assert trained[0] == trained[1]
    for epoch in drawn_after:
        one, other = (
            load(result.run.joinpath(f"heatmaps/{epoch:05}.safetensors").read_bytes()) for result in (whole, pieces)
        )
        assert np.array_equal(one["expert"], other["expert"])
        assert np.abs(one["attention"].astype(int) - other["attention"]).max() <= 1


@pytest.mark.parametrize("room", [0, 3_000, 10**6])
def test_pieces_are_all_of_them_in_order_and_two_fit(tmp_path: Path, room: int) -> None:
    store = toy_store(tmp_path, episodes=30, shard_episodes=3)
    episodes = np.arange(2, 29)
    source = Source(store, episodes, store.read_pairs(episodes), 8, 1, CPU, memory_limit=room)
    sizes, found = [], []
    for piece in source.pieces():
        sizes.append(piece.frames.nbytes)
        found += piece.packed.episodes.tolist()
        assert piece.packed.pairs == store.read_pairs(piece.packed.episodes)
    assert found == episodes.tolist()
    one = frame_bytes(store, np.arange(3))
    assert max(sizes) <= max(room // 2, one)
    assert (len(sizes) > 1) == (room < 10**6)


def test_a_method_that_does_not_tell_what_it_recalls_has_no_recall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the last batch has no pairs, of which it is not asked."""
    store = toy_store(tmp_path / "data", annotate="odd")
    monkeypatch.setattr(AttentionTuner, "recall_strength", lambda method, output, block: None)
    pieces = [DemoData(store.read_packed(rows)) for rows in ([1, 3], [0, 2])]
    config = toy_config()
    assert "test_recall" not in held_out_metrics(config.network.build(), pieces, config)


class Held:
    """Bytes of the frames that were read and are still held, and the most of them. What is read ahead takes longer than
    it takes to let go of what was used before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, half: int) -> None:
        self.now = self.most = 0
        usual = DemoStore.read_packed

        def read_packed(store: DemoStore, *given: object) -> PackedDemos:
            ahead, end = threading.current_thread() is not threading.main_thread(), time.monotonic() + 5
            while ahead and self.now > half and time.monotonic() < end:
                time.sleep(0.001)
            packed = usual(store, *given)  # type: ignore[arg-type]
            size = packed.frames.nbytes
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(packed.frames, self.forget, size)
            return packed

        monkeypatch.setattr(DemoStore, "read_packed", read_packed)

    def forget(self, size: int) -> None:
        self.now -= size


@pytest.mark.parametrize("share", [0.4, 1.3, 1.9])
@pytest.mark.parametrize("method", ["attentiontuner", "recall-vanilla"])
def test_a_run_never_holds_more_frames_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, method: str
) -> None:
    """Whether all is streamed, only what is tested on, or nothing. Every shard is smaller than a quarter of it."""
    store, tests = (toy_store(tmp_path / name, "image", 36, 1, frames=200, seed=seed) for seed, name in enumerate("ab"))
    limit = int(share * frame_bytes(store, np.arange(36)))
    held = Held(monkeypatch, limit // 2)
    config = toy_config("image", method, memory_limit=limit, batch_size=4, heatmap_epochs=(0, 1))
    result = train(config, store, tmp_path / "run", test_data=tests, device="cpu")
    assert [len(epoch) > 1 for epoch in metrics_of_tests(result.metrics)] == [True, True]
    assert limit / 3 < held.most <= limit


def test_which_are_held_is_decided_by_the_room(tmp_path: Path) -> None:
    store = toy_store(tmp_path, episodes=12)
    size = frame_bytes(store, np.arange(12))

    def limit_of(room: int, **choices: object) -> int | None:
        config: TrainConfig = toy_config(annotator="expert", **choices)
        return _test_source(store, np.arange(12), config, CPU, room).memory_limit

    assert limit_of(size) is None
    assert limit_of(size - 1) == size - 1
    assert limit_of(size, memory_limit=2 * size) == size


def test_damage_of_those_that_are_held_is_told_before_the_first_epoch(tmp_path: Path) -> None:
    store, tests = toy_store(tmp_path / "data"), toy_store(tmp_path / "tests", seed=1)
    shard = tests.path / "shards" / "00002.safetensors.zst"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match="00002.safetensors.zst is damaged"):
        train(toy_config(), store, tmp_path / "run", test_data=tests, device="cpu")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_the_episodes_of_a_batch_are_known_without_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = toy_store(tmp_path, episodes=20, shard_episodes=5)
    for limit in (None, 1):
        source = Source(store, np.arange(3, 20), store.read_pairs(np.arange(3, 20)), 4, 1, CPU, memory_limit=limit)
        drawn = [chunk.episodes[rows].tolist() for chunk in source.chunks(1) for rows in chunk.batches]
        with monkeypatch.context() as patch:
            patch.setattr(DemoStore, "read_packed", lambda *given: pytest.fail("shards are read"))
            assert [source.episodes_of(1, batch).tolist() for batch in range(len(drawn))] == drawn


def test_frames_are_held_once_while_they_are_read(tmp_path: Path) -> None:
    store = toy_store(tmp_path, "image", 40, 1, frames=1000)
    assert peak_of(store.annotated_by(None).read_packed) < 1.4 * frame_bytes(store, np.arange(40))


def test_a_shard_takes_three_times_its_frames_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the frames that are taken from it, whichever was read before."""
    monkeypatch.setattr(shards, "CHUNK_BYTES", 2**16)  # as small beside a shard as it is beside a large one
    images = toy_store(tmp_path / "images", "image", 60, 20, frames=10_000)
    rows = np.arange(20)
    assert peak_of(images.annotated_by(None).read_packed) < frame_bytes(images, np.arange(60)) + 3 * frame_bytes(
        images, rows
    )
    parts = cue_store(tmp_path / "parts", 100, BOTH)
    (entry,) = parts.manifest.shards[:1]
    size = entry.distinct_frames * parts.observation.nbytes
    assert peak_of(lambda: parts._read(entry)) < 3.6 * size


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that were allocated at most while something was done."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("choices", "told"),
    [({}, "4 shards of it are in --data, too"), ({"shard_episodes": 5}, "it was collected with seed 0, as --data was")],
)
def test_who_is_tested_on_what_is_learned_from_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture, choices: dict, told: str
) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config(epochs=1)
    train(config, store, tmp_path / "other", test_data=toy_store(tmp_path / "new", seed=1), device="cpu")
    train(config, store, tmp_path / "own", device="cpu")
    assert "--test-data" not in capsys.readouterr().err
    train(config, store, tmp_path / "run", test_data=toy_store(tmp_path / "same", **choices), device="cpu")
    assert f"--test-data {tmp_path / 'same'}: {told}; its tests say little of new episodes" in capsys.readouterr().err
