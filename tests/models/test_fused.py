"""Kernels compute what the line of PyTorch in their docstring says, and so do their gradients.

`make test-gpu` runs these; `make test-kernels` those that need no GPU, in Triton's interpreter.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.data.batch import Batch, Layout
from attentiontuner.data.dataset import DemoData
from attentiontuner.data.tokens import expert_of_heads
from attentiontuner.demos.pairs import PairTable
from attentiontuner.losses import LOG_FLOOR, memory_cross_entropy
from attentiontuner.models import kernels
from attentiontuner.models.attention import Watched
from attentiontuner.models.heads import Head
from attentiontuner.models.kernels import blocks_of_weight, fused, images
from attentiontuner.models.sizes import TransformerConfig
from tests.methods.configs import loss_of
from tests.models.test_transformer import GRID, IMAGE, packed_demos


@pytest.mark.parametrize("side", [84, 90, 37])
def test_a_strided_convolution_is_one_over_blocks(side: int) -> None:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (3, side, side + 3, 2), dtype=torch.uint8, generator=generator)
    weight = torch.randn(5, 2, 8, 8, generator=generator)
    whole = F.conv2d(pixels.permute(0, 3, 1, 2) / 255, weight, stride=4)
    in_blocks = F.conv2d(images.image_blocks(pixels, torch.float32), blocks_of_weight(weight))
    torch.testing.assert_close(in_blocks, whole, atol=1e-4, rtol=1e-4)


def test_where_triton_cannot_compile_the_reason_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_compiler() -> None:
        raise RuntimeError("Failed to find C compiler.\nPlease specify via CC")

    monkeypatch.setattr(fused, "kernel_module", without_compiler)
    monkeypatch.setattr(fused.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(torch, "ones", lambda *shape, device: torch.zeros(*shape))
    assert fused.why_no_kernels.__wrapped__() == "Triton cannot compile: Failed to find C compiler."
    monkeypatch.setattr(fused.importlib.util, "find_spec", lambda name: None)
    assert fused.why_no_kernels.__wrapped__() == "Triton is not installed"


on_kernels = pytest.mark.gpu(interpreted=True)
DEVICE, DTYPE = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)


@pytest.fixture(autouse=True)
def fused_wherever_kernels_run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("gpu"):
        monkeypatch.setattr(fused, "FUSED", (DEVICE, DTYPE))
        monkeypatch.setattr(fused, "why_no_kernels", lambda: "")


def there(*shape: int, seed: int = 0) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE, DTYPE).requires_grad_()


def same(ours: Callable[[], Tensor], line: Callable[[], Tensor], parameters: Sequence[Tensor]) -> None:
    """Both, and their gradients, up to the digits of a bfloat16."""
    mine, theirs = ours(), line()
    upstream = there(*mine.shape, seed=9).detach() if mine.dim() else torch.ones_like(mine)
    both = zip(
        (mine, *torch.autograd.grad(mine, parameters, upstream)),
        (theirs, *torch.autograd.grad(theirs, parameters, upstream)),
        strict=True,
    )
    for one, other in both:
        assert (one - other).float().norm() < 0.015 * other.float().norm()


@on_kernels
@pytest.mark.parametrize(("rows", "columns"), [(13, 40), (1000, 512), (3, 1)])
def test_sums_and_norms(rows: int, columns: int) -> None:
    layer, norm = (part.to(DEVICE, DTYPE) for part in (nn.Linear(24, columns), nn.LayerNorm(columns)))
    inputs, residual = there(rows, 24), there(rows, columns, seed=1)
    parameters = [inputs, residual, *layer.parameters(), *norm.parameters()]
    if columns == 1:  # its norm is a constant
        assert fused.linear_add_norm(inputs, layer, residual, norm).eq(norm.bias).all()
        return
    same(
        lambda: fused.linear_add_norm(inputs, layer, residual, norm),
        lambda: norm(residual + layer(inputs)),
        parameters,
    )
    same(lambda: fused.linear_relu(inputs, layer), lambda: F.relu(layer(inputs)), [inputs, *layer.parameters()])
    weights = (layer.weight, layer.bias)
    same(lambda: fused.linear(inputs, *weights), lambda: layer(inputs), [inputs, *weights])


@on_kernels
def test_embedded_tokens() -> None:
    seen, done, time = there(300, 96), there(300, 96, seed=1), torch.arange(300, device=DEVICE) % 200
    norm = nn.LayerNorm(96).to(DEVICE, DTYPE)

    def line() -> Tensor:
        position = fused.sinusoids(time, 96)
        return norm(torch.stack([seen + position, done + position], 1).flatten(0, 1).to(DTYPE))

    same(
        lambda: fused.embed_norm(seen, done, time, norm, 0.0),
        line,
        [seen, done, *norm.parameters()],
    )
    some = fused.embed_norm(seen, done, time, norm, 0.3)
    kept = some != 0
    assert kept.float().mean().item() == pytest.approx(0.7, abs=0.02)
    torch.testing.assert_close(some[kept], (line() / 0.7)[kept], atol=0.05, rtol=0.02)
    gradient = torch.autograd.grad(some.sum(), norm.bias)[0]
    torch.testing.assert_close(gradient.float(), kept.float().sum(0) / 0.7, atol=1, rtol=0.01)


@on_kernels
@pytest.mark.parametrize("shape", [(84, 84, 3), (37, 50, 2)])
def test_blocks_of_bytes(shape: tuple[int, int, int]) -> None:
    pixels = torch.randint(0, 256, (7, *shape), dtype=torch.uint8)
    blocks = images._blocks_of_bytes(pixels.to(DEVICE), shape[0] // 4, shape[1] // 4, torch.float32)
    torch.testing.assert_close(blocks.cpu(), images.image_blocks(pixels, torch.float32))


@on_kernels
def test_what_is_dropped_has_no_gradient() -> None:
    layer, norm = (part.to(DEVICE, DTYPE) for part in (nn.Linear(24, 96), nn.LayerNorm(96)))
    zeros, ones = torch.zeros(50, 96, device=DEVICE, dtype=DTYPE), nn.Linear(24, 96).to(DEVICE, DTYPE)
    nn.init.zeros_(ones.weight)
    nn.init.ones_(ones.bias)
    inputs, residual = there(50, 24), there(50, 96, seed=1)
    torch.manual_seed(3)
    kept = fused.linear_add_norm(inputs, ones, zeros, norm, 0.25) > 0  # a kept place is above its row's mean
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.03)

    def ours() -> Tensor:
        torch.manual_seed(3)
        return fused.linear_add_norm(inputs, layer, residual, norm, 0.25)

    same(
        ours,
        lambda: norm(residual + layer(inputs) * kept / 0.75),
        [inputs, residual, *layer.parameters(), *norm.parameters()],
    )


@on_kernels
def test_what_is_not_a_number_stays_none() -> None:
    layer = nn.Conv2d(8, 16, 3).to(DEVICE, DTYPE)
    nn.init.constant_(layer.weight, torch.nan)
    result = images.conv_relu(there(2, 8, 7, 7), layer.weight, layer.bias)
    assert result.isnan().all()
    assert torch.autograd.grad(result.sum(), layer.bias)[0].eq(2 * 5 * 5).all()  # nor does it stop the gradient


@pytest.mark.gpu
def test_what_is_dropped_is_new_in_every_replay() -> None:
    layer, norm = (part.to(DEVICE, DTYPE) for part in (nn.Linear(24, 512), nn.LayerNorm(512)))
    nn.init.zeros_(layer.weight)
    nn.init.ones_(layer.bias)
    inputs, residual = there(600, 24), torch.zeros(600, 512, device=DEVICE, dtype=DTYPE)

    def step() -> tuple[Tensor, Tensor]:
        normal = fused.linear_add_norm(inputs, layer, residual, norm, 0.25)
        weighed = normal * torch.arange(512, device=DEVICE).to(DTYPE)
        return normal.detach(), torch.autograd.grad(weighed.sum(), layer.bias)[0]

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        normal, of_bias = step()
    masks = []
    for _ in range(2):
        graph.replay()
        masks.append((normal > 0).clone())  # a kept place is above its row's mean
        assert masks[-1].float().mean().item() == pytest.approx(0.75, abs=0.01)
        assert of_bias.isfinite().all()
    assert (masks[0] != masks[1]).float().mean().item() == pytest.approx(2 * 0.75 * 0.25, abs=0.02)
    kept = masks[0].float()
    assert torch.corrcoef(kept.T[:64]).triu(1).abs().max() < 0.25  # columns do not go together
    assert kept.mean(1).std() < 0.03


@on_kernels
@pytest.mark.parametrize(("channels", "out", "size", "stride", "padding"), [(20, 40, 7, 1, 1), (32, 64, 20, 2, 0)])
def test_convolutions(channels: int, out: int, size: int, stride: int, padding: int) -> None:
    layer = nn.Conv2d(channels, out, 4 if stride == 2 else 3, stride, padding).to(DEVICE, DTYPE)
    pixels = there(50, channels, size, size)
    same(
        lambda: images.conv_relu(pixels, layer.weight, layer.bias, stride, padding),
        lambda: F.relu(layer(pixels)),
        [pixels, *layer.parameters()],
    )
    features, flat = there(50, 8, 7, 7), nn.Linear(392, 64).to(DEVICE, DTYPE)
    same(
        lambda: images.linear_of_map(features, flat),
        lambda: flat(features.flatten(1)),
        [features, *flat.parameters()],
    )


@on_kernels
@pytest.mark.parametrize("sharpness", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("heads", [(Head(0, 0),), (Head(0, 1), Head(1, 0), Head(1, 1))])
def test_a_step_is_the_same_with_and_without_kernels(
    monkeypatch: pytest.MonkeyPatch, heads: tuple[Head, ...], sharpness: float
) -> None:
    packed = packed_demos(GRID, [3, 90, 1, 40, 70], 4)
    parts = [PairTable.nothing([40]) if row == 3 else packed.pairs.select([row]) for row in range(5)]
    packed = replace(packed, pairs=PairTable.join(parts))
    torch.manual_seed(0)
    model = TransformerConfig(GRID, 4, d_model=96, layers=2, feedforward=128, dropout=0.0).build()
    for layer in model.transformer_layers:
        layer.self_attention.in_proj_weight.data[:192] *= sharpness * 3
    model = model.to(DEVICE, DTYPE)
    data = DemoData(packed, DEVICE)
    numbers, sizes = data.numbers(np.array([4, 0, 3, 1, 2]), rounded=True)
    batch = data.assemble(torch.from_numpy(numbers).to(DEVICE), sizes)

    def step(precision: torch.dtype) -> tuple[float, float, Tensor]:
        model.to(precision)
        found = loss_of(model(batch, heads), batch)
        gradients = torch.autograd.grad(found.total, list(model.parameters()))
        flat = torch.cat([gradient.float().flatten() / gradient.float().norm() for gradient in gradients])
        return found.terms["imitation"].item(), found.terms["memory"].item(), flat

    ours = step(DTYPE)
    with monkeypatch.context() as patch:
        patch.setattr(fused, "FUSED", None)
        line, exact = step(DTYPE), step(torch.float64 if DEVICE == "cpu" else torch.float32)
    assert ours[0] == pytest.approx(exact[0], rel=0.02)
    assert ours[1] == pytest.approx(exact[1], rel=0.02)
    # Both round; with sharp attention to neighbouring scores either may happen to be the closer.
    assert (ours[2] - exact[2]).norm() < 2 * (line[2] - exact[2]).norm()


def memory_sums(projected: Tensor, batch: Batch, expert: Tensor) -> tuple[Tensor, Tensor]:
    """Equation 4's sum for the second head, by kernels and by PyTorch."""
    layout = Layout.of(batch, 2)
    ours = kernels.memory_sum(projected, 1, layout.bounds, expert, batch.annotated, LOG_FLOOR)
    inside = torch.arange(layout.tokens, device=DEVICE) < 2 * batch.lengths[:, None]
    rows = memory_cross_entropy(Watched(projected, 1, layout).log_attention(), expert)
    return ours, (rows * inside).sum()


