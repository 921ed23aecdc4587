"""What a memory report rests on, kept in files: killed, it goes on where it was.

WORK/settings.json         what it was computed from
WORK/alone.safetensors     the policy without a memory: entropy, surprise, answers; which fold judged an episode
WORK/frames.safetensors    earlier frames that tell the actions of steps in question
WORK/past.safetensors      what every step gains by the whole past

Legend: N episodes, S steps of all of them, Q steps in question, P numbers of the distribution of an action.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import read_json, reading, write_bytes, write_json
from attentiontuner.core.seals import check_tensors, read_tensors, seal_tensors
from attentiontuner.core.wording import counted
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.insight.corrections import Known, Past, by_frames, by_sums
from attentiontuner.insight.explaining import Thing, explain
from attentiontuner.insight.need import Judges, above_usual, usual
from attentiontuner.insight.past import with_whole_past
from attentiontuner.insight.places import Place
from attentiontuner.insight.questions import Questions, in_question
from attentiontuner.insight.recommendations import fingerprint
from attentiontuner.insight.steps import Integers, StepData, learned_from
from attentiontuner.models.actions import ActionHead, action_head

FEWEST = 8
"""Demonstrations, at least: some are judged by what others teach."""

MOST_STEPS, MOST_IMAGES = 60_000, 6_000
"""Steps, and distinct images among them, that are looked at, about."""

VERSION = 5
"""Of the files; those of another are computed again."""

STAGES = ("settings.json", "alone.safetensors", "frames.safetensors", "past.safetensors")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Evidence:
    """All that is known of some episodes.

    Attributes:
        episodes: `[N]` their numbers in the data set. lengths: `[N]` their steps.
        entropy, surprise: `[S]` of the policy without a memory, in nats above what is usual.
        error: `[S]` how far its best action is from the expert's (`ActionHead.error`).
        asked: the steps in question, with its answers.
        things: what they recall.
        past: `[S]` nats that every step gains by the whole past.
    """

    episodes: Integers
    lengths: Integers
    entropy: Floats
    surprise: Floats
    error: Floats
    asked: Questions
    things: list[Thing]
    past: Floats

    @property
    def numbers(self) -> bool:
        """Whether actions are numbers."""
        return self.asked.numbers

    @property
    def pictures(self) -> bool:
        """Whether there is an image among what is seen."""
        return "image" in self.asked.data.packed.observation.kinds

    @property
    def owner(self) -> Integers:
        """`[S]` the place of each step's episode."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def time(self) -> Integers:
        """`[S]` each step's number in its episode."""
        return np.arange(len(self.surprise)) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)

    @property
    def recalled(self) -> Floats:
        """`[S]` nats that every step gains by the frames found."""
        gains = np.zeros(len(self.surprise), np.float32)
        for thing in self.things:
            gains[self.asked.step] += thing.gain
        return gains

    @property
    def shown(self) -> tuple[Floats, Floats, Floats]:
        """What is shown of every step `[S]`: surprise without a memory, with the frames found, with the whole past, in
        nats. Of numbers that is a density, of which 0 says nothing: their error without a memory, in their units, and
        the nats that the frames found and the whole past gain."""
        if self.numbers:
            return self.error, self.recalled, self.past
        return self.surprise, self.surprise - self.recalled, self.surprise - self.past


def gather(store: DemoStore, work: Path, *, seed: int, device: torch.device | str = "cpu") -> Evidence:
    """The evidence of a data set, from the files in `work` as far as they are there."""
    if len(store) < FEWEST:
        held = counted(len(store), "demonstration")
        raise UserError(
            f"{store.path} holds {held}: a memory report needs {FEWEST}, to judge some by what others teach"
        )
    store = store.annotated_by(None)
    _same_settings(store, work, seed)
    episodes = _looked_at(store, np.random.default_rng([seed, 9]))
    data = StepData(store.read_packed(episodes), torch.device(device))
    places = np.arange(len(episodes))

    def alone() -> dict[str, NDArray[Any]]:
        judges = Judges.trained(store, episodes, seed=seed, device=device)
        entropy, surprise = judges.judge(data, places)
        answers = judges.answers(data, places, np.arange(len(data)))
        return {"entropy": entropy, "surprise": surprise, "answers": answers, "fold": judges.fold}

    found = _kept(work / "alone.safetensors", alone, seed)
    head = _head(store, data)
    numbers = store.actions.kind == "box"
    error = head.error(torch.from_numpy(found["answers"]).to(data.device), data.actions).cpu().numpy()
    time = np.arange(len(data)) - np.repeat(data.packed.starts, data.packed.lengths)
    step = in_question(found["entropy"], time, numbers)
    asked = Questions.of(data, head, step, found["answers"][step], usual(found["surprise"], numbers))

    if numbers:
        things, gain = _numbers_tell(store, work, asked, seed)
    else:
        things, gain = _choices_tell(store, work, asked, found, seed)
    entropy, surprise = (above_usual(found[name], numbers) for name in ("entropy", "surprise"))
    lengths = store.lengths[episodes]
    return Evidence(episodes, lengths, entropy, surprise, error, asked, things, gain)


