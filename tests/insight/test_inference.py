"""Pairs from labels that are off, of a few demonstrations, or by several people."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.pairs import PairTable
from attentiontuner.insight import inference, pair_finder
from attentiontuner.insight import need as need_of
from attentiontuner.insight.inference import Inferred, infer_pairs
from attentiontuner.insight.need import Need, find_need
from attentiontuner.insight.pair_finder import ASKING, PLAIN, PairFinder, average_loss, finder, sorts_for
from attentiontuner.insight.readings import SPREADS, Readings
from tests.insight.cues import ACTIONS, BOTH, GRID, STEPS, VECTOR, cue_store

EPISODES = 60


@pytest.fixture(scope="module")
def cues(tmp_path_factory):
    """A data set, the pairs of its expert, and the need of its steps."""
    store = cue_store(tmp_path_factory.mktemp("cues") / "data", EPISODES, GRID)
    passes, need_of.PASSES = need_of.PASSES, 6
    found = find_need(store)
    need_of.PASSES = passes
    return store, store.read_pairs(), found


@pytest.fixture(autouse=True)
def sooner(monkeypatch):
    """Labels of a tiny data set are soon learned, by heads of one sort."""
    monkeypatch.setattr(inference, "STEPS", 300)
    monkeypatch.setattr(inference, "CHECKED", 80)
    monkeypatch.setattr(inference, "sorts_for", lambda _: (ASKING,))


def infer(cues, *labels: PairTable, seed: int = 0) -> Inferred:
    store, _, need = cues
    return infer_pairs(store, np.arange(EPISODES), labels, need, seed=seed)


def agreement(found: PairTable, true: PairTable) -> float:
    """The share of pairs that both have, of those that one has."""
    ours, theirs = (set(map(tuple, table.rows().tolist())) for table in (found, true))
    return len(ours & theirs) / len(ours | theirs)


def test_labels_that_are_right_stay_as_they_are(cues):
    found = infer(cues, cues[1])
    assert found.exact
    assert found.pairs == cues[1]
    assert found.words(["anna"]) == ""


def test_right_labels_side_by_side_do_not_compete(cues):
    pairs = [
        (episode, p, q) for episode, cue in cues[1].rows()[:, :2] for q in range(2, STEPS) for p in range(q) if p != cue
    ]
    episode, p, q = np.array(pairs, np.int32).T
    labels = PairTable(cues[1].lengths, cues[1].annotated, episode, p, q, np.ones_like(p))
    found = infer(cues, labels)
    assert found.exact
    assert found.pairs == labels


def test_labels_that_are_off_are_moved_where_they_belong(cues):
    off = cues[1].perturb(1, 1, np.random.default_rng(0))
    assert agreement(off, cues[1]) < 0.3
    found = infer(cues, off)
    assert not found.exact
    assert agreement(found.pairs, cues[1]) > 0.9
    assert "anna is off by about" in found.words(["anna"])
    assert f"pairs of {EPISODES} demonstrations moved where they belong" in found.words(["anna"])


@pytest.mark.slow
def test_pairs_are_found_in_intervals_that_lie_around_them_somehow(cues):
    labels, rng = cues[1], np.random.default_rng(0)
    before_p, before_q = (rng.integers(0, most, len(labels), np.int32) for most in (3, 2))
    wide = replace(
        labels,
        p=np.maximum(labels.p - before_p, 0),
        p_last=labels.p + 2 - before_p,
        q=labels.q - before_q,
        q_last=labels.q + 1 - before_q,
    )
    found = infer(cues, wide)
    assert not wide.exact
    assert found.moved == EPISODES
    assert agreement(found.pairs, labels) > 0.9


def test_demonstrations_without_labels_are_given_pairs(cues, monkeypatch):
    monkeypatch.setattr(inference, "sorts_for", sorts_for)
    few = cues[1].keep_annotations(2 / EPISODES, np.random.default_rng(0))
    found = infer(cues, few)
    assert agreement(found.pairs, cues[1]) > 0.9
    assert found.pairs.annotated.all()
    assert (found.exact, found.added) == (True, EPISODES - 2)


def test_recalled_steps_are_taken_to_be_off_as_far_as_deciding_ones_at_least(cues, monkeypatch):
    store, pairs, need = cues
    readings = [Readings(pairs.perturb(2, 2, np.random.default_rng(0)), 0, 2.0)]
    data = DemoData(store.annotated_by(None).read_packed(np.arange(EPISODES)), torch.device("cpu"))
    finder = PairFinder(data, store.actions, readings, np.ones(len(need.entropy)), 0, False, PLAIN)
    for likeliest, expected in ((0.25, 2.0), (5.0, 5.0)):
        finder._likely = [torch.zeros(len(SPREADS))]
        told = torch.tensor([float(spread == likeliest) for spread in SPREADS])
        monkeypatch.setattr(pair_finder, "likelihoods", lambda *_, told=told: told)
        finder._look(np.arange(4))
        assert finder.spreads_p == [expected]


def test_a_plain_head_looks_for_the_same_whoever_asks():
    for sort in (PLAIN, ASKING):
        model = finder(GRID, ACTIONS, sort)
        _, projected = model.layers[0].project(torch.randn(4, 32))
        query = projected[:, 0, 0]
        assert torch.equal(query[0], query[1]) != sort.asks
    assert [sorts_for(each) for each in (GRID, VECTOR, BOTH)] == [(PLAIN, ASKING), (ASKING,), (ASKING,)]


def test_the_sort_of_head_is_the_one_by_which_unseen_labels_are_likelier(cues, monkeypatch):
    tried = []
    monkeypatch.setattr(inference, "STEPS", 1)
    monkeypatch.setattr(inference, "CHECKED", 1)
    monkeypatch.setattr(inference, "sorts_for", sorts_for)
    monkeypatch.setattr(PairFinder, "likelihood", lambda self, rows: float(self.sort.asks))
    monkeypatch.setattr(PairFinder, "learn", lambda self, *_: tried.append((self.seed, self.sort)))
    infer(cues, cues[1].perturb(1, 1, np.random.default_rng(0)))
    assert tried == [(2, PLAIN), (2, ASKING), (0, PLAIN), (0, ASKING), (1, ASKING)]
    tried.clear()
    few = cues[1].keep_annotations(12 / EPISODES, np.random.default_rng(0))
    infer(cues, few.perturb(1, 1, np.random.default_rng(0)))
    assert tried == [(2, PLAIN), (2, ASKING), (0, PLAIN), (1, PLAIN)]  # few: they would be learned by heart
    tried.clear()
    infer(cues, cues[1].keep_annotations(2 / EPISODES, np.random.default_rng(0)))
    assert tried == [(0, PLAIN), (1, PLAIN)]  # none to spare to judge by


def test_of_few_labels_that_are_off_all_are_learned_from_by_plain_heads_alone(cues, monkeypatch):
    learned = []
    monkeypatch.setattr(PairFinder, "learn", lambda self, rows, *_: learned.append(self.annotated[rows].sum()))
    few = cues[1].keep_annotations(12 / EPISODES, np.random.default_rng(0)).perturb(1, 1, np.random.default_rng(0))
    infer(cues, few)
    assert learned == [6, 6, 6]
    learned.clear()
    monkeypatch.setattr(inference, "sorts_for", lambda _: (PLAIN,))
    infer(cues, few)
    assert learned == [6, 12, 12]


def test_need_says_what_steps_recall_on_average_alone():
    rate = torch.tensor([0.5, 0.5, 2.0, 2.0])
    mass = torch.tensor([0.2, 0.8, 4.0, 0.0], requires_grad=True)
    average_loss(mass, rate).backward()
    assert torch.allclose(mass.grad, torch.zeros(4))
    (more,) = torch.autograd.grad(average_loss(mass * torch.tensor([2.0, 2.0, 1.0, 1.0]), rate), mass)
    assert (more[:2] > 0.5).all()
    assert torch.allclose(more[2:], torch.zeros(2))


def test_amounts_become_whole_numbers():
    amounts = np.array([0.78, 0.83, 0.8, 0.82, 1.62, 2.35, 0.35])
    scale = inference.scale_to_whole(amounts)
    assert np.rint(scale * amounts).tolist() == [1, 1, 1, 1, 2, 3, 0]
    assert inference.scale_to_whole(np.array([1.0, 2.0, 1.0])) == pytest.approx(1)
    assert inference.scale_to_whole(np.array([0.4])) == 1


def test_where_two_heads_do_not_find_the_same_nothing_is_changed(cues, monkeypatch):
    monkeypatch.setattr(inference, "AGREED", 1.1)
    off = cues[1].perturb(1, 1, np.random.default_rng(0))
    found = infer(cues, off)
    assert (found.exact, found.moved, found.added) == (False, 0, 0)
    assert found.pairs == off
    assert "too little in common" in found.words(["anna"])
    few = cues[1].keep_annotations(2 / EPISODES, np.random.default_rng(0))
    assert infer(cues, few).pairs == few


def test_who_is_early_is_not_followed(cues):
    early = cues[1].shift(-1, -1)
    found = infer(cues, early)
    assert found.late == (-1,)
    assert agreement(found.pairs, cues[1]) > 0.9
    assert "anna marks 1 step too early" in found.words(["anna"])
    assert "--labels exact" in found.words(["anna"])


def test_right_labels_that_look_late_stay_as_they_are(cues, monkeypatch):
    elsewhere = cues[1].perturb(3, 3, np.random.default_rng(0))
    monkeypatch.setattr(inference, "read_labels", lambda labels, need: Readings(elsewhere, 3, 1.0))
    found = infer(cues, cues[1])
    assert (found.exact, found.late) == (True, (0,))
    assert found.pairs == cues[1]


def test_labels_that_are_not_moved_stay_on_the_steps_that_were_marked(cues, monkeypatch):
    monkeypatch.setattr(inference, "AGREED", 1.1)
    off = cues[1].shift(-1, -1).perturb(1, 1, np.random.default_rng(0))
    found = infer(cues, off)
    assert (found.exact, found.late) == (False, (0,))
    assert found.pairs == off


def test_two_people_with_habits_of_their_own_say_the_same(cues):
    half = np.arange(EPISODES) < 40
    anna = cues[1].select(np.arange(EPISODES))
    anna = PairTable.join([anna.select(np.flatnonzero(half)), PairTable.nothing(anna.lengths[~half])])
    bob = cues[1].shift(-1, -1)
    found = infer(cues, anna, bob)
    assert found.late == (0, -1)
    assert agreement(found.pairs, cues[1]) > 0.9


def test_what_is_drawn_is_told_by_the_seed_and_nobody_elses(cues):
    off = cues[1].perturb(1, 1, np.random.default_rng(0))
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = (infer(cues, off, seed=seed).pairs for seed in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert first == again
    assert agreement(first, other) > 0.8


def test_it_survives_a_file(cues, tmp_path):
    found = infer(cues, cues[1].keep_annotations(0.2, np.random.default_rng(0)))
    found.save(tmp_path / "pairs.safetensors")
    assert Inferred.load(tmp_path / "pairs.safetensors") == found
    (tmp_path / "pairs.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match="holds no inferred pairs"):
        Inferred.load(tmp_path / "pairs.safetensors")


def test_a_need_of_other_episodes_is_refused(cues):
    store, pairs, need = cues
    with pytest.raises(UserError, match="need of"):
        infer_pairs(store, np.arange(10), [pairs.select(np.arange(10))], need)
    assert isinstance(need, Need)
