"""What observations leave in memory, standardised with the training set."""

import numpy as np
import pytest
import torch

from attentiontuner.models import memory
from attentiontuner.models.embedders import split_parts
from attentiontuner.models.memory import observation_memory
from tests.models.test_transformer import EVERY_KIND, GRID, IMAGE, MANY_SYMBOLS, PARTS, VECTOR, random_frames


def fitted(observation, rarity=True):
    torch.manual_seed(0)
    network = observation_memory(observation, 16, 8)
    frames = random_frames(observation, 9, np.random.default_rng(0))
    network.fit([(frames[:4], np.arange(1, 5)), (frames[4:], np.ones(5, np.int64))], len(frames), rarity)
    return network, torch.from_numpy(frames)


@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_sizes_are_what_is_promised(observation):
    network, frames = fitted(observation)
    vectors, left, kinds = network(frames)
    assert vectors.shape == (9, 16)
    assert left.shape == (9, network.memory)
    assert kinds.shape == (9, network.kinds_in_view)
    assert network.match(torch.randn(2, 8), left).shape == (2, 9)


@pytest.mark.parametrize(
    ("observation", "names"),
    [
        (GRID, {"weight", "bias", "kind.weight", "key.weight", "key.bias", "mean", "scale", "rarity"}),
        (VECTOR, {"key.weight", "key.bias", "mean", "scale", *(f"embedding.mlp.{n}" for n in ("0.weight", "2.bias"))}),
        (IMAGE, {"key.weight", "key.bias", "mean", "scale", "embedding.cnn.4.bias", "embedding.fc.0.weight"}),
    ],
)
def test_weights_are_called_what_saved_runs_call_them(observation, names):
    assert set(observation_memory(observation, 16, 8).state_dict()) >= names


def test_of_many_symbols_each_channel_is_counted():
    network, frames = fitted(MANY_SYMBOLS, rarity=False)
    _, left, kinds = network(frames)
    assert left.shape == (9, 3 * 256)
    for channel in range(3):
        own = left[:, channel * 256 : (channel + 1) * 256]
        symbols = frames.view(9, 20, 3)[..., channel].long()
        torch.testing.assert_close(own, torch.nn.functional.one_hot(symbols, 256).sum(1).float())
        assert (kinds.view(9, 20, 3)[..., channel] == symbols + 256 * channel).all()
    assert network.mean.sum().item() == pytest.approx(60, rel=1e-5)  # three kinds in each of 20 places


def test_several_parts_are_each_what_they_are_alone():
    network, frames = fitted(PARTS)
    _, left, kinds = network(frames)
    query = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    first, matches, of_kinds = 0, [], []
    for (_, part), own, rows in zip(PARTS.parts, network.parts, split_parts(frames, PARTS), strict=True):
        alone = memory.part_memory(part, 16, 8)
        start = {name: tensor.clone() for name, tensor in own.state_dict().items()}
        alone.load_state_dict(start)
        alone.fit([(rows[:4].numpy(), np.arange(1, 5)), (rows[4:].numpy(), np.ones(5, np.int64))], 9)
        for name in {"mean", "scale", "rarity"} & set(start):
            torch.testing.assert_close(alone.state_dict()[name], start[name])
        _, one, its_kinds = own(rows)
        torch.testing.assert_close(left[:, first : first + own.memory], one)
        matches.append(own.match(query, one).exp())
        of_kinds.append(its_kinds + first)
        first += own.memory
    torch.testing.assert_close(network.match(query, left), sum(matches).log(), atol=1e-5, rtol=1e-5)
    assert (kinds == torch.cat(of_kinds, 1)).all()
    assert (left.gather(1, kinds) > 0).all()  # what is in view is in memory, where its kind says


def test_images_and_vectors_are_standardised_and_what_never_changes_is_left_out():
    vectors = observation_memory(VECTOR, 16, 8)
    size = VECTOR.parts[0][1].shape[0]
    frames = np.stack([np.full(size, value, np.float32) for value in (1, 3)])
    frames[:, 0] = 5
    vectors.fit([(VECTOR.encode(frames), np.array([1, 3]))], 2)
    torch.testing.assert_close(vectors.mean, torch.tensor([5.0, *[2.5] * (size - 1)]))
    torch.testing.assert_close(vectors.scale, torch.tensor([0.0, *[1 / 0.75**0.5] * (size - 1)]))
    images = observation_memory(IMAGE, 16, 8)
    width, height, channels = IMAGE.parts[0][1].shape
    black, white = (np.full((1, IMAGE.nbytes), value, np.uint8) for value in (0, 255))
    images.fit([(black, np.array([5])), (white, np.array([5]))], 2)
    torch.testing.assert_close(images.mean, torch.full((channels, width, height), 0.5))
    torch.testing.assert_close(images.scale, torch.full((channels,), 2.0))


def test_means_are_taken_over_every_so_many_observations_wherever_blocks_end(monkeypatch):
    monkeypatch.setattr(memory, "FITTED", 3)
    frames, seen = (
        np.random.default_rng(0).normal(size=(10, VECTOR.parts[0][1].shape[0])).astype(np.float32),
        np.arange(1, 11),
    )
    fitted = []
    for ends in ([10], [3, 4, 10], [1, 6, 10]):
        fitted.append(observation_memory(VECTOR, 16, 8))
        parts = zip([0, *ends], ends, strict=False)
        fitted[-1].fit([(VECTOR.encode(frames[start:end]), seen[start:end]) for start, end in parts], 10)
        torch.testing.assert_close(fitted[-1].mean, fitted[0].mean)
    expected = np.average(frames[[0, 4, 8]], axis=0, weights=seen[[0, 4, 8]])
    torch.testing.assert_close(fitted[0].mean, torch.from_numpy(expected).float())
