"""Nine games of POPGym at three levels each, a row each: their observations and actions differ from level to level."""

from collections.abc import Sequence
from typing import Any

from attentiontuner.core.success import ReturnAtLeast
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec, Part
from attentiontuner.tasks.instructions import Instructions
from attentiontuner.tasks.task import Task, register_task

DECK = 52
LEVELS = ("Easy", "Medium", "Hard")
SUITS, KINDS = 4, {"colours": 2, "suits": 4, "ranks": 13}
NAMES_OF_SUITS = ActionSpec.discrete(("spades", "diamonds", "clubs", "hearts"))
KEYS_OF_SUITS = {"s": 0, "d": 1, "c": 2, "h": 3}

EVERYTHING_RIGHT = ReturnAtLeast(0.9999)
"""Where a right action is rewarded as a wrong one is fined, and all rewards add up to 1."""

POINTING = Part("vector", (2,))
"""Cosine and sine of an angle."""

TORQUE = ActionSpec.box([-2], [2])

EXPERTS = "attentiontuner.experts"

INSTRUCTIONS = {
    "CountRecall": Instructions(
        goal="At each step a card is dealt, and a kind of card is asked for: say how many of it were dealt so far.",
        p="Every step at which a card of the kind asked for was dealt.",
        q="The step that asks for it.",
    ),
    "RepeatFirst": Instructions(
        goal="Cards are dealt. At every step say the suit of the very first one.",
        p="The first step.",
        q="Every step after it.",
    ),
    "RepeatPrevious": Instructions(
        goal="Cards are dealt. At every step say the suit that was dealt a fixed number of steps before.",
        p="The step that many steps before.",
        q="Every step that has one that far before it.",
    ),
    "Autoencode": Instructions(
        goal="First cards are shown, one at each step. Then say their suits in the opposite order, the last one first.",
        p="The step at which the card was shown that is due.",
        q="Each step of the second half.",
    ),
    "HigherLower": Instructions(
        goal="Guess whether the next card is higher or lower. Who knows which cards are gone guesses better.",
        p="The steps at which cards were dealt that are gone: all before.",
        q="Every step.",
    ),
    "Concentration": Instructions(
        goal="Cards lie face down. Turn over two at a time; two of a kind stay open. Open all of them with few steps.",
        p="The step at which the card was in view that is turned over again.",
        q="The step that turns it over.",
        advice="Trying a card that was never seen recalls nothing.",
    ),
    "Battleship": Instructions(
        goal="Ships are hidden on a board. Say where to shoot; you are told whether it hit. Sink all with few shots.",
        p="The steps that tell of the shots that this one follows from.",
        q="The step at which a shot is chosen.",
    ),
    "PositionOnlyPendulum": Instructions(
        goal="A motor too weak to lift the pendulum swings it up and balances it. How fast it turns is not seen.",
        p="The step before, which with the present one tells how fast it turns.",
        q="Every step after the first.",
    ),
    "NoisyPositionOnlyPendulum": Instructions(
        goal="A motor too weak to lift the pendulum swings it up and balances it. What is seen is not exact.",
        p="The last steps, which together tell where the pendulum is and how fast it turns.",
        q="Every step after the first.",
    ),
}


def _row(game: str, level: str, seen: Sequence[int] | Part, actions: ActionSpec, horizon: int, **more: Any) -> None:
    """The row of a game at a level; `seen` is what an observation is, or how many values each number of it has."""
    if not isinstance(seen, Part):
        seen = Part("vector", (sum(seen),), choices=tuple(seen))
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in game + level)
    register_task(
        Task(
            name=f"popgym{words}",
            title=f"{game} {level}",
            env_id=f"popgym-{game}{level}-v0",
            register="popgym",
            needs=("popgym", "pip install 'attentiontuner[popgym]'"),
            observation=ObservationSpec(parts={"": seen}),
            actions=actions,
            horizon=horizon,
            instructions=INSTRUCTIONS[game],
            **more,
        )
    )


def _numbers(count: int) -> ActionSpec:
    return ActionSpec.discrete([str(number) for number in range(count)])


for _level, _decks, _kind in zip(LEVELS, (1, 2, 4), ("colours", "suits", "ranks"), strict=True):
    _row(
        *("CountRecall", _level, (KINDS[_kind],) * 2),
        actions=_numbers(DECK * _decks // KINDS[_kind] + 1),
        horizon=DECK * _decks - 1,
        expert=f"{EXPERTS}.cards:CountRecallExpert",
        success=EVERYTHING_RIGHT,
    )

for _game, _choices, _each, _steps in (
    ("RepeatFirst", (SUITS,), (1, 8, 16), DECK),
    ("RepeatPrevious", (SUITS,), (1, 2, 3), DECK),
    ("Autoencode", (2, SUITS), (1, 2, 3), 2 * DECK),
):
    for _level, _decks in zip(LEVELS, _each, strict=True):
        _row(
            *(_game, _level, _choices),
            actions=NAMES_OF_SUITS,
            horizon=_steps * _decks - 1,
            expert=f"{EXPERTS}.cards:{_game}Expert",
            success=EVERYTHING_RIGHT,
            keys=KEYS_OF_SUITS,
        )

for _level, _decks in zip(LEVELS, (1, 2, 3), strict=True):
    _row(
        *("HigherLower", _level, (KINDS["ranks"],)),
        actions=ActionSpec.discrete(("higher", "lower")),
        horizon=DECK * _decks - 1,
        expert=f"{EXPERTS}.cards:HigherLowerExpert",
        wrap="attentiontuner.envs.popgym_wraps:BesideCounter",
        keys={"ArrowUp": 0, "ArrowDown": 1},
    )

for _level, _decks, _kind in zip(LEVELS, (1, 2, 1), ("colours", "colours", "ranks"), strict=True):
    _row(
        *("Concentration", _level, (KINDS[_kind] + 1,) * DECK * _decks),
        actions=_numbers(DECK * _decks),
        horizon=2 * DECK * _decks,
        expert=f"{EXPERTS}.concentration:ConcentrationExpert",
    )

for _level, _side in zip(LEVELS, (8, 10, 12), strict=True):
    _row(
        *("Battleship", _level, (2, _side + 1, _side + 1)),
        actions=ActionSpec.multi_discrete((_side, _side)),
        horizon=_side**2,
        expert=f"{EXPERTS}.battleship:BattleshipExpert",
        wrap="attentiontuner.envs.popgym_wraps:LastShot",
    )

for _game, _most, _least in (
    ("PositionOnlyPendulum", (200, 150, 100), (0.76, 0.68, 0.52)),
    ("NoisyPositionOnlyPendulum", (200, 200, 200), (0.45, 0.45, 0.45)),
):
    for _level, _steps, _return in zip(LEVELS, _most, _least, strict=True):
        _row(
            *(_game, _level, POINTING),
            actions=TORQUE,
            horizon=_steps,
            expert=f"{EXPERTS}.pendulum:{_game}Expert",
            success=ReturnAtLeast(_return),
            every_attempt_succeeds=False,
            keys={"ArrowLeft": 0, "ArrowRight": 1, " ": 2},
            moves={"left": (2,), "right": (-2,), "nothing": (0,)},
        )
