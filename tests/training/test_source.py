"""Where batches come from: the split, the labels, and streaming that leaves nothing out."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.data.labels import choose_demonstrations, label_generator, split_episodes
from attentiontuner.data.source import Source, frame_bytes
from attentiontuner.demos import DemoStore, DemoWriter
from attentiontuner.demos.annotations import Annotation, write_annotation
from attentiontuner.runs.config import TrainConfig
from attentiontuner.runs.run import Run
from attentiontuner.training.train import _labels, _test_source, train
from tests.training.toys import toy_config, toy_store

CPU = torch.device("cpu")


def source_of(store: DemoStore, episodes: np.ndarray, config: TrainConfig) -> Source:
    labels = _labels(replace(config, annotator="expert"), store, episodes)
    return Source(
        store, episodes, labels, config.batch_size, config.seed, CPU, config.memory_limit, config.learn_padding
    )


def labelling(**choices: object) -> TrainConfig:
    return toy_config(annotator="expert", **choices)


def test_the_last_episodes_are_the_test_set(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data", episodes=40)
    train, (where, test) = split_episodes(store, None, 0.1, include_failed=False)
    assert train.tolist() == list(range(36))
    assert where is store
    assert test.tolist() == [36, 37, 38, 39]
    other = toy_store(tmp_path / "other", episodes=5, seed=3)
    train, (where, test) = split_episodes(store, other, 0.05, include_failed=False)
    assert len(train) == 40
    assert where is other
    assert test.tolist() == list(range(5))
    assert len(choose_demonstrations(train, 10, label_generator(1, "demos"))) == 10


def test_failed_demonstrations_are_left_out_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_with_failures(tmp_path / "data")
    train_on, (_, test) = split_episodes(store, None, 0.25, include_failed=False)
    assert [*train_on, *test] == [episode for episode in range(12) if episode % 3]
    train_on, (_, test) = split_episodes(store, None, 0.25, include_failed=True)
    assert [*train_on, *test] == list(range(12))
    train(toy_config(epochs=1), store, tmp_path / "run", device="cpu")
    assert "4 of 12 failed and are left out (--include-failed learns from them too)" in capsys.readouterr().err
    # How many failed is in the manifest: no shard is read for that.
    monkeypatch.setattr(DemoStore, "success", lambda store: pytest.fail("shards are read"))
    train(toy_config(epochs=1, include_failed=True), store, tmp_path / "all", device="cpu")
    assert "4 of 12 failed and are learned from too" in capsys.readouterr().err
    assert [Run(tmp_path / name).metrics()[0]["epoch"] for name in ("run", "all")] == [1, 1]


def test_where_all_failed_the_way_out_is_named(tmp_path: Path) -> None:
    whole = toy_store(tmp_path / "whole", episodes=3, shard_episodes=3)
    store = DemoWriter(
        tmp_path / "failed", task="toy-grid", settings={}, observation=whole.observation, actions=whole.actions
    )
    store.append([replace(demo, success=False, episode=None) for demo in whole], "expert")
    with pytest.raises(UserError, match=r"3 episodes: none is left to train on \(3 failed: --include-failed"):
        split_episodes(DemoStore.open(tmp_path / "failed"), None, 0.1, include_failed=False)


def store_with_failures(folder: Path) -> DemoStore:
    """Every third demonstration failed."""
    whole = toy_store(folder.with_name("whole"), episodes=12, shard_episodes=4)
    demonstrations = [replace(demo, success=bool(demo.episode % 3), episode=None) for demo in whole]
    writer = DemoWriter(
        folder, task=whole.task, settings=whole.settings, observation=whole.observation, actions=whole.actions
    )
    writer.append(demonstrations[:4], "expert")
    writer.append(demonstrations[4:], "expert")
    return DemoStore.open(folder)


def test_labels_are_those_of_the_store_after_what_is_asked(tmp_path: Path) -> None:
    store = toy_store(tmp_path, episodes=20, annotate="odd")
    episodes = np.arange(3, 19)
    labels = _labels(labelling(), store, episodes)
    assert labels.annotated.tolist() == [episode % 2 == 1 for episode in episodes]
    packed = store.read_packed(episodes)
    assert labels == packed.pairs
    assert np.array_equal(labels.lengths, packed.lengths)
    assert _labels(labelling(annotated_fraction=0.25), store, episodes).annotated.sum() == 4
    for choice in ({"pairs": "random"}, {"pairs": "shuffled"}, {"noise_p": 2.0}, {"noise_q": 2.0}):
        changed = _labels(labelling(**choice), store, episodes)
        assert changed != labels
        assert changed == _labels(labelling(**choice), store, episodes)
        assert changed != _labels(labelling(seed=2, **choice), store, episodes)
    nothing = _labels(labelling(method="vanilla"), store, episodes)
    assert not nothing.annotated.any()


def test_a_memory_loss_needs_annotations(tmp_path: Path) -> None:
    store = toy_store(tmp_path, annotate="none")
    with pytest.raises(UserError, match="no annotator 'expert'.*--method vanilla"):
        _labels(labelling(), store, np.arange(4))
    with pytest.raises(UserError, match="--method recall-vanilla"):
        _labels(labelling(method="recall"), store, np.arange(4))
    half = toy_store(tmp_path / "half", annotate="odd")
    with pytest.raises(UserError, match="annotated none of the 2"):
        _labels(labelling(), half, np.array([0, 2]))


def test_a_store_opened_for_somebody_trains_on_their_pairs(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    for episode in range(len(store)):
        write_annotation(store.path, "alice", episode, Annotation([(0, 1)]))
    theirs = train(toy_config(epochs=1), DemoStore.open(store.path, "alice"), tmp_path / "alice", device="cpu")
    named = train(toy_config(epochs=1, annotator="alice"), store, tmp_path / "named", device="cpu")
    usual = train(toy_config(epochs=1), store, tmp_path / "expert", device="cpu")
    assert [Run(result.run).config().annotator for result in (theirs, named, usual)] == ["alice", "alice", "expert"]
    losses = [result.metrics[0]["memory_loss"] for result in (theirs, named, usual)]
    assert losses[0] == losses[1] != losses[2]


def test_a_run_learns_from_several_annotators_and_goes_on_with_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = toy_store(tmp_path / "data", annotate="odd")
    for episode in range(4):
        write_annotation(store.path, "alice", episode, Annotation([(0, 1, 2)]))
    config = toy_config(epochs=1, annotator="expert,alice")
    labels = _labels(config, store, np.arange(8))
    assert labels.annotated.tolist() == [True] * 4 + [False, True, False, True]
    expert, alice = (store.annotated_by(name).read_pairs(np.arange(8)) for name in ("expert", "alice"))
    assert labels == expert.merge(alice)
    begun = train(config, store, tmp_path / "run", device="cpu", budget_seconds=0)
    assert not begun.finished
    assert "annotated by alice,expert with" in capsys.readouterr().err
    with pytest.raises(UserError, match="made with annotator = 'alice,expert', now it is 'expert'"):
        train(toy_config(epochs=1), store, tmp_path / "run", device="cpu")
    opened = DemoStore.open(store.path, "alice,expert")
    assert train(toy_config(epochs=1), opened, tmp_path / "run", device="cpu").finished
    write_annotation(store.path, "alice", 9, Annotation([(0, 1)]))
    with pytest.raises(UserError, match="was made with data.labels"):
        train(config, store, tmp_path / "run", device="cpu")
    with pytest.raises(UserError, match="there is no annotator 'eve'"):
        _labels(toy_config(annotator="alice,eve"), store, np.arange(8))


def test_the_test_demonstrations_have_the_pairs_of_those_who_annotated_them(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data", episodes=6)
    config = toy_config(annotator="alice,expert")
    drawn = next(_test_source(store, np.arange(6), config, CPU, 10**6).pieces())
    assert drawn.packed.pairs == store.read_pairs()


def whole_and_streamed(tmp_path: Path, limit: int) -> tuple[Source, Source]:
    store = toy_store(tmp_path, episodes=40, shard_episodes=5)
    episodes = np.arange(2, 39)
    return tuple(source_of(store, episodes, toy_config(memory_limit=room)) for room in (None, limit))  # type: ignore


def epoch_of(source: Source, epoch: int, first: int = 0) -> list[list[int]]:
    return [chunk.episodes[rows].tolist() for chunk in source.chunks(epoch, first) for rows in chunk.batches]


@pytest.mark.parametrize("limit", [1, 10_000, 10**9])
def test_every_epoch_has_every_demonstration_once_streamed_or_not(tmp_path: Path, limit: int) -> None:
    for source in whole_and_streamed(tmp_path, limit):
        first, second = epoch_of(source, 0), epoch_of(source, 1)
        assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(2, 39))
        assert first != second
        assert first == epoch_of(source, 0)
        for batch in (1, 3, len(first) - 1, len(first)):
            assert epoch_of(source, 0, batch) == first[batch:]


@pytest.mark.parametrize("limit", [None, 400])
def test_padding_is_learned_from_the_second_epoch_on(tmp_path: Path, limit: int | None) -> None:
    store = toy_store(tmp_path / "data")
    config, episodes = labelling(learn_padding=True, memory_limit=limit), np.arange(len(store))
    source = source_of(store, episodes, config)
    longest = int(store.lengths.max())
    for epoch, padded in ((0, False), (1, True), (2, True), (0, False)):
        for chunk in source.chunks(epoch):
            for rows in chunk.batches:
                batch, own = chunk.data.batch(rows), store.lengths[chunk.episodes[rows]]
                assert batch.lengths.tolist() == ([longest] * len(rows) if padded else own.tolist())
                beyond = batch.time >= torch.from_numpy(own)[batch.row]
                seen = batch.observations if batch.frame is None else batch.observations[batch.frame]
                assert beyond.any() == padded
                assert not seen[beyond].any()
                assert not batch.actions[beyond].any()
                kept = store.read_packed(chunk.episodes[rows])
                assert torch.equal(seen[~beyond], torch.from_numpy(kept.frames[kept.frame_index]))
                assert torch.equal(batch.actions[~beyond], torch.from_numpy(kept.actions))
    assert source.fingerprint() == source_of(store, episodes, labelling()).fingerprint()


def test_a_run_that_learns_padding_differs_from_its_second_epoch_on(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    runs = (("plain", False), ("padded", True))
    one, other = (train(toy_config(learn_padding=p), store, tmp_path / n, device="cpu").metrics for n, p in runs)
    assert one[0]["imitation_loss"] == other[0]["imitation_loss"]
    assert one[1]["imitation_loss"] != other[1]["imitation_loss"]


def test_a_streamed_batch_is_the_batch_of_those_episodes(tmp_path: Path) -> None:
    whole, streamed = whole_and_streamed(tmp_path, 10_000)
    everything = next(whole.chunks(0)).data
    pools = list(streamed.chunks(0))
    assert len(pools) > 2
    for chunk in pools:
        for rows in chunk.batches:
            mine = chunk.data.batch(rows)
            same = everything.batch(chunk.episodes[rows] - 2)
            assert torch.equal(mine.observations[mine.frame], same.observations[same.frame])
            for name in ("actions", "time", "slot", "lengths", "annotated"):
                assert torch.equal(getattr(mine, name), getattr(same, name)), name
            for one, other in zip((*mine.pairs, *mine.totals), (*same.pairs, *same.totals), strict=True):
                assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["grid", "image", "vector"])
def test_a_streamed_run_standardises_with_all_pools(tmp_path: Path, kind: str) -> None:
    store = toy_store(tmp_path, kind, episodes=20, shard_episodes=2, frames=20)
    fitted = []
    for limit in (None, 1):
        config = toy_config(kind, "recall", memory_limit=limit)
        source = source_of(store, np.arange(20), config)
        torch.manual_seed(0)
        fitted.append(config.network.build())
        fitted[-1].fit(source.observed(), source.frames())
    whole, streamed = (model.state_dict() for model in fitted)
    for name, value in whole.items():
        torch.testing.assert_close(streamed[name], value, msg=name)
    assert whole["observation_embedding.mean"].ne(0).any()


def test_a_step_cannot_recall_more_of_another_than_a_recall_head_counts(tmp_path: Path) -> None:
    store = toy_store(tmp_path)
    write_annotation(store.path, "expert", 3, Annotation([(0, 2, 54)]))
    _labels(labelling(method="recall"), store, np.arange(6))
    write_annotation(store.path, "expert", 3, Annotation([(0, 2, 55)]))
    _labels(labelling(), store, np.arange(6))
    with pytest.raises(UserError, match=r"episode 3, annotator 'expert': pair \(0, 2\) counts 55 times.*up to 54"):
        _labels(labelling(method="recall"), store, np.arange(6))


def test_pools_mix_shards_and_stay_within_the_limit(tmp_path: Path) -> None:
    store = toy_store(tmp_path, episodes=40, shard_episodes=5)
    one = frame_bytes(store, np.arange(5))
    source = source_of(store, np.arange(40), toy_config(memory_limit=6 * one + 6))
    pools = list(source.chunks(0))
    assert len(pools) >= 3
    for pool in pools:
        assert pool.data.frames.nbytes <= 3 * one + 3
    assert len({episode // 5 for episode in pools[0].episodes.tolist()}) >= 2
    assert len({episode // 5 for row in pools[0].batches[0] for episode in [int(pools[0].episodes[row])]}) >= 2


def test_the_fingerprint_sees_frames_labels_and_choices(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "a")
    prints = [
        source_of(store, np.arange(9), toy_config()).fingerprint(),
        source_of(store, np.arange(8), toy_config()).fingerprint(),
        source_of(store, np.arange(9), toy_config(noise_p=3.0)).fingerprint(),
        source_of(toy_store(tmp_path / "b", seed=1), np.arange(9), toy_config()).fingerprint(),
    ]
    assert len({str(value) for value in prints}) == 4
    assert prints[0] == source_of(store, np.arange(9), toy_config()).fingerprint()


def test_few_demonstrations_of_many_that_saw_the_same_still_count_as_something_seen(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "d", "vector", episodes=40, shard_episodes=40, frames=3)
    config = toy_config("vector", method="recall", demos=2, epochs=1)
    assert train(config, store, tmp_path / "run", device="cpu").finished
