"""How actions are drawn, what the logits are, and one step as a function that can be exported."""

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.models.sizes import RecallConfig, TransformerConfig
from attentiontuner.spaces import ActionSpec
from tests.models.test_transformer import EVERY_KIND, GRID, PARTS, VECTOR, packed_demos

STEPS = 6
NETWORKS = {"transformer": TransformerConfig, "recall": RecallConfig}


def policy_of(observation, network=TransformerConfig, actions=4, rows=2):
    torch.manual_seed(0)
    config = network(observation, actions, d_model=16, layers=2, heads=2, feedforward=16)
    model = config.build()
    with torch.no_grad():
        model.output.weight.mul_(8)  # so that actions follow from what is seen
    policy = ModelPolicy(model, STEPS)
    policy.reset(rows)
    return policy


def seen(observation, rows=2):
    """What `rows` rows see at each of `STEPS` steps."""
    packed = packed_demos(observation, [STEPS] * rows, 4)
    index = packed.frame_index.reshape(rows, STEPS)
    return [observation.decode(packed.frames[index[:, t]]) for t in range(STEPS)]


def play(policy, rows=2, **how):
    policy.reset(rows)
    return np.array([policy.act(observations, **how) for observations in seen(VECTOR, rows)])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_drawn_actions_can_be_drawn_again():
    policy = policy_of(VECTOR, rows=20)
    first = play(policy, 20, sample=True, temperature=2.0, generator=seeded())
    assert np.array_equal(play(policy, 20, sample=True, temperature=2.0, generator=seeded()), first)
    assert not np.array_equal(play(policy, 20, sample=True, temperature=2.0, generator=seeded(1)), first)
    torch.manual_seed(5)
    own = play(policy, 20, sample=True)
    torch.manual_seed(5)
    assert np.array_equal(play(policy, 20, sample=True), own)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_actions_are_drawn_from_the_distribution_at_a_temperature(temperature):
    policy = policy_of(VECTOR, rows=4000)
    one = seen(VECTOR)[0][:1].repeat(4000, 0)
    drawn = policy.act(one, sample=True, temperature=temperature, generator=seeded())
    expected = torch.from_numpy(policy.logits[0] / temperature).softmax(-1)
    assert 0.05 < expected.max() < 0.95
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4000, expected, atol=0.03)


@pytest.mark.parametrize("temperature", [1e-3, 1e-38, 5e-324])
def test_near_a_temperature_of_nothing_the_likeliest_action_is_drawn(temperature):
    policy = policy_of(VECTOR)
    assert np.array_equal(play(policy, sample=True, temperature=temperature), play(policy))


def test_each_of_several_choices_is_drawn():
    policy = policy_of(VECTOR, actions=ActionSpec.multi_discrete([3, 2]), rows=4000)
    one = seen(VECTOR)[0][:1].repeat(4000, 0)
    drawn = policy.act(one, sample=True, generator=seeded())
    assert drawn.shape == (4000, 2)
    for place, logits in enumerate(np.split(policy.logits[0], [3])):
        expected = torch.from_numpy(logits).softmax(-1)
        np.testing.assert_allclose(np.bincount(drawn[:, place], minlength=len(logits)) / 4000, expected, atol=0.03)


def test_the_next_step_knows_what_was_drawn():
    policy, observations = policy_of(VECTOR), seen(VECTOR)
    drawn = policy.act(observations[0], sample=True, temperature=9.0, generator=seeded())
    after = policy.distribution(observations[1]).clone()
    policy.reset(2)
    policy.observe(observations[0], drawn)
    assert torch.equal(policy.distribution(observations[1]), after)
    policy.reset(2)
    policy.observe(observations[0], (drawn + 1) % 4)
    assert not torch.equal(policy.distribution(observations[1]), after)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"temperature": 0.5}, "temperature and generator are for drawn actions: add sample=True"),
        ({"generator": torch.Generator()}, "add sample=True"),
        ({"sample": True, "temperature": 0}, "temperature 0 is not a number above 0"),
        ({"sample": True, "temperature": -1.0}, "temperature -1.0"),
        ({"sample": True, "temperature": float("nan")}, "temperature nan"),
        ({"sample": True, "temperature": float("inf")}, "temperature inf"),
        ({"sample": True, "generator": 3}, r"generator: give one of the CPU, such as torch.Generator\(\)"),
    ],
)
def test_what_actions_cannot_be_drawn_with_is_refused(how, text):
    policy = policy_of(VECTOR)
    with pytest.raises(UserError, match=f"^act: .*{text}"):
        policy.act(seen(VECTOR)[0], **how)
    for observations in seen(VECTOR):  # what was refused took no step
        policy.act(observations)


