"""Which attention heads the memory loss supervises."""

from typing import NamedTuple

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted


class Head(NamedTuple):
    """One attention head, counted from 0. People write `1:1` for layer 0, head 0."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.layer + 1}:{self.head + 1}"


def parse_heads(text: str, layers: int, heads: int) -> tuple[Head, ...]:
    """The heads that `text` names in a model of `layers` × `heads`: `1:1`, `1:1,2:2`, `1:all`, `all`, `none`."""
    if text == "none":
        return ()
    if text == "all":
        return tuple(Head(layer, head) for layer in range(layers) for head in range(heads))
    found: list[Head] = []
    for part in text.split(","):
        layer, _, head = part.strip().partition(":")
        if not layer.isdecimal() or not (head == "all" or head.isdecimal()):
            raise UserError(
                f"heads {text!r}: write layer:head from 1, such as 1:1, several as 1:1,2:2, 1:all, all or none"
            )
        chosen = range(heads) if head == "all" else [int(head) - 1]
        for number in chosen:
            if not (0 <= int(layer) - 1 < layers and 0 <= number < heads):
                size = f"{counted(layers, 'layer')} × {counted(heads, 'head')}"
                raise UserError(f"heads {text!r}: there is no head {part.strip()} in a model of {size}")
            found.append(Head(int(layer) - 1, number))
    return tuple(dict.fromkeys(found))
