"""What networks keep of the training set's numbers, to see all of them on one scale."""

from collections.abc import Callable
from typing import Self

from torch import Tensor, nn


class Exact(nn.Module):
    """A module whose numbers stay as exact as they are where its network is copied in fewer bits: what the training set
    was like is the same for every copy."""

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def exactly(tensor: Tensor) -> Tensor:
            changed = change(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        super()._apply(exactly, recurse)  # type: ignore[no-untyped-call]
        return self
