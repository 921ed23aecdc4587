"""A method of your own: a GRU that reads its past with one head, and pairs that teach the head where to read.

attentiontuner --import examples/custom_method.py train hallway --method gru-reader --data data/hallway --out runs/gru
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from attentiontuner import Method, models, register_method

READ = models.Head(0, 0)  # the one head there is


@dataclass(frozen=True)
class GruConfig(models.NetworkConfig):
    architecture: ClassVar[str] = "gru-reader"
    d_model: int = 64

    def build(self):
        return GruReader(self)


class GruCache(NamedTuple):  # of R episodes
    state: Tensor  # [R, D]
    inputs: Tensor  # [R, max_steps, D], of every step
    time: Tensor  # [R], the present step


class GruReader(models.Network):
    watchable = (READ,)

    def __init__(self, config):
        super().__init__()
        size, self.config, self.action_head = config.d_model, config, models.action_head(config.actions)
        self.seen = models.observation_embedding(config.observation, size, "paper")
        self.done = nn.Parameter(0.3 * torch.randn(self.action_head.features + 1, size))  # the last: no action yet
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.gru, self.output = nn.GRU(size, size, batch_first=True), nn.Linear(2 * size, self.action_head.width)

    def forward(self, batch, watch=()):
        steps = models.Layout.of(batch, per_step=1)
        done = self.action_head.embed(batch.last_actions, batch.begins, self.done)
        inputs = steps.pad(batch.per_step(self.seen(batch.observations)) + done)  # [B, T, D]
        states = self.gru(inputs)[0]
        weights = models.causal_log_attention(self.query(states), self.key(inputs))  # log, [B, T, T]
        read = self.output(torch.cat([states, weights.exp() @ self.value(inputs)], -1))
        return models.Output(self.action_head, steps.pack(read), dict.fromkeys(watch, weights))

    def attention(self, batch):
        return self(batch, (READ,)).watched[READ].exp()[None, None]

    def start(self, rows, max_steps):
        past = self.done.new_zeros(rows, max_steps, self.config.d_model)
        return GruCache(past[:, 0].clone(), past, torch.full((rows,), -1, device=past.device))

    def step(self, cache, observations, last_actions, begins, watch=()):
        cache.time.copy_(torch.where(begins, 0, cache.time + 1))
        now = self.seen(observations) + self.action_head.embed(last_actions, begins, self.done)  # [R, D]
        cache.inputs.scatter_(1, cache.time[:, None, None].expand_as(now[:, None]), now[:, None])
        cache.state.copy_(self.gru(now[:, None], torch.where(begins[:, None], 0, cache.state)[None])[1][0])
        scores = (self.key(cache.inputs) @ self.query(cache.state)[..., None])[..., 0] * now.shape[-1] ** -0.5
        future = torch.arange(scores.shape[1], device=now.device) > cache.time[:, None]
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)  # [R, max_steps]
        read = torch.cat([cache.state, (weights[:, None] @ self.value(cache.inputs))[:, 0]], -1)
        return self.output(read), dict.fromkeys(watch, weights)


@register_method
class GruWithPairs(Method):
    name, title, network, precision = "gru-reader", "GRU with a read head", GruConfig, "float32"

    def recipe(self, task, data):
        return {"epochs": 60, "batch_size": 16, "learning_rate": 1e-3, "clip": 1.0}

    def memory_loss(self, output, batch, config):
        return -(batch.recalled() * output.watched[READ].clamp(min=-100)).sum() / batch.totals.things
