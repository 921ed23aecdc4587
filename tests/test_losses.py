"""The losses: Equation 4 to the letter, and the stable path equal to it in value and gradient."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.data.batch import Layout
from attentiontuner.data.dataset import DemoData
from attentiontuner.data.tokens import expert_of_heads
from attentiontuner.demos.pairs import PairTable
from attentiontuner.losses import memory_cross_entropy, memory_loss, memory_loss_from_scores, recalled_as_wanted
from attentiontuner.models.actions import action_head
from attentiontuner.models.attention import Watched
from attentiontuner.models.heads import Head
from attentiontuner.models.network import Output
from attentiontuner.spaces import ActionSpec
from tests.demos.examples import demonstration, make_writer
from tests.methods.configs import loss_of
from tests.models.test_transformer import GRID, packed_demos


def test_equation_four_by_hand():
    attention = torch.tensor([[[1.0, 0.0], [0.25, 0.75]]])
    expert = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    expected = -(np.log(0.25) + np.log(0.25)) / 4
    assert memory_loss(attention, expert, torch.tensor([2])).item() == pytest.approx(expected)


@pytest.mark.parametrize("loss", [memory_loss, memory_loss_from_scores])
def test_an_array_is_told_how_it_becomes_a_tensor(loss):
    array, tensor = np.eye(2, dtype=np.float32)[None], torch.eye(2)[None]
    assert loss(tensor, tensor, np.array([2])).isfinite()
    with pytest.raises(UserError, match=rf"^{loss.__name__}: expert is a ndarray: give a tensor, torch.as_tensor\(exp"):
        loss(tensor, array, [2])
    with pytest.raises(UserError, match="is a ndarray: give a tensor"):
        loss(array, tensor, [2])


def test_equation_four_counts_each_trajectorys_own_entries():
    generator = torch.Generator().manual_seed(0)
    attention = torch.rand(2, 6, 6, generator=generator).tril().softmax(-1).tril()
    expert = (torch.rand(2, 6, 6, generator=generator) < 0.3).float().tril()
    together = memory_loss(attention, expert, torch.tensor([6, 4]))
    longer = memory_loss(attention[:1], expert[:1], torch.tensor([6]))
    shorter = memory_loss(attention[1:, :4, :4], expert[1:, :4, :4], torch.tensor([4]))
    assert together.item() == pytest.approx(((36 * longer + 16 * shorter) / 52).item())


def exact(scores: torch.Tensor, expert: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Value and gradient of Equation 4 in float64, summed over one matrix."""
    scores = scores.double().requires_grad_()
    n = scores.shape[-1]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    attention = scores.masked_fill(future, -torch.inf).softmax(-1)
    value = memory_loss(attention, expert.double(), torch.tensor([n])) * n * n
    value.backward()
    return value.detach(), scores.grad


def sharp_row(n: int, row: int, column: int, nats: float) -> torch.Tensor:
    scores = torch.zeros(1, n, n)
    scores[0, row, column] = nats
    return scores


@pytest.mark.parametrize(
    "scores",
    [
        torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(1)) * 3,
        sharp_row(8, 6, 2, 18.0),  # the expert's weight is 1 - 1e-7
        sharp_row(8, 6, 4, 18.0),  # a weight the expert does not want is 1 - 1e-7
        sharp_row(8, 6, 4, 30.0),  # the row is wrong by 30 nats
    ],
    ids=["random", "right", "wrong", "30 nats"],
)
def test_stable_path_equals_equation_four(scores):
    expert = torch.zeros(1, 8, 8, dtype=torch.bool)
    expert[0, range(0, 8, 2), range(0, 8, 2)] = True
    expert[0, 6, 2] = True
    value, gradient = exact(scores, expert)
    single = scores.clone().requires_grad_()
    future = torch.ones(8, 8, dtype=torch.bool).triu(1)
    ours = memory_cross_entropy(single.masked_fill(future, -torch.inf).log_softmax(-1), expert).sum()
    ours.backward()
    assert ours.item() == pytest.approx(value.item(), rel=1e-5)
    torch.testing.assert_close(single.grad.double(), gradient, rtol=1e-3, atol=1e-5)


def test_a_row_of_one_key_that_nobody_wants_is_finite():
    scores = torch.zeros(1, 2, 2, requires_grad=True)
    future = torch.ones(2, 2, dtype=torch.bool).triu(1)
    log_attention = scores.masked_fill(future, -torch.inf).log_softmax(-1)
    loss = memory_cross_entropy(log_attention, torch.zeros(1, 2, 2, dtype=torch.bool)).sum()
    loss.backward()
    assert loss.item() == pytest.approx(100 + 2 * np.log(2), rel=1e-4)
    assert torch.isfinite(scores.grad).all()


