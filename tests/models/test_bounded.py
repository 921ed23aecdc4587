"""A bounded memory: with room for everything it is the usual one, and what is worth least leaves it first."""

import re

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.data.windows import Cut, WindowedData
from attentiontuner.evaluation.step_function import map_leaves
from attentiontuner.models.bound import Asked, Bound
from attentiontuner.models.recall import RecallTransformer
from attentiontuner.models.sizes import RECALL_HEAD, RecallConfig
from tests.models.test_recall import with_open_gates
from tests.models.test_transformer import EVERY_KIND, GRID, VECTOR, packed_demos
from tests.models.test_transformer import small as transformer

STEPS = 30


def network(observation=GRID, **options):
    torch.manual_seed(0)
    sizes = {"d_model": 16, "feedforward": 32, "dropout": 0.0, "keeps": True, **options}
    return with_open_gates(RecallTransformer(RecallConfig(observation, 4, **sizes)).eval())


def steps_of(observation, rows, seed=0):
    """What rows see and did before, step by step: `(observations, last actions)`."""
    packed = packed_demos(observation, [STEPS] * rows, 4, seed)
    for t in range(STEPS):
        place = packed.starts + t
        yield torch.from_numpy(packed.frames[packed.frame_index[place]]), torch.from_numpy(packed.actions[place - 1])


def played(model, observation=GRID, rows=2, begins=lambda t: [t == 0, t == 0], watch=()):
    """All that a network says along random episodes, and its cache after each step."""
    cache = model.start(rows, STEPS)
    for t, (seen, last) in enumerate(steps_of(observation, rows)):
        with torch.no_grad():
            distribution, weights = model.step(cache, seen, last, torch.tensor(begins(t)), watch)
        yield distribution, weights, map_leaves(cache, torch.clone)


OPTIONS = [{"positions": False}, {"timing": "added"}, {"layers": 3, "recall_layer": 2}]


