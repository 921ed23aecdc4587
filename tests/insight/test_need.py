"""Need: which steps a policy without a memory is unsure of."""

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.insight import need, steps
from attentiontuner.insight.need import Need, above_usual, find_need
from attentiontuner.insight.readings import squashed
from attentiontuner.models.actions import ActionHead, action_head
from attentiontuner.spaces import ActionSpec
from tests.insight.cues import BOTH, FORK_AT, GRID, IMAGE, STEERING, STEPS, TWO_CHOICES, VECTOR, cue_store


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(need, "PASSES", 6)


@pytest.mark.parametrize("observation", [VECTOR, GRID, IMAGE, BOTH], ids=str)
def test_the_fork_needs_a_memory_and_nothing_else_does(tmp_path, observation):
    found = find_need(cue_store(tmp_path / "data", 20, observation))
    entropy = found.entropy.reshape(-1, STEPS)
    elsewhere = np.delete(entropy, FORK_AT, 1)
    assert entropy[:, FORK_AT].mean() > 0.5 > 5 * elsewhere.mean()
    assert found.surprise.reshape(-1, STEPS)[:, FORK_AT].mean() > 0.5  # by chance it is log 2


def test_what_the_present_says_needs_none(tmp_path):
    found = find_need(cue_store(tmp_path / "data", remembered=False))
    assert found.entropy.max() < 0.2
    assert found.surprise.max() < 0.2


def test_several_choices_at_once(tmp_path):
    entropy = find_need(cue_store(tmp_path / "data", actions=TWO_CHOICES)).entropy.reshape(-1, STEPS)
    assert entropy[:, FORK_AT].mean() > 5 * np.delete(entropy, FORK_AT, 1).mean()


def test_it_is_told_by_its_seed_and_packed_in_the_order_of_the_episodes(tmp_path):
    store = cue_store(tmp_path / "data")
    some = np.array([31, 2, 17, 8])
    one, again, other = find_need(store, some), find_need(store, some), find_need(store, some, seed=1)
    assert np.array_equal(one.entropy, again.entropy)
    assert not np.array_equal(one.entropy, other.entropy)
    assert one.lengths.tolist() == [STEPS] * 4


def test_no_episode_is_judged_by_a_policy_that_has_seen_it(tmp_path, monkeypatch):
    """Each step here has a picture of its own, so that its action can be known by heart and in no other way."""
    store = cue_store(tmp_path / "data")
    judged = []
    monkeypatch.setattr(
        need, "_judge", lambda policy, data, rows, real=need._judge: judged.append(rows) or real(policy, data, rows)
    )
    fold_of = {}
    real = need._without_memory

    def watched(data, whole, learned, seed, rng, bar):
        fold_of[seed] = np.repeat(learned, data.packed.lengths)
        judged.clear()
        policy = real(data, whole, learned, seed, rng, bar)
        assert judged
        assert not any(fold_of[seed][rows].any() for rows in judged)
        return policy

    monkeypatch.setattr(need, "_without_memory", watched)
    judged.clear()
    find_need(store)
    first, second = judged[-2:]  # the answers themselves, of fold 0 and 1
    assert not fold_of[0][first].any()
    assert not fold_of[1][second].any()
    assert sorted(np.concatenate([first, second])) == list(range(40 * STEPS))


def test_of_a_large_data_set_some_is_learned_from_and_all_is_judged(tmp_path, monkeypatch):
    store = cue_store(tmp_path / "data", episodes=60)
    monkeypatch.setattr(steps, "MOST_STEPS", 30 * STEPS)
    monkeypatch.setattr(steps, "JUDGED_BYTES", 7 * STEPS * VECTOR.nbytes)
    read = []
    real = type(store).read_packed
    monkeypatch.setattr(type(store), "read_packed", lambda self, which: read.append(which) or real(self, which))
    entropy = find_need(store).entropy.reshape(-1, STEPS)
    assert len(read[0]) == 30
    assert max(map(len, read[1:])) < 10
    assert sorted(np.concatenate(read[1:])) == list(range(60))
    assert entropy[:, FORK_AT].min() > 0.3 > entropy[:, 0].max()


def test_one_demonstration_can_be_asked_for(tmp_path):
    assert len(find_need(cue_store(tmp_path / "data"), [3]).entropy) == STEPS


def test_it_is_kept(tmp_path):
    found = Need(np.array([0.5, 0.25], np.float32), np.array([0.1, 2], np.float32), np.array([2]))
    found.save(tmp_path / "need.safetensors")
    again = Need.load(tmp_path / "need.safetensors")
    assert all(
        np.array_equal(getattr(found, name), getattr(again, name)) for name in ("entropy", "surprise", "lengths")
    )
    (tmp_path / "need.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="holds no need of steps"):
        Need.load(tmp_path / "need.safetensors")
    with pytest.raises(UserError, match="2 and 2 numbers are not the need of 3 steps"):
        Need(found.entropy, found.surprise, np.array([3]))


@pytest.mark.parametrize("spec", [ActionSpec.discrete(5), ActionSpec.multi_discrete((3, 2))], ids=str)
def test_an_entropy_without_a_closed_form_is_drawn(spec):
    head = action_head(spec)
    logits = torch.randn(300, head.width, generator=torch.Generator().manual_seed(1))
    closed, drawn = head.entropy(logits), ActionHead.entropy(head, logits)
    assert closed.shape == (300,)
    assert abs(float((closed - drawn).mean())) < 0.05
    assert torch.equal(drawn, ActionHead.entropy(head, logits))


def test_where_actions_are_numbers_need_is_above_what_is_usual(tmp_path):
    """Their entropy is that of a density: of either sign, and another one in other units."""
    narrow = ActionSpec.box([-1e-2], [1e-2])
    for name, actions in (("wide", STEERING), ("narrow", narrow)):
        found = find_need(cue_store(tmp_path / name, actions=actions, scale=1 if actions == STEERING else 1e-2))
        needed = squashed(found.entropy).reshape(-1, STEPS)
        assert found.entropy.min() == 0
        assert needed[:, FORK_AT].mean() > 0.7 > 0.1 > np.delete(needed, FORK_AT, 1).mean()


def test_what_is_usual_is_nothing_where_actions_are_choices():
    entropy = np.array([0.1, 0.5, 0.7, 0.7], np.float32)
    assert np.array_equal(above_usual(entropy, numbers=False), entropy)
    assert above_usual(entropy - 3, numbers=True) == pytest.approx([0, 0, 0.1, 0.1], abs=1e-6)
