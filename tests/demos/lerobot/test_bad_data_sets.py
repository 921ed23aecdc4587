"""What is wrong with somebody's data set is one line that names file, episode and step, and nothing stays behind."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.demos import DemoStore
from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot
from attentiontuner.demos.exchange.lerobot.importing import from_lerobot
from attentiontuner.demos.exchange.lerobot.layout import inside
from attentiontuner.spaces import ActionSpec
from tests.demos.lerobot.examples import (
    DATA,
    EPISODES,
    MADE,
    VIDEO,
    change_column,
    change_feature,
    change_info,
    copy_of,
    film,
)
from tests.demos.lerobot.make_fixture import LENGTHS


def number_at(place: int, wrong: float):
    """Replace the first number of the row at `place`."""

    def change(rows):
        rows[place] = [wrong, *rows[place][1:]] if isinstance(rows[place], list) else wrong
        return rows

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_row(path: Path, row: int) -> None:
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(0, row), table.slice(row + 1)]), path)


def small_image(images):
    from io import BytesIO

    from PIL import Image

    content = BytesIO()
    Image.new("RGB", (16, 24)).save(content, "PNG")
    images[9] = {"bytes": content.getvalue(), "path": None}
    return images


def not_in_the_file(images):
    images[9] = {"bytes": None, "path": "/etc/passwd"}
    return images


def recalls_the_future(events):
    events[3] = [{"style": "recall", "role": "annotator", "content": '{"by": "anna", "p": [5]}'}]
    return events


STATE, ACTION, REWARD, WRIST = "observation.state", "action", "next.reward", "observation.images.wrist"
FINITE = "a number that is not finite (NaN or infinite)"
SECOND = LENGTHS[0]
"""The row where episode 1 begins."""

WRONG = {
    "NaN in a state": (
        lambda root: change_column(root / DATA, STATE, number_at(SECOND + 2, math.nan)),
        f"{DATA}, episode 1, step 2: {STATE}: {FINITE}",
    ),
    "an infinite action": (
        lambda root: change_column(root / DATA, ACTION, number_at(4, math.inf)),
        f"{DATA}, episode 0, step 4: {ACTION}: {FINITE}",
    ),
    "NaN in a reward": (
        lambda root: change_column(root / DATA, REWARD, number_at(SECOND, math.nan)),
        f"{DATA}, episode 1, step 0: {REWARD}: {FINITE}",
    ),
    "no reward": (
        lambda root: change_column(root / DATA, REWARD, number_at(SECOND + 1, None)),
        f"{DATA}, episode 1, step 1: {REWARD}: nothing where a number should be",
    ),
    "no state at all": (
        lambda root: change_column(root / DATA, STATE, lambda rows: [*rows[:9], None, *rows[10:]]),
        f"{DATA}, episode 1, step 2: {STATE}: 0 numbers where 3 should be",
    ),
    "a shorter state": (
        lambda root: change_column(
            root / DATA, STATE, lambda rows: pa.array([*rows[:9], [1.0], *rows[10:]], pa.list_(pa.float32()))
        ),
        f"{DATA}, episode 1, step 2: {STATE}: 1 number where 3 should be",
    ),
    "a camera that changes its size": (
        lambda root: change_column(root / DATA, WRIST, small_image),
        f"{DATA}, episode 1, step 2: {WRIST}: an image of 24×16, not 24×32",
    ),
    "an image elsewhere": (
        lambda root: change_column(root / DATA, WRIST, not_in_the_file),
        f"{DATA}, episode 1, step 2: {WRIST}: no image in the file, at most the path of one",
    ),
    "no image": (
        lambda root: change_column(
            root / DATA, WRIST, lambda rows: [*rows[:9], {"bytes": b"PNG?", "path": None}, *rows[10:]]
        ),
        f"{DATA}, episode 1, step 2: {WRIST}: an image that cannot be read",
    ),
    "a video that ends early": (
        lambda root: film(root / VIDEO, SECOND + 3),
        f"{VIDEO}, episode 1, step 3: observation.images.top: the video ends before 1.000 s: frames are missing",
    ),
    "a video without one frame": (
        lambda root: film(root / VIDEO, 21, without=SECOND + 1),
        f"{VIDEO}, episode 1, step 1: observation.images.top: the video has no frame at 0.800 s",
    ),
    "a video of another size": (
        lambda root: film(root / VIDEO, 21, size=(48, 96)),
        f"{VIDEO}, episode 0, step 0: observation.images.top: a frame of 48×96, not 64×96",
    ),
    "a video of another speed": (
        lambda root: film(root / VIDEO, 60, fps=30),
        f"{VIDEO} runs at 30 fps, the data set at 10: they must agree",
    ),
    "half of a video": (
        lambda root: cut(root / VIDEO),
        f"{VIDEO}, episode 0, step 4: observation.images.top: the video is damaged at 0.400 s: Invalid data",
    ),
    "a video that is none": (
        lambda root: (root / VIDEO).write_bytes(b"no video"),
        f"{VIDEO} is no video that can be read: Invalid data",
    ),
    "no video": (lambda root: (root / VIDEO).unlink(), f"{VIDEO} is missing: get the data set again, whole"),
    "another fps": (
        lambda root: (
            change_info(root, fps=20),
            change_feature(root, "observation.images.top", info={}),
        ),
        f"{DATA}, episode 0, step 1: timestamp: 0.1000 s, where fps 20 makes it 0.0500 s: meta/info.json and the",
    ),
    "a camera with another fps": (
        lambda root: change_feature(root, "observation.images.top", info={"video.fps": 30}),
        "meta/info.json: observation.images.top runs at 30 fps, the data set at 10",
    ),
    "a step that is missing": (
        lambda root: without_row(root / DATA, SECOND + 1),
        f"{DATA}, episode 1, step 4: it is missing: meta/ says 5",
    ),
    "a step out of order": (
        lambda root: change_column(root / DATA, "frame_index", number_at(SECOND + 1, 4)),
        f"{DATA}, episode 1, step 1: timestamp: frame_index is 4: a step is missing or out of order",
    ),
    "an episode that is missing": (
        lambda root: pq.write_table(pq.read_table(root / DATA).slice(0, 12), root / DATA),
        f"{DATA}: episode 2 is missing: get the data set again, whole",
    ),
    "episodes out of order": (
        lambda root: change_column(root / DATA, "episode_index", lambda rows: [{1: 2, 2: 1}.get(n, n) for n in rows]),
        f"{DATA}: episode 2 stands where episode 1 is expected",
    ),
    "too long an episode": (
        lambda root: change_column(root / EPISODES, "length", lambda rows: [rows[0] - 1, *rows[1:]]),
        f"{DATA}, episode 0: more steps than the 6 that meta/ says",
    ),
    "no data": (lambda root: (root / DATA).unlink(), f"{DATA} is missing: get the data set again, whole"),
    "half of the data": (lambda root: cut(root / DATA), f"{DATA} is damaged"),
    "a column that is missing": (
        lambda root: pq.write_table(pq.read_table(root / DATA).drop([STATE]), root / DATA),
        f"{DATA} is damaged: it has no column {STATE}",
    ),
    "no tasks": (lambda root: (root / "meta/tasks.parquet").unlink(), "meta/tasks.parquet is missing"),
    "no episodes": (lambda root: (root / EPISODES).unlink(), "meta/episodes: 0 episodes, but meta/info.json says 3"),
    "an episode said twice": (
        lambda root: change_column(root / EPISODES, "episode_index", lambda rows: [0, 1, 1]),
        "meta/episodes: episode 1 is there twice",
    ),
    "no length": (
        lambda root: change_column(root / EPISODES, "length", lambda rows: [7, 0, 9]),
        f"{EPISODES} is damaged: episode 1: length 0",
    ),
    "no info": (lambda root: (root / "meta/info.json").write_text("{"), "meta/info.json is damaged"),
    "info about nothing": (lambda root: (root / "meta/info.json").write_text("[]"), "which features there are"),
    "no action": (
        lambda root: change_info(
            root,
            features={"observation.state": {"dtype": "float32", "shape": [3]}},
        ),
        "meta/info.json: there is no feature 'action'",
    ),
    "a shape of words": (
        lambda root: change_feature(root, STATE, shape=["three"]),
        "meta/info.json is damaged: feature 'observation.state'",
    ),
    "fps of nothing": (lambda root: change_info(root, fps=0), "meta/info.json: fps is 0, not a number above 0"),
    "version 2.1": (
        lambda root: change_info(root, codebase_version="v2.1"),
        "meta/info.json: version v2.1, but only v3.0 is read: LeRobot's own "
        "`python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id NAME/NAME --push-to-hub false --root ",
    ),
    "version 4": (lambda root: change_info(root, codebase_version="v4.0"), "use a newer attentiontuner"),
    "a pair of the future": (
        lambda root: change_column(root / DATA, "language_events", recalls_the_future),
        f"{DATA}, episode 0, step 3: language_events: a recall event with pair (5, 3): p must be before q",
    ),
    "a task that is not there": (
        lambda root: change_column(root / DATA, "task_index", number_at(8, 7)),
        f"{DATA}, episode 1, step 1: task_index: choice 7, but there are 2, from 0",
    ),
    "data elsewhere": (
        lambda root: change_info(root, data_path="../../{chunk_index}/{file_index}.parquet"),
        "episode 0: ",
    ),
    "a strange template": (
        lambda root: change_info(root, data_path="{chunk_index.__class__}"),
        "a path has {chunk_index.__class__} in it, which is not known",
    ),
    "what is ours does not fit": (
        lambda root: (root / "meta/attentiontuner.json").write_text(json.dumps({"observation": {}})),
        "meta/attentiontuner.json: it does not fit meta/info.json",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_mistakes_are_named_and_leave_nothing(tmp_path, wrong):
    damage, message = WRONG[wrong]
    root = copy_of(tmp_path)
    damage(root)
    with pytest.raises(UserError) as refused:
        from_lerobot(root, tmp_path / "data" / "robot")
    assert message in str(refused.value)
    assert str(root) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "data").exists() or not list((tmp_path / "data").iterdir())


def test_actions_outside_the_bounds_that_are_given_leave_nothing(tmp_path):
    root = copy_of(tmp_path)
    change_column(root / DATA, ACTION, number_at(SECOND + 2, 1.5))
    with pytest.raises(UserError) as refused:
        from_lerobot(root, tmp_path / "data" / "robot", actions=ActionSpec.box([-1, -1], [1, 1]))
    message = f"{root / DATA}, episode 1, step 2: action: action [1.5, "
    assert str(refused.value).startswith(message)
    assert str(refused.value).endswith("but there are numbers from [-1, -1] to [1, 1]")
    assert not (tmp_path / "data").exists() or not list((tmp_path / "data").iterdir())


@pytest.mark.parametrize(
    "wrong",
    [
        {"fps": "10"},
        {"fps": math.nan},
        {"fps": [10]},
        {"names": "x"},
        {"names": 0.5},
        {"tasks": 1},
        {"robot_type": math.inf},
    ],
)
def test_what_a_data_set_came_with_is_checked_before_it_goes_out_again(tmp_path, wrong):
    from_lerobot(MADE, tmp_path / "came")
    kept = tmp_path / "came" / "lerobot.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), **wrong}))
    with pytest.raises(UserError, match="lerobot.json is damaged: .*; delete it, or restore it from a copy"):
        to_lerobot(DemoStore.open(tmp_path / "came"), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["came"]


def test_numbers_that_nobody_can_have_written_are_damage(tmp_path):
    robot = copy_of(tmp_path)
    change_info(robot, note=math.inf)
    with pytest.raises(UserError, match="info.json is damaged"):
        from_lerobot(robot, tmp_path / "came")


def test_a_page_of_a_parquet_file_that_is_damaged_is_named(tmp_path):
    """Arrow says so with an `OSError`, which is no file that may not be read."""
    robot = copy_of(tmp_path)
    content = bytearray((robot / DATA).read_bytes())
    content[4:40] = b"\xff" * 36
    (robot / DATA).write_bytes(content)
    with pytest.raises(UserError, match="file-000.parquet is damaged: "):
        from_lerobot(robot, tmp_path / "came")


def test_a_missing_or_other_folder_is_named(tmp_path):
    with pytest.raises(UserError, match="nothing is not there: give the folder"):
        from_lerobot(tmp_path / "nothing", tmp_path / "d")
    with pytest.raises(UserError, match=r"is not a LeRobot data set: it has no meta/info\.json"):
        from_lerobot(tmp_path, tmp_path / "d")


def test_a_folder_that_is_there_is_not_touched(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="d is there already: give a new folder"):
        from_lerobot(MADE, tmp_path / "d")
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    assert len(from_lerobot(MADE, tmp_path / "empty")) == 3


@pytest.mark.parametrize("key", ["../../x", "/etc", "a/../../../b", "C:x", "..\\x"])
def test_no_name_leads_out_of_the_folder(tmp_path, key):
    with pytest.raises(UserError, match="leads out of the data set"):
        inside(tmp_path, "{video_key}/file-{file_index:03d}.mp4", video_key=key, file_index=0)


def test_links_to_elsewhere_are_followed(tmp_path):
    """A hub's cache is made of them."""
    (tmp_path / "blobs").mkdir()
    root = copy_of(tmp_path)
    shutil.move(root / DATA, tmp_path / "blobs" / "abc")
    (root / DATA).symlink_to(tmp_path / "blobs" / "abc")
    assert len(from_lerobot(root, tmp_path / "d")) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_leaves_nothing(tmp_path, number):
    """The process stops itself at the second episode, which is the middle of it whatever the machine."""
    code = f"""
import os, sys
from attentiontuner.cli import main
from attentiontuner.demos.exchange.lerobot.videos import VideoReader
read, seen = VideoReader.read, []
def stop(self, *words):
    seen.append(words)
    if len(seen) == 2:
        os.kill(os.getpid(), {int(number)})
    return read(self, *words)
VideoReader.read = stop
sys.exit(main(["convert", {str(MADE)!r}, "--out", {str(tmp_path / "d")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    if number == signal.SIGINT:
        assert done.stderr.endswith("attentiontuner: stopped; nothing was written\n")
    assert list(tmp_path.iterdir()) == []
