import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.demos import DemoStore
from attentiontuner.demos.pairs import spans
from attentiontuner.demos.store import reader
from attentiontuner.demos.store.shards import FrameTable
from attentiontuner.spaces.observation import ObservationSpec
from tests.demos.examples import write_store


@pytest.mark.parametrize("episodes", [None, [9, 0, 4, 3], [5], [2, 2], []])
def test_packed_arrays_are_the_episodes(tmp_path, episodes):
    written = write_store(tmp_path / "d", 10)
    packed = DemoStore.open(tmp_path / "d").read_packed(episodes)
    chosen = list(range(10)) if episodes is None else episodes
    assert packed.episodes.tolist() == chosen
    assert len(packed) == len(chosen)
    for row, episode in enumerate(chosen):
        expected = written[episode]
        steps = slice(packed.starts[row], packed.starts[row] + packed.lengths[row])
        seen = packed.observation.decode(packed.frames[packed.frame_index[steps]])
        np.testing.assert_array_equal(seen, expected.observations)
        np.testing.assert_array_equal(packed.actions[steps], expected.actions)
        assert packed.seeds[row] == expected.seed
        assert packed.success[row] == expected.success
        assert packed.pairs.one(row) == expected.pairs
    assert len(packed.frame_index) == packed.lengths.sum() == len(packed.actions)
    assert len({frame.tobytes() for frame in packed.frames}) == len(packed.frames)
    assert len(np.unique(packed.frame_index)) == len(packed.frames), "no frame that nobody uses"
    assert packed.pairs == DemoStore.open(tmp_path / "d").read_pairs(chosen)


def test_an_episode_that_is_not_there(tmp_path):
    write_store(tmp_path / "d", 4)
    store = DemoStore.open(tmp_path / "d")
    for read in (store.read_packed, store.read_pairs):
        for number in (4, -1):
            with pytest.raises(UserError, match=f"no episode {number}: the data set holds 4"):
                read([1, number])


@pytest.mark.parametrize("hash_bytes", [hash, lambda row: 0, lambda row: row[0] % 2])
@pytest.mark.parametrize("kind", ["grid", "vector"])
def test_frames_that_share_a_hash_stay_apart(hash_bytes, kind):
    spec = ObservationSpec("grid", (2, 2, 1), (9,)) if kind == "grid" else ObservationSpec("vector", (3,))
    rng = np.random.default_rng(1)
    part = spec.parts[0][1]
    pool = spec.encode(rng.integers(0, 3, (40, *part.shape)).astype(part.dtype))
    table = FrameTable(spec.nbytes, hash_bytes)
    seen, rows = [], []
    for _ in range(5):
        frames = pool[rng.integers(0, len(pool), 30)]
        seen.append(frames)
        rows.append(table.add(frames))
    every = np.concatenate(seen)
    np.testing.assert_array_equal(table.frames[np.concatenate(rows)], every)
    assert len(table.frames) == len(np.unique(every, axis=0))


def test_spans():
    assert spans(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert spans(np.array([], int), np.array([], int)).tolist() == []


def test_only_the_annotations_of_the_shards_in_question_are_read(tmp_path, monkeypatch):
    write_store(tmp_path / "d", 10)
    store, usual, read = DemoStore.open(tmp_path / "d"), reader.read_shard_annotations, []
    everything = store.read_pairs()
    monkeypatch.setattr(reader, "read_shard_annotations", lambda *given: read.append(given[2].index) or usual(*given))
    assert store.read_pairs([9, 1, 8]) == everything.select(np.array([9, 1, 8]))
    assert read == [0, 2]
