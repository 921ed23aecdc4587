"""Training Hallway at paper size: ours beside a textbook trainer, in one run on the same demonstrations.

The textbook trainer does what a good tutorial does: a DataLoader with workers that makes one-hot observations and pads
each batch to its longest episode, stock layers in float32, and softmax attention that returns the weights of all heads.
It has the same network and minimises the same loss.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from attentiontuner.collecting.collection import collect
from attentiontuner.data.dataset import DemoData, epoch_batches
from attentiontuner.data.tokens import expert_matrix
from attentiontuner.demos import DemoStore, PackedDemos
from attentiontuner.losses import memory_loss
from attentiontuner.methods import DataFacts
from attentiontuner.models.optimiser import make_optimiser
from attentiontuner.models.sizes import TransformerConfig
from attentiontuner.runs.config import TrainConfig, paper_config
from attentiontuner.runs.devices import choose_device, threads_for
from attentiontuner.spaces.observation import MINIGRID_SYMBOLS
from attentiontuner.tasks.task import get_task
from attentiontuner.training.step import TrainStep
from benchmarks import Row

SEED = 1


def bench() -> list[Row]:
    device = choose_device()
    on_gpu = device.type == "cuda"
    with tempfile.TemporaryDirectory() as folder:
        task = get_task("hallway")
        collect(task, 5000 if on_gpu else 96, SEED, Path(folder) / "hallway")
        packed = DemoStore.open(Path(folder) / "hallway").read_packed()
    batches = epoch_batches(len(packed), 64 if on_gpu else 32, SEED, 0)[: 20 if on_gpu else 2]
    config = paper_config(task, "attentiontuner")
    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    plain = textbook_speed(config, packed, batches, device)
    ours = our_speed(config, packed, batches, device)
    rows = [
        Row(f"textbook trainer, Hallway at paper size, {device.type}", plain, "demonstrations/s"),
        Row(f"our trainer, the same demonstrations, {device.type}", ours, "demonstrations/s"),
        Row("ours / textbook", ours / plain, "×", ">= 12" if on_gpu else ">= 3"),
    ]
    rows += gpu_rows(config, packed, device) if on_gpu else [beside_a_busy_process(packed)]
    torch.set_num_threads(threads)
    return rows


# --- ours ------------------------------------------------------------------------------------------------------------


def our_step(config: TrainConfig, packed: PackedDemos, device: torch.device) -> TrainStep:
    torch.manual_seed(SEED)
    model = config.network.build().to(device).train()
    precision = "bfloat16" if device.type == "cuda" else "float32"
    return TrainStep(model, make_optimiser(model, config.learning_rate), DemoData(packed, device), config, precision)


def our_speed(config: TrainConfig, packed: PackedDemos, batches: list[np.ndarray], device: torch.device) -> float:
    step = our_step(config, packed, device)
    warm_up = batches * 2 if device.type == "cuda" else [batches[0][:4]]
    for rows in warm_up:
        step(rows)
    step.collect()
    started = time.perf_counter()
    for rows in batches:
        step(rows)
    step.collect()
    return sum(map(len, batches)) / (time.perf_counter() - started)


def beside_a_busy_process(packed: PackedDemos) -> Row:
    """How much longer recall heads take, with the recipe for few demonstrations, while another process has work too."""
    config = paper_config(get_task("hallway"), "recall", data=DataFacts(len(packed)))
    batches = epoch_batches(len(packed), config.batch_size, SEED, 0)
    with threads_for(config.network, torch.device("cpu")):
        alone = our_speed(config, packed, batches, torch.device("cpu"))
        busy = multiprocessing.get_context("spawn").Process(target=be_busy, daemon=True)
        busy.start()
        beside = our_speed(config, packed, batches, torch.device("cpu"))
        busy.kill()
    return Row("time beside one busy process / alone", alone / beside, "×", "<= 2.5")


def be_busy() -> None:
    while True:
        sum(range(100_000))


def gpu_rows(config: TrainConfig, packed: PackedDemos, device: torch.device) -> list[Row]:
    """Seconds per epoch once everything is recorded, and the share of the chip's matrix rate that is."""
    step = our_step(config, packed, device)
    seconds = []
    for epoch in range(12):
        started = time.perf_counter()
        for rows in epoch_batches(len(packed), 64, SEED, epoch):
            step(rows)
        step.collect()
        seconds.append(time.perf_counter() - started)
    best = float(np.median(seconds[-5:]))
    batch = step.data.batch(epoch_batches(len(packed), 64, SEED, 0)[0])
    with operation_counter() as counter:
        config.way.loss(step.working(batch, step.heads), batch, config).total.backward()
    operations = counter.get_total_flops() / int(batch.lengths.sum()) * int(packed.lengths.sum())
    rate = matrix_rate(device)
    return [
        Row("Hallway at paper size, 5,000 demonstrations", best, "s/epoch", "<= 0.45"),
        Row("the first epoch, recording included", seconds[0], "s"),
        Row("matrix products of an epoch", operations / best / 1e12, "TFLOP/s"),
        Row("share of the chip's rate on a large product", 100 * operations / best / rate, "%"),
    ]


def operation_counter() -> FlopCounterMode:
    """Counts the operations of matrix products; PyTorch's own counter leaves out the one with an activation."""

    def product(bias: Any, left: torch.Size, right: torch.Size, **_: Any) -> int:
        return 2 * left[0] * left[1] * right[1]

    return FlopCounterMode(display=False, custom_mapping={torch.ops.aten._addmm_activation: product})


