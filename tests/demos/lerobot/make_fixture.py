"""Writes the three episodes in `made/` with LeRobot's own code, which need not be installed to read them.

`python tests/demos/lerobot/make_fixture.py DST`, with lerobot 0.6 or newer; `made/made.json` says which version wrote
what is here, and the numbers that tests compare with.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

FPS = 10
LENGTHS = (7, 5, 9)
TASKS = ("put the cube where it was", "press the button", "put the cube where it was")
FEATURES = {
    "observation.images.top": {"dtype": "video", "shape": (64, 96, 3), "names": ["height", "width", "channels"]},
    "observation.images.wrist": {"dtype": "image", "shape": (24, 32, 3), "names": ["height", "width", "channels"]},
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "grip"]},
    "action": {"dtype": "float32", "shape": (2,), "names": ["dx", "dy"]},
    "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    "next.success": {"dtype": "bool", "shape": (1,), "names": None},
}


def camera(height: int, width: int, episode: int, step: int) -> "np.ndarray":
    """A square that wanders over a plain colour: uint8 `[height, width, 3]`."""
    image = np.full((height, width, 3), (40 * episode, 90, 160), np.uint8)
    left = 2 + 4 * step % (width - 12)
    image[6:14, left : left + 8] = (230, 220, 20 * step)
    return image


def annotate(target: Path) -> None:
    """In episodes 0 and 2 the first step was recalled at the last; somebody said "slowly" at step 2 of each.

    LeRobot's annotations come after the recording, by its own writer. A style of others has to be made known to it.
    """
    from lerobot.annotations.steerable_pipeline.reader import iter_episodes
    from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
    from lerobot.annotations.steerable_pipeline.writer import LanguageColumnsWriter
    from lerobot.datasets import language
    from lerobot.datasets.io_utils import load_info, write_info

    language.EVENT_ONLY_STYLES.add("recall")
    episodes = list(iter_episodes(target))
    with tempfile.TemporaryDirectory() as staging:
        for episode in episodes:
            number, times = episode.episode_index, episode.frame_timestamps
            rows = [{"style": "interjection", "role": "user", "content": "slowly", "timestamp": times[2]}]
            if number != 1:
                recalled = json.dumps({"by": "anna", "p": [0], "m": [1]})
                rows.append({"style": "recall", "role": "annotator", "content": recalled, "timestamp": times[-1]})
            EpisodeStaging(Path(staging), number).write("interjections", rows)
        LanguageColumnsWriter().write_all(episodes, Path(staging), target)
    info = load_info(target)
    info.features = {**info.features, **language.language_feature_info()}
    write_info(info, target)


def main(target: Path) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset.create("made/up", FPS, FEATURES, root=target, robot_type="arm", use_videos=True)
    rng = np.random.default_rng(1)
    said: dict[str, list[object]] = {"state": [], "action": []}
    for episode, (length, task) in enumerate(zip(LENGTHS, TASKS, strict=True)):
        state = rng.normal(size=(length, 3)).astype(np.float32)
        action = rng.uniform(-1, 1, (length, 2)).astype(np.float32)
        for step in range(length):
            last = step == length - 1
            dataset.add_frame(
                {
                    "observation.images.top": camera(64, 96, episode, step),
                    "observation.images.wrist": camera(24, 32, episode, step),
                    "observation.state": state[step],
                    "action": action[step],
                    "next.reward": np.array([float(last)], np.float32),
                    "next.done": np.array([last]),
                    "next.success": np.array([last and episode != 1]),
                    "task": task,
                }
            )
        dataset.save_episode(parallel_encoding=False)
        said["state"].append(state.tolist())
        said["action"].append(action.tolist())
    dataset.finalize()
    annotate(target)
    (target / "made.json").write_text(json.dumps({"lerobot": version("lerobot"), **said}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