def random_output(batch, heads):
    generator = torch.Generator().manual_seed(5)
    projected = torch.randn(2 * len(batch.slot), 3, heads, 8, generator=generator)
    watched = {Head(0, head): Watched(projected, head, Layout.of(batch, 2)) for head in range(heads)}
    return Output(action_head(ActionSpec.discrete(4)), torch.randn(len(batch.slot), 4, generator=generator), watched)


def test_terms_are_the_papers_means():
    packed = packed_demos(GRID, [3, 7, 5], 4)
    batch = DemoData(packed).batch(np.array([2, 0, 1]))
    output = random_output(batch, 2)
    loss = loss_of(output, batch)
    expected = torch.nn.functional.cross_entropy(output.distribution, batch.actions)
    assert loss.terms["imitation"].item() == pytest.approx(expected.item(), rel=1e-5)
    expert = expert_of_heads(batch, 2, attend_self=True, split=False).float()
    memory = [
        memory_loss(head.log_attention().exp(), expert[k], 2 * batch.lengths)
        for k, head in enumerate(output.watched.values())
    ]
    assert loss.terms["memory"].item() == pytest.approx(sum(memory).item() / 2, rel=1e-4)
    assert loss.total.item() == pytest.approx((loss.terms["imitation"] + 10 * loss.terms["memory"]).item())
    assert loss.steps.item() == 15


def test_unannotated_episodes_take_part_in_imitation_only():
    packed = packed_demos(GRID, [3, 7, 5], 4)
    keep = np.array([0, 2])
    parts = [packed.pairs.select([0]), PairTable.nothing([7]), packed.pairs.select([2])]
    batch = DemoData(replace(packed, pairs=PairTable.join(parts))).batch(np.array([0, 1, 2]))
    output = random_output(batch, 1)
    log_attention = output.watched[Head(0, 0)].log_attention()[keep]
    expert = expert_of_heads(batch, 1, attend_self=True, split=False)[0][keep].float()
    expected = memory_loss(log_attention.exp(), expert, 2 * batch.lengths[keep])
    assert loss_of(output, batch).terms["memory"].item() == pytest.approx(expected.item(), rel=1e-4)
    nobody = DemoData(replace(packed, pairs=PairTable.nothing([3, 7, 5]))).batch(np.array([0, 1]))
    assert loss_of(random_output(nobody, 1), nobody).terms["memory"].item() == 0


def test_a_matrix_of_truths_or_multiplicities_and_a_list_of_lengths_mean_the_same():
    attention = torch.tensor([[[1.0, 0.0], [0.25, 0.75]]])
    expert = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    usual = memory_loss(attention, expert, torch.tensor([2]))
    assert memory_loss(attention, expert.bool(), [2]) == usual
    assert memory_loss(attention, 3 * expert, (2,)) == usual


@pytest.mark.parametrize(
    ("attention", "expert", "lengths", "text"),
    [
        ((2, 1, 4, 4), (2, 1, 4, 4), [4, 4], r"attention \(2, 1, 4, 4\), .* of several heads give one at a time"),
        ((2, 4, 4), (2, 4, 4), [4], r"lengths \(1,\) must be \[B, n, n\], \[B, n, n\] and \[B\]"),
        ((2, 4, 4), (4, 4), [4, 4], r"expert \(4, 4\)"),
        ((2, 4, 4), (2, 4, 4), [8, 4], "a trajectory of 8 tokens, but attention over 4"),
    ],
)
def test_shapes_that_would_give_a_wrong_number_are_refused(attention, expert, lengths, text):
    with pytest.raises(UserError, match=text):
        memory_loss(torch.full(attention, 0.5), torch.zeros(expert), lengths)


def random_batch(n=9, lengths=(9, 4, 6)):
    """Scores of one head, E with each row's diagonal and a third of its past, and the lengths."""
    draw = torch.Generator().manual_seed(2)
    scores = 3 * torch.randn(len(lengths), n, n, generator=draw)
    expert = (torch.rand(len(lengths), n, n, generator=draw) < 0.3).tril() | torch.eye(n, dtype=torch.bool)
    return scores, expert, lengths


