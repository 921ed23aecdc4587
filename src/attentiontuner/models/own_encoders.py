"""Encoders of one's own: what they make of a part's values, and whether that can be used.

Legend: U distinct observations.
"""

import torch
from torch import Tensor, nn

from attentiontuner.core.errors import UserError, where_and_what
from attentiontuner.models.standard import Exact
from attentiontuner.spaces.encoders import make_encoder
from attentiontuner.spaces.observation import Part


class Own(Exact):
    """An encoder of one's own, in the precision it was made in."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, values: Tensor) -> Tensor:
        """Values `[U, …]` → features `[U, places, channels]`."""
        features: Tensor = self.encoder(values)
        return features[:, None] if isinstance(features, Tensor) and features.dim() == 2 else features


def own_encoder(name: str, part: Part, two: Tensor) -> tuple[Own, tuple[int, int]]:
    """The encoder of that name, and how many places and channels it makes; tried on `two` values `[2, …]` of a part.
    One that fails, or encodes an observation otherwise beside another one, is a `UserError`."""
    own = Own(make_encoder(name, part))
    with torch.no_grad():
        found = _tried(own, name, part, two)
        mode = own.training
        with torch.random.fork_rng([]):
            own.eval()
            together, alone = (_tried(own, name, part, some) for some in (two, two[1:]))
        own.train(mode)
    if not torch.allclose(together[1:], alone, rtol=0.01, atol=0.01 * float(alone.abs().max())):
        raise UserError(
            f"encoder {name!r} makes something else of one {part} alone than beside another one: in eval() it must "
            "encode each by itself, and draw nothing"
        )
    return own, (found.shape[1], found.shape[2])


def _tried(own: Own, name: str, part: Part, values: Tensor) -> Tensor:
    try:
        found = own(values)
    except (UserError, MemoryError):
        raise
    except Exception as error:
        raise UserError(f"encoder {name!r} fails on {len(values)} of {part}: {where_and_what(error)}") from error
    what = f"encoder {name!r} makes"
    if not isinstance(found, Tensor):
        raise UserError(f"{what} a {type(found).__name__} of {part}: give floats [n, C] or [n, places, C]")
    if found.dim() != 3 or len(found) != len(values) or not found.is_floating_point() or not found.numel():
        shape = f"{found.dtype} of shape {tuple(found.shape)}"
        raise UserError(f"{what} {shape} of {len(values)} of {part}: give floats [n, C] or [n, places, C]")
    if not found.isfinite().all():
        raise UserError(f"{what} numbers of {part} that are not finite (NaN or infinite)")
    return found
