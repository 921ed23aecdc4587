"""Who shall annotate what, and what was looked at again: `DIR/studio/review.json`.

    {"assigned": {"ada": "0-249", "bob": "200-449"},
     "states": {"12": {"state": "accepted", "by": "cleo", "labels": "9c1e40aa"}}}

A demonstration may be assigned to several people. `labels` tells what was accepted: labels that have changed since then
are not what somebody looked at. Every change is made under the data set's lock on what is there at that moment, so that
two studios do not lose each other's.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from attentiontuner.core import files
from attentiontuner.core.errors import UserError
from attentiontuner.demos.annotations import check_annotator
from attentiontuner.demos.store.manifest import LOCK
from attentiontuner.studio.desk import Outdated, saving
from attentiontuner.studio.ranges import format_ranges, parse_ranges

FILE = "review.json"
MOST_EPISODES = 10**6

State = Literal["", "to review", "accepted"]


class Reviewed(NamedTuple):
    """The state of one demonstration: who gave it, and of which labels (a fingerprint, where they were accepted)."""

    state: State
    by: str
    labels: str = ""


@dataclass(frozen=True)
class Review:
    """What is kept: whom demonstrations are assigned to, by name, and their states, by number."""

    assigned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    states: Mapping[int, Reviewed] = field(default_factory=dict)

    def state(self, episode: int) -> State:
        """The state of a demonstration; "" where nobody gave one."""
        found = self.states.get(episode)
        return found.state if found else ""


def review_file(root: Path) -> Path:
    return root / "studio" / FILE


def read_review(root: Path) -> Review:
    """Assignments and states as they are saved now."""
    path = review_file(root)
    if not path.exists():
        return Review()
    try:
        value = files.read_json(path)
        assigned = {
            check_annotator(name): frozenset(parse_ranges(ranges, MOST_EPISODES))
            for name, ranges in value["assigned"].items()
        }
        states = {int(episode): _reviewed(entry) for episode, entry in value["states"].items()}
    except (AttributeError, KeyError, TypeError, ValueError, UserError) as error:
        raise UserError(f"{path} is damaged: {error}; move it away to go on without assignments and states") from error
    return Review(assigned, states)


def assign(root: Path, name: str, episodes: Iterable[int], take_away: bool = False) -> Review:
    """Give demonstrations to `name`, or take them away again; what others have stays theirs."""
    check_annotator(name)
    chosen = frozenset(episodes)

    def change(review: Review) -> Review:
        had = review.assigned.get(name, frozenset())
        has = had - chosen if take_away else had | chosen
        others = {other: theirs for other, theirs in review.assigned.items() if other != name}
        return Review({**others, **({name: has} if has else {})}, review.states)

    return _change(root, change)


def set_state(
    root: Path, by: str, wanted: Mapping[int, str], state: State, seen: Mapping[State, frozenset[int]]
) -> Review:
    """Give demonstrations a state; `wanted` has the fingerprint of their labels.

    `seen` has the numbers of those that the sender saw in other states than none. Where one was changed meanwhile,
    nothing is.
    """
    check_annotator(by)

    def change(review: Review) -> Review:
        for episode in sorted(wanted):
            believed = next((known for known, numbers in seen.items() if episode in numbers), "")
            if review.state(episode) not in (believed, state):
                raise Outdated(
                    f"demonstration {episode} was set to {review.state(episode) or 'no state'!r} elsewhere in the "
                    "meantime; nothing was changed"
                )
        states = dict(review.states)
        for episode, labels in wanted.items():
            states.pop(episode, None)
            if state:
                states[episode] = Reviewed(state, by, labels if state == "accepted" else "")
        return Review(review.assigned, states)

    return _change(root, change)


def _change(root: Path, change: Callable[[Review], Review]) -> Review:
    with files.locked(root / LOCK):
        before = read_review(root)
        review = change(before)
        if review != before:
            value = {
                "assigned": {name: format_ranges(review.assigned[name]) for name in sorted(review.assigned)},
                "states": {str(episode): review.states[episode]._asdict() for episode in sorted(review.states)},
            }
            with saving():
                files.write_json(review_file(root), value)
        return review


def _reviewed(entry: Mapping[str, str]) -> Reviewed:
    state = entry["state"]
    if state not in get_args(State)[1:]:
        raise UserError(f"there is no state {state!r}")
    return Reviewed(state, str(entry["by"]), str(entry["labels"]))  # type: ignore[arg-type]