def softmax(scores):
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_loss_of_scores_is_the_loss_of_their_softmax(dtype):
    scores, expert, lengths = random_batch()
    given = scores.to(dtype).requires_grad_()
    loss = memory_loss_from_scores(given, expert, lengths)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    exactly = given.detach().double().requires_grad_()
    expected = memory_loss(softmax(exactly), expert, lengths)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    loss.backward()
    expected.backward()
    digits = {torch.bfloat16: 1e-2, torch.float16: 1e-3}.get(dtype, 1e-5)
    torch.testing.assert_close(given.grad.double(), exactly.grad, rtol=digits, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_in_half_precision_are_compared_in_single(dtype):
    scores, expert, lengths = random_batch()
    weights = softmax(scores).to(dtype)
    assert memory_loss(weights, expert, lengths) == memory_loss(weights.float(), expert, lengths)
    assert memory_loss(weights, expert, lengths).dtype == torch.float32


def test_a_weight_that_has_become_zero_still_learns_from_its_score():
    scores = sharp_row(4, 3, 1, 200.0).requires_grad_()
    expert = torch.zeros(1, 4, 4, dtype=torch.bool)
    expert[0, 3, 2] = True
    assert softmax(scores)[0, 3, 2] == 0
    memory_loss_from_scores(scores, expert, [4]).backward()
    assert scores.grad[0, 3, 2] < -0.05
    assert torch.isfinite(scores.grad).all()


def test_the_future_and_the_padding_do_not_count():
    scores, expert, lengths = random_batch()
    loss = memory_loss_from_scores(scores, expert, lengths)
    for rubbish in (torch.nan, torch.inf, -torch.inf, torch.finfo(torch.float32).min):
        other = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), rubbish)
        for row, length in enumerate(lengths):
            other[row, length:], other[row, :, length:] = rubbish, rubbish
        other.requires_grad_()
        same = memory_loss_from_scores(other, expert, lengths)
        with torch.autograd.set_detect_anomaly(True):
            same.backward()
        assert same.item() == pytest.approx(loss.item())
        assert torch.isfinite(other.grad).all()
        assert not other.grad[1, 4:].any()


def test_episodes_without_annotation_take_no_part_and_may_be_all():
    scores, expert, _ = random_batch()
    some = memory_loss_from_scores(scores, expert, [9, 0, 6])
    assert some.item() == pytest.approx(memory_loss_from_scores(scores[[0, 2]], expert[[0, 2]], [9, 6]).item())
    scores.requires_grad_()
    for loss in (memory_loss_from_scores(scores, expert, [0, 0, 0]), memory_loss(softmax(scores), expert, [0, 0, 0])):
        loss.backward()
        assert loss.item() == 0
        assert not scores.grad.any()


@pytest.mark.parametrize(
    ("scores", "expert", "lengths", "text"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, 1, 4, 4), [4, 4], r"scores \(2, 1, 4, 4\), .* one at a time"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 4, 4), [5], "a trajectory of 5 tokens, but scores over 4"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 4, 4), [-1], "a trajectory of -1 tokens, but scores over 4"),
        (torch.zeros(1, 4, 4, dtype=torch.long), torch.zeros(1, 4, 4), [4], "scores of torch.int64: give floating-"),
        (torch.zeros(1, 4, 4), torch.ones(1, 4, 4), [4], r"expert\[0, 0, 1\] is one, but token 0 cannot attend to"),
    ],
)
def test_scores_that_cannot_be_compared_are_refused_in_one_line(scores, expert, lengths, text):
    with pytest.raises(UserError, match=f"^memory_loss_from_scores: {text}") as caught:
        memory_loss_from_scores(scores, expert, lengths)
    assert "\n" not in str(caught.value)


def test_the_page_shows_how_to_use_it_in_another_model(tmp_path, monkeypatch):
    page = Path(__file__).parents[1] / "docs" / "training.md"
    (block,) = [text for text in re.findall(r"```python\n(.*?)```", page.read_text(), re.S) if "memory_loss" in text]
    pairs = [[(0, 2), (0, 2)], None, [(1, 2), (2, 4)]]
    make_writer(tmp_path / "data/hallway").append([demonstration(i, pairs[i], 5) for i in range(3)], "expert")
    monkeypatch.chdir(tmp_path)
    scores = torch.zeros(3, 5, 5)
    names = {"my_model": lambda demos: (torch.zeros(()), scores)}
    exec(block, names)
    expert = torch.eye(5).repeat(2, 1, 1)
    expert[0, 2, 0] = expert[1, 2, 1] = expert[1, 4, 2] = 1
    torch.testing.assert_close(names["loss"], 10 * memory_loss(softmax(scores[[0, 2]]), expert, [5, 5]))


def test_a_row_recalls_as_wanted_if_no_other_earlier_step_is_as_strong():
    wanted = torch.zeros(1, 5, 5)
    wanted[0, 3, 1], wanted[0, 4, 0], wanted[0, 4, 2] = 1, 1, 2
    strength = torch.zeros(1, 5, 5)
    strength[0, 3, 1], strength[0, 3, 3], strength[0, 3, 4] = 1, 9, 9  # the present and the future do not count
    strength[0, 4, 0], strength[0, 4, 2] = 3, 0.5
    assert recalled_as_wanted(strength, wanted).tolist() == [[False, False, False, True, True]]
    strength[0, 4, 1] = 0.5  # as strong as one that is wanted
    strength[0, 3, 0] = 2
    assert not recalled_as_wanted(strength, wanted).any()
