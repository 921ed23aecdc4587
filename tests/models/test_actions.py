"""Action heads: what a network is shown of an action, and what is read from it."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attentiontuner.models.actions as actions_of_heads
from attentiontuner.core.errors import UserError
from attentiontuner.data.batch import Batch
from attentiontuner.data.dataset import DemoData
from attentiontuner.models.actions import BOX_HEADS, FARTHEST, MODES, NARROWEST, ActionHead, BoxHead, action_head
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
    assert head.measure(logits, likeliest).all()
    half = likeliest.clone()
    half[:, 1] = 1 - half[:, 1]
    assert not head.measure(logits, half).any()  # one right choice of two is not the action


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


@pytest.mark.parametrize("actions", [TWO, ActionSpec.box([-1, -1], [1, 3])], ids=str)
@pytest.mark.parametrize("config", [TransformerConfig, RecallConfig])
def test_networks_stream_what_they_see_at_once(config, actions):
    torch.manual_seed(0)
    model = config(VECTOR, actions, d_model=16, layers=2, feedforward=32, dropout=0.0).build().eval()
    packed = packed_demos(VECTOR, [6], 3)
    packed = type(packed)(**{**vars(packed), "actions": some(actions, 6).numpy()})
    model.action_head.fit([packed.actions])
    full = model(DemoData(packed).batch(np.array([0])))
    assert full.distribution.shape == (6, model.action_head.width)
    cache = model.start(rows=1, max_steps=6)
    for step in range(6):
        seen = torch.from_numpy(packed.frames[packed.frame_index[[step]]])
        last, begins = torch.from_numpy(packed.actions[[step - 1]]), torch.tensor([step == 0])
        with torch.no_grad():
            distribution, _ = model.step(cache, seen, last, begins)
        torch.testing.assert_close(distribution[0], full.distribution[step], atol=1e-5, rtol=1e-4)


# --- numbers within bounds -------------------------------------------------------------------------------------------

BOX = ActionSpec.box([-1.0, 0.0, -np.inf], [1.0, 10.0, np.inf])


def fitted(name: str, chunk: int = 1) -> BoxHead:
    """A head that has seen some actions, whose numbers are of very different sizes."""
    head = action_head(BOX, name, chunk)
    assert isinstance(head, BoxHead)
    generator = np.random.default_rng(0)
    head.fit([BOX.encode(generator.uniform([-0.5, 4, -300], [0.5, 6, 500], (size, 3))) for size in (200, 300)])
    return head


def distributions(head: BoxHead, count: int) -> torch.Tensor:
    return torch.randn(count, head.width, generator=torch.Generator().manual_seed(1))


def one_batch(chunk_of: ActionSpec = BOX, lengths=(4, 2, 5)) -> tuple[Batch, torch.Tensor]:
    packed = packed_demos(VECTOR, list(lengths), 3)
    generator = np.random.default_rng(7)
    actions = chunk_of.encode(generator.uniform([-1, 0, -300], [1, 10, 500], (sum(lengths), 3)))
    packed = type(packed)(**{**vars(packed), "actions": actions})
    return DemoData(packed).batch(np.arange(len(lengths))), torch.from_numpy(actions)


@pytest.mark.parametrize("name", BOX_HEADS)
def test_numbers_are_seen_between_the_quantiles_of_the_training_set(name):
    head = fitted(name)
    shown = head.show(torch.tensor([[-0.49, 4.02, -292.0], [0.0, 5.0, 100.0], [0.49, 5.98, 492.0]]), torch.float32)
    torch.testing.assert_close(shown, torch.tensor([[-1.0], [0.0], [1.0]]).expand(3, 3), atol=0.06, rtol=0)
    table = torch.randn(4, 7)
    embedded = head.embed(torch.tensor([[0.3, 5.0, 0.0]] * 2), torch.tensor([True, False]), table)
    assert torch.equal(embedded[0], table[-1])
    torch.testing.assert_close(embedded[1:], head.show(torch.tensor([[0.3, 5.0, 0.0]]), torch.float32) @ table[:-1])
    assert set(head.state_dict()) == {"centre", "spread"}  # kept with the weights


def test_what_happens_seldom_or_never_is_not_blown_up():
    head = action_head(ActionSpec.box([0, 0, 0], [1, 1, 1]), "gmm")
    actions = np.zeros((1000, 3), np.float32)
    actions[:, 0] = np.random.default_rng(0).uniform(0, 0.001, 1000)
    actions[:3, 0] = 1  # a button that is pressed now and then
    actions[:, 1] = 0.25  # a number that never changes
    head.fit([actions])
    shown = head.show(torch.from_numpy(actions), torch.float32)
    assert shown.isfinite().all()
    assert shown.abs().max() <= 2 * FARTHEST
    assert not shown[:, 1:].any()


@pytest.mark.parametrize("name", BOX_HEADS)
def test_a_copy_in_fewer_bits_sees_the_same_numbers(name):
    """What the training set was like must not be rounded with the weights: the policy plays in float32."""
    head = fitted(name)
    copied = copy.deepcopy(nn.ModuleDict({"head": head, "layer": nn.Linear(2, 2)})).bfloat16()
    assert copied["layer"].weight.dtype == torch.bfloat16
    actions = torch.tensor([[0.123456, 5.4321, 77.7]])
    assert torch.equal(copied["head"].show(actions, torch.float32), head.show(actions, torch.float32))


def test_a_mixture_is_the_sum_of_its_modes_in_the_units_of_the_data():
    head, (_, actions) = fitted("gmm"), one_batch()
    given = distributions(head, len(actions))
    log_weights, means, widths = (part.double() for part in head._modes(given))
    centre, spread = head.centre.double(), head.spread.double()
    modes = torch.distributions.Normal(means[:, :, 0] * spread + centre, widths[:, :, 0] * spread)
    expected = (log_weights + modes.log_prob(actions.double()[:, None]).sum(-1)).logsumexp(1)
    found = head.negative_log_likelihood(given, actions)
    torch.testing.assert_close(found.double(), -expected, atol=1e-3, rtol=1e-4)
    likelihood, _ = head.measure(given, actions).unbind(1)
    torch.testing.assert_close(likelihood, -found / 3)
    heaviest = means[torch.arange(len(given)), log_weights.argmax(1), 0] * spread + centre
    torch.testing.assert_close(head.choose(given)[:, 2].double(), heaviest[:, 2], atol=1e-2, rtol=1e-5)


@pytest.mark.parametrize("name", BOX_HEADS)
def test_what_is_played_is_within_the_bounds(name):
    head = fitted(name, chunk=2)
    plan = head.plan(50 * distributions(head, 100))
    assert plan.shape == (100, 2, 3)
    BOX.encode(plan.flatten(0, 1).numpy())
    assert (plan[..., 0].abs() == 1).any()
    assert torch.equal(head.choose(50 * distributions(head, 100)), plan[:, 0])
    error = head.measure(distributions(head, 4), head.choose(distributions(head, 4)))[:, -1]
    assert not error.any()


@pytest.mark.parametrize("name", BOX_HEADS)
def test_a_chunk_ends_with_its_episode(name):
    """What lies beyond, the next episode or fillers, has no part in the loss."""
    head, (batch, actions) = fitted(name, chunk=3), one_batch()
    given = distributions(head, len(actions)).requires_grad_()
    coming, there = batch.coming(3)
    assert there.tolist() == [[True, True, True]] * 2 + [[True, True, False], [True, False, False]] + [
        [True, True, False], [True, False, False]] + [[True, True, True]] * 3 + [
        [True, True, False], [True, False, False]]  # fmt: skip
    assert torch.equal(coming[0], actions[:3])
    loss = head.loss(given, batch)
    wrong = replace(batch, actions=torch.cat([actions[:4], 9 - actions[4:]]))
    assert torch.equal(head.loss(given, wrong)[:4], loss[:4])
    assert not torch.equal(head.loss(given, wrong)[4:], loss[4:])
    torch.testing.assert_close(loss[[3]], fitted(name).loss(first_action(name, given[[3]]), one_step(batch, 3)))


def first_action(name: str, given: torch.Tensor) -> torch.Tensor:
    """What a distribution over three actions says of the first."""
    if name == "l1":
        return given[:, :3]
    weights, *others = given.split([MODES, MODES * 9, MODES * 9], -1)
    return torch.cat([weights, *(part.view(-1, MODES, 3, 3)[:, :, 0].flatten(1) for part in others)], -1)


def one_step(batch: Batch, step: int) -> Batch:
    """A batch of one step alone."""
    return replace(batch, actions=batch.actions[[step]], time=batch.time[[step]], slot=batch.slot[[step]])


def test_the_entropy_of_a_mixture_is_hardly_drawn():
    """Drawn likelihoods alone are off by 0.36 nats here, more than most steps of a data set differ by."""
    head = action_head(ActionSpec.box([-90.0] * 3, [90.0] * 3))
    head.fit([np.random.default_rng(0).normal(0, 2, (500, 3))])
    mixtures = torch.randn(200, head.width, generator=torch.Generator().manual_seed(1))
    found = head.entropy(mixtures)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actions_of_heads, "DRAWN", 1500)
        true = ActionHead.entropy(head, mixtures)
    assert float((found - true).std()) < 0.15
    assert abs(float((found - true).mean())) < 0.06
    one = mixtures.clone()
    one[:, 0] += 60  # a single mode: nothing is drawn
    widths = F.softplus(one[:, 4 * MODES : 4 * MODES + 3]) + NARROWEST
    closed = (widths * head.spread).log().sum(1) + 1.5 * np.log(2 * np.pi * np.e)
    assert torch.allclose(head.entropy(one), closed, atol=1e-4)


def test_drawn_numbers_follow_the_mixture():
    head = fitted("gmm")
    given = torch.zeros(1, head.width)
    given[0, :MODES] = torch.tensor([3.0, 3.0, -20, -20, -20])  # two modes, far apart
    given[0, MODES : MODES + 6] = torch.tensor([-0.6, -0.6, -0.6, 0.6, 0.6, 0.6])
    given[0, MODES + 15 :] = -4.0
    rows = given.expand(2000, -1)
    drawn = head.choose(rows, 1.0, torch.Generator().manual_seed(3))
    standard = head.show(drawn, torch.float32)
    assert 0.45 < (standard[:, 0] > 0).float().mean() < 0.55
    width = float(head._modes(given)[2][0, 0, 0, 0])
    assert float((standard.abs() - 0.6).std()) == pytest.approx(width, rel=0.1)
    assert torch.equal(drawn, head.choose(rows, 1.0, torch.Generator().manual_seed(3)))
    calm = head.show(head.choose(rows, 1e-6, torch.Generator().manual_seed(3)), torch.float32)
    torch.testing.assert_close(calm.abs(), torch.full_like(calm, 0.6), atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", BOX_HEADS)
def test_extreme_numbers_have_a_loss_and_a_gradient(name):
    head, (batch, actions) = fitted(name, chunk=2), one_batch()
    for size in (1e4, -1e4):
        given = torch.full((len(actions), head.width), size, requires_grad=True)
        head.loss(given, batch).sum().backward()
        assert given.grad is not None
        assert given.grad.isfinite().all()


def test_a_head_without_a_likelihood_says_so():
    head = fitted("l1")
    given = distributions(head, 2)
    with pytest.raises(UserError, match="l1 knows no likelihood: train with action_head=gmm"):
        head.negative_log_likelihood(given, torch.zeros(2, 3))
    with pytest.raises(UserError, match="l1 has nothing to draw from"):
        head.choose(given, 1.0)


@pytest.mark.parametrize(
    ("actions", "options", "text"),
    [
        (BOX, {"action_head": "discrete"}, "model action_head: 'discrete' is not gmm or l1, which 3 numbers within"),
        (ONE, {"action_head": "gmm"}, "model action_head: 'gmm' is not discrete, which 5 actions have"),
        (ONE, {"chunk": 2}, "model chunk: 2 is not 1"),
        (BOX, {"chunk": 0}, "model chunk: 0 is not 1 or more"),
    ],
)
@pytest.mark.parametrize("config", [TransformerConfig, RecallConfig])
def test_heads_that_do_not_fit_are_refused_in_one_line(config, actions, options, text):
    with pytest.raises(UserError, match=text):
        config(VECTOR, actions, **options)