def _choices_tell(
    store: DemoStore, work: Path, asked: Questions, found: dict[str, NDArray[Any]], seed: int
) -> tuple[list[Thing], Floats]:
    """What is recalled, and what every step gains by the whole past `[S]`, where actions are choices."""

    def frames() -> dict[str, NDArray[Any]]:
        label = f"frames of {store.task}"
        return _packed(explain(asked, found["fold"], store.observation, store.actions, seed=seed, label=label))

    def past() -> dict[str, NDArray[Any]]:
        label = f"past of {store.task}"
        args = asked.data, asked.head, store.observation, found["answers"], found["fold"]
        return {"gain": with_whole_past(*args, seed=seed, label=label)}

    things = _unpacked(_kept(work / "frames.safetensors", frames, seed))
    return things, _kept(work / "past.safetensors", past, seed)["gain"]


def _numbers_tell(store: DemoStore, work: Path, asked: Questions, seed: int) -> tuple[list[Thing], Floats]:
    """The same where actions are numbers; steps that are not in question gain nothing."""
    known = Known.at(asked, store.observation)

    def past() -> dict[str, NDArray[Any]]:
        return vars(by_sums(asked, known, seed=seed, label=f"past of {store.task}"))

    told = Past(**_kept(work / "past.safetensors", past, seed))

    def frames() -> dict[str, NDArray[Any]]:
        return _packed(by_frames(asked, known, told, seed=seed))

    gain = np.zeros(len(asked.data), np.float32)
    gain[asked.step] = told.gain
    return _unpacked(_kept(work / "frames.safetensors", frames, seed)), gain


def _head(store: DemoStore, data: StepData) -> ActionHead:
    head = action_head(store.actions)
    head.fit([data.packed.actions])
    return head.to(data.device)


def worth_looking_at(store: DemoStore) -> Integers:
    """Numbers of the episodes that solved their task, which are those that `train` learns from; of all where hardly one
    did."""
    solved = np.flatnonzero(store.success())
    return solved if len(solved) >= FEWEST else np.arange(len(store))


def _looked_at(store: DemoStore, rng: np.random.Generator) -> Integers:
    """Numbers of the episodes that are looked at: all that are worth it, or as many at random as the limits allow."""
    every = worth_looking_at(store)
    chosen = every[learned_from(store, every, rng)]
    share = MOST_STEPS / store.lengths[chosen].sum()
    if "image" in store.observation.kinds:
        frames = sum(shard.distinct_frames for shard in store.manifest.readable_shards()) * len(chosen) / len(store)
        share = min(share, MOST_IMAGES / max(frames, 1))
    count = max(min(len(chosen), FEWEST), int(min(share, 1) * len(chosen)))
    return np.sort(rng.choice(chosen, count, replace=False))


def _same_settings(store: DemoStore, work: Path, seed: int) -> None:
    """Forget what was computed from something else."""
    settings = {"version": VERSION, "shards": fingerprint(store.manifest.readable_shards()), "seed": seed}
    path = work / "settings.json"
    if not path.exists() or read_json(path) != settings:
        for old in work.glob("*.safetensors"):
            old.unlink()
        write_json(path, settings)


def _kept(path: Path, make: Callable[[], dict[str, NDArray[Any]]], seed: int) -> dict[str, NDArray[Any]]:
    """The arrays in a file, made and written where they are not there. What PyTorch draws meanwhile, in dropout say, is
    told by the seed."""
    if path.exists():
        content = read_tensors(path)
        try:
            with reading(path):
                if not check_tensors(content, path):
                    raise ValueError("it has no checksum")
                return {name: array.copy() for name, array in load(content).items()}
        except UserError as error:
            raise UserError(f"{error}; delete it, and the same command computes it again") from error
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = {name: np.ascontiguousarray(array) for name, array in make().items()}
    write_bytes(path, seal_tensors(save(made)))
    return made


COLUMNS = ("time", "share", "gain", "answer", "known")


def _packed(things: list[Thing]) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        f"{number}.{name}": getattr(thing, name) for number, thing in enumerate(things) for name in COLUMNS
    }
    ways = [[place and list(place) for place in thing.found_by] for thing in things]
    return {**arrays, "found_by": np.frombuffer(json.dumps(ways).encode(), np.uint8)}


def _unpacked(arrays: dict[str, NDArray[Any]]) -> list[Thing]:
    ways = json.loads(arrays["found_by"].tobytes())
    found = []
    for number, own in enumerate(ways):
        time, share, gain, answer, known = (arrays[f"{number}.{name}"] for name in COLUMNS)
        found_by = tuple(Place(*way) if way else None for way in own)
        found.append(Thing(time, share, gain, answer, known, found_by))
    return found
