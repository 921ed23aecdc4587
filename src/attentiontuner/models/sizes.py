"""What networks are configured with. Importing this needs no torch, so that a wrong field is refused at once."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from attentiontuner.core.errors import UserError
from attentiontuner.core.field_types import is_of_type, types_of, words_for
from attentiontuner.core.files import shortened
from attentiontuner.models.heads import Head
from attentiontuner.spaces import ActionSpec, ObservationSpec
from attentiontuner.spaces.encoders import parse_encoders

if TYPE_CHECKING:
    from attentiontuner.models.network import Network

Embedder = Literal["paper", "lookup"]
Images = Literal["paper", "residual"]

SMALLEST_IMAGE, LARGEST_IMAGE = 36, 128
"""Pixels a side that the paper's three convolutions need, and up to which the layer after them stays small."""


def images_for(observation: ObservationSpec) -> Images:
    """The paper's convolutions where they fit every image, else the residual network."""
    sides = [side for _, part in observation.parts if part.kind == "image" for side in part.shape[:2]]
    return "paper" if all(SMALLEST_IMAGE <= side <= LARGEST_IMAGE for side in sides) else "residual"


def heads_for(spec: ActionSpec) -> tuple[str, ...]:
    """The names of the action heads that these actions can have (`models.actions`), the usual one first."""
    return ("gmm", "l1") if spec.kind == "box" else ("discrete",)


SPACES = ("observation", "actions")
"""Fields of a network's configuration that the task says."""

MOST_LAYERS = 1000
"""More would be built one by one for hours."""

MOST_WIDE = 2**31
"""Sizes from which on nothing can be built."""

MOST_SLOTS = 10_000
"""Weights do not tell how many there are; each is a step that every episode played holds."""


