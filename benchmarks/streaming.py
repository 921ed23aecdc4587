"""Streaming speed of a robot's policy on a CPU: two cameras of 128 × 128 and 14 numbers, seven numbers as actions.

One episode is played step by step with the cache; beside it the same steps with the whole history recomputed at each.
"""

import time

import numpy as np
import torch

from attentiontuner.data.dataset import DemoData
from attentiontuner.demos import PairTable
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.models.network import Network
from attentiontuner.models.sizes import RecallConfig
from attentiontuner.spaces import ActionSpec, ObservationSpec, Part
from benchmarks import Row

CAMERA = Part("image", (128, 128, 3))
OBSERVATION = ObservationSpec(parts={"front": CAMERA, "wrist": CAMERA, "state": Part("vector", (14,))})
ACTIONS = ActionSpec.box([-1] * 7, [1] * 7)
STEPS, HISTORIES = 100, (1, 25, 50, 75, 100)


def bench() -> list[Row]:
    """Steps per second of both, and their ratio."""
    torch.manual_seed(0)
    model = RecallConfig(OBSERVATION, ACTIONS).build().eval()
    frames = np.random.default_rng(0).integers(0, 256, (STEPS, OBSERVATION.nbytes), np.uint8)
    frames[:, -4 * 14 :] = 0  # random bytes are not always numbers
    speed, recomputed = STEPS / streamed_seconds(model, frames), STEPS / recomputed_seconds(model, frames)
    return [
        Row("stream two cameras of 128 × 128, history recomputed", recomputed, "steps/s"),
        Row("stream two cameras of 128 × 128, one episode, CPU", speed, "steps/s"),
        Row("streamed against recomputed", speed / recomputed, "x", ">= 5x"),
    ]


def streamed_seconds(model: Network, frames: np.ndarray) -> float:
    """Seconds of an episode, step by step."""
    policy = ModelPolicy(model, len(frames))
    policy.reset(1)
    policy.act(OBSERVATION.decode(frames[:1]))
    policy.reset(1)
    started = time.perf_counter()
    for frame in frames:
        policy.act(OBSERVATION.decode(frame[None]))
    return time.perf_counter() - started


def recomputed_seconds(model: Network, frames: np.ndarray) -> float:
    """Seconds of the same with a forward pass over the whole history at each step, from some lengths of it."""
    costs = []
    for steps in HISTORIES:
        packed = PackedDemos(
            observation=OBSERVATION,
            frames=frames[:steps],
            frame_index=np.arange(steps),
            actions=np.zeros((steps, 7), np.float32),
            lengths=np.array([steps]),
            starts=np.array([0]),
            pairs=PairTable.nothing([steps]),
            success=np.array([True]),
            seeds=np.array([0]),
            episodes=np.array([0]),
        )
        batch = DemoData(packed).batch(np.array([0]))
        with torch.inference_mode():
            model(batch)
            started = time.perf_counter()
            model(batch)
            costs.append(time.perf_counter() - started)
    return float(np.interp(np.arange(1, len(frames) + 1), HISTORIES, costs).sum())
