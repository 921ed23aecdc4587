"""Action heads: what a network is shown of an action, and what is read from it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.models.actions import action_head
from attentiontuner.models.sizes import RecallConfig, TransformerConfig
from attentiontuner.spaces import ActionSpec
from tests.models.test_transformer import VECTOR, packed_demos

ONE, TWO = ActionSpec.discrete(5), ActionSpec.multi_discrete((3, 2))


def some(spec: ActionSpec, count: int) -> torch.Tensor:
    generator = np.random.default_rng(4)
    return torch.from_numpy(spec.encode(np.stack([spec.draw(generator) for _ in range(count)])))


@pytest.mark.parametrize("spec", [ONE, TWO], ids=str)
def test_an_embedding_is_a_product_with_what_is_shown(spec):
    head, actions = action_head(spec), some(spec, 20)
    table = torch.randn(head.features + 1, 7)
    begins = torch.arange(20) % 4 == 0
    shown = head.show(actions, torch.float32)
    assert shown.sum(1).tolist() == [len(spec.choices)] * 20
    expected = torch.where(begins[:, None], table[-1], shown @ table[:-1])
    torch.testing.assert_close(head.embed(actions, begins, table), expected)
    assert not head.state_dict()  # weights are the network's


def test_a_step_makes_no_tensor_of_numbers(monkeypatch):
    """A CUDA graph cannot be recorded of a step that sends numbers to the GPU."""
    head, actions = action_head(TWO), some(TWO, 4)
    monkeypatch.setattr(torch, "tensor", lambda *given, **options: pytest.fail("a new tensor"))
    head.show(actions, torch.float32)
    head.embed(actions, torch.ones(4, dtype=torch.bool), torch.zeros(head.features + 1, 2))


def test_the_likelihood_of_several_choices_is_their_product():
    head, actions = action_head(TWO), some(TWO, 20)
    logits = torch.randn(20, 5, generator=torch.Generator().manual_seed(1))
    parts = [F.cross_entropy(logits[:, :3], actions[:, 0], reduction="none"),
             F.cross_entropy(logits[:, 3:], actions[:, 1], reduction="none")]  # fmt: skip
    torch.testing.assert_close(head.negative_log_likelihood(logits, actions), sum(parts))
    likeliest = head.choose(logits)
    assert likeliest.shape == (20, 2)
    for other in ([2, 0], [0, 1], [1, 1]):
        rest = torch.tensor(other).expand(20, 2)
        best = head.negative_log_likelihood(logits, likeliest)
        assert (best <= head.negative_log_likelihood(logits, rest) + 1e-6).all()
    assert head.agreement(logits, likeliest).all()
    half = likeliest.clone()
    half[:, 1] = 1 - half[:, 1]
    assert not head.agreement(logits, half).any()  # one right choice of two is not the action


@pytest.mark.parametrize("spec", [ONE, TWO], ids=str)
def test_drawn_actions_follow_the_distribution(spec):
    head = action_head(spec)
    logits = torch.zeros(1, head.width)
    logits[0, 1] = 2.0
    generator = torch.Generator().manual_seed(3)
    drawn = head.choose(logits.expand(4000, -1), temperature=2.0, generator=generator).view(4000, -1)[:, 0]
    wanted = (logits[0, : spec.choices[0]] / 2).softmax(-1)
    found = torch.bincount(drawn, minlength=spec.choices[0]) / 4000
    torch.testing.assert_close(found, wanted, atol=0.03, rtol=0)
    again = head.choose(logits.expand(4000, -1), 2.0, torch.Generator().manual_seed(3)).view(4000, -1)[:, 0]
    assert torch.equal(drawn, again)


@pytest.mark.parametrize("config", [TransformerConfig, RecallConfig])
def test_networks_stream_several_choices_at_once(config):
    torch.manual_seed(0)
    model = config(VECTOR, TWO, d_model=16, layers=2, feedforward=32, dropout=0.0).build().eval()
    packed = packed_demos(VECTOR, [6], 3)
    packed = type(packed)(**{**vars(packed), "actions": some(TWO, 6).numpy()})
    full = model(DemoData(packed).batch(np.array([0])))
    assert full.distribution.shape == (6, 5)
    cache = model.start(rows=1, max_steps=6)
    for step in range(6):
        seen = torch.from_numpy(packed.frames[packed.frame_index[[step]]])
        last, begins = torch.from_numpy(packed.actions[[step - 1]]), torch.tensor([step == 0])
        with torch.no_grad():
            distribution, _ = model.step(cache, seen, last, begins)
        torch.testing.assert_close(distribution[0], full.distribution[step], atol=1e-5, rtol=1e-4)


def test_actions_that_no_network_learns_yet_are_refused_in_one_line():
    with pytest.raises(UserError, match="no network here learns actions of kind box"):
        TransformerConfig(VECTOR, ActionSpec.box([-1], [1])).build()
