"""The streaming policy equals the full forward pass, and fits only its own task."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import EVALUATION_START, evaluation_seed
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos import Demonstration
from attentiontuner.evaluation.opening import load_policy, recalled_steps, success_during_training
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.evaluation.rollout import EpisodeResult, rollout
from attentiontuner.models.heads import Head, parse_heads
from attentiontuner.models.sizes import RECALL_HEAD, RecallConfig, TransformerConfig
from attentiontuner.models.transformer import Transformer
from attentiontuner.runs.config import paper_config
from attentiontuner.runs.run import Run, Trained
from attentiontuner.tasks.task import get_task
from tests.evaluation.toys import RecallEnv, recall_task
from tests.models.test_transformer import EVERY_KIND, GRID, IMAGE, PARTS, VECTOR, packed_demos, small

SEEDS = [2**30 + index for index in range(30)]


def seen(packed, steps):
    """What an environment shows at these steps of packed demonstrations."""
    return packed.observation.decode(packed.frames[packed.frame_index[steps]])


@pytest.mark.parametrize("heads", ["none", "1:1", "2:2", "1:all", "1:1,2:2", "all"])
@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_streaming_equals_the_full_forward_pass(observation, heads):
    """Two rows play four episodes of different lengths; a row starts its second one while the other goes on."""
    model = small(observation)
    supervised = parse_heads(heads, 2, 2)
    lengths = [5, 8, 7, 3]
    packed = packed_demos(observation, lengths, actions=4)
    with torch.no_grad():
        full = model(DemoData(packed).batch(np.arange(4)), supervised)
    rows = [
        [(0, t) for t in range(5)] + [(2, t) for t in range(7)],
        [(1, t) for t in range(8)] + [(3, t) for t in range(3)],
    ]
    policy = ModelPolicy(model, max_steps=8, watch=supervised)
    policy.reset(2)
    for (first, t1), (second, t2) in zip(*rows, strict=False):
        policy.restart(np.array([row for row, time in enumerate((t1, t2)) if time == 0], np.int64))
        steps = packed.starts[[first, second]] + [t1, t2]
        logits = policy.distribution(seen(packed, steps))
        assert torch.allclose(logits, full.distribution[steps], atol=1e-4)
        for head in supervised:
            for row, (episode, time) in enumerate(((first, t1), (second, t2))):
                expected = full.watched[head].log_attention()[episode, 2 * time, 0 : 2 * time + 1 : 2].exp()
                assert np.allclose(policy.weights[head][row, : time + 1], expected, atol=1e-5)
                assert not policy.weights[head][row, time + 1 :].any()
        policy._last = packed.actions[steps].copy()


def test_streaming_equals_the_full_forward_pass_at_paper_size():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(GRID, 7)).eval()
    packed = packed_demos(GRID, [12, 9], actions=7)
    with torch.no_grad():
        full = model(DemoData(packed).batch(np.arange(2))).distribution
    policy = ModelPolicy(model, max_steps=145)
    policy.reset(1)
    for t in range(12):
        logits = policy.distribution(seen(packed, slice(t, t + 1)))
        assert torch.allclose(logits[0], full[t], atol=1e-4)
        policy._last = packed.actions[t : t + 1].copy()


def toy_model(seed=0, **sizes):
    torch.manual_seed(seed)
    config = {"d_model": 16, "layers": 2, "heads": 2, "feedforward": 32, **sizes}
    return Transformer(TransformerConfig(recall_task().observation, 4, **config)).eval()


def test_rollouts_of_a_model_do_not_depend_on_workers_or_batch():
    task = recall_task()
    alone = rollout(ModelPolicy(toy_model(), 12), task, SEEDS, batch=1, workers=0)
    for batch, workers in ((7, 0), (7, 2), (30, 1)):
        assert rollout(ModelPolicy(toy_model(), 12), task, SEEDS, batch=batch, workers=workers) == alone


def test_a_policy_of_another_task_is_refused():
    with pytest.raises(UserError, match=rf"^episode 0 \(seed {SEEDS[0]}\) cannot begin: .*grid 2×2×1.*grid 7×7×3"):
        rollout(ModelPolicy(toy_model(), 200), get_task("hallway"), SEEDS, workers=0)
    with pytest.raises(UserError, match="trained on task 'hallway', this is task 'toy-recall'"):
        rollout(ModelPolicy(toy_model(), 12, task="hallway"), recall_task(), SEEDS, workers=0)


def test_a_policy_makes_room_for_a_longer_task():
    expected = rollout(ModelPolicy(toy_model(), 12), recall_task(), SEEDS, workers=0)
    small = ModelPolicy(toy_model(), 3)
    small.reset(len(SEEDS))
    assert rollout(small, recall_task(), SEEDS, workers=0) == expected
    assert max(result.length for result in expected) > 3


def test_wrong_shapes_and_too_long_episodes_are_refused():
    policy = ModelPolicy(toy_model(), 2)
    policy.reset(3)
    with pytest.raises(UserError, match=r"reset for 3 rows, these are observations of 2 rows"):
        policy.act(np.zeros((2, 2, 2, 1), np.uint8))
    policy.act(np.zeros((3, 2, 2, 1), np.uint8))
    policy.restart(np.array([0, 2]))
    policy.act(np.zeros((3, 2, 2, 1), np.uint8))
    with pytest.raises(UserError, match="row 1 is longer than the 2 steps"):
        policy.act(np.zeros((3, 2, 2, 1), np.uint8))


def test_evaluation_during_training_leaves_the_model_as_it_was():
    model = toy_model().train()
    evaluate = success_during_training(recall_task(), episodes=20, seed=0, workers=0)
    rate = evaluate(model)
    assert model.training
    assert 0 <= rate <= 1
    assert evaluate(model) == rate
    results = rollout(ModelPolicy(toy_model(), 12), recall_task(), SEEDS[:20], workers=0)
    assert rate == np.mean([result.success for result in results])


def test_the_best_model_is_not_judged_on_the_episodes_that_chose_it(monkeypatch):
    played = []

    def note(policy, task, seeds, **how):
        played.extend(seeds)
        return [EpisodeResult(0, seed, True, 1.0, 1) for seed in seeds]

    monkeypatch.setattr("attentiontuner.evaluation.evaluate.rollout", note)
    success_during_training(recall_task(), episodes=100)(toy_model())
    assert len(played) == 100
    assert min(played) >= EVALUATION_START
    assert not set(played) & {evaluation_seed(0, index) for index in range(100_000)}


@pytest.fixture
def trained(monkeypatch):
    """Every run holds the toy model, supervised at head 1:1."""
    monkeypatch.setattr("attentiontuner.tasks.task._TASKS", {"toy-recall": recall_task()})
    model = toy_model()
    config = paper_config(recall_task(), model={"d_model": 16, "layers": 2, "heads": 2, "feedforward": 32})
    monkeypatch.setattr(Run, "load_model", lambda run, best=False: Trained(run, model, config, ""))
    return model


def test_load_policy_knows_task_and_horizon(trained):
    policy = load_policy("run", device="cpu")
    assert (policy.task, policy.max_steps) == ("toy-recall", 12)
    policy.reset(2)
    assert policy.act(np.zeros((2, 2, 2, 1), np.uint8)).shape == (2,)


def test_recalled_steps_are_the_attention_of_the_supervised_head(trained):
    generator = np.random.default_rng(1)
    observations = generator.integers(0, 10, (9, 2, 2, 1)).astype(np.uint8)
    actions = generator.integers(0, 4, 9)
    demonstration = Demonstration(observations, actions, np.zeros(9), True, False, 1, True)
    policy = ModelPolicy(trained, 9, watch=[Head(0, 0)])
    policy.reset(1)
    weights = np.zeros((9, 9))
    for q in range(9):
        policy.observe(observations[q : q + 1], actions[q : q + 1])
        weights[q] = policy.weights[Head(0, 0)][0]
    found = recalled_steps("run", demonstration, threshold=0.08)
    expected = [(p, q) for q in range(9) for p in range(q) if weights[q, p] >= 0.08]
    assert [(p, q) for p, q, _ in found] == expected
    assert 0 < len(expected) < 36
    assert all(weight == pytest.approx(weights[q, p]) for p, q, weight in found)
    wrong = Demonstration(
        np.zeros((2, 3, 3, 1), np.uint8), np.zeros(2, int), np.zeros(2), True, False, 1, True, episode=4
    )
    with pytest.raises(UserError, match=r"episode 4 does not fit run: step 0 holds .*\(3, 3, 1\), not .*\(2, 2, 1\)"):
        recalled_steps("run", wrong)


@pytest.mark.gpu
@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_the_cuda_graph_computes_what_the_cpu_computes(observation):
    model, packed = small(observation), packed_demos(observation, [8, 8], actions=4)
    here = ModelPolicy(model, max_steps=8, watch=[Head(0, 0)])
    there = ModelPolicy(small(observation).cuda(), max_steps=8, watch=[Head(0, 0)])
    for episode in range(2):  # the second one replays the graph recorded in the first
        here.reset(2)
        there.reset(2)
        for t in range(8):
            if t == 5:
                here.restart(np.array([1]))
                there.restart(np.array([1]))
            frames = seen(packed, [t, 8 + t])
            expected = here.distribution(frames)
            assert torch.allclose(there.distribution(frames).cpu(), expected, atol=1e-4), (episode, t)
            assert np.allclose(there.weights[Head(0, 0)], here.weights[Head(0, 0)], atol=1e-5)
            here._last = there._last = packed.actions[[t, 8 + t]].copy()


@pytest.mark.gpu
def test_rollouts_on_a_gpu_play_every_episode():
    task = recall_task()
    here = rollout(ModelPolicy(toy_model(), 12), task, SEEDS, workers=0)
    there = rollout(ModelPolicy(toy_model().cuda(), 12), task, SEEDS, batch=8, workers=2)
    assert [result.seed for result in there] == [result.seed for result in here]
    assert np.mean([one == other for one, other in zip(here, there, strict=True)]) > 0.9


@pytest.fixture
def recall_trained(monkeypatch):
    """Every run holds an untrained recall network of the toy task."""
    monkeypatch.setattr("attentiontuner.tasks.task._TASKS", {"toy-recall": recall_task()})
    config = paper_config(recall_task(), "recall", {"d_model": 16, "layers": 2, "heads": 2, "feedforward": 32})
    torch.manual_seed(0)
    model = config.network.build().eval()
    monkeypatch.setattr(Run, "load_model", lambda run, best=False: Trained(run, model, config, ""))
    return model


@pytest.mark.parametrize(
    ("watch", "heads"),
    [
        (None, ()),
        ((), ()),
        ("none", ()),
        ("supervised", (Head(0, 0),)),
        ("1:1", (Head(0, 0),)),
        ("1:1,2:2", (Head(0, 0), Head(1, 1))),
        ("2:all", (Head(1, 0), Head(1, 1))),
        (Head(1, 0), (Head(1, 0),)),
        ([Head(1, 0), Head(1, 0)], (Head(1, 0),)),
    ],
)
def test_heads_to_watch_are_written_as_everywhere_else(trained, watch, heads):
    policy = load_policy("run", device="cpu", watch=watch)
    assert policy.watch == heads
    policy.reset(1)
    policy.act(np.zeros((1, 2, 2, 1), np.uint8))
    assert set(policy.weights) == set(heads)


@pytest.mark.parametrize(
    ("watch", "text"),
    [
        ("7:7", "there is no head 7:7 in a model of 2 layers × 2 heads"),
        ("first", "heads 'first': write layer:head from 1.*supervised"),
        ("", "heads '': write layer:head from 1"),
        (["1:1"], r"watch=\['1:1'\]: write"),
        ([(1, 1)], r"watch=\[\(1, 1\)\]: write"),
        ([(7, 7)], r"watch=\[\(7, 7\)\]: write"),
        (True, "watch=True: write"),
        ([Head(7, 7)], "there is no head 8:8 in a model of 2 layers × 2 heads"),
        ([Head(-1, 0)], "there is no head 0:1 in a model of 2 layers × 2 heads"),
    ],
)
def test_heads_that_are_none_are_refused_when_the_policy_is_loaded(trained, watch, text):
    with pytest.raises(UserError, match=text) as caught:
        load_policy("run", device="cpu", watch=watch)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("watch", ["supervised", "1:1", "all", [RECALL_HEAD]])
def test_a_recall_network_has_one_head_to_watch(recall_trained, watch):
    assert load_policy("run", device="cpu", watch=watch).watch == (RECALL_HEAD,)


@pytest.mark.parametrize("watch", ["1:2", "2:1", "7:7", ["1:1"], [(1, 1)], [Head(1, 1)]])
def test_a_recall_network_refuses_other_heads(recall_trained, watch):
    with pytest.raises(UserError, match=r"there is no head \d:\d in a model of 1 layer × 1 head|write watch=\"1:1\""):
        load_policy("run", device="cpu", watch=watch)


@pytest.mark.parametrize(("network", "threshold"), [("trained", 0.12), ("recall_trained", 0.00045)])
def test_what_each_row_recalls(network, threshold, request):
    """Two rows, the second begins anew on the way: steps count from its own beginning, and lie before the present."""
    request.getfixturevalue(network)
    policy = load_policy("run", device="cpu", watch="supervised")
    policy.reset(2)
    generator = np.random.default_rng(1)
    lengths = set()
    for time in range(7):
        if time == 4:
            policy.restart([1])
        policy.act(generator.integers(0, 10, (2, 2, 2, 1)).astype(np.uint8))
        now = [time, time - 4 if time >= 4 else time]
        weights = policy.weights[Head(0, 0)]
        for row, found in enumerate(policy.recalled(threshold)):
            assert {p for p, _ in found} == {p for p in range(now[row]) if weights[row, p] >= threshold}
            assert [weight for _, weight in found] == sorted((weight for _, weight in found), reverse=True)
            assert all(weight == weights[row, p] for p, weight in found)
            lengths.add(len(found))
        assert [sorted(p for p, _ in found) for found in policy.recalled(0)] == [list(range(end)) for end in now]
    assert len(lengths) > 1
    first, _ = policy.recalled(0)
    policy.keep(np.array([0]))
    assert policy.recalled(0) == [first]


def test_the_largest_of_several_watched_heads_counts(trained):
    policy = load_policy("run", device="cpu", watch="all")
    policy.reset(1)
    for value in range(5):
        policy.act(np.full((1, 2, 2, 1), value, np.uint8))
    largest = np.max([weights[0] for weights in policy.weights.values()], axis=0)
    assert dict(policy.recalled(0)[0]) == {p: largest[p] for p in range(4)}


def test_what_is_recalled_needs_a_watched_head_and_a_step(trained):
    policy = load_policy("run", device="cpu")
    policy.reset(1)
    policy.act(np.zeros((1, 2, 2, 1), np.uint8))
    with pytest.raises(UserError, match='watches no head: load it with watch="supervised"'):
        policy.recalled()
    policy = load_policy("run", device="cpu", watch="supervised")
    with pytest.raises(UserError, match="call act first"):
        policy.recalled()
    policy.reset(1)
    policy.act(np.zeros((1, 2, 2, 1), np.uint8))
    assert policy.recalled() == [[]]
    policy.reset(1)
    with pytest.raises(UserError, match="call act first"):
        policy.recalled()


def test_the_page_shows_how_to_ask_what_is_recalled(trained, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "evaluation.md"
    (block,) = [text for text in re.findall(r"```python\n(.*?)```", page.read_text(), re.S) if ".recalled(" in text]
    said = []
    monkeypatch.setattr(RecallEnv, "takes", (int, np.integer))
    code = compile(block.replace("hallway", "toy-recall"), page.name, "exec")
    exec(code, {"print": lambda *words: said.append(words)})
    assert len(said) >= 3
    assert all(p < step for step, found in said for p, _ in found)


def test_the_loops_on_the_page_run(trained, monkeypatch, tmp_path):
    """One after another, as a reader would; the exported program plays as the policy does."""
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    section = page[page.index("## In a loop of your own") : page.index("### What is recalled")]
    blocks = re.findall(r"```python\n(.*?)```", section, re.S)
    assert len(blocks) == 4
    said, played = [], []
    monkeypatch.setattr(RecallEnv, "takes", (int, np.integer))
    monkeypatch.chdir(tmp_path)
    step = RecallEnv.step
    monkeypatch.setattr(RecallEnv, "step", lambda env, action: played.append(int(action)) or step(env, action))
    names = {"print": lambda *words: said.append(words)}
    for block in blocks:
        begin = len(played)
        exec(compile(block.replace("hallway", "toy-recall"), "evaluation.md", "exec"), names)
    assert [words[0] for words in said] == [0, 1, 2, (8, 4)]
    exported = played[begin:]
    policy, env = ModelPolicy(trained, 12), RecallEnv()
    policy.reset(1)
    observation, ended = env.reset(seed=0)[0], False
    while not ended:
        observation, _, ended, _, _ = env.step(policy.act(observation[None])[0])
    assert len(exported) >= 3
    assert played[-len(exported) :] == exported


def test_where_a_task_is_not_registered_the_longest_demonstration_is_the_longest_episode(
    trained, monkeypatch, tmp_path
):
    monkeypatch.setattr("attentiontuner.tasks.task._TASKS", {})
    config = Run("any").load_model().config
    Run(tmp_path / "new").begin(config, {}, {}, longest=7)
    assert load_policy(tmp_path / "new", device="cpu").max_steps == 7
    assert load_policy(tmp_path / "new", device="cpu", max_steps=5).max_steps == 5
    Run(tmp_path / "run").begin(config, {}, {})  # as before 0.2: it does not know
    with pytest.raises(UserError, match=r"run.*'toy-recall'.*import the file that registers it.*or give max_steps="):
        load_policy(tmp_path / "run", device="cpu")


def test_a_policy_that_was_not_reset_says_so():
    policy = ModelPolicy(toy_model(), 12)
    with pytest.raises(UserError, match=r"call reset\(n\) first"):
        policy.act(np.zeros((1, 2, 2, 1), np.uint8))
    with pytest.raises(UserError, match=r"call reset\(n\) first"):
        policy.restart(np.array([0]))


def test_lists_and_whole_numbers_are_observations():
    policy, values = ModelPolicy(toy_model(), 12), np.arange(8, dtype=np.uint8).reshape(2, 2, 2, 1)
    policy.reset(2)
    expected = policy.distribution(values).clone()
    for given in (values.tolist(), values.astype(np.int64), torch.from_numpy(values)):
        policy.reset(2)
        assert torch.equal(policy.distribution(given), expected)
    policy.reset(2)
    assert policy.act(values.tolist()).shape == (2,)


def blank(spec, rows=1):
    return spec.decode(np.zeros((rows, spec.nbytes), np.uint8))


FITS_NOT = "the observation of row 0 does not fit the policy: "


@pytest.mark.parametrize(
    ("spec", "given", "text"),
    [
        (IMAGE, np.zeros((1, 84, 84, 3)), FITS_NOT + "float64, not uint8: give .*uint8"),
        (GRID, np.zeros((1, 7, 7, 3), np.float32), FITS_NOT + "float32, not uint8: give whole numbers"),
        (IMAGE, np.full((1, 84, 84, 3), 256), FITS_NOT + "the number 256: give whole numbers from 0 to 255"),
        (GRID, np.full((1, 7, 7, 3), -1), FITS_NOT + "the number -1: give whole numbers from 0 to 255"),
        (GRID, np.full((1, 7, 7, 3), 11), FITS_NOT + "symbol 11 in channel 0, which has 11 symbols"),
        (VECTOR, np.full((1, 5), np.nan), FITS_NOT + "a number that is not finite"),
        (VECTOR, np.full((1, 5), 1e300), FITS_NOT + "a number that is not finite"),
        (VECTOR, np.full((1, 5), "a"), FITS_NOT + "no array of numbers.*float32 of shape"),
        (VECTOR, [[1.0, 2.0], [3.0]], FITS_NOT + "no array of numbers, but list"),
        (PARTS, {"map": np.zeros((1, 3, 3, 2), np.uint8)}, FITS_NOT + "parts map, eye, joints, text are promised"),
        (PARTS, blank(PARTS) | {"joints": np.full((1, 3), np.inf)}, FITS_NOT + "part 'joints': a number that is not"),
        (PARTS, np.zeros((1, 5)), FITS_NOT + "parts map, eye, joints, text are promised"),
    ],
)
def test_observations_of_another_kind_are_refused(spec, given, text):
    policy = ModelPolicy(small(spec), 4)
    policy.reset(1)
    with pytest.raises(UserError, match=text) as caught:
        policy.act(given)
    assert "\n" not in str(caught.value)
    for _ in range(4):  # what was refused took no room
        policy.act(blank(spec))


def test_one_observation_alone_is_told_how_it_becomes_a_batch():
    parts = {name: rows[0] for name, rows in blank(PARTS).items()}
    for spec, alone, how in (
        (GRID, blank(GRID)[0], "observation[None]"),
        (GRID, blank(GRID)[0].tolist(), "[observation]"),
        (PARTS, parts, "{name: part[None] for name, part in observation.items()}"),
    ):
        policy = ModelPolicy(small(spec), 4)
        policy.reset(1)
        with pytest.raises(UserError, match=re.escape(f"{FITS_NOT}it is one alone; give a batch: {how}")):
            policy.act(alone)


def test_the_row_that_does_not_fit_is_named():
    policy, given = ModelPolicy(small(GRID), 4), blank(GRID, 3)
    policy.reset(3)
    given[1, 2, 3, 2] = 3
    with pytest.raises(UserError, match="the observation of row 1 does not fit the policy: symbol 3 in channel 2"):
        policy.act(given)


def test_vectors_in_double_precision_are_cast():
    policy, values = ModelPolicy(small(VECTOR), 4), np.random.default_rng(0).normal(size=(1, 5))
    policy.reset(1)
    expected = policy.distribution(values.astype(np.float32)).clone()
    policy.reset(1)
    assert torch.equal(policy.distribution(values), expected)


def test_during_training_a_task_that_cannot_be_sent_to_workers_is_played_here():
    task = dataclasses.replace(recall_task(), success=lambda reward, terminated, info: reward > 0)
    model = Transformer(TransformerConfig(task.observation, task.actions, d_model=16, layers=1, feedforward=32))
    assert 0 <= success_during_training(task, 40)(model) <= 1


def test_a_policy_made_by_hand_watches_no_other_head_of_a_recall_network():
    model = RecallConfig(VECTOR, 2, d_model=16, heads=2).build()
    with pytest.raises(UserError, match='watch="2:1": the heads of this network that can be watched are 1:1'):
        ModelPolicy(model, 5, watch=[Head(1, 0)])