@on_kernels
def test_the_memory_loss_has_all_digits() -> None:
    """Weights close to 1 where there should be none, equal scores, a single key: against PyTorch's own gradients."""
    batch = DemoData(packed_demos(IMAGE, [40, 1, 5], 4), DEVICE).batch(np.array([0, 1, 2]))
    expert = expert_of_heads(batch, 1, True, False)[0] & (torch.rand(3, 80, 80, device=DEVICE) < 0.5)
    for size in (1.0, 3.0, 7.0):
        projected = (there(2 * 46, 3, 2, 24) * size).detach()
        projected[82:, 1, 1] = projected[82, 1, 1]
        mine, line = memory_sums(projected.requires_grad_(), batch, expert)
        assert mine.item() == pytest.approx(line.item(), rel=1e-4)
        of_mine, of_line = (torch.autograd.grad(total, projected)[0].float() for total in (mine, line))
        assert (of_mine - of_line).norm() < 0.01 * of_line.norm()


@on_kernels
def test_scores_computed_again_may_differ_in_their_last_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the largest is found once. Where it is nearly all and should be none, a gradient that looked for it again
    among scores of another last digit would divide by next to nothing."""
    batch = DemoData(packed_demos(IMAGE, [40, 1, 5], 4), DEVICE).batch(np.array([0, 1, 2]))
    projected = (there(2 * 46, 3, 2, 24) * 6).detach()
    projected[82:, 1, 1] = projected[82, 1, 1]  # equal scores
    projected[20, 1, 1] = projected[10, 1, 1]
    projected[20, 1, 1, 0] *= 1 + 2**-7  # nearly equal ones
    mine, line = memory_sums(
        projected.requires_grad_(), batch, torch.zeros_like(expert_of_heads(batch, 1, True, False)[0])
    )
    launch = fused._MemorySum._launch

    def off_by_one_digit(*inputs: object) -> tuple[object, ...]:
        grid, tensors, (*sizes, scale), blocks = launch(*inputs)
        return grid, tensors, (*sizes, scale * (1 + 2**-22)), blocks

    monkeypatch.setattr(fused._MemorySum, "_launch", staticmethod(off_by_one_digit))  # for the gradients alone
    of_mine, of_line = (torch.autograd.grad(total, projected)[0].float() for total in (mine, line))
    assert (of_mine - of_line).norm() < 0.01 * of_line.norm()
