"""The experts of POPGym's games with cards that are dealt. All see the observations alone, ones among zeros; of `env`
they read numbers that belong to the rules."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.envs.popgym_wraps import RANKS, likelier
from attentiontuner.experts.expert import Decision

WATCHING = 1
"""What Autoencode's observation says while cards are shown."""


class RepeatFirstExpert:
    """Names the suit of the first card. From the second step on it recalls step 0."""

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._first = 0

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        if not self._step:
            self._first = int(observation.argmax())
        return Decision(self._first, (0,) if self._step else ())


class RepeatPreviousExpert:
    """Names the suit of the card k - 1 steps ago, which is the step it recalls; before there is one, the first suit. k
    is a rule of the game, read from `env`."""

    def __init__(self, env: Any) -> None:
        self._ago = env.unwrapped.k - 1
        self._cards: list[int] = []

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._cards.append(int(observation.argmax()))
        p = len(self._cards) - 1 - self._ago
        return Decision(self._cards[p], (p,)) if p >= 0 else Decision(0)


class AutoencodeExpert:
    """Watches the cards, then names their suits from the last to the first, and recalls the step that showed the one it
    names. The last card is in view when its turn comes; while it watches it gives the first suit."""

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._shown: list[tuple[int, int]] = []  # (step, suit)
        self._playing = False

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        if not self._playing:
            self._shown.append((self._step, int(observation[2:].argmax())))
            self._playing = int(observation[:2].argmax()) != WATCHING
        if not self._playing:
            return Decision(0)
        step, suit = self._shown.pop()
        return Decision(suit, (step,) if step < self._step else ())


class CountRecallExpert:
    """Says how often the card asked for has been dealt so far, the present one included. It recalls each earlier step
    that dealt it."""

    def __init__(self, env: object = None) -> None:
        self._dealt: list[int] = []

    def decide(self, observation: NDArray[Any]) -> Decision:
        kinds = len(observation) // 2
        dealt, asked = int(observation[:kinds].argmax()), int(observation[kinds:].argmax())
        recalled = [p for p, card in enumerate(self._dealt) if card == asked]
        self._dealt.append(dealt)
        return Decision(len(recalled) + (dealt == asked), recalled)


class HigherLowerExpert:
    """Counts cards, and guesses what more of the cards that are left are: higher or lower. It recalls every earlier
    step with a card of another rank than the present one. How many decks there are is a rule, read from `env`."""

    def __init__(self, env: Any) -> None:
        self._decks = env.unwrapped.num_decks
        self._cards: list[int] = []

    def decide(self, observation: NDArray[Any]) -> Decision:
        rank = int(observation.argmax())
        recalled = [p for p, card in enumerate(self._cards) if card != rank]
        self._cards.append(rank)
        return Decision(likelier(rank, np.bincount(self._cards, minlength=RANKS), self._decks), recalled)
