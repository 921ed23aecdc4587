"""Large images are embedded in blocks: the same numbers and gradients, and less memory."""

import numpy as np
import pytest
import torch

from attentiontuner.data import source
from attentiontuner.insight import need, steps
from attentiontuner.insight.memoryless import observation_encoder
from attentiontuner.insight.need import find_need
from attentiontuner.insight.steps import embedded
from tests.insight.cues import BOTH, GRID, IMAGE, cue_store


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(steps, "EMBEDDED_BYTES", 2000)
    monkeypatch.setattr(steps, "BLOCK_BYTES", 1000)


@pytest.mark.parametrize("observation", [IMAGE, BOTH, GRID], ids=["image", "both", "grid"])
def test_in_blocks_observations_give_the_same_vectors_and_gradients(observation, small_blocks, monkeypatch):
    rng = np.random.default_rng(0)
    seen = torch.from_numpy(rng.integers(0, 4, (600, observation.nbytes)).astype(np.uint8))
    torch.manual_seed(0)
    encoder, found, sizes = observation_encoder(observation).eval(), [], []
    usual = encoder.forward
    monkeypatch.setattr(encoder, "forward", lambda block: sizes.append(len(block)) or usual(block))
    for most in (2**27, 2000):
        monkeypatch.setattr(steps, "EMBEDDED_BYTES", most)
        encoder.zero_grad()
        made = embedded(encoder, seen)
        made[0].square().sum().backward()
        gradients = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
        found.append([*made, *(gradient.clone() for gradient in gradients)])
    assert sizes[0] == 600
    assert max(sizes[1:]) * observation.nbytes <= max(1000, observation.nbytes)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_many_observations_are_standardised_block_by_block(tmp_path, small_blocks, monkeypatch):
    packed = cue_store(tmp_path / "data", 8, IMAGE).read_packed()
    monkeypatch.setattr(source, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(steps, "EMBEDDED_BYTES", 1000)
    in_blocks = steps.StepData(packed, torch.device("cpu")).observed()
    assert max(frames.nbytes for frames, _ in in_blocks) <= 1000
    monkeypatch.setattr(steps, "EMBEDDED_BYTES", 2**27)
    ((frames, seen),) = steps.StepData(packed, torch.device("cpu")).observed()
    assert np.array_equal(np.concatenate([block for block, _ in in_blocks]), frames)
    assert np.array_equal(np.concatenate([count for _, count in in_blocks]), seen)


def test_steps_that_see_large_images_are_judged_a_few_at_once(tmp_path, small_blocks, monkeypatch):
    store = cue_store(tmp_path / "data", 8, IMAGE)
    monkeypatch.setattr(need, "PASSES", 2)
    usual, sizes = need.Memoryless.judge, []

    def judge(policy, some):
        sizes.append(len(some.frame))
        return usual(policy, some)

    monkeypatch.setattr(need.Memoryless, "judge", judge)
    in_blocks = find_need(store)
    assert max(sizes) == 2000 // IMAGE.nbytes
    monkeypatch.setattr(steps, "EMBEDDED_BYTES", 2**27)
    assert np.allclose(find_need(store).surprise, in_blocks.surprise, atol=1e-3)