def test_logits_are_those_of_the_last_step():
    policy, observations = policy_of(VECTOR, rows=3), seen(VECTOR, 3)
    with pytest.raises(UserError, match="no logits before the first step: call act first"):
        _ = policy.logits
    actions = policy.act(observations[0])
    assert policy.logits.dtype == np.float32
    assert policy.logits.shape == (3, 4)
    assert np.array_equal(policy.logits.argmax(-1), actions)
    first = policy.logits
    policy.act(observations[1])
    assert not np.array_equal(policy.logits, first)
    logits = policy.logits
    policy.keep(np.array([2, 0]))
    assert np.array_equal(policy.logits, logits[[2, 0]])
    policy.reset(2)
    with pytest.raises(UserError, match="call act first"):
        _ = policy.logits


def test_actions_of_ones_own_are_told_with_took():
    policy, observations = policy_of(VECTOR), seen(VECTOR)
    expected = play(policy)
    policy.reset(2)
    for step, wanted in zip(observations, expected, strict=True):
        actions = policy.distribution(step).argmax(-1).numpy()
        assert np.array_equal(actions, wanted)
        policy.took(actions)


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        ([0, 4], "the action of row 1 does not fit the policy: action 4, but there are only 4 actions"),
        ([0.5, 1.0], "the action of row 0 does not fit the policy: action 0.5: expected whole numbers"),
        ([0], "reset for 2 rows, these are actions of 1 row"),
        ([[0, 1], [1, 0]], r"actions of shape \(2,\), not \(\)"),
    ],
)
def test_actions_that_there_are_not_are_refused(actions, text):
    with pytest.raises(UserError, match=text):
        policy_of(VECTOR).took(actions)


def test_rows_that_there_are_not_are_refused():
    policy = policy_of(VECTOR)
    with pytest.raises(UserError, match="restart: the policy plays 2 rows, from 0"):
        policy.restart([2])
    with pytest.raises(UserError, match="restart: the policy plays 2 rows, from 0"):
        policy.restart(np.array([True, False, True]))
    with pytest.raises(UserError, match="reset: -1 rows"):
        policy.reset(-1)


def test_rows_to_restart_may_be_a_mask():
    policy, observations = policy_of(VECTOR), seen(VECTOR)
    expected = []
    for rows in ([1], np.array([False, True])):
        policy.reset(2)
        policy.act(observations[0])
        policy.restart(rows)
        policy.act(observations[1])
        expected.append(policy.logits)
    assert np.array_equal(*expected)


# --- one step as a function ------------------------------------------------------------------------------------------


def tensors(observations):
    if isinstance(observations, dict):
        return {name: torch.from_numpy(rows.copy()) for name, rows in observations.items()}
    return torch.from_numpy(observations.copy())


def equals_act(step, policy, observation):
    """Whether a step function gives what the policy does over an episode in which row 1 begins a second one."""
    policy.reset(2)
    cache, _, last, begins = policy.step_function().inputs(2)
    for t, observations in enumerate(seen(observation)):
        if t == 3:
            policy.restart([1])
            begins = torch.tensor([False, True])
        actions = policy.act(observations)
        before = [tensor.clone() for tensor in cache]
        logits, after = step(cache, tensors(observations), last, begins)
        assert all(torch.equal(*pair) for pair in zip(cache, before, strict=True))  # it changes nothing
        assert not logits.requires_grad
        np.testing.assert_allclose(logits.numpy(), policy.logits, atol=1e-5)
        cache, last, begins = after, logits.argmax(-1), torch.zeros(2, dtype=torch.bool)
        assert np.array_equal(last.numpy(), actions)


@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_step_without_state_equals_act(network, observation):
    policy = policy_of(observation, network)
    equals_act(policy.step_function(), policy, observation)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_the_exported_step_equals_act(network, tmp_path):
    policy = policy_of(PARTS, network)
    step = policy.step_function()
    torch.export.save(torch.export.export(step, step.inputs(2)), tmp_path / "policy.pt2")
    program = torch.export.load(tmp_path / "policy.pt2")
    equals_act(program.module(), policy, PARTS)
    saved, made = (torch.utils._pytree.tree_leaves(inputs) for inputs in (program.example_inputs[0], step.inputs(2)))
    assert all(torch.equal(*pair) for pair in zip(saved, made, strict=True))


@pytest.mark.parametrize(
    ("spec", "given", "text"),
    [
        (
            GRID,
            torch.zeros(2, 7, 7, 3),
            r"observations: torch.float32 .*, not torch.uint8 of shape \(n, \*\(7, 7, 3\)\)",
        ),
        (VECTOR, torch.zeros(2, 4), r"torch.float32 of shape \(2, 4\), not torch.float32 of shape \(n, \*\(5,\)\)"),
        (PARTS, torch.zeros(2, 4), "observations are map grid .*: give a tensor, or of named parts a dictionary"),
        (PARTS, {"map": torch.zeros(2, 4)}, "give a tensor, or of named parts a dictionary"),
    ],
)
def test_observations_that_do_not_fit_the_function_are_refused(spec, given, text):
    step = policy_of(spec).step_function()
    cache, _, last, begins = step.inputs(2)
    with pytest.raises(UserError, match=text):
        step(cache, given, last, begins)
