"""Memories that do not grow: streaming equals the full pass, and what pairs say of them is what brute force says."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner import losses
from attentiontuner.core.errors import UserError
from attentiontuner.data.blocks import Block
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.pairs import PairTable
from attentiontuner.evaluation.step_function import map_leaves
from attentiontuner.models.recurrence import LinearRecurrence, carried
from attentiontuner.models.sizes import RECALL_HEAD, GruConfig, LruConfig, SlotsConfig
from attentiontuner.models.slots import NEVER, Slots, held_before
from attentiontuner.spaces import ActionSpec
from tests.methods.configs import loss_of
from tests.models.test_transformer import EVERY_KIND, GRID, VECTOR, packed_demos

LENGTHS = [4, 6, 3, 21]
CONFIGS = {
    "gru": (GruConfig, {}),
    "lru": (LruConfig, {}),
    "lru, one layer": (LruConfig, {"layers": 1}),
    "lru, nothing kept": (LruConfig, {"kept": 0}),
    "slots": (SlotsConfig, {"slots": 3}),
    "slots, more than steps": (SlotsConfig, {"slots": 40}),
}


def small(name="gru", observation=GRID, actions=4, **options):
    torch.manual_seed(0)
    kind, own = CONFIGS[name]
    return kind(observation, actions, d_model=16, feedforward=32, dropout=0.0, **own, **options).build().eval()


def streamed(model, packed, lengths, watch=(RECALL_HEAD,)):
    """Logits and weights of every step, one row an episode; rows that are over begin again."""
    cache, longest = model.start(len(lengths), 2 * max(lengths)), max(lengths)
    for t in range(longest):
        at = [t % length for length in lengths]
        steps = packed.starts + np.array(at)
        seen = torch.from_numpy(packed.frames[packed.frame_index[steps]])
        last = torch.from_numpy(packed.actions[steps - 1])
        with torch.no_grad():
            yield at, model.step(cache, seen, last, torch.tensor(at) == 0, watch)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_streaming_equals_the_full_pass_also_when_rows_restart(observation, name):
    model, packed = small(name, observation), packed_demos(observation, LENGTHS, 4)
    batch = DemoData(packed).batch(np.arange(4))
    with torch.no_grad():
        full, weights = model(batch), model.attention(batch)[0, 0]
    for at, (logits, found) in streamed(model, packed, LENGTHS):
        steps = packed.starts + np.array(at)
        torch.testing.assert_close(logits, full.distribution[steps], atol=1e-5, rtol=1e-5)
        for row, t in enumerate(at):
            expected = weights[row, t]
            torch.testing.assert_close(found[RECALL_HEAD][row, :21], expected, atol=1e-5, rtol=1e-4)
            assert found[RECALL_HEAD][row, t:].sum() == 0  # the present and the future


def test_numbers_as_actions_are_read_in_chunks():
    model = small("gru", VECTOR, ActionSpec.box(-1, 1), chunk=2)
    assert model.action_embedding is None
    packed = replace(packed_demos(VECTOR, LENGTHS, 4), actions=np.random.default_rng(0).random((34,), np.float32))
    with torch.no_grad():
        full = model(DemoData(packed).batch(np.arange(4)))
    for at, (logits, _) in streamed(model, packed, LENGTHS, ()):
        torch.testing.assert_close(logits, full.distribution[packed.starts + np.array(at)], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gru", "lru", "slots"])
def test_what_is_left_behind_does_not_grow_unless_the_probe_is_watched(name):
    model = small(name)
    sizes = []
    for room in (10, 10_000):
        own = []
        map_leaves(model.start(2, room), lambda tensor, own=own: own.append(tensor.nbytes))
        sizes.append(sum(own))
    assert sizes[0] == sizes[1]
    cache = model.start(1, 10_000)
    inputs = (torch.zeros(1, GRID.nbytes, dtype=torch.uint8), torch.zeros(1, dtype=torch.long), torch.tensor([True]))
    model.step(cache, *inputs)
    assert cache.keys[0].numel() == 0
    model.step(cache, *inputs, (RECALL_HEAD,))
    assert cache.keys[0].numel() == (0 if name == "slots" else 160_000)


def test_all_steps_at_once_are_what_they_are_one_by_one_and_so_is_the_gradient():
    generator = torch.Generator().manual_seed(0)
    keep, new = (torch.rand(2, 13, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    state, states = torch.zeros(2, 3, dtype=torch.float64), []
    for t in range(13):
        state = keep[:, t] * state + new[:, t]
        states.append(state)
    torch.testing.assert_close(carried(keep, new), torch.stack(states, 1))
    assert torch.autograd.gradcheck(carried, (keep.requires_grad_(), new.requires_grad_()))


def test_kept_lanes_share_their_gates_and_nothing_fades_that_is_kept():
    memory = LinearRecurrence(8, 1000.0, kept=4)
    torch.nn.init.zeros_(memory.project.weight)
    with torch.no_grad():
        memory.project.bias[0], memory.project.bias[5] = 50.0, -50.0  # keep everything, write nothing
    _, gates = memory(torch.randn(1, 5, 8))
    assert gates.faded.abs().max() < 1e-6
    assert gates.write.tolist() == [[-50.0] * 5]
    with torch.no_grad():
        memory.project.bias[0] = 0.0
    torch.testing.assert_close(memory(torch.randn(1, 5, 8))[1].faded, np.log(2) * torch.arange(1.0, 6)[None])


@pytest.mark.parametrize("slots", [1, 2, 5, 30])
def test_slots_hold_the_steps_of_the_largest_gates_so_far_and_of_equal_ones_the_latest(slots):
    write = torch.from_numpy(np.random.default_rng(1).integers(-3, 3, (3, 19))).float()
    steps, held = held_before(write, slots)
    assert steps.shape == held.shape == (3, 19, slots)
    for row in range(3):
        for t in range(19):
            wanted = sorted(range(t), key=lambda step, row=row: (-write[row, step], -step))[:slots]
            assert sorted(steps[row, t][held[row, t]].tolist()) == sorted(wanted)


def test_a_step_whose_gate_is_shut_is_not_read():
    memory = Slots(8, 3)
    tokens = torch.randn(1, 4, 8)
    for bias, share in ((-50.0, 0.0), (50.0, 0.2)):
        torch.nn.init.zeros_(memory.write.weight)
        torch.nn.init.constant_(memory.write.bias, bias)
        _, read = memory(tokens)
        found = read.scores[0, 3].exp().sum().item()
        assert (found < 1e-9) == (share == 0)
        assert found >= share


# --- what pairs say --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[10, 100, 10_000])
def at_once(request, monkeypatch):
    monkeypatch.setattr(losses, "FOUND_TOGETHER", request.param)


def counted(batch):
    """Pairs of the annotated episodes: episode, p, q, how often."""
    return [(int(e), int(p), int(q), float(m)) for e, p, q, m in zip(*batch.pairs, strict=True) if e < batch.rows]


def several():
    """Demonstrations with steps recalled from several others, some twice; one of them is not annotated."""
    wanted = [[(0, 3, 2), (2, 3)], None, [(1, 2)], [(0, 9), (4, 9, 3), (4, 20), (13, 20, 2), (2, 7)]]
    tables = [
        PairTable.nothing([length]) if rows is None else PairTable.of([(*row, 1)[:3] for row in rows], length)
        for rows, length in zip(wanted, LENGTHS, strict=True)
    ]
    return replace(packed_demos(GRID, LENGTHS, 4), pairs=PairTable.join(tables))


def batches():
    """The same episodes as a batch of their size, and in a rounded shape with fillers."""
    data = DemoData(several())
    yield data.batch(np.arange(4))
    numbers, shape = data.numbers(np.arange(4), rounded=True)
    yield data.assemble(torch.from_numpy(numbers), shape)


@pytest.mark.usefixtures("at_once")
def test_a_probe_is_taught_by_info_nce_over_the_episodes_own_earlier_steps():
    for batch in batches():
        generator = torch.Generator().manual_seed(3)
        query, key = (torch.randn(4, 21, 6, generator=generator) for _ in range(2))
        shape = (0, 0, 0, batch.longest - 21)
        query, key = (torch.nn.functional.pad(own, shape).requires_grad_() for own in (query, key))
        loss = losses.retrieval_loss(query, key, batch)
        pairs, ends = counted(batch), np.cumsum([0, *LENGTHS])
        frames = [batch.frame[ends[e] + p] for e, p, _, _ in pairs]
        assert len(pairs) == 8
        expected = 0.0
        for (e, p, q, times), frame in zip(pairs, frames, strict=True):
            # Eight pairs, all of them eight times among the 64 others, which are all recalled steps but equal ones.
            others = [key[o, r] for (o, r, _, _), other in zip(pairs, frames, strict=True) if other != frame] * 8
            choice = torch.cat([key[e, :q], torch.stack(others)])
            expected += times * ((query[e, q] @ choice.T).logsumexp(0) - query[e, q] @ key[e, p])
        torch.testing.assert_close(loss, expected / batch.totals.things)
        own = torch.autograd.grad(loss, (query, key))
        for mine, right in zip(own, torch.autograd.grad(expected / batch.totals.things, (query, key)), strict=True):
            torch.testing.assert_close(mine, right, atol=1e-6, rtol=1e-4)


def test_gates_are_taught_what_is_recalled_later_and_not_to_let_it_fade():
    for batch in batches():
        generator = torch.Generator().manual_seed(4)
        write = torch.randn(4, batch.longest, generator=generator)
        steps, things, missed, waste = float(sum(LENGTHS)), float(batch.totals.things), 0.0, 0.0
        pairs = counted(batch)
        for e, p, _, times in pairs:
            missed -= times * float(write[e, p].sigmoid().log())
        recalled = {(e, p) for e, p, *_ in pairs}
        for e in (0, 2, 3):
            for t in range(LENGTHS[e]):
                waste -= 0 if (e, t) in recalled else float((1 - write[e, t].sigmoid()).log())
        assert losses.write_loss(write, batch).item() == pytest.approx(missed / things + waste / steps, rel=1e-5)
        faded = torch.rand(4, batch.longest, generator=generator).cumsum(1)
        expected = sum(times * float(torch.log1p(faded[e, q] - faded[e, p])) for e, p, q, times in pairs)
        assert losses.fading_loss(faded, batch).item() == pytest.approx(expected / things, rel=1e-5)


def test_what_is_read_of_slots_is_led_to_the_pairs_that_they_hold():
    for batch in batches():
        model = small("slots")
        with torch.no_grad():
            read = model(batch, (RECALL_HEAD,)).watched[RECALL_HEAD]
        matrix = read.of(Block(0, 4, 0, batch.longest))
        expected, missing = 0.0, 0
        for e, p, q, times in counted(batch):
            if p in read.steps[e, q][read.scores[e, q] > NEVER]:
                expected -= times * float(matrix[e, q, p])
            else:
                missing += 1
        assert missing
        found = losses.read_loss(read.steps, read.scores, batch).item()
        assert found == pytest.approx(expected / float(batch.totals.things), rel=1e-5)


@pytest.mark.parametrize("name", ["gru", "lru", "slots"])
def test_a_rounded_batch_has_the_same_losses_and_gradients(name):
    found = []
    for batch in batches():
        model = small(name)
        loss = loss_of(model(batch, (RECALL_HEAD,)), batch, model.config, name)
        loss.total.backward()
        found.append([loss.total.detach(), *(parameter.grad for parameter in model.parameters())])
    for exact, rounded in zip(*found, strict=True):
        torch.testing.assert_close(exact, rounded, atol=1e-5, rtol=1e-4)


def test_wrong_sizes_are_refused():
    for kind, options in ((LruConfig, {"kept": 16}), (SlotsConfig, {"slots": 0}), (GruConfig, {"span": 1.0})):
        with pytest.raises(UserError, match=f"model {next(iter(options))}: "):
            kind(GRID, 4, d_model=16, **options)
    with pytest.raises(UserError, match="model embedder: 'lookup'"):
        GruConfig(VECTOR, 4, embedder="lookup")
