"""Minari in and out. Pairs travel as text in each episode's metadata, in the form annotation lines use.

A Minari episode ends with the observation after the last action, which a demonstration does not have: on the way out
the last observation is repeated there, on the way in it is dropped.
"""

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import WRONG_CONTENT, new_folder, shortened
from attentiontuner.core.progress import progress
from attentiontuner.core.success import SuccessRule, recorded_success, with_totals
from attentiontuner.core.wording import counted
from attentiontuner.demos.annotations import check_annotator, named
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.pair_text import format_pairs, parse_pairs
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec, Part, SpaceError

KEY = "attentiontuner"
"""Under this key lies our text, in the metadata of the data set and of each episode."""

UNKNOWN = "minari"
"""Whose pairs are that do not say it: those written before they did."""

EPISODES_AT_ONCE = 50

NAME = re.compile(r"([-\w][-\w/]*[-\w]/)?[-\w]+-v\d+")
"""Names of Minari data sets. Minari writes some others, and then cannot open them."""


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise UserError("Minari is not installed: pip install 'attentiontuner[minari]'") from error
    return minari


def to_minari(store: DemoStore, dataset_id: str) -> Any:
    """Write `store` as the local Minari data set `dataset_id` ("name-v0"), losslessly, and return it.

    Stopped half-way, what was written is removed.
    """
    minari = _minari()
    if not NAME.fullmatch(dataset_id):
        what = f"Minari data set {dataset_id!r}"
        raise UserError(f"{what}: give a name that ends in -v and a number, such as ours/walk-v0")
    if not len(store):
        raise UserError(f"{store.path} holds no episodes: there is nothing to write")
    dataset: Any = None
    try:
        with progress("to Minari", len(store)) as bar:
            for start in range(0, len(store), EPISODES_AT_ONCE):
                part = [store[episode] for episode in range(start, min(start + EPISODES_AT_ONCE, len(store)))]
                buffers = [_buffer(demonstration) for demonstration in part]
                if dataset is None:
                    dataset = _create(minari, dataset_id, store, buffers)
                else:
                    dataset.update_dataset_from_buffer(buffers)
                numbers = range(start, start + len(part))
                dataset.storage.update_episode_metadata([_episode_metadata(d) for d in part], numbers)
                bar.advance(len(part))
        _write_head(dataset, store)
    except BaseException:
        if dataset is not None:
            minari.delete_dataset(dataset_id)
        raise
    return minari.load_dataset(dataset_id)


def _write_head(dataset: Any, store: DemoStore) -> None:
    head = {
        "task": store.task,
        "settings": store.settings,
        "observation": store.observation.to_json(),
        "actions": store.actions.to_json(),
        "annotator": store.annotator if len(named(store.annotator)) == 1 else None,
    }
    dataset.storage.update_metadata({KEY: json.dumps(head)})


def _create(minari: Any, dataset_id: str, store: DemoStore, buffers: Sequence[Any]) -> Any:
    try:
        with warnings.catch_warnings():  # each names an argument that demonstrations have nothing for
            warnings.filterwarnings("ignore", category=UserWarning, module="minari")
            return minari.create_dataset_from_buffers(
                dataset_id,
                list(buffers),
                observation_space=_observation_space(store.observation),
                action_space=_action_space(store.actions),
                description=f"{counted(len(store), 'demonstration')} of {store.task}, written by attentiontuner",
                algorithm_name=store.annotator or "recorded",
                jpeg_encoding=False,  # Minari's default is lossy
            )
    except ValueError as error:
        raise UserError(f"Minari data set {dataset_id!r}: {error}") from error


def _observation_space(spec: ObservationSpec) -> Any:
    from gymnasium.spaces import Box, Dict

    def box(part: Part) -> Box:
        low, high = (0, 255) if part.dtype == np.uint8 else (-np.inf, np.inf)
        return Box(low, high, part.shape, part.dtype.type)

    return box(spec.parts[0][1]) if spec.plain else Dict({name: box(part) for name, part in spec.parts})


def _action_space(spec: ActionSpec) -> Any:
    from gymnasium.spaces import Box, Discrete, MultiDiscrete

    if spec.kind == "discrete":
        return Discrete(spec.count)
    if spec.kind == "multi-discrete":
        return MultiDiscrete(list(spec.choices))
    low, high = (np.array(bound, np.float32).reshape(spec.shape) for bound in (spec.low, spec.high))
    return Box(low, high, dtype=np.float32)


def _buffer(demonstration: Demonstration) -> Any:
    from minari.data_collector import EpisodeBuffer

    seen, ends = demonstration.observations, [False] * (len(demonstration) - 1)
    if isinstance(seen, Mapping):
        observations: Any = {name: [*array, array[-1]] for name, array in seen.items()}
    else:
        observations = [*seen, seen[-1]]
    return EpisodeBuffer(
        seed=demonstration.seed,
        observations=observations,
        actions=[*demonstration.actions],
        rewards=demonstration.rewards.tolist(),
        terminations=[*ends, demonstration.terminated],
        truncations=[*ends, demonstration.truncated],
        infos={},
    )


def _episode_metadata(demonstration: Demonstration) -> dict[str, Any]:
    pairs = None if demonstration.pairs is None else format_pairs(demonstration.pairs)
    value = {"seed": demonstration.seed, "success": demonstration.success, "pairs": pairs}
    return {KEY: json.dumps(value)}