@pytest.mark.parametrize(
    ("observation", "options"),
    [*((observation, {}) for observation in EVERY_KIND.values()), *((GRID, options) for options in OPTIONS)],
    ids=[*EVERY_KIND, *map(str, OPTIONS)],
)
def test_with_room_for_everything_it_is_the_usual_memory(observation, options):
    model = network(observation, **options)
    bounded = model.bounded(Bound(20, 10, "score"))
    for usual, own in zip(
        played(model, observation, watch=(RECALL_HEAD,)),
        played(bounded, observation, watch=(RECALL_HEAD,)),
        strict=True,
    ):
        torch.testing.assert_close(own[0], usual[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(own[1][RECALL_HEAD], usual[1][RECALL_HEAD], atol=1e-6, rtol=1e-5)


def restart(t):
    """The second row begins a new episode in the middle."""
    return [t == 0, t in (0, 17)]


class Said(torch.nn.Module):
    """Keep scores that are given step by step, `[R, T]`."""

    def __init__(self, scores):
        super().__init__()
        self.coming = iter(scores.T)

    def forward(self, tokens):
        return next(self.coming)


@pytest.mark.parametrize("by", ["score", "attention", "recent"])
@pytest.mark.parametrize(("recent", "keep"), [(3, 4), (1, 2), (5, 0)])
def test_what_is_worth_least_leaves_first_and_the_newest_steps_stay(by, recent, keep):
    model = network()
    scores = torch.rand(2, STEPS, generator=torch.Generator().manual_seed(1))
    model.keep = Said(scores)
    bounded = model.bounded(Bound(recent, keep, by))
    held = [{}, {}]  # of each row: step → what it is worth
    time = [-1, -1]
    for t, (_, weights, cache) in enumerate(played(bounded, begins=restart, watch=(RECALL_HEAD,))):
        for row in range(2):
            begins = restart(t)[row]
            time[row] = 0 if begins else time[row] + 1
            own = {} if begins else held[row]
            if len(own) == recent + keep:
                old = [step for step in own if step <= time[row] - recent]
                del own[min(old, key=lambda step: (own[step], step))]
            own[time[row]] = float(scores[row, t]) if by == "score" else 0.0
            there = cache.steps[row].tolist()
            assert [step for step in there if step >= 0] == sorted(own)
            assert set(there[len(own) :]) <= {-1}
            if by == "attention":
                for step, weight in zip(sorted(own), weights[RECALL_HEAD][row].tolist(), strict=False):
                    own[step] += weight
            held[row] = own


def test_a_row_that_begins_anew_knows_nothing_of_the_episode_before():
    model = network(VECTOR).bounded(Bound(3, 2))
    *_, (ended, _, _) = played(model, VECTOR, begins=lambda t: [t == 0, t in (0, 28)])
    fresh = model.start(1, STEPS)
    for seen, last in list(steps_of(VECTOR, 2))[28:]:
        alone, _ = model.step(fresh, seen[1:], last[1:], fresh.time < 0)
    torch.testing.assert_close(ended[1:], alone, atol=1e-6, rtol=1e-5)


def test_the_memory_never_grows():
    sizes = {sum(each.numel() for each in leaves_of(cache)) for *_, cache in played(network().bounded(Bound(2, 2)))}
    assert len(sizes) == 1


def leaves_of(cache):
    found = []
    map_leaves(cache, found.append)
    return found


def test_it_plays_as_it_learned_from_windows(monkeypatch):
    """What is decided with some steps left is what the forward pass says of a window that holds them."""
    model = network(layers=1).bounded(Bound(4, 3))
    *_, (streamed, _, cache) = played(model, rows=2)
    packed = packed_demos(GRID, [STEPS] * 2, 4)
    data = WindowedData(packed, 4, 1)
    nothing = np.empty(0, np.int64)
    monkeypatch.setattr(data, "cut", lambda row: Cut(cache.steps[row].numpy(), 3, nothing, nothing, nothing))
    batch = data.batch(np.arange(2))
    assert batch.window.step.view(2, 7)[:, 3:].tolist() == [list(range(STEPS - 4, STEPS))] * 2
    with torch.no_grad():
        forward = model(batch).distribution.view(2, 7, -1)[:, -1]
    torch.testing.assert_close(streamed, forward, atol=1e-5, rtol=1e-5)


def test_the_keep_score_learns_and_teaches_the_network_nothing():
    model = network().train()
    batch = DemoData(packed_demos(GRID, [6, 5], 4)).batch(np.arange(2))
    model(batch).keep.sum().backward()
    taught = {name.split(".")[0] for name, own in model.named_parameters() if own.grad is not None}
    assert taught == {"keep"}


def test_the_other_weights_are_those_of_a_network_without_it():
    states = []
    for keeps in (False, True):
        torch.manual_seed(0)
        states.append(RecallTransformer(RecallConfig(GRID, 4, d_model=16, keeps=keeps)).state_dict())
    without, own = states
    assert set(own) - set(without) == {name for name in own if name.startswith("keep.")}
    assert all(torch.equal(weights, own[name]) for name, weights in without.items())


CHOSEN = {
    (None, None, None, None, False): None,
    (None, None, None, 32, True): Bound(32, 32, "score"),
    (None, None, None, 32, False): Bound(32, 32, "recent"),
    (None, 5, None, 32, True): Bound(32, 5, "score"),
    (3, 0, "attention", None, False): Bound(3, 0, "attention"),
    (None, None, "recent", 32, True): Bound(32, 32, "recent"),
    (None, None, "all", 32, True): None,
    (3, None, "all", 32, True): "--keep-by all keeps every step: leave out --recent and --keep",
    (3, None, None, None, False): "not trained on windows: give both --recent and --keep",
    (3, 3, "score", None, False): "no keep score, which train --window teaches: --keep-by attention or recent",
    (0, 3, None, 32, True): "a memory of 0 recent and 3 kept steps: give at least 1 and 0",
    (1, -1, None, 32, True): "a memory of 1 recent and -1 kept steps: give at least 1 and 0",
    (1, 1, "luck", 32, True): "keep by 'luck': there are score, attention, recent",
}


@pytest.mark.parametrize("given", CHOSEN, ids=str)
def test_what_is_not_said_is_as_it_was_trained(given):
    recent, keep, by, window, scores = given
    wanted = CHOSEN[given]
    if isinstance(wanted, str):
        with pytest.raises(UserError, match=re.escape(wanted)):
            Bound.chosen(Asked(recent, keep, by), window=window, scores=scores)
    else:
        assert Bound.chosen(Asked(recent, keep, by), window=window, scores=scores) == wanted


def test_networks_that_cannot_choose_say_so():
    with pytest.raises(UserError, match="a memory of 5 steps: a transformer network cannot choose what to keep"):
        transformer(GRID).bounded(Bound(3, 2))


def test_old_networks_keep_nothing():
    known = RecallConfig(GRID, 4).to_json()
    del known["keeps"]
    assert RecallConfig.from_json(known).keeps is False
    assert RecallConfig.from_json(known).build().keep is None
