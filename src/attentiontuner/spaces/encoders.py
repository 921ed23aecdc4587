"""Encoders of one's own for parts of an observation: the table of them, and which part has which. No torch here."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attentiontuner.core.errors import UserError
from attentiontuner.spaces.observation import ObservationSpec, Part

Make = TypeVar("Make", bound=Callable[[Part], Any])

_ENCODERS: dict[str, Callable[[Part], Any]] = {}


def register_encoder(name: str) -> Callable[[Make], Make]:
    """A decorator for what makes an encoder: called with a `Part` it gives a `torch.nn.Module` from that part's values
    `[n, …]` (uint8 images and grids, float32 vectors) to features `[n, C]`, or `[n, places, C]` where recall heads
    shall meet place after place. It is chosen with `--encoders part=name`."""

    def enrol(make: Make) -> Make:
        _ENCODERS[name] = make
        return make

    return enrol


def make_encoder(name: str, part: Part) -> Any:
    """The encoder of that name for a part."""
    return _ENCODERS[name](part)


def parse_encoders(text: str, observation: ObservationSpec) -> Mapping[str, str]:
    """Which part has which encoder, from text such as `camera=dino,wrist=dino`; of a single part `dino` is enough."""
    chosen: dict[str, str] = {}
    parts = [name for name, _ in observation.parts]
    for word in filter(None, text.split(",")):
        part, equals, name = word.strip().rpartition("=")
        part = part if equals or len(parts) > 1 else parts[0]
        if part not in parts:
            there = f"the parts are {', '.join(parts)}" if parts != [""] else "there is one part, without a name"
            raise UserError(f"--encoders {word}: {there}: write part=encoder, of a single part the encoder alone")
        if name not in _ENCODERS:
            known = f"there are {', '.join(_ENCODERS)}" if _ENCODERS else "none is registered"
            raise UserError(
                f"--encoders {word}: no encoder {name!r}, {known}: register_encoder it in a file, and write "
                "`attentiontuner --import FILE ...`"
            )
        chosen[part] = name
    return chosen