def matrix_rate(device: torch.device) -> float:
    """Operations per second of a large bfloat16 matrix product."""
    left, right = torch.randn(2, 8192, 8192, device=device, dtype=torch.bfloat16)
    for _ in range(5):
        left @ right
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(20):
        left @ right
    torch.cuda.synchronize()
    return 20 * 2 * 8192**3 / (time.perf_counter() - started)


# --- the textbook trainer --------------------------------------------------------------------------------------------


class Episodes(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """One-hot observations `[T, 20, 7, 7]`, actions `[T]` and E `[2T, 2T]` of each episode."""

    def __init__(self, packed: PackedDemos) -> None:
        self.packed = packed
        self.pairs = [np.asarray(packed.pairs.select([row])) for row in range(len(packed))]

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        packed, start, length = self.packed, self.packed.starts[row], int(self.packed.lengths[row])
        steps = slice(start, start + length)
        seen = packed.observation.decode(packed.frames[packed.frame_index[steps]])
        frames = torch.from_numpy(np.asarray(seen, np.int64))
        one_hot = [F.one_hot(frames[..., channel], count) for channel, count in enumerate(MINIGRID_SYMBOLS)]
        observations = torch.cat(one_hot, -1).permute(0, 3, 1, 2).float()
        return (
            observations,
            torch.from_numpy(packed.actions[steps]),
            torch.from_numpy(expert_matrix(self.pairs[row], length)),
        )


def pad_batch(episodes: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    observations, actions, _ = zip(*episodes, strict=True)
    lengths = torch.tensor([len(taken) for taken in actions])
    size = 2 * int(lengths.max())
    expert = torch.zeros(len(episodes), size, size)
    for place, (_, _, matrix) in enumerate(episodes):
        expert[place, : len(matrix), : len(matrix)] = matrix
    pad = nn.utils.rnn.pad_sequence
    return pad(observations, batch_first=True), pad(actions, batch_first=True, padding_value=-100), expert, lengths


class TextbookLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(config.d_model, config.heads, batch_first=True)
        self.feedforward = nn.Sequential(
            nn.Linear(config.d_model, config.feedforward),
            nn.ReLU(),
            nn.Linear(config.feedforward, config.d_model),
            nn.Dropout(config.dropout),
        )
        self.norm1, self.norm2 = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)

    def forward(self, tokens: Tensor, future: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, n, D]` → the same, and the weights of all heads `[B, H, n, n]`."""
        attended, weights = self.attention(tokens, tokens, tokens, attn_mask=future, average_attn_weights=False)
        tokens = self.norm1(tokens + attended)
        return self.norm2(tokens + self.feedforward(tokens)), weights


class Textbook(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(20, 40, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(40, 80, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(80 * 49, config.d_model),
            nn.Tanh(),
        )
        self.actions = nn.Embedding(config.actions.count, config.d_model)
        self.positions = nn.Embedding(200, config.d_model)
        self.norm, self.dropout = nn.LayerNorm(config.d_model), nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(TextbookLayer(config) for _ in range(config.layers))
        self.output = nn.Linear(config.d_model, config.actions.count)

    def forward(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, list[Tensor]]:
        rows, longest = actions.shape
        seen = self.cnn(observations.flatten(0, 1)).view(rows, longest, -1)
        position = self.positions.weight[:longest]
        tokens = torch.stack([seen + position, self.actions(actions.clamp(min=0)) + position], 2).flatten(1, 2)
        tokens = self.dropout(self.norm(tokens))
        future = torch.ones(2 * longest, 2 * longest, dtype=torch.bool, device=tokens.device).triu(1)
        all_weights = []
        for layer in self.layers:
            tokens, weights = layer(tokens, future)
            all_weights.append(weights)
        return self.output(tokens[:, ::2]), all_weights


def textbook_speed(config: TrainConfig, packed: PackedDemos, batches: list[np.ndarray], device: torch.device) -> float:
    torch.manual_seed(SEED)
    assert isinstance(config.model, TransformerConfig)
    model = Textbook(config.model).to(device)
    optimiser = torch.optim.Adam(model.parameters(), config.learning_rate)
    (head,) = config.supervised()
    warm_up = batches[:3] if device.type == "cuda" else [batches[0][:4]]
    order = [rows.tolist() for rows in [*warm_up, *batches]]
    loader: Iterator[list[Tensor]] = iter(
        DataLoader(Episodes(packed), batch_sampler=order, collate_fn=pad_batch, num_workers=2)
    )
    started = 0.0
    for number, batch in enumerate(loader):
        observations, actions, expert, lengths = (part.to(device) for part in batch)
        logits, weights = model(observations, actions)
        loss = F.cross_entropy(logits.flatten(0, 1), actions.flatten(), ignore_index=-100)
        memory = memory_loss(weights[head.layer][:, head.head].clamp(1e-7, 1 - 1e-7), expert, 2 * lengths)
        optimiser.zero_grad()
        (loss + config.weight * memory).backward()
        optimiser.step()
        loss.item()
        if number == len(warm_up) - 1:
            started = time.perf_counter()
    return sum(map(len, batches)) / (time.perf_counter() - started)
