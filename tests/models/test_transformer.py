"""The paper's network: its size, its names, its equations, packed and streaming."""

import numpy as np
import pytest
import torch
from torch import nn

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.models.heads import Head, parse_heads
from attentiontuner.models.sizes import TransformerConfig
from attentiontuner.models.transformer import Transformer
from attentiontuner.spaces.observation import MINIGRID_SYMBOLS, ObservationSpec, Part

GRID = ObservationSpec("grid", (7, 7, 3), MINIGRID_SYMBOLS)
IMAGE = ObservationSpec("image", (84, 84, 3))
VECTOR = ObservationSpec("vector", (5,))
MANY_SYMBOLS = ObservationSpec("grid", (5, 4, 3), (256, 256, 256))
PARTS = ObservationSpec(
    parts={
        "map": Part("grid", (3, 3, 2), (4, 6)),
        "eye": Part("image", (36, 41, 1)),
        "joints": Part("vector", (3,)),
        "text": Part("grid", (2, 1, 1), (9,)),
    }
)
EVERY_KIND = {"grid": GRID, "image": IMAGE, "vector": VECTOR, "many symbols": MANY_SYMBOLS, "parts": PARTS}


def random_frames(observation: ObservationSpec, count: int, generator: np.random.Generator) -> np.ndarray:
    """Bytes `[count, nbytes]` of any observations there may be."""

    def values(part):
        if part.kind == "grid":
            return np.stack([generator.integers(0, n, (count, *part.shape[:2])) for n in part.symbols], -1)
        if part.kind == "image":
            return generator.integers(0, 256, (count, *part.shape))
        return generator.normal(size=(count, *part.shape))

    arrays = {name: values(part) for name, part in observation.parts}
    return observation.encode(arrays[""] if observation.plain else arrays)


def packed_demos(observation: ObservationSpec, lengths: list[int], actions: int, seed: int = 0) -> PackedDemos:
    """Random demonstrations with a few pairs each; frames repeat."""
    generator = np.random.default_rng(seed)
    steps = sum(lengths)
    pairs = [PairTable.of([(0, q) for q in range(1, length, 2)], length) for length in lengths]
    starts = np.cumsum(lengths) - lengths
    return PackedDemos(
        observation=observation,
        frames=random_frames(observation, 9, generator),
        frame_index=generator.integers(0, 9, steps),
        actions=generator.integers(0, actions, steps),
        lengths=np.array(lengths),
        starts=starts,
        pairs=PairTable.join(pairs),
        success=np.ones(len(lengths), bool),
        seeds=np.arange(len(lengths)),
        episodes=np.arange(len(lengths)),
    )


def small(observation: ObservationSpec, **sizes: object) -> Transformer:
    torch.manual_seed(0)
    config = {"d_model": 32, "layers": 2, "heads": 2, "feedforward": 64, "dropout": 0.0, **sizes}
    return Transformer(TransformerConfig(observation, 4, **config)).eval()


@pytest.mark.parametrize(
    ("observation", "actions", "parameters"),
    [(GRID, 7, 14_661_919), (IMAGE, 4, 14_297_252), (IMAGE, 9, 14_302_377)],
)
def test_size_is_the_papers(observation, actions, parameters):
    model = Transformer(TransformerConfig(observation, actions))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert len(model.state_dict()) == len(list(model.parameters()))  # nothing but weights is saved


class AppendixTree(nn.Module):
    """The network tree of the paper's appendix, made of stock modules; computes one padded episode the plain way."""

    def __init__(self, d, heads, layers, feedforward):
        super().__init__()
        self.image_embedding = nn.Module()
        self.image_embedding.cnn = nn.Sequential(
            nn.Conv2d(20, 40, 3, padding=1), nn.ReLU(), nn.Conv2d(40, 80, 3, padding=1), nn.ReLU()
        )
        self.image_embedding.fc = nn.Sequential(nn.Linear(3920, d), nn.Tanh())
        self.action_embedding = nn.Module()
        self.action_embedding.mlp = nn.Sequential(nn.Linear(4, d), nn.Tanh())
        self.embedding_LN = nn.LayerNorm(d)
        self.transformer_layers = nn.ModuleList()
        for _ in range(layers):
            layer = nn.Module()
            layer.self_attention = nn.MultiheadAttention(d, heads, batch_first=True)
            layer.norm1, layer.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            layer.feedforward = nn.Sequential(
                nn.Linear(d, feedforward), nn.ReLU(), nn.Linear(feedforward, d), nn.Dropout(0)
            )
            self.transformer_layers.append(layer)
        self.output = nn.Linear(d, 4)
        self.d = d

    def forward(self, observations, actions):
        one_hot = [nn.functional.one_hot(observations[..., c].long(), n) for c, n in enumerate(MINIGRID_SYMBOLS)]
        planes = torch.cat(one_hot, -1).permute(0, 3, 1, 2).float()
        seen = self.image_embedding.fc(self.image_embedding.cnn(planes).flatten(1))
        done = self.action_embedding.mlp(nn.functional.one_hot(actions, 4).float())
        steps = len(actions)
        position = torch.zeros(steps, self.d)
        for t in range(steps):
            for i in range(0, self.d, 2):
                position[t, i] = np.sin(t / 10000 ** (i / self.d))
                position[t, i + 1] = np.cos(t / 10000 ** (i / self.d))
        x = torch.empty(2 * steps, self.d)
        x[0::2], x[1::2] = seen + position, done + position
        x = self.embedding_LN(x)[None]
        future = torch.ones(2 * steps, 2 * steps, dtype=torch.bool).triu(1)
        weights = []
        for layer in self.transformer_layers:
            attended, weight = layer.self_attention(x, x, x, attn_mask=future, average_attn_weights=False)
            weights.append(weight[0])
            x = layer.norm1(x + attended)
            x = layer.norm2(x + layer.feedforward(x))
        return self.output(x[0, 0::2]), weights


