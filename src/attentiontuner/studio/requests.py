"""The bodies of requests: bounded, typed, and turned into edits."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from attentiontuner.core.errors import UserError
from attentiontuner.studio import session
from attentiontuner.studio.desk import Action
from attentiontuner.studio.guard import MAX_BODY
from attentiontuner.studio.handout import Format
from attentiontuner.studio.review import State

MAX_PAIRS = 25_000
MOST_TOLERANCE = 50
Step = Annotated[int, Field(ge=0, lt=2**53)]
PairBody = Annotated[tuple[Step, Step], Strict(False)]  # JSON knows no tuples; the steps themselves stay strict
BlockBody = Annotated[tuple[Step, Step, Step, Step], Strict(False)]
AboutBody = Annotated[tuple[Step, Step, Step, Step, Annotated[float, Field(ge=0, allow_inf_nan=False)]], Strict(False)]
Count = Annotated[int, Field(ge=1, le=session.MAX_MULTIPLICITY)]
Pairs = Annotated[list[PairBody], Field(max_length=MAX_PAIRS)]


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text holds half of a surrogate pair, which cannot be saved") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]
Name = Annotated[Text, Field(min_length=1, max_length=64)]
Batch = Annotated[str, Field(pattern=r"^[0-9a-f]{8,32}$")]
Mark = Annotated[Text, Field(max_length=64)]
Seconds = Annotated[float, Field(ge=0, le=24 * 3600, allow_inf_nan=False)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class EditBody(Body):
    """One edit, as the page says it."""

    kind: Literal["add", "remove", "count", "nothing", "clear", "note", "flag", "reject", "undo", "redo"]
    pairs: Pairs = []
    source: Annotated[Text, Field(min_length=1, max_length=session.MAX_SOURCE)] | None = None
    multiplicity: Count = 1
    text: Annotated[Text, Field(max_length=session.MAX_NOTE)] = ""
    flagged: bool = False
    counts: Annotated[list[Count], Field(max_length=MAX_PAIRS)] = []
    about: Annotated[list[AboutBody | None], Field(max_length=MAX_PAIRS)] = []
    blocks: Annotated[list[BlockBody], Field(max_length=MAX_PAIRS)] = []

    def action(self) -> Action:
        """What it does to a session."""
        if self.kind == "undo":
            return session.Session.undo
        if self.kind == "redo":
            return session.Session.redo
        edit = self._edit()
        return lambda edited: edited.apply(edit)

    def _edit(self) -> session.Edit:
        if self.kind == "count":
            if len(self.pairs) != 1:
                raise UserError("a multiplicity is set for one pair at a time")
            return session.count(self.pairs[0], self.multiplicity)
        if self.kind == "reject":
            if self.source is None:
                raise UserError("a rejected suggestion needs its source")
            return session.reject(self.pairs, self.source)
        edits: dict[str, Callable[[], session.Edit]] = {
            "add": lambda: session.add(self.pairs, self.source, self.counts, self.about, self.blocks),
            "remove": lambda: session.remove(self.pairs, self.blocks),
            "nothing": session.nothing,
            "clear": session.clear,
            "note": lambda: session.note(self.text),
            "flag": lambda: session.flag(self.flagged),
        }
        return edits[self.kind]()


class ChangeBody(Body):
    """A change to one demonstration: who, on which version, what, how long it took, and in which window.

    `mark` is the change's own: sent again because its answer was lost, it is made once.
    """

    annotator: Name
    version: Annotated[Text, Field(max_length=64)]
    edit: EditBody
    seconds: Seconds = 0.0
    window: Mark = ""
    mark: Mark = ""


class TimeBody(Body):
    """Active seconds on a demonstration that is being left."""

    annotator: Name
    seconds: Seconds


Ranges = Annotated[Text, Field(max_length=MAX_BODY)]


class HereBody(Body):
    """A page says which demonstration it shows, or that it is closed."""

    window: Annotated[Text, Field(min_length=1, max_length=40)]
    annotator: Name
    episode: Step
    leaving: bool = False


class AssignBody(Body):
    """Demonstrations for somebody, or no longer."""

    name: Name
    episodes: Ranges
    take_away: bool = False


class StateBody(Body):
    """Demonstrations get a state; `seen` says in which the sender saw them."""

    by: Name
    episodes: Ranges
    state: State
    seen: dict[State, Ranges]


class AcceptBody(Body):
    """Suggestions of one source are accepted for many demonstrations, under a name of its own."""

    by: Name
    name: Name
    source: Annotated[Text, Field(max_length=session.MAX_SOURCE)]
    episodes: Ranges
    batch: Batch


class TakeBackBody(Body):
    """What was accepted at once is taken back at once."""

    name: Name
    batch: Batch


class HandoutBody(Body):
    """What is seen of some demonstrations, as a file."""

    episodes: Ranges
    form: Format
    tolerance: Annotated[int, Field(ge=0, le=MOST_TOLERANCE)] = 0


class StartBody(Body):
    """Begin an episode; without a seed, with the next one."""

    seed: Annotated[int, Field(ge=0, lt=2**53)] | None = None


class StepBody(Body):
    """One action, and how many steps were made before it."""

    action: Annotated[int, Field(ge=0, lt=1000)]
    made: Step


class SaveBody(Body):
    """Save the ended episode: which one, so that a save sent again because its answer was lost is made once."""

    seconds: Seconds
    seed: Annotated[int, Field(ge=0, lt=2**53)]
    made: Step
