"""Recall heads: the amount is a count, the past is a past, and streaming equals the full pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.models.network import Output
from attentiontuner.models.recall import MOST, NEVER, RECALL_HEAD, RecallConfig, Recalled, RecallTransformer, settle
from tests.methods.configs import loss_of
from tests.models.test_transformer import EVERY_KIND, GRID, IMAGE, VECTOR, packed_demos

LENGTHS = [4, 6, 3]


def small(observation, **options):
    torch.manual_seed(0)
    model = RecallTransformer(RecallConfig(observation, 4, d_model=16, feedforward=32, dropout=0.0, **options)).eval()
    with torch.no_grad():  # gates that do something
        recall = model.layers[0].recall
        for gate in (recall.asks, recall.offers, *([recall.when] if recall.when else [])):
            gate.weight.normal_()
    packed = packed_demos(observation, LENGTHS, 4)
    seen = np.bincount(packed.frame_index, minlength=len(packed.frames))
    model.fit([(packed.frames, seen)], len(packed.frames))
    return model, packed


def scores_of(model, batch):
    return model(batch, (RECALL_HEAD,)).watched[RECALL_HEAD].scores


def memory_of(recalled, batch, loss):
    """The memory loss of what a recall head did, by its kind."""
    model = RecallConfig(GRID, 4, loss=loss)
    head = model.build().action_head
    output = Output(head, torch.zeros(len(batch.slot), 4), {RECALL_HEAD: recalled})
    return loss_of(output, batch, model, "recall").terms["memory"]


OPTIONS = [
    {},
    {"keys": "observation"},
    {"gates": "full"},
    {"periods": ()},
    {"whole": False},
    {"standardise": False},
    {"when": False, "marks": 0},
    {"carry_action": False, "positions": False},
    {"action_tokens": True},
    {"action_tokens": True, "heads": 1, "keys": "observation"},
    {"bias": -1.0},
    {"layers": 1, "heads": 1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_streaming_equals_the_full_pass(observation, options):
    model, packed = small(observation, **options)
    full = model(DemoData(packed).batch(np.arange(3)), (RECALL_HEAD,))
    recalled = full.watched[RECALL_HEAD]
    close = 1e-4 if options.get("whole") is False else 1e-5  # an amount of hundreds, not rounded, turns many times
    cache = model.start(rows=3, max_steps=6)
    for t in range(6):
        steps = [packed.starts[e] + min(t, LENGTHS[e] - 1) for e in range(3)]
        seen = torch.from_numpy(packed.frames[packed.frame_index[steps]])
        last = torch.tensor([packed.actions[packed.starts[e] + min(t, LENGTHS[e]) - 1] for e in range(3)])
        with torch.no_grad():
            logits, weights = model.step(cache, seen, last, torch.tensor([t == 0] * 3), (RECALL_HEAD,))
        for e in range(3):
            if t < LENGTHS[e]:
                torch.testing.assert_close(logits[e], full.distribution[packed.starts[e] + t], atol=close, rtol=close)
                counts = weights[RECALL_HEAD][e]
                torch.testing.assert_close(counts[:6], recalled.scores[e, t].exp(), atol=1e-5, rtol=1e-4)
                assert counts[t:].sum() == 0  # the present and the future are not recalled
                assert counts.sum().item() == pytest.approx(recalled.mass[e, t].item(), rel=1e-4, abs=1e-6)


def test_a_cell_is_matched_wherever_it_stands_and_as_often_as_it_does():
    model, packed = small(GRID)
    embedding = model.observation_embedding
    frame = torch.from_numpy(packed.frames[:1])
    moved = frame.view(1, *GRID.parts[0][1].shape).flip(1).flatten(1)
    query = torch.randn(1, 8, generator=torch.Generator().manual_seed(1))
    (_, one, _), (_, other, _) = embedding(frame), embedding(moved)
    torch.testing.assert_close(embedding.match(query, one), embedding.match(query, other))
    assert (one / embedding.rarity.clamp(min=1e-9)).sum().item() == pytest.approx(49)
    twice = embedding.match(query, 2 * one) - embedding.match(query, one)
    assert twice.item() == pytest.approx(np.log(2), rel=1e-5)


def test_a_cell_in_view_is_told_what_the_recalled_steps_that_hold_its_kind_say():
    model, _ = small(GRID)
    recall = model.layers[0].recall
    recall.recognised = torch.nn.Identity()  # what comes in is what is told: 4 marks of 2 cells
    weights = torch.tensor([[[0.0, 0.5, 0.25]]])  # one step recalls the second and third of three
    memory = torch.tensor([[[3.0, 3, 0], [0, 2, 0], [0, 1, 1]]])  # how often they hold the kinds 0, 1, 2
    marks = torch.tensor([[[9.0, 9, 9, 9], [1, 2, 3, 4], [10, 20, 30, 40]]])
    told = recall.recognise(weights, marks, memory, torch.tensor([[[0, 1], [2, 1]]])[:, 1:])
    kind_2, kind_1 = 0.25 * marks[0, 2], 0.5 * marks[0, 1] + 0.25 * marks[0, 2]
    torch.testing.assert_close(told[0, 0], torch.stack([kind_2, kind_1], 1).flatten())
    assert recall.recognise(weights, marks, memory, torch.tensor([[[0, 0]]])).abs().sum() == 0  # held, not recalled


@pytest.mark.parametrize("options", [{}, {"keys": "observation"}, {"gates": "full"}], ids=str)
def test_taking_a_part_away_leaves_the_others(options):
    model, packed = small(GRID, **options)
    recall, batch = model.layers[0].recall, DemoData(packed).batch(np.arange(3))

    def changed_by(gate):
        with torch.no_grad():
            before = scores_of(model, batch)
            gate.weight.mul_(1.5)
            return not torch.allclose(scores_of(model, batch), before)

    assert changed_by(recall.when)
    assert changed_by(recall.asks) == changed_by(recall.offers) == (recall.config.gates == "scalar")
    assert changed_by(model.observation_embedding.key) == (recall.config.keys == "cells")


def test_a_step_may_ask_for_a_position_whatever_was_seen_there():
    model, packed = small(GRID, bias=-30.0)  # far below the largest score
    recall = model.layers[0].recall
    batch = DemoData(packed).batch(np.arange(3))
    with torch.no_grad():
        for gate in (recall.asks, recall.offers, recall.when):
            gate.weight.zero_()
        before = scores_of(model, batch)
        recall.when.bias.copy_(model.positional_encoding(torch.tensor([1]))[0])
        asked = scores_of(model, batch) - before
    assert (asked[1, 3:, :3].argmax(-1) == 1).all()
    torch.testing.assert_close(asked[0, 3, :3], asked[1, 3, :3], atol=1e-4, rtol=0)  # other episodes, other sights


@pytest.mark.parametrize("positions", [True, False])
def test_without_positions_what_is_recalled_does_not_depend_on_when_it_was(positions):
    model, packed = small(GRID, positions=positions)

    def last_step(frames, actions):
        cache = model.start(rows=1, max_steps=6)
        for step, (frame, action) in enumerate(zip(frames, actions, strict=True)):
            seen, begins = torch.from_numpy(packed.frames[[frame]]), torch.tensor([step == 0])
            with torch.no_grad():
                _, weights = model.step(cache, seen, torch.tensor([action]), begins, (RECALL_HEAD,))
        return weights[RECALL_HEAD][0]

    early = last_step([0, 1, 2, 3], [0, 0, 1, 2])[1:3]
    late = last_step([4, 5, 0, 1, 2, 3], [0, 3, 3, 0, 1, 2])[3:5]
    assert torch.allclose(early, late, rtol=1e-3) == (not positions)


def test_count_loss_is_least_where_exp_of_the_score_is_the_multiplicity():
    packed = packed_demos(GRID, LENGTHS, 4)
    multiplicity = np.arange(len(packed.pairs)) % 3 + 1
    packed = replace(packed, pairs=replace(packed.pairs, multiplicity=multiplicity))
    batch = DemoData(packed).batch(np.arange(3))
    wanted = batch.recalled()
    for row, p, q, times in packed.pairs.rows():
        assert wanted[row, q, p] == times
    assert wanted.sum() == multiplicity.sum()
    raw = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(2), requires_grad=True)
    past = torch.ones(6, 6, dtype=torch.bool).tril(-1)
    scores, _, mass, cut = settle(raw, past)
    memory_of(Recalled(scores, mass, cut), batch, "count").backward()
    inside = torch.arange(6) < batch.lengths[:, None]
    expected = (raw.detach().exp() - wanted) * past * inside[:, :, None] / multiplicity.sum()
    torch.testing.assert_close(raw.grad, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("loss", ["count", "rows", "binary"])
def test_a_score_that_is_cut_off_is_led_back_by_the_loss_alone(loss):
    batch = DemoData(packed_demos(GRID, LENGTHS, 4)).batch(np.arange(3))
    raw = torch.zeros(3, 6, 6)
    raw[1, 5, 2] = 9.0
    raw.requires_grad_()
    scores, weights, mass, cut = settle(raw, torch.ones(6, 6, dtype=torch.bool).tril(-1))
    assert scores[1, 5, 2].item() == MOST
    (weights.sum() + mass.sum()).backward(retain_graph=True)
    assert raw.grad[1, 5, 2].item() == 0
    raw.grad.zero_()
    memory_of(Recalled(scores, mass, cut), batch, loss).backward()
    assert raw.grad[1, 5, 2].item() > 0


def test_the_null_key_has_score_0_and_value_0():
    _, weights, mass, _ = settle(torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(weights, torch.full((1, 3), 0.25))
    torch.testing.assert_close(mass, torch.tensor([3.0]))


def test_a_row_may_recall_nothing():
    scores = torch.full((1, 4), NEVER)
    _, weights, mass, _ = settle(scores, torch.zeros(1, 4, dtype=torch.bool))
    assert weights.sum() == 0
    assert mass.item() == 0


def test_the_amount_read_is_whole_and_many_small_errors_do_not_add_up():
    raw = torch.tensor([0.9, 1.2, *[0.04] * 30]).log().requires_grad_()
    scores, _, mass, _ = settle(raw, torch.ones(32, dtype=torch.bool))
    exact = torch.tensor([0.0, 0.0, *[-20.0] * 30])  # two things
    two = settle(exact, torch.ones(32, dtype=torch.bool))
    whole, soft, binary = (
        small(GRID, **options)[0].layers[0].recall for options in ({}, {"whole": False}, {"loss": "binary"})
    )
    torch.testing.assert_close(whole.read(scores, mass), whole.read(two[0], two[2]))
    for other in (soft, binary):  # 3.3 things; the scores of the binary loss count nothing, so nothing is rounded
        assert not torch.allclose(other.read(scores, mass), whole.read(scores, mass), atol=1e-2)
    whole.read(scores, mass).sum().backward()
    assert raw.grad.abs().min() > 0  # what was rounded away still learns


@pytest.mark.parametrize("loss", ["count", "rows", "binary"])
def test_training_on_pairs_makes_the_mass_a_count(loss):
    model, packed = small(GRID, loss=loss)
    data = DemoData(packed)
    batch = data.batch(np.arange(3))
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    config = model.config
    before = loss_of(model(batch, (RECALL_HEAD,)), batch, config, "recall").terms["memory"].item()
    for _ in range(150):
        optimiser.zero_grad()
        found = loss_of(model(batch, (RECALL_HEAD,)), batch, config, "recall")
        found.total.backward()
        optimiser.step()
    assert found.terms["memory"].item() < before - 0.3
    if loss == "count":
        inside = torch.arange(6) < batch.lengths[:, None]
        mass = model.eval()(batch, (RECALL_HEAD,)).watched[RECALL_HEAD].mass * inside
        torch.testing.assert_close(mass, batch.recalled().sum(-1), atol=0.35, rtol=0)


def test_input_is_standardised_with_the_training_set():
    model, _ = small(GRID)
    embedding = model.observation_embedding
    assert embedding.mean.sum().item() == pytest.approx(49, rel=1e-5)  # one kind of cell in each of 49 places
    often = embedding.mean.view(49, -1).sum(0)
    common, rare = often.argmax(), torch.where(often > 0.02, often, 99).argmin()
    assert embedding.rarity[common].item() == pytest.approx(1 / often[common].item(), rel=1e-5)
    assert embedding.rarity[rare] > embedding.rarity[common]
    assert (embedding.rarity[often == 0] == 0).all()
    assert (small(GRID, rarity=False)[0].observation_embedding.rarity == 1).all()
    constant = (embedding.mean > 1 - 1e-9) | (embedding.mean == 0)
    assert (embedding.scale[constant] == 0).all()
    assert set(model.state_dict()) >= {"observation_embedding.mean", "observation_embedding.scale"}


def test_an_episode_that_began_later_than_the_one_beside_it_is_played_as_if_alone():
    model, packed = small(GRID)
    frames = torch.from_numpy(packed.frames)
    alone, together = model.start(1, 8), model.start(2, 8)
    with torch.no_grad():
        for step in range(5):
            begins = torch.tensor([step == 0, step in (0, 3)])
            mine, _ = model.step(alone, frames[[step]], torch.tensor([1]), begins[:1])
            both, _ = model.step(together, frames[[step, 5 - step]], torch.tensor([1, 2]), begins)
            torch.testing.assert_close(both[:1], mine, atol=1e-5, rtol=1e-4)


def test_images_have_four_layers_where_nothing_is_said_and_the_others_two():
    assert [RecallConfig(kind, 4).layers for kind in (IMAGE, GRID, VECTOR)] == [4, 2, 2]
    assert RecallConfig(IMAGE, 4, layers=1).layers == 1


def test_config_survives_json_and_refuses_nonsense():
    config = RecallConfig(GRID, 7, periods=(2, 5), keys="observation")
    assert RecallConfig.from_json(config.to_json()) == config
    for wrong in ({"keys": "tiles"}, {"d_model": 30, "heads": 4}, {"periods": (0,)}, {"layers": 0}, {"marks": -1}):
        with pytest.raises(UserError, match="model"):
            RecallConfig(GRID, 7, **wrong)