@dataclass(frozen=True)
class NetworkConfig(ABC):
    """Sizes of a network. A subclass adds its own fields, names its `architecture`, and builds it.

    Attributes:
        observation: what it sees.
        actions: what it does; may be given as the number of discrete actions.
        action_head: how actions are read from it, see `models.actions`: of numbers within bounds gmm, a mixture, or l1;
            None: the usual one.
        chunk: how many coming actions are read at a step, where they are numbers within bounds.
        encoders: those of one's own as part=name,… (`spaces.encoders`).
    """

    architecture: ClassVar[str]

    observation: ObservationSpec
    actions: ActionSpec
    action_head: str = field(default=None, kw_only=True)  # type: ignore[assignment]  # never None once it is made
    chunk: int = field(default=1, kw_only=True)
    encoders: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        self._check_types()
        for name, value in self.chosen().items():
            self.check_range(name, not isinstance(value, int) or value < MOST_WIDE, f"below {MOST_WIDE}")
        object.__setattr__(self, "actions", ActionSpec.of(self.actions).unnamed())
        heads = heads_for(self.actions)
        self.fill_in(action_head=heads[0])
        self.check_range("action_head", self.action_head in heads, f"{' or '.join(heads)}, which {self.actions} have")
        single = self.actions.kind != "box"
        self.check_range("chunk", 1 <= self.chunk <= (1 if single else math.inf), "1" if single else "1 or more")
        parse_encoders(self.encoders, self.observation)

    @property
    def own_encoders(self) -> Mapping[str, str]:
        """Encoders of one's own by part."""
        return parse_encoders(self.encoders, self.observation)

    @abstractmethod
    def build(self) -> "Network":
        """The network, with fresh weights from PyTorch's generator."""

    def fill_in(self, **usual: Any) -> None:
        """Give fields of which nothing is said what they usually are."""
        for name, value in usual.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def _check_types(self) -> None:
        """Refuse values of another type than their field has; None, where it is the default, is to be filled in."""
        types = types_of(type(self))
        for item in fields(self):
            value, wanted = getattr(self, item.name), types.get(item.name)
            open_still = value is None and item.default is None
            if item.name not in SPACES and not open_still and not is_of_type(value, wanted):
                self.check_range(item.name, False, words_for(wanted))

    def check_range(self, name: str, good: bool, wanted: str) -> None:
        """Refuse a field's value unless it is `good`."""
        if not good:
            raise UserError(f"model {name}: {shortened(repr(getattr(self, name)), 60)} is not {wanted}")

    def chosen(self) -> dict[str, Any]:
        """Its fields by name, without what the task says."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in SPACES}

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        value = {item.name: getattr(self, item.name) for item in fields(self)}
        spaces = {"observation": self.observation.to_json(), "actions": self.actions.to_json()}
        return {"architecture": self.architecture, **value, **spaces}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        given = dict(value)
        if given.pop("architecture", None) != cls.architecture:
            raise UserError(f"model architecture {value.get('architecture')!r} is not {cls.architecture!r}")
        try:
            observation = ObservationSpec.from_json(given.pop("observation"))
            return cls(observation, ActionSpec.from_json(given.pop("actions")), **given)
        except (KeyError, TypeError) as error:
            raise UserError(f"model configuration: {error}") from error


def check_sizes(config: "TransformerConfig | RecallConfig | RecurrentConfig") -> None:
    """Refuse sizes that none of our networks can be built with."""
    config.check_range("images", config.images in get_args(Images), "'paper' or 'residual'")
    for name in ("d_model", "layers", "heads", "feedforward"):
        config.check_range(name, getattr(config, name, 1) >= 1, "1 or more")
    if not isinstance(config, RecurrentConfig):
        fits = config.d_model % (2 * config.heads) == 0
        config.check_range("d_model", fits, f"a multiple of twice {config.heads} heads")
    config.check_range("layers", config.layers <= MOST_LAYERS, f"at most {MOST_LAYERS}")
    config.check_range("dropout", 0 <= config.dropout < 1, "in [0, 1)")


# --- the paper's Transformer ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformerConfig(NetworkConfig):
    """Sizes of the network; the defaults are the paper's.

    Attributes:
        images: the paper's convolutions, or residual, a network for images of any size; None: the paper's where they
            fit.
        standard: vectors are put on the scale of the training set; None: where there are vectors.
    """

    architecture: ClassVar[str] = "transformer"

    d_model: int = 512
    layers: int = 4
    heads: int = 2
    feedforward: int = 2048
    dropout: float = 0.1
    embedder: Embedder = "paper"
    images: Images = None  # type: ignore[assignment]  # never None once it is made
    standard: bool = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fill_in(images=images_for(self.observation), standard="vector" in self.observation.kinds)
        check_sizes(self)
        self.check_range("embedder", self.embedder in ("paper", "lookup"), "'paper' or 'lookup'")
        if self.embedder == "lookup" and "grid" not in self.observation.kinds:
            raise UserError(f"model embedder: 'lookup' is for symbol grids, not for {self.observation} observations")

    def build(self) -> "Network":
        from attentiontuner.models.transformer import Transformer

        return Transformer(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        before = {"images": "paper", "standard": False}  # there was no other before 0.2, and before 0.3
        return super().from_json({**before, **value})


# --- recall heads -----------------------------------------------------------------------------------------------------

Timing = Literal["turned", "added"]

RECALL_HEAD = Head(0, 0)
"""The one head that recalls."""

MOST = 4.0
"""The largest score: exp(4) things at one step are more than any step holds."""

BEFORE = {
    **{"bounded": False, "alike": False, "means": False, "timing": "added"},
    **{"sums": 0, "points": 0, "looks": 0, "dropped_cells": 0.0, "recall_layer": 1, "teacher": 0.0, "alone": 0.0},
    "images": "paper",
}
"""What networks were that do not name these fields: those made before 0.2."""

BEFORE_NUMBERS = {"beside": False, "last_action": True}
"""The same of those made before actions could be numbers."""

BEFORE_WINDOWS = {"keeps": False}
"""The same of those made before there were windows."""

BEFORE_PRODUCTS = {"products": False}
"""The same of those made before vectors in view were multiplied by what is recalled."""

GONE = {
    **{"bias": -9.0, "keys": "cells", "gates": "scalar", "when": True, "loss": "count", "standardise": True},
    **{"rarity": True, "token_dropout": 0.0, "carry_action": True, "action_tokens": False},
}
"""Choices that networks had before 0.2, and what nearly all of them chose; the others earned nothing."""


@dataclass(frozen=True)
class RecallConfig(NetworkConfig):
    """Sizes, and for studies what can be taken away.

    Attributes:
        layers: four for images where nothing is said, two for symbol grids and vectors, which need no more.
        recall_layer: the layer, from 1, that has the recall head; None: the first of two, the second of more.
        periods: periods τ, in things, of the read-out of the amount; empty: the amount is not read.
        whole: what is read adds up whole numbers, which pairs teach; None: where there are pairs.
        bounded: a cell counts at most once, and gates do not add to it. Without it scores are sums of all that speaks
            for a step, and every error of these is an error of the amount.
        haste: how much faster than all other weights the numbers learn that all scores share: where they start, and how
            much being in view counts. Slow ones leave it to queries, which learn a few demonstrations by heart.
        alike: a kind of cell that is in view is asked for unless the query says otherwise. Only symbol grids have
            kinds.
        marks: numbers that a recalled step hands to those cells in view whose kind it holds; 0: they are not told.
        means: cells are told the mean over the recalled steps that hold their kind, its share of all that is recalled
            and how much of that came before; without it sums alone.
        sums: numbers of each recalled step that are added up; 0: none.
        points: things in an image whose place is told as coordinates; 0: none.
        looks: channels of the map that an image leaves in memory, to be asked for place by place and to be laid over
            the image in view; 0: none.
        last_action: a token knows the action before it; None: where actions are choices. Numbers within bounds change
            so little from step to step that a network which sees the last ones repeats them, and recalls nothing.
        beside: vectors that are recalled are laid beside the one in view; None: where there are vectors.
        products: numbers made of what is recalled are multiplied by numbers made of the vector in view, which looks
            things up in it; None: where recalled vectors are laid beside it and actions are numbers within bounds.
        images: the paper's convolutions, or residual, a network for images of any size; None: the paper's where they
            fit.
        dropped_cells: share of a symbol grid's cells that its vector lacks in training; its memory has them all.
        timing: `turned`: as above; `added`: positions are added to tokens, and a step may ask for a position.
        positions: steps know their number. Without it episodes may be longer than those of the training set.
        past: steps know of those before. Without it a network sees the present alone: what memory is compared with.
        teacher: share of the annotated episodes in training whose steps read what the expert recalls, not what the head
            does; the rest of the network then never learns from wrong amounts.
        alone: share of them whose steps know of the past only what is recalled: the other heads see nothing, and
            episodes cannot be told apart by what else happened in them.
        keeps: it learns which steps will be recalled from beyond a window (`data.windows`); None: where it is trained
            on windows and there are pairs.
    """

    architecture: ClassVar[str] = "recall"

    d_model: int = 128
    layers: int = None  # type: ignore[assignment]  # never None once it is made
    recall_layer: int = None  # type: ignore[assignment]
    heads: int = 2
    feedforward: int = 512
    dropout: float = 0.1
    periods: tuple[float, ...] = (2, 3, 4, 6, 8, 16)
    whole: bool | None = None
    bounded: bool = True
    haste: float = 1.0
    alike: bool = True
    marks: int = 4
    means: bool = True
    sums: int = 8
    points: int = 16
    looks: int = 8
    last_action: bool = None  # type: ignore[assignment]
    beside: bool = None  # type: ignore[assignment]
    products: bool = None  # type: ignore[assignment]
    dropped_cells: float = 0.1
    timing: Timing = "turned"
    positions: bool = True
    past: bool = True
    teacher: float = 0.5
    alone: float = 0.0
    images: Images = None  # type: ignore[assignment]
    keeps: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = self.observation.kinds
        self.fill_in(
            images=images_for(self.observation),
            layers=4 if "image" in kinds else 2,
            last_action=self.actions.kind != "box",
            beside="vector" in kinds,
        )
        self.fill_in(recall_layer=2 if self.layers > 2 else 1, products=self.beside and self.actions.kind == "box")
        self.check_range("products", self.beside or not self.products, "false, as recalled vectors are not beside")
        object.__setattr__(self, "periods", tuple(float(period) for period in self.periods))
        check_sizes(self)
        self.check_range("recall_layer", 1 <= self.recall_layer <= self.layers, f"from 1 to {self.layers}")
        self.check_range("dropped_cells", 0 <= self.dropped_cells < 1, "in [0, 1)")
        self.check_range("haste", 0 < self.haste < math.inf, "above 0")
        for name in ("teacher", "alone"):
            self.check_range(name, 0 <= getattr(self, name) <= 1, "in [0, 1]")
        self.check_range("timing", self.timing in get_args(Timing), f"one of {', '.join(get_args(Timing))}")
        for name in ("marks", "sums", "points", "looks"):
            self.check_range(name, getattr(self, name) >= 0, "0 or more")
        self.check_range("periods", min(self.periods, default=1) > 0, "all above 0")

    def build(self) -> "Network":
        from attentiontuner.models.recall import RecallTransformer

        return RecallTransformer(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        given = {**BEFORE, **BEFORE_NUMBERS, **BEFORE_WINDOWS, **BEFORE_PRODUCTS, **value}
        for name, usual in GONE.items():
            said = given.pop(name, usual)
            if said != usual and not (name == "when" and value.get("positions") is False):
                raise UserError(f"model {name}: {said!r}: only versions before 0.2 had recall networks like this one")
        return super().from_json(given)

    @property
    def reads_whole(self) -> bool:
        """Whether the network reads an amount, and as a sum of whole numbers."""
        return self.whole is not False and bool(self.periods)

    @property
    def turns(self) -> bool:
        """Whether queries and keys are turned by their time."""
        return self.positions and self.timing == "turned"

    @property
    def adds(self) -> bool:
        """Whether positions are added to tokens."""
        return self.positions and self.timing == "added"


# --- memories that do not grow ----------------------------------------------------------------------------------------

SPAN = 1000.0
"""Steps, the longest that a memory keeps something at first."""


@dataclass(frozen=True)
class RecurrentConfig(NetworkConfig):
    """Sizes of a network whose memory is as large at the last step as at the first.

    Attributes:
        layers: the last has what is special of the memory: lanes that pairs teach, slots.
        span: at first what is remembered fades within 1 to so many steps, each number in its own time.
        embedder: of symbol grids: lookup, or the paper's convolutions; None: lookup where there are grids.
        images: the paper's convolutions, or residual, a network for images of any size; None: the paper's where they
            fit.
        last_action: a token knows the action before it; None: where actions are choices, as in `RecallConfig`.
    """

    d_model: int = 128
    layers: int = 2
    feedforward: int = 512
    dropout: float = 0.1
    span: float = SPAN
    embedder: Embedder = None  # type: ignore[assignment]  # never None once it is made
    images: Images = None  # type: ignore[assignment]
    last_action: bool = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        grids = "grid" in self.observation.kinds
        self.fill_in(
            embedder="lookup" if grids else "paper",
            images=images_for(self.observation),
            last_action=self.actions.kind != "box",
        )
        self.check_range(
            "embedder",
            self.embedder == "paper" or (grids and self.embedder == "lookup"),
            "'paper', or 'lookup' for symbol grids",
        )
        check_sizes(self)
        self.check_range("span", 1 < self.span < math.inf, "above 1")

    def build(self) -> "Network":
        from attentiontuner.models.recurrent import RecurrentNetwork

        return RecurrentNetwork(self)


@dataclass(frozen=True)
class GruConfig(RecurrentConfig):
    """Gated recurrent units."""

    architecture: ClassVar[str] = "gru"


@dataclass(frozen=True)
class LruConfig(RecurrentConfig):
    """Gated linear recurrences.

    Attributes:
        kept: numbers of the last layer's memory, its lanes, that are written and kept together; None: half of them.
    """

    architecture: ClassVar[str] = "lru"

    kept: int = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fill_in(kept=self.d_model // 2)
        self.check_range("kept", 0 <= self.kept < self.d_model, f"from 0 to {self.d_model - 1}")


@dataclass(frozen=True)
class SlotsConfig(RecurrentConfig):
    """A GRU beside slots, each with one step of the past.

    Attributes:
        slots: how many steps are held.
    """

    architecture: ClassVar[str] = "slots"

    slots: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_range("slots", 1 <= self.slots <= MOST_SLOTS, f"from 1 to {MOST_SLOTS}")
