"""Recall heads: the amount is a count, the past is a past, and streaming equals the full pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.data.blocks import Block
from attentiontuner.data.dataset import DemoData
from attentiontuner.models.network import Output
from attentiontuner.models.recall import RecallTransformer, turned
from attentiontuner.models.recall_head import MOST, NEVER, Recalled, settle
from attentiontuner.models.sizes import BEFORE, GONE, RECALL_HEAD, RecallConfig
from attentiontuner.spaces import ActionSpec
from tests.methods.configs import loss_of
from tests.models.test_transformer import EVERY_KIND, GRID, IMAGE, VECTOR, packed_demos

LENGTHS = [4, 6, 3]


def small(observation, **options):
    torch.manual_seed(0)
    config = RecallConfig(observation, 4, d_model=16, feedforward=32, dropout=0.0, **options)
    model = with_open_gates(RecallTransformer(config).eval())
    packed = packed_demos(observation, LENGTHS, 4)
    seen = np.bincount(packed.frame_index, minlength=len(packed.frames))
    model.fit([(packed.frames, seen)], len(packed.frames))
    return model, packed


def with_open_gates(model):
    """A network whose gates do something."""
    recall = head_of(model)
    with torch.no_grad():
        for gate in (recall.asks, recall.offers, recall.when, recall.clock):
            if gate is not None:
                gate.weight.normal_()
        recall.bias.fill_(-4.0)
    return model


def head_of(model):
    """The recall head of a network."""
    return model.layers[model.config.recall_layer - 1].recall


def scores_of(model, batch):
    return model(batch, (RECALL_HEAD,)).watched[RECALL_HEAD].whole.scores


def memory_of(settled, batch):
    """The memory loss of what a recall head did."""
    told = (settled.scores * batch.recalled()).sum(-1)
    every = Block(0, batch.rows, 0, batch.longest)
    recalled = Recalled(settled.mass, settled.cut, told, settled.of, every)
    model = RecallConfig(GRID, 4)
    head = model.build().action_head
    output = Output(head, torch.zeros(len(batch.slot), 4), {RECALL_HEAD: recalled})
    return loss_of(output, batch, model, "recall").terms["memory"]


OPTIONS = [
    {},
    BEFORE,
    {"periods": ()},
    {"whole": False},
    {"bounded": False},
    {"timing": "added"},
    {"positions": False},
    {"means": False, "alike": False},
    {"marks": 0, "sums": 0},
    {"points": 0, "looks": 0},
    {"layers": 1, "heads": 1},
    {"layers": 3, "recall_layer": 3},
    {"past": False},
    {"last_action": False},
    {"beside": True, "products": True},
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
                torch.testing.assert_close(counts[:6], recalled.whole.scores[e, t].exp(), atol=1e-5, rtol=1e-4)
                assert counts[t:].sum() == 0  # the present and the future are not recalled
                assert counts.sum().item() == pytest.approx(recalled.mass[e, t].item(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("bounded", [True, False])
def test_a_cell_is_matched_wherever_it_stands_and_as_often_as_it_does(bounded):
    model, packed = small(GRID, bounded=bounded)
    embedding, start = model.observation_embedding, head_of(model).bias
    frame = torch.from_numpy(packed.frames[:1])
    moved = frame.view(1, *GRID.parts[0][1].shape).flip(1).flatten(1)
    query = torch.randn(1, 8, generator=torch.Generator().manual_seed(1))
    (_, one, _), (_, other, _) = embedding(frame), embedding(moved)
    match = embedding.match(query, one, one, start)
    torch.testing.assert_close(match, embedding.match(query, other, one, start))
    assert (one / (1 if bounded else embedding.rarity.clamp(min=1e-9))).sum().item() == pytest.approx(49)
    twice = embedding.match(query, 2 * one, one, start) - match
    assert twice.item() == pytest.approx(np.log(2), rel=1e-5)


def test_a_cell_in_view_is_told_what_the_recalled_steps_that_hold_its_kind_say():
    model, _ = small(GRID, sums=0)
    recall = head_of(model)
    recall.recognised = torch.nn.Identity()  # what comes in is what is told: share, order and 4 marks of 2 cells
    amounts = torch.tensor([[[1e-9, 2.0, 1.0]]])  # one step recalls the second and third of three
    mass = amounts.sum(-1)
    memory = torch.tensor([[[3.0, 3, 0], [0, 2, 0], [0, 1, 1]]])  # how often they hold the kinds 0, 1, 2
    marks = torch.tensor([[[9.0, 9, 9, 9], [1, 2, 3, 4], [10, 20, 30, 40]]])
    told = recall.hear(amounts, mass, marks, memory, torch.tensor([[[2, 1]]]))[0, 0].view(6, 2).T
    kind_2, kind_1 = (marks[0, 2], (2 * marks[0, 1] + marks[0, 2]) / 3)
    expected = torch.stack([torch.tensor([0.25, 2 / 3, *kind_2]), torch.tensor([0.75, 2 / 9, *kind_1])])
    torch.testing.assert_close(told, expected, rtol=0.03, atol=1e-3)
    held = recall.hear(amounts, mass, marks, memory, torch.tensor([[[0, 0]]]))
    assert held.abs().max() < 1e-4  # held, not recalled


def test_what_recalled_steps_hand_over_is_added_up():
    model, _ = small(VECTOR, sums=2)
    recall = head_of(model)
    recall.added = torch.nn.Identity()
    amounts, says = torch.tensor([[[1.0, 2.0, 1e-9]]]), torch.tensor([[[1.0, -3.0], [10.0, 0.5], [7.0, 7.0]]])
    none = torch.zeros(1, 1, 0, dtype=torch.long)
    told = recall.hear(amounts, amounts.sum(-1), says, torch.zeros(1, 3, 8), none)
    torch.testing.assert_close(told[0, 0], torch.tensor([21.0, -2.0]))


def test_gates_take_away_and_never_add():
    model, packed = small(GRID)
    recall, batch = head_of(model), DemoData(packed).batch(np.arange(3))
    past = torch.ones(6, 6, dtype=torch.bool).tril(-1)
    with torch.no_grad():
        for gate in (recall.asks, recall.offers, recall.clock):
            gate.weight.zero_()
        recall.asks.bias.fill_(50.0)
        wide_open = scores_of(model, batch)
        for bias in (60.0, 2.0, -8.0):
            recall.asks.bias.fill_(bias)
            change = (scores_of(model, batch) - wide_open)[:, past]
            assert (change <= 1e-6).all()
            assert (change < -1).all() == (bias < 0)


@pytest.mark.parametrize("bounded", [True, False])
def test_taking_a_part_away_leaves_the_others(bounded):
    model, packed = small(GRID, bounded=bounded)
    recall, batch = head_of(model), DemoData(packed).batch(np.arange(3))

    def changed_by(gate):
        with torch.no_grad():
            before = scores_of(model, batch)
            gate.weight.mul_(1.5)
            return not torch.allclose(scores_of(model, batch), before)

    assert all(changed_by(gate) for gate in (recall.asks, recall.offers, model.observation_embedding.key))
    assert changed_by(recall.clock) == bounded


def test_the_clock_asks_for_a_step_whatever_was_seen_there():
    model, packed = small(GRID)
    recall = head_of(model)
    batch = DemoData(packed).batch(np.arange(3))
    with torch.no_grad():
        for gate in (recall.asks, recall.offers, recall.clock):
            gate.weight.zero_()
        recall.asks.bias.fill_(-60.0)  # as good as closed: what the clock says is then added
        before = scores_of(model, batch)
        asked, when = (model.positional_encoding(torch.tensor([step]))[0] for step in (1, 5))
        recall.clock.weight.copy_(torch.outer(asked, when))  # at step 5 for step 1
        change = scores_of(model, batch) - before
    assert change[1, 5, :5].argmax() == 1
    torch.testing.assert_close(change[0, 3, :3], change[1, 3, :3], atol=1e-4, rtol=0)  # other episodes, other sights


def test_tokens_do_not_know_their_time():
    model, _ = small(GRID)
    seen, last, begins = torch.randn(2, 16), torch.tensor([1, 1]), torch.tensor([False, False])
    torch.testing.assert_close(*(model.tokens(seen, last, begins, torch.tensor([t, t])) for t in (1, 99)))


def test_a_product_of_turned_vectors_knows_only_how_far_apart_they_are():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, 3, 8, generator=generator).expand(40, -1, -1, -1) for _ in range(2))
    time = torch.arange(40.0)
    early, late = ((turned(query, time + 7 + start) * turned(key, time + start)).sum(-1) for start in (0, 100))
    torch.testing.assert_close(early, late, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(early[:1].expand_as(early), early, rtol=1e-3, atol=1e-4)
    assert (early[0] - (query * key)[0].sum(-1)).abs().min() > 0.1


@pytest.mark.parametrize("teacher", [0.0, 1.0])
def test_in_training_the_rest_of_the_network_reads_what_the_expert_recalls(teacher):
    model, packed = small(GRID, teacher=teacher, dropped_cells=0.0)
    batch = DemoData(packed).batch(np.arange(3))
    with torch.no_grad():
        taught = model.train()(batch, (RECALL_HEAD,))
        alone = model(batch)
        played = model.eval()(batch, (RECALL_HEAD,))
    assert torch.allclose(taught.distribution, played.distribution) == (teacher == 0)
    torch.testing.assert_close(alone.distribution, played.distribution)  # not where nothing is supervised
    torch.testing.assert_close(
        taught.watched[RECALL_HEAD].whole.scores, played.watched[RECALL_HEAD].whole.scores
    )  # its own


@pytest.mark.parametrize("alone", [1.0, 0.0])
def test_an_episode_that_is_played_alone_knows_of_the_past_only_what_is_recalled(alone):
    model, packed = small(GRID, alone=alone, teacher=0.0, dropped_cells=0.0)
    batch = DemoData(packed).batch(np.arange(3))
    changed = batch.per_step(batch.observations).clone()
    changed[batch.begins] = changed[batch.begins].roll(1, 0)  # other first observations
    with torch.no_grad():
        head_of(model).bias.fill_(-60.0)  # nothing is recalled
        as_it_was, otherwise = (
            model.train()(replace(batch, observations=seen, frame=None), (RECALL_HEAD,)).distribution[~batch.begins]
            for seen in (batch.per_step(batch.observations), changed)
        )
    assert torch.allclose(as_it_was, otherwise, atol=1e-6) == (alone == 1)


@pytest.mark.parametrize("past", [False, True])
def test_without_a_past_only_the_present_matters(past):
    model, packed = small(GRID, past=past, last_action=False, whole=False)
    batch = DemoData(packed).batch(np.arange(3))
    changed = batch.per_step(batch.observations).clone()
    changed[batch.begins] = changed[batch.begins].roll(1, 0)  # other first observations
    with torch.no_grad():
        head_of(model).bias.fill_(2.0)  # much is recalled
        as_it_was, otherwise = (
            model(replace(batch, observations=seen, frame=None)).distribution[~batch.begins]
            for seen in (batch.per_step(batch.observations), changed)
        )
    assert torch.allclose(as_it_was, otherwise, atol=1e-6) == (not past)


@pytest.mark.parametrize("last_action", [False, True])
def test_a_token_need_not_know_the_action_before_it(last_action):
    model, packed = small(GRID, last_action=last_action)
    batch = DemoData(packed).batch(np.arange(3))
    other = replace(batch, actions=batch.actions.roll(1, 0))
    assert torch.equal(model(batch).distribution, model(other).distribution) == (not last_action)


def test_numbers_within_bounds_are_not_shown_to_who_chooses_the_next():
    assert RecallConfig(VECTOR, ActionSpec.box(-1, 1)).last_action is False
    assert RecallConfig(VECTOR, ActionSpec.discrete(3)).last_action is True


def test_vectors_are_looked_things_up_in_where_actions_are_numbers_and_the_network_is_no_older():
    arm = RecallConfig(VECTOR, ActionSpec.box(-1, 1))
    assert (arm.products, RecallConfig(VECTOR, 3).products, RecallConfig(GRID, 3).products) == (True, False, False)
    known = arm.to_json()
    del known["products"]
    old = RecallConfig.from_json(known)
    assert old.products is False
    gone = set(arm.build().state_dict()) - set(old.build().state_dict())
    assert {name.split(".")[1] for name in gone} == {"asked", "shown", "looked_up"}
    with pytest.raises(UserError, match="model products: True is not false"):
        RecallConfig(VECTOR, 3, products=True, beside=False)


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
    memory_of(settle(raw, past), batch).backward()
    inside = torch.arange(6) < batch.lengths[:, None]
    expected = (raw.detach().exp() - wanted) * past * inside[:, :, None] / multiplicity.sum()
    torch.testing.assert_close(raw.grad, expected, atol=1e-5, rtol=1e-4)


def test_a_score_that_is_cut_off_is_led_back_by_the_loss_alone():
    batch = DemoData(packed_demos(GRID, LENGTHS, 4)).batch(np.arange(3))
    raw = torch.zeros(3, 6, 6)
    raw[1, 5, 2] = 9.0
    raw.requires_grad_()
    settled = settle(raw, torch.ones(6, 6, dtype=torch.bool).tril(-1))
    assert settled.scores[1, 5, 2].item() == MOST
    (settled.share().sum() + settled.mass.sum()).backward(retain_graph=True)
    assert raw.grad[1, 5, 2].item() == 0
    raw.grad.zero_()
    memory_of(settled, batch).backward()
    assert raw.grad[1, 5, 2].item() > 0


def test_the_null_key_has_score_0_and_value_0():
    settled = settle(torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(settled.share(), torch.full((1, 3), 0.25))
    torch.testing.assert_close(settled.mass, torch.tensor([3.0]))


def test_a_row_may_recall_nothing():
    settled = settle(torch.full((1, 4), NEVER), torch.zeros(1, 4, dtype=torch.bool))
    assert settled.share().sum() == 0
    assert settled.mass.item() == 0


def test_the_amount_read_is_whole_and_many_small_errors_do_not_add_up():
    raw = torch.tensor([0.9, 1.2, *[0.04] * 30]).log().requires_grad_()
    _, amounts, mass, _ = settle(raw, torch.ones(32, dtype=torch.bool))
    exact = torch.tensor([0.0, 0.0, *[-20.0] * 30])  # two things
    two = settle(exact, torch.ones(32, dtype=torch.bool))
    whole, soft = (head_of(small(GRID, **options)[0]) for options in ({}, {"whole": False}))
    torch.testing.assert_close(whole.read(amounts, mass), whole.read(two.amounts, two.mass))
    assert not torch.allclose(soft.read(amounts, mass), whole.read(amounts, mass), atol=1e-2)  # 3.3 things
    whole.read(amounts, mass).sum().backward()
    assert raw.grad.abs().min() > 0  # what was rounded away still learns


@pytest.mark.parametrize("bounded", [True, False])
def test_training_on_pairs_makes_the_mass_a_count(bounded):
    model, packed = small(GRID, bounded=bounded, dropped_cells=0.0)
    data = DemoData(packed)
    batch = data.batch(np.arange(3))
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), 6e-3 if bounded else 3e-3)
    config = model.config
    before = loss_of(model(batch, (RECALL_HEAD,)), batch, config, "recall").terms["memory"].item()
    for _ in range(150):
        optimiser.zero_grad()
        found = loss_of(model(batch, (RECALL_HEAD,)), batch, config, "recall")
        found.total.backward()
        optimiser.step()
    assert found.terms["memory"].item() < before - 0.3
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
    assert [RecallConfig(kind, 4).recall_layer for kind in (IMAGE, GRID, VECTOR)] == [2, 1, 1]
    assert RecallConfig(IMAGE, 4, layers=1).recall_layer == 1


def test_config_survives_json_and_refuses_nonsense():
    config = RecallConfig(GRID, 7, periods=(2, 5), marks=3)
    assert RecallConfig.from_json(config.to_json()) == config
    for wrong in (
        *({"timing": "late"}, {"d_model": 30, "heads": 4}, {"periods": (0,)}, {"layers": 0}, {"marks": -1}),
        *({"recall_layer": 3}, {"teacher": 1.5}, {"dropped_cells": 1.0}),
    ):
        with pytest.raises(UserError, match="model"):
            RecallConfig(GRID, 7, **wrong)


def test_a_network_of_an_older_version_is_read_as_it_was_made():
    old = {name: value for name, value in RecallConfig(GRID, 7).to_json().items() if name not in BEFORE} | GONE
    config = RecallConfig.from_json(old)
    assert {name: getattr(config, name) for name in BEFORE} == BEFORE
    with pytest.raises(UserError, match="gates: 'full'"):
        RecallConfig.from_json({**old, "gates": "full"})
    with pytest.raises(UserError, match="when: False"):
        RecallConfig.from_json({**old, "when": False})
    assert not RecallConfig.from_json({**old, "when": False, "positions": False}).positions
