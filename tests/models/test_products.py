"""Products left to oneDNN are what the line of PyTorch in their docstring says, and so are their gradients."""

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.models.kernels import products

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Every product is worth it here; the shapes of those that oneDNN was asked for."""
    found = []

    def product(left: Tensor, *others: object) -> Tensor:
        found.append(tuple(left.shape))
        return plain(left, *others)

    plain = products._product
    monkeypatch.setattr(products, "half_used", lambda: True)
    monkeypatch.setattr(products, "WORTH", 0)
    monkeypatch.setattr(products, "_product", product)
    return found


def same(ours: Callable[[], Tensor], plain: Callable[[], Tensor], leaves: Sequence[Tensor]) -> None:
    """Equal values, and equal gradients by `leaves`, for an upstream gradient that is not contiguous."""
    found, wanted = ours(), plain()
    torch.testing.assert_close(found, wanted)
    upstream = torch.randn(*wanted.shape[:-1], 2 * wanted.shape[-1])[..., ::2]
    for own, other in zip(*(torch.autograd.grad(made, leaves, upstream) for made in (found, wanted)), strict=True):
        assert own.is_contiguous()
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("shape", [(40, 24), (2, 20, 24)])
@pytest.mark.parametrize("width", [16, 56])
def test_a_linear_map(asked: list[tuple[int, ...]], shape: tuple[int, ...], width: int) -> None:
    inputs, layer = torch.randn(shape, requires_grad=True), nn.Linear(24, width)
    leaves = [inputs, *layer.parameters()]
    same(lambda: products.host_linear(inputs, layer.weight, layer.bias), lambda: layer(inputs), leaves)
    assert len(asked) == 3


def test_every_other_row(asked: list[tuple[int, ...]]) -> None:
    inputs, layer = torch.randn(40, 24, requires_grad=True), nn.Linear(24, 16)
    leaves = [inputs, *layer.parameters()]
    same(lambda: products.host_linear(inputs[::2], layer.weight, layer.bias), lambda: layer(inputs[::2]), leaves)
    assert asked[0] == (20, 24)


def test_two_layers_with_a_rectifier_between(asked: list[tuple[int, ...]]) -> None:
    inputs, widen, narrow = torch.randn(40, 24, requires_grad=True), nn.Linear(24, 96), nn.Linear(96, 24)
    leaves = [inputs, *widen.parameters(), *narrow.parameters()]
    same(
        lambda: products.host_feed_forward(inputs, widen, narrow),
        lambda: narrow(F.relu(widen(inputs))),
        leaves,
    )
    assert len(asked) == 6


def test_what_comes_back_is_left_as_it_was(asked: list[tuple[int, ...]]) -> None:
    """The gradient from above may be somebody else's too."""
    widen, narrow, upstream = nn.Linear(24, 96), nn.Linear(96, 24), torch.randn(40, 24)
    kept = upstream.clone()
    products.host_feed_forward(torch.randn(40, 24), widen, narrow).backward(upstream)
    assert torch.equal(upstream, kept)


def test_small_products_and_other_numbers_stay_with_pytorch(asked: list[tuple[int, ...]], monkeypatch) -> None:
    inputs, layer = torch.randn(40, 24), nn.Linear(24, 16)
    assert products.pays(inputs, layer.weight)
    assert not products.pays(inputs.double(), layer.weight.double())
    monkeypatch.setattr(products, "WORTH", 40 * 24 * 16 + 1)
    assert not products.pays(inputs, layer.weight)
    assert torch.equal(products.host_linear(inputs, layer.weight, layer.bias), layer(inputs))
    assert not asked


@pytest.mark.parametrize(("maker", "capability", "half"), [
    ("AuthenticAMD", "AVX512", True), ("GenuineIntel", "AVX512", False), ("AuthenticAMD", "AVX2", False),
])  # fmt: skip
def test_which_processors_are_half_used(maker: str, capability: str, half: bool, monkeypatch) -> None:
    monkeypatch.setattr(products, "_processor", lambda: f"processor : 0\nvendor_id : {maker}")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    products.half_used.cache_clear()
    try:
        assert products.half_used() == half
    finally:
        products.half_used.cache_clear()


def test_a_product_with_the_past(asked: list[tuple[int, ...]]) -> None:
    """One stretch of an episode, of a size that recurs, and its gradients; of others PyTorch is asked."""
    asking, past = torch.randn(1, 32, 64), torch.randn(1, 96, 64)
    scores = products.product(asking, past.mT)
    torch.testing.assert_close(scores, asking @ past.mT)
    torch.testing.assert_close(products.product(scores, past), scores @ past)
    torch.testing.assert_close(products.product(asking.mT, scores), asking.mT @ scores)
    assert asked == [(32, 64), (32, 96), (64, 32)]
    long = past.repeat(1, 86, 1)
    others = (
        (asking[:, :31], past.mT),
        (asking, past[:, :95].mT),
        (asking, long.mT),
        (asking.expand(2, -1, -1), past.mT),
    )
    for left, right in others:
        torch.testing.assert_close(products.product(left, right.expand(len(left), -1, -1)), left @ right)
    assert len(asked) == 3
