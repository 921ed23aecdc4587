"""What observations leave in memory, standardised with the training set."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner.models import memory, standard
from attentiontuner.models.memory import MemoryOptions, VectorCells, observation_memory
from attentiontuner.models.parts import split_parts
from attentiontuner.spaces.observation import ObservationSpec, Part
from tests.models.test_transformer import EVERY_KIND, GRID, IMAGE, MANY_SYMBOLS, PARTS, VECTOR, random_frames

OPTIONS = MemoryOptions(
    **{"d_model": 16, "head": 8, "bounded": True, "alike": True, "points": 3, "looks": 2, "dropped_cells": 0.5},
    images="paper",
    beside=True,
    products=True,
)
START = torch.tensor(-9.0)


def fitted(observation, options=OPTIONS):
    torch.manual_seed(0)
    network = observation_memory(observation, options).eval()
    frames = random_frames(observation, 9, np.random.default_rng(0))
    network.fit([(frames[:4], np.arange(1, 5)), (frames[4:], np.ones(5, np.int64))], len(frames))
    return network, torch.from_numpy(frames)


@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_sizes_are_what_is_promised(observation):
    network, frames = fitted(observation)
    vectors, left, kinds = network(frames)
    assert vectors.shape == (9, 16)
    assert left.shape == (9, network.memory)
    assert kinds.shape == (9, network.kinds_in_view)
    assert network.match(torch.randn(2, 8), left, left[:2], START).shape == (2, 9)
    laid = network.lay(torch.rand(2, 9), torch.ones(2), left, left[:2])
    assert laid == 0.0 if observation.kinds == {"grid"} else laid.shape == (2, 16)


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 20, 2), (30, 30, 3), (40, 70, 4), (150, 224, 1)])
def test_images_of_any_size_leave_a_map_of_at_most_eight_places_a_side(shape):
    network, frames = fitted(ObservationSpec("image", shape), replace(OPTIONS, images="residual"))
    vectors, left, _ = network(frames)
    assert vectors.shape == (9, 16)
    assert max(network.embedding.map_shape) <= 8
    assert network.memory == network.embedding.places * (OPTIONS.head + OPTIONS.looks)
    assert network.match(torch.randn(2, 8), left, left[:2], START).shape == (2, 9)
    assert network.lay(torch.rand(2, 9), torch.ones(2), left, left[:2]).shape == (2, 16)
    inputs = network.embedding.standardised(frames, network.mean, network.scale)
    steps = torch.tensor([1.0, 2, 3, 4, 1, 1, 1, 1, 1])
    torch.testing.assert_close(
        (inputs * steps[:, None, None, None]).sum(0), torch.zeros(inputs.shape[1:]), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize(
    ("observation", "names"),
    [
        (GRID, {"weight", "bias", "kind.weight", "key.weight", "key.bias", "mean", "scale", "rarity"}),
        (VECTOR, {"key.weight", "key.bias", "mean", "scale", *(f"embedding.mlp.{n}" for n in ("0.weight", "2.bias"))}),
        (IMAGE, {"key.weight", "key.bias", "mean", "scale", "embedding.cnn.4.bias", "embedding.fc.0.weight"}),
    ],
)
def test_weights_are_called_what_saved_runs_call_them(observation, names):
    assert set(observation_memory(observation, OPTIONS).state_dict()) >= names


def test_of_many_symbols_each_channel_is_counted():
    network, frames = fitted(MANY_SYMBOLS)
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
        alone = memory.MEMORIES[part.kind](part, OPTIONS)
        start = {name: tensor.clone() for name, tensor in own.state_dict().items()}
        alone.load_state_dict(start)
        alone.fit([(rows[:4].numpy(), np.arange(1, 5)), (rows[4:].numpy(), np.ones(5, np.int64))], 9)
        for name in {"mean", "scale", "rarity"} & set(start):
            torch.testing.assert_close(alone.state_dict()[name], start[name])
        _, one, its_kinds = own(rows)
        torch.testing.assert_close(left[:, first : first + own.memory], one)
        matches.append(own.match(query, one, one[:2], START).exp())
        of_kinds.append(its_kinds + first)
        first += own.memory
    torch.testing.assert_close(network.match(query, left, left[:2], START), sum(matches).log(), atol=1e-5, rtol=1e-5)
    assert (kinds == torch.cat(of_kinds, 1)).all()
    assert (left.gather(1, kinds) > 0).all()  # what is in view is in memory, where its kind says


def test_images_and_vectors_are_standardised_and_what_never_changes_is_left_out():
    vectors = observation_memory(VECTOR, OPTIONS)
    size = VECTOR.parts[0][1].shape[0]
    frames = np.stack([np.full(size, value, np.float32) for value in (1, 3)])
    frames[:, 0] = 5
    vectors.fit([(VECTOR.encode(frames), np.array([1, 3]))], 2)
    torch.testing.assert_close(vectors.mean, torch.tensor([5.0, *[2.5] * (size - 1)]))
    torch.testing.assert_close(vectors.scale, torch.tensor([0.0, *[1 / 0.75**0.5] * (size - 1)]))
    images = observation_memory(IMAGE, OPTIONS)
    width, height, channels = IMAGE.parts[0][1].shape
    black, white = (np.full((1, IMAGE.nbytes), value, np.uint8) for value in (0, 255))
    images.fit([(black, np.array([5])), (white, np.array([5]))], 2)
    torch.testing.assert_close(images.mean, torch.full((channels, width, height), 0.5))
    torch.testing.assert_close(images.scale, torch.full((channels,), 2.0))


def test_means_are_taken_over_every_so_many_observations_wherever_blocks_end(monkeypatch):
    monkeypatch.setattr(standard, "FITTED", 3)
    frames, seen = (
        np.random.default_rng(0).normal(size=(10, VECTOR.parts[0][1].shape[0])).astype(np.float32),
        np.arange(1, 11),
    )
    fitted = []
    for ends in ([10], [3, 4, 10], [1, 6, 10]):
        fitted.append(observation_memory(VECTOR, OPTIONS))
        parts = zip([0, *ends], ends, strict=False)
        fitted[-1].fit([(VECTOR.encode(frames[start:end]), seen[start:end]) for start, end in parts], 10)
        torch.testing.assert_close(fitted[-1].mean, fitted[0].mean)
    expected = np.average(frames[[0, 4, 8]], axis=0, weights=seen[[0, 4, 8]])
    torch.testing.assert_close(fitted[0].mean, torch.from_numpy(expected).float())


def test_what_is_asked_for_counts_at_most_once_a_cell_and_as_often_as_it_stands_there():
    network, frames = fitted(GRID)
    _, left, _ = network(frames)
    query = torch.full((1, 8), 100.0)
    with torch.no_grad():
        network.key.weight.zero_()
        network.key.bias.fill_(1.0)  # every kind is asked for, whatever it takes
        everything = network.match(query, left, left[:1], START).exp()
    torch.testing.assert_close(everything, torch.full((1, 9), 49.0))


def test_a_kind_in_view_is_asked_for_unless_the_query_says_otherwise():
    network, _ = fitted(GRID)
    with torch.no_grad():
        network.key.weight.zero_()
        network.key.bias.zero_()
        network.rarity.fill_(1.0)
    left = torch.zeros(2, network.memory)
    left[0, 5], left[1, 6] = 1, 1
    own = torch.zeros(1, network.memory)
    own[0, 6] = 1
    like, unlike = network.match(torch.zeros(1, 8), left, own, START)[0].flip(0)
    assert (like - unlike).item() == pytest.approx(memory.ALIKE, rel=1e-3)


def test_dropped_cells_are_dropped_from_the_vector_alone_and_only_in_training():
    network, frames = fitted(GRID)
    vectors, left, _ = network(frames)
    again, same, _ = network.train()(frames)
    assert not torch.allclose(vectors, again)
    torch.testing.assert_close(left, same)
    torch.testing.assert_close(network.eval()(frames)[0], vectors)


def test_no_vector_is_made_of_what_the_training_set_never_had():
    network, frames = fitted(GRID)
    others = torch.cat([frames, torch.from_numpy(random_frames(GRID, 9, np.random.default_rng(1)))])
    vectors = network(others)[0]
    network.clear_unused()
    assert not network.weight[network.scale == 0].any()
    assert network.weight.any(1).sum() == (network.scale != 0).sum() > 0
    torch.testing.assert_close(network(others)[0], vectors, rtol=0, atol=0)


def test_a_point_is_told_by_its_coordinates():
    maps = torch.full((1, 2, 5, 9), -50.0)
    maps[0, 0, 4, 0] = maps[0, 1, 2, 6] = 50.0  # at the right and above; in the middle and to the lower side
    torch.testing.assert_close(memory.places_of(maps), torch.tensor([[1.0, 0.0, -1.0, 0.5, 1.0, 1.0]]))


def test_images_are_asked_for_and_laid_over_alike_wherever_things_stand():
    """Two maps that are moved by as much match as before, up to the borders, where convolutions see the edge."""
    network, _ = fitted(IMAGE)
    with torch.no_grad():
        for parameter in network.ask.parameters():
            parameter.normal_()
    width, height = network.embedding.map_shape
    maps = torch.zeros(2, OPTIONS.looks, width, height)
    maps[0, :, 2, 2], maps[1, :, 2, 3] = 1.0, 1.0
    keys = torch.zeros(2, network.keys)
    scores = []
    for moved in (maps, maps.roll(1, 2)):
        left = torch.cat([keys, moved.flatten(1)], 1)
        scores.append(network.match(torch.zeros(1, 8), left[:1], left[1:], START))
    torch.testing.assert_close(scores[0], scores[1])
    assert not torch.allclose(scores[0], network.match(torch.zeros(1, 8), left[:1], left[:1], START))
    nothing, one = (
        network.lay(torch.full((1, 1), amount), torch.full((1,), amount), left[:1], left[1:]) for amount in (0.0, 1.0)
    )
    assert not torch.allclose(nothing, one)


def test_a_vector_that_is_recalled_is_read_as_it_was_seen():
    """Laid beside the one in view are the sum and the mean of what is recalled, and nothing of what is not."""
    network, frames = fitted(VECTOR)
    _, left, _ = network(frames)
    seen = (VECTOR.decode(frames.numpy()) - network.mean.numpy()) * network.scale.numpy()
    shown = []
    network.laid.register_forward_hook(lambda module, given, made: shown.append(given[0]))
    amounts = torch.zeros(2, 9)
    amounts[0, 3] = 1
    amounts[1, [1, 6]] = 1
    network.lay(amounts, amounts.sum(1), left, left[[0, 8]])
    in_view, added, recalled, before = shown[0].split(VECTOR.parts[0][1].shape[0], 1)
    np.testing.assert_allclose(in_view.detach(), seen[[0, 8]], atol=1e-5)
    np.testing.assert_allclose(recalled.detach(), np.stack([seen[3], (seen[1] + seen[6]) / 2]), atol=1e-5)
    np.testing.assert_allclose(added.detach() * memory.SEVERAL, np.stack([seen[3], seen[1] + seen[6]]), atol=1e-5)
    assert not before[0].any()
    assert before[1].any()


def miss(products):
    """How far off, for 300 other vectors, is the number in view that the recalled vector names, of six of deviation 1,
    once it has been learned from 120."""
    torch.manual_seed(0)
    cells = VectorCells(Part("vector", (12,)), replace(OPTIONS, products=products))
    read = torch.nn.Linear(OPTIONS.d_model, 1)
    named, numbers = torch.arange(420) % 6, torch.randn(420, 6)
    nothing, key, once = torch.zeros(420, 6), torch.zeros(420, OPTIONS.head), torch.ones(420, 1)
    past = torch.cat([key, 3.0 * torch.nn.functional.one_hot(named, 6), nothing], 1)[:, None]
    own = torch.cat([key, nothing, numbers], 1)[:, None]
    optimiser = torch.optim.Adam([*cells.parameters(), *read.parameters()], 0.01)
    for _ in range(300):
        errors = (read(cells.lay(once[:, None], once, past, own))[:, 0, 0] - numbers[range(420), named]).abs()
        optimiser.zero_grad()
        errors[:120].mean().backward()
        optimiser.step()
    return errors[120:].mean().item()


def test_what_is_recalled_says_which_number_in_view_counts():
    """Without products the 120 are learned by heart."""
    assert miss(products=True) < 0.05
    assert miss(products=False) > 0.1