@pytest.mark.parametrize("heads", ["none", "1:1", "1:2", "1:2,2:4,2:1", "2:all", "all"])
def test_packed_forward_equals_the_appendix_network(heads):
    ours = small(GRID, heads=4)
    theirs = AppendixTree(32, 4, 2, 64).eval()
    theirs.load_state_dict(ours.state_dict())  # same names, same shapes
    packed = packed_demos(GRID, [3, 7, 5], 4)
    supervised = parse_heads(heads, 2, 4)
    rows = np.array([1, 0, 2])
    output = ours(DemoData(packed).batch(rows), supervised)
    assert set(output.watched) == set(supervised)
    done = 0
    for place, row in enumerate(rows):
        steps = slice(packed.starts[row], packed.starts[row] + packed.lengths[row])
        frames = torch.from_numpy(GRID.decode(packed.frames[packed.frame_index[steps]]))
        logits, weights = theirs(frames, torch.from_numpy(packed.actions[steps]))
        torch.testing.assert_close(output.distribution[done : done + len(logits)], logits, atol=1e-5, rtol=1e-5)
        for head in supervised:
            n = 2 * int(packed.lengths[row])
            attention = output.watched[head].log_attention()[place, :n, :n].exp()
            torch.testing.assert_close(attention, weights[head.layer][head.head], atol=1e-6, rtol=1e-4)
        done += len(logits)


@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_streaming_equals_the_full_pass_also_when_rows_restart(observation):
    model = small(observation)
    packed = packed_demos(observation, [4, 6, 3], 4)
    supervised = (Head(0, 0), Head(1, 1))
    full = model(DemoData(packed).batch(np.array([0, 1, 2])), supervised)
    cache = model.start(rows=2, max_steps=6)
    playing, at = [0, 1], [0, 0]  # row 0 plays episode 0 then 2; row 1 plays episode 1
    checked = 0
    for _ in range(6):
        step = [packed.starts[episode] + t for episode, t in zip(playing, at, strict=True)]
        observations = torch.from_numpy(packed.frames[packed.frame_index[step]])
        last, begins = torch.from_numpy(packed.actions[np.array(step) - 1]), torch.tensor(at) == 0
        with torch.no_grad():
            logits, weights = model.step(cache, observations, last, begins, supervised)
        for row in range(2):
            torch.testing.assert_close(logits[row], full.distribution[step[row]], atol=1e-5, rtol=1e-5)
            for head in supervised:
                expected = full.watched[head].log_attention()[playing[row], 2 * at[row]].exp()[0 : 2 * at[row] + 1 : 2]
                torch.testing.assert_close(weights[head][row, : at[row] + 1], expected, atol=1e-5, rtol=1e-4)
                assert weights[head][row, at[row] + 1 :].sum() == 0
            checked += 1
            at[row] += 1
            if at[row] == packed.lengths[playing[row]]:
                playing[row], at[row] = 2, 0
    assert checked == 12


def test_lookup_embedder_tells_grids_apart():
    model = small(GRID, embedder="lookup")
    packed = packed_demos(GRID, [5], 4)
    embedded = model.image_embedding(torch.from_numpy(packed.frames))
    assert embedded.shape == (9, 32)
    assert torch.pdist(embedded).min() > 0.1


def test_heads_are_read_as_people_write_them():
    assert parse_heads("1:1", 4, 2) == (Head(0, 0),)
    assert parse_heads("1:all,2:1", 4, 2) == (Head(0, 0), Head(0, 1), Head(1, 0))
    assert len(parse_heads("all", 4, 2)) == 8
    assert parse_heads("none", 4, 2) == ()
    for wrong in ("5:1", "1:3", "0:1", "1", "x:1", ""):
        with pytest.raises(UserError, match="heads"):
            parse_heads(wrong, 4, 2)


def test_config_survives_json():
    config = TransformerConfig(GRID, 7, d_model=64, embedder="lookup")
    assert TransformerConfig.from_json(config.to_json()) == config
    with pytest.raises(UserError, match="d_model"):
        TransformerConfig(GRID, 7, d_model=33)
    with pytest.raises(UserError, match="architecture"):
        TransformerConfig.from_json({"architecture": "oracle"})