def from_minari(
    dataset: Any,
    path: Path | str,
    *,
    task: str | None = None,
    settings: Mapping[str, Any] | None = None,
    observation: ObservationSpec | None = None,
    actions: ActionSpec | Sequence[str] | None = None,
    success: SuccessRule | None = None,
    annotator: str | None = None,
) -> DemoStore:
    """Write a Minari data set (or the local one of that id) to the new folder `path` and open it.

    What `to_minari` wrote says itself what it is. Any other is called as its environment, else by its id, unless `task`
    is given; `observation` and `actions` (or their names) are those of its spaces, unless given. Its episodes are not
    annotated. Pairs belong to `annotator`, else to whom they did before, `minari` where that is not known. Which of
    them were solved says `success`, such as `ReturnAtLeast(475)`; without it what their infos say, the environment's
    reward threshold, or how they ended (`core.success.recorded_success`). `path` appears when everything is in it.
    """
    if isinstance(dataset, str):
        with _reading(dataset):
            dataset = _load(dataset)
    with _reading(str(dataset.id)):
        head = json.loads(dataset.storage.metadata.get(KEY, "{}"))
        environment = getattr(dataset, "env_spec", None)
        task = task or head.get("task") or _name(dataset.id, environment)
        if observation is None:
            said = head.get("observation")
            spaces = dataset.observation_space
            observation = ObservationSpec.from_json(said) if said else ObservationSpec.from_space(spaces)
        if actions is None:
            said = head.get("actions")
            actions = ActionSpec.from_json(said) if said else ActionSpec.from_space(dataset.action_space)
        settings = dict(head.get("settings", {}) if settings is None else settings)
        threshold = None if environment is None else environment.reward_threshold
        annotator = check_annotator(annotator or head.get("annotator") or UNKNOWN)
        total = int(dataset.total_episodes)
    with new_folder(Path(path)) as folder, progress("from Minari", total) as bar:
        writer = DemoWriter(
            folder,
            task=str(task),
            settings=settings,
            observation=observation,
            actions=actions,
            seed=None,
        )
        waiting: list[Demonstration] = []
        episodes = dataset.iterate_episodes()
        for _ in range(total):
            with _reading(str(dataset.id)):
                episode = next(episodes)
                waiting.append(_demonstration(dataset, episode, observation, success, threshold))
            if len(waiting) == writer.manifest.shard_episodes:
                writer.append(waiting, annotator)
                waiting = []
            bar.advance()
        writer.append(waiting, annotator)
    return DemoStore.open(path)


def _load(dataset_id: str) -> Any:
    """The local data set of that id. Minari counts out as many episodes as its head says, so that is compared with what
    is there before."""
    minari = _minari()
    from minari.dataset.minari_storage import MinariStorage
    from minari.storage.datasets_root_dir import get_dataset_path

    data = Path(get_dataset_path(dataset_id), "data")
    if data.exists():
        files = list(data.rglob("*"))
        if odd := [path for path in files if not path.is_file() and not path.is_dir()]:
            raise ValueError(f"{odd[0]} is a device or a pipe, and no file")
        said, there = MinariStorage.read(data).total_episodes, sum(path.stat().st_size for path in files)
        if said > there:
            raise ValueError(f"its metadata speak of {counted(said, 'episode')}, there are {counted(there, 'byte')}")
    return minari.load_dataset(dataset_id)


@contextmanager
def _reading(dataset_id: str) -> Iterator[None]:
    """Whatever Minari, or HDF5 below it, says of a data set that cannot be read is a `UserError` that names it."""
    try:
        yield
    except UserError:
        raise
    except (OSError, RuntimeError, StopIteration, AssertionError, *WRONG_CONTENT) as error:
        what = str(error) if isinstance(error, ValueError | OSError) else repr(error)
        raise UserError(f"Minari data set {dataset_id!r}: {shortened(what)}") from error


def _name(dataset_id: str, environment: Any) -> str:
    """What a data set's task is called, as `Task.from_env` calls it: `CartPole-v1` → `cartpole`."""
    known = dataset_id.replace("/", "-") if environment is None else environment.id.rpartition("/")[2]
    return re.sub(r"-v\d+$", "", known).lower()


def _last_info(episode: Any) -> dict[str, Any]:
    """What the infos of an episode say of success at its last step."""
    infos = getattr(episode, "infos", None) or {}
    return {key: infos[key][-1] for key in ("success", "is_success") if len(infos.get(key, ()))}


def _solved(episode: Any, success: SuccessRule | None, threshold: float | None) -> bool:
    rewards, terminated = np.asarray(episode.rewards, float).tolist(), bool(episode.terminations[-1])
    if success is None:
        return recorded_success(rewards, terminated, _last_info(episode), threshold)
    return bool(success(rewards[-1], terminated, with_totals(_last_info(episode), sum(rewards), len(rewards))))


def _demonstration(
    dataset: Any, episode: Any, observation: ObservationSpec, success: SuccessRule | None, threshold: float | None
) -> Demonstration:
    metadata = next(iter(dataset.storage.get_episode_metadata([episode.id])))
    said = json.loads(metadata.get(KEY, "{}"))
    length, pairs = len(episode.rewards), said.get("pairs")
    seed = said.get("seed", metadata.get("seed"))
    own = said.get("success") if success is None else None
    try:
        seen = observation.decode(observation.encode(episode.observations)[:length])
    except SpaceError as error:
        place = f"Minari data set {dataset.id!r}, episode {episode.id}, step {error.row}"
        raise UserError(f"{place}: {error.problem} ({observation} is promised)") from error
    return Demonstration(
        observations=seen,
        actions=episode.actions,
        rewards=episode.rewards,
        terminated=bool(episode.terminations[-1]),
        truncated=bool(episode.truncations[-1]),
        seed=int(seed) if isinstance(seed, int | np.integer) else 0,
        success=_solved(episode, success, threshold) if own is None else bool(own),
        pairs=None if pairs is None else parse_pairs(pairs, length, episode.id),
        episode=int(episode.id),
    )
