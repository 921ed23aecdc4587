"""Bytes taken apart, and what encoders make of them."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.models.embedders import VectorEmbedding, observation_embedding
from attentiontuner.models.parts import CellKinds, decode, split_parts
from attentiontuner.models.sizes import RecallConfig, TransformerConfig, images_for
from attentiontuner.spaces.observation import ObservationSpec, Part
from tests.models.test_transformer import (
    EVERY_KIND,
    GRID,
    IMAGE,
    MANY_SYMBOLS,
    PARTS,
    VECTOR,
    packed_demos,
    random_frames,
)


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_bytes_are_taken_apart_as_the_specification_says(observation, rows):
    encoded = random_frames(observation, 5, np.random.default_rng(0))[:rows]
    expected = observation.decode(encoded)
    rows = split_parts(torch.from_numpy(encoded), observation)
    for own, (name, part) in zip(rows, observation.parts, strict=True):
        array, found = expected if observation.plain else expected[name], decode(own, part).numpy()
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("observation", [GRID, IMAGE, VECTOR], ids=["grid", "image", "vector"])
def test_one_part_is_not_copied(observation):
    encoded = torch.from_numpy(random_frames(observation, 4, np.random.default_rng(0)))
    (own,), (_, part) = split_parts(encoded, observation), observation.parts[0]
    assert decode(own, part).data_ptr() == encoded.data_ptr()


SMALL_IMAGE = ObservationSpec("image", (16, 20, 2))
CNN = {"cnn.0.weight", "cnn.0.bias", "cnn.2.weight", "cnn.2.bias", "fc.0.weight", "fc.0.bias"}


@pytest.mark.parametrize(
    ("observation", "embedder", "names"),
    [
        (GRID, "paper", CNN),
        (IMAGE, "paper", {*CNN, "cnn.4.weight", "cnn.4.bias"}),
        (GRID, "lookup", {"table.weight"}),
        (VECTOR, "paper", {"mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias"}),
    ],
)
def test_weights_are_called_what_saved_runs_call_them(observation, embedder, names):
    assert set(observation_embedding(observation, 16, embedder).state_dict()) == names
    named = ObservationSpec(parts={"only": observation.parts[0][1]})
    assert set(observation_embedding(named, 16, embedder).state_dict()) == names


def test_a_kind_is_a_combination_of_symbols_unless_these_are_too_many():
    grids = torch.tensor([[[[1, 2, 3]], [[15, 15, 15]]]], dtype=torch.uint8)
    combined, apart = CellKinds(Part("grid", (2, 1, 3), (16, 16, 16))), CellKinds(Part("grid", (2, 1, 3), (16, 16, 17)))
    assert (combined.count, combined.per_observation, combined.features) == (4096, 2, 8192)
    assert combined(grids).tolist() == [[(1 * 16 + 2) * 16 + 3, 4095]]
    assert combined.in_place(combined(grids)).tolist() == [[(1 * 16 + 2) * 16 + 3, 4096 + 4095]]
    assert (apart.count, apart.per_observation, apart.features) == (49, 6, 98)
    assert apart(grids).tolist() == [[1, 16 + 2, 32 + 3, 15, 16 + 15, 32 + 15]]
    assert apart.in_place(apart(grids)).tolist() == [[1, 16 + 2, 32 + 3, 49 + 15, 49 + 16 + 15, 49 + 32 + 15]]
    largest = torch.full((1, 2, 1, 3), 255, dtype=torch.uint8)
    assert CellKinds(Part("grid", (2, 1, 3), (256, 256, 256)))(largest)[0, :3].tolist() == [255, 511, 767]


@pytest.mark.parametrize("observation", [GRID, MANY_SYMBOLS], ids=["grid", "many symbols"])
def test_the_papers_convolutions_see_every_symbol_as_a_plane(observation):
    encoded = torch.from_numpy(random_frames(observation, 3, np.random.default_rng(0)))
    part = observation.parts[0][1]
    grids = decode(encoded, part).long()
    expected = torch.cat([F.one_hot(grids[..., channel], count) for channel, count in enumerate(part.symbols)], -1)
    planes = observation_embedding(observation, 16, "paper").planes(encoded)
    assert planes.dtype == torch.float32
    torch.testing.assert_close(planes, expected.permute(0, 3, 1, 2).float(), rtol=0, atol=0)


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(MANY_SYMBOLS, 4, d_model=32, layers=1, feedforward=32),
        TransformerConfig(MANY_SYMBOLS, 4, d_model=32, layers=1, feedforward=32, embedder="lookup"),
        RecallConfig(MANY_SYMBOLS, 4, d_model=32, feedforward=32),
        TransformerConfig(PARTS, 4, d_model=32, layers=1, feedforward=32),
        TransformerConfig(PARTS, 4, d_model=32, layers=1, feedforward=32, embedder="lookup"),
        RecallConfig(PARTS, 4, d_model=32, feedforward=32),
        TransformerConfig(SMALL_IMAGE, 4, d_model=32, layers=1, feedforward=32),
        RecallConfig(SMALL_IMAGE, 4, d_model=32, feedforward=32),
    ],
    ids=[
        "paper",
        "lookup",
        "recall",
        *("parts, paper", "parts, lookup", "parts, recall"),
        "residual",
        "residual recall",
    ],
)
def test_many_symbols_and_several_parts_are_small_and_train_a_step(config):
    torch.manual_seed(0)
    model = config.build()
    assert sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())) < 8e6
    batch = DemoData(packed_demos(config.observation, [4, 6], 4)).batch(np.arange(2))
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    losses = []
    for _ in range(2):
        loss = F.cross_entropy(model.eval()(batch).distribution, batch.actions)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]


@pytest.mark.parametrize("embedder", ["paper", "lookup"])
def test_the_vector_of_several_parts_tells_each_of_them(embedder):
    embedding = observation_embedding(PARTS, 16, embedder)
    encoded = torch.from_numpy(random_frames(PARTS, 2, np.random.default_rng(0)))
    first = 0
    for part in split_parts(encoded, PARTS):
        changed = encoded[:1].clone()
        changed[:, first : first + part.shape[1]] = part[1:]
        assert not torch.allclose(embedding(changed), embedding(encoded[:1]))
        first += part.shape[1]


def test_images_have_any_size_and_number_of_channels():
    shapes = {"paper": [(36, 36, 1), (128, 90, 2), (96, 36, 7)], "residual": [(8, 8, 1), (64, 35, 4), (130, 40, 9)]}
    for images, of_size in shapes.items():
        for shape in of_size:
            observation = ObservationSpec("image", shape)
            embedding = observation_embedding(observation, 16, "paper")
            encoded = torch.from_numpy(random_frames(observation, 2, np.random.default_rng(0)))
            one, other = embedding(encoded)
            assert one.shape == (16,)
            assert not torch.allclose(one, other)
            first = embedding.cnn[0] if images == "paper" else embedding.stem
            assert first.weight.shape[1] == shape[2]
            assert TransformerConfig(observation, 4).images == RecallConfig(observation, 4).images == images


def test_one_image_that_the_papers_network_cannot_read_is_enough():
    parts = {"eye": Part("image", (64, 64, 3)), "hand": Part("image", (32, 32, 1)), "joints": Part("vector", (3,))}
    observation = ObservationSpec(parts=parts)
    assert images_for(observation) == "residual"
    encoded = torch.from_numpy(random_frames(observation, 2, np.random.default_rng(0)))
    assert observation_embedding(observation, 16, "paper")(encoded).shape == (2, 16)
    for config in (TransformerConfig, RecallConfig):
        with pytest.raises(UserError, match="images of 32 × 32 pixels are too small .*: leave out images=paper"):
            config(observation, 4, images="paper").build()
        with pytest.raises(UserError, match="model images: 'large' is not 'paper' or 'residual'"):
            config(observation, 4, images="large")


def test_large_images_have_few_weights():
    network = observation_embedding(ObservationSpec("image", (224, 224, 3)), 128, "paper")
    assert sum(weights.numel() for weights in network.parameters()) < 1_000_000


def test_networks_saved_before_there_was_a_choice_are_the_papers():
    large = ObservationSpec("image", (224, 224, 3))
    for config in (TransformerConfig(large, 4), RecallConfig(large, 4)):
        saved = config.to_json()
        assert type(config).from_json(saved).images == saved.pop("images") == "residual"
        assert type(config).from_json(saved).images == "paper"


@pytest.mark.parametrize("observation", [VECTOR, PARTS], ids=["vector", "parts"])
def test_vectors_are_put_on_the_scale_of_the_training_set(observation):
    model = TransformerConfig(observation, 4, d_model=8, layers=1, feedforward=8).build()
    assert model.fits
    frames = random_frames(observation, 9, np.random.default_rng(0))
    model.fit([(frames[:4], np.arange(1, 5)), (frames[4:], np.ones(5, np.int64))], len(frames))
    decoded = observation.decode(frames)
    vectors = next(part for part in model.image_embedding.modules() if isinstance(part, VectorEmbedding))
    named = [name for name, part in observation.parts if part is vectors.part]
    values = decoded if observation.plain else decoded[named[0]]
    weights = [1, 2, 3, 4, 1, 1, 1, 1, 1]
    mean = np.average(values, axis=0, weights=weights)
    np.testing.assert_allclose(vectors.standard.mean, mean, atol=1e-4)
    deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(vectors.standard.scale * deviation, np.ones(len(mean)), atol=1e-3)
    rounded = copy.deepcopy(model).bfloat16()
    kept = next(part for part in rounded.image_embedding.modules() if isinstance(part, VectorEmbedding))
    assert torch.equal(kept.standard.mean, vectors.standard.mean)


def test_networks_older_than_the_scale_see_vectors_as_they_are():
    value = TransformerConfig(VECTOR, 4).to_json()
    assert value.pop("standard")
    assert not TransformerConfig.from_json(value).build().fits
    assert not TransformerConfig(GRID, 4).standard
