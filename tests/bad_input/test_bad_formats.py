"""The files of other formats, of reports, boards and of the studio, spoiled: each is read, or refused in one line."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import evaluation_seed
from attentiontuner.demos import DemoStore
from attentiontuner.demos.annotations import annotators
from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot
from attentiontuner.demos.exchange.lerobot.importing import from_lerobot
from attentiontuner.demos.exchange.minari import from_minari, to_minari
from attentiontuner.experiments.reporting.leaderboard import leaderboard, lines_of
from attentiontuner.experiments.scores import Score, read_scores, write_score
from attentiontuner.insight import evidence, looks, need, past
from attentiontuner.studio import acceptance, review
from attentiontuner.studio.catalogue import Catalogue
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.play import Player
from attentiontuner.studio.suggest import Suggester
from tests.bad_input.kinds import Kind, check
from tests.bad_input.spoiling import without_seals
from tests.demos.examples import write_store
from tests.demos.lerobot.examples import DATA, EPISODES, MADE
from tests.insight.cues import cue_store
from tests.toy_task import TOY


def bring_in(root: Path) -> None:
    """A LeRobot data set in, and, if it came in, out again with what was kept beside it."""
    from_lerobot(root / "robot", root / "ours")
    to_lerobot(DemoStore.open(root / "ours"), root / "theirs")


def send_out(root: Path) -> None:
    to_lerobot(DemoStore.open(root / "came"), root / "theirs")


def from_theirs(root: Path) -> None:
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("MINARI_DATASETS_PATH", str(root / "minari"))
        from_minari("made-v0", root / "ours")


def report(root: Path) -> None:
    evidence.gather(DemoStore.open(root / "report" / "cues"), root / "report" / "out" / "work", seed=0)


def report_settings(root: Path) -> None:
    """What is of other settings is forgotten, not computed again: that would take a second each time."""
    store, work = DemoStore.open(root / "report" / "cues"), root / "report" / "out" / "work"
    evidence._same_settings(store, work, 0)


def look_over(root: Path) -> None:
    """As the table does, which shows assignments and states, and what was accepted unseen."""
    desk = Desk(root / "studied")
    review.read_review(desk.root)
    Catalogue(desk).table(0)
    for name in (*acceptance.accepting(desk.root), *annotators(desk.root)):
        for batch in acceptance.read_batches(desk.root, name):
            acceptance.take_back(desk.root, name, batch["batch"])


def play_on(root: Path) -> None:
    player = Player(root / "play", TOY, "ada")
    try:
        player.state()
    finally:
        player.close()


def lead(root: Path) -> None:
    leaderboard(lines_of(read_scores(root / "board"), [])).to_markdown()


REPORT = "report/out/work"
KINDS = {
    "LeRobot's info": Kind("robot/meta/info.json", bring_in),
    "LeRobot's statistics": Kind("robot/meta/stats.json", bring_in, tolerant=True),
    "LeRobot's tasks": Kind("robot/meta/tasks.parquet", bring_in),
    "LeRobot's episodes": Kind(f"robot/{EPISODES}", bring_in),
    "LeRobot's steps": Kind(f"robot/{DATA}", bring_in),
    "what came with LeRobot": Kind("came/lerobot.json", send_out),
    "Minari's head": Kind("minari/made-v0/data/metadata.json", from_theirs),
    "settings of a report": Kind(f"{REPORT}/settings.json", report_settings, tolerant=True),
    "policy without a memory": Kind(f"{REPORT}/alone.safetensors", report),
    "frames that tell": Kind(f"{REPORT}/frames.safetensors", report),
    "gain of the past": Kind(f"{REPORT}/past.safetensors", report),
    "review": Kind("studied/studio/review.json", look_over),
    "accepted unseen": Kind("studied/studio/accepted/bot.json", look_over),
    "played until now": Kind("play/studio/underway/ada.jsonl", play_on, lines=True, tolerant=True),
    "score": Kind(f"board/{TOY.name}--somebody.json", lead, tolerant=True),
}
SLOW = {"LeRobot's info", "LeRobot's statistics", "LeRobot's tasks", "LeRobot's episodes", "LeRobot's steps"}
"""Each case takes a tenth of a second."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with one of every file."""
    root = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(evidence, "FEWEST", 4)
        changed.setattr(need, "PASSES", 1)
        changed.setattr(looks, "PASSES", 1)
        changed.setattr(past, "PASSES", 1)
        changed.setenv("MINARI_DATASETS_PATH", str(root / "minari"))
        shutil.copytree(MADE, root / "robot")
        from_lerobot(root / "robot", root / "came")
        write_store(root / "studied", 6)
        to_minari(DemoStore.open(root / "studied"), "made-v0")
        cue_store(root / "report" / "cues", 8)
        report(root)
        study(root / "studied")
        play(root / "play")
        write_score(root / "board", made_score())
        without_seals(root / "board")
        for name, kind in KINDS.items():
            assert (root / kind.file).is_file(), name
            again = root.parent / "again"
            shutil.copytree(root / kind.of, again / kind.of)
            kind.read(again)
            shutil.rmtree(again)
        yield root


def study(root: Path) -> None:
    review.assign(root, "ada", [0, 1, 2])
    desk = Desk(root)
    labels = Catalogue(desk).fingerprints({0, 1})
    review.set_state(root, "cleo", labels, "accepted", {"": frozenset({0, 1})})
    acceptance.accept_many(Suggester(desk), "bot", "ada", "labels:expert", {0, 1, 2}, "5f0c92b1")


def play(root: Path) -> None:
    player = Player(root, TOY, "ada")
    player.start(3)
    player.step(0, 0)
    player.step(1, 1)
    player.close()


def made_score() -> Score:
    evaluation = {
        "episodes": 3,
        "seed": 0,
        "first_environment_seed": evaluation_seed(0, 0),
        "successes": 2,
        "success_rate": 2 / 3,
        "interval_95": [0.2, 0.9],
        "mean_return": 0.6,
        "mean_length": 5.0,
        "success": "110",
        "lengths": [5, 5, 5],
    }
    return Score("Somebody", TOY.name, dict(TOY.settings), 100, "pairs", "ada", "", evaluation, {"python": "3"})


@pytest.mark.parametrize("name", KINDS)
def test_a_spoiled_file_is_one_line(sound: Path, tmp_path: Path, name: str) -> None:
    check(KINDS[name], sound, tmp_path / "spoiled", name, range(4 if name in SLOW else 20))


@pytest.mark.parametrize("name", ["LeRobot's tasks", "LeRobot's episodes", "LeRobot's steps", "Minari's head"])
def test_a_pipe_is_not_waited_for(sound: Path, tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    shutil.copytree(sound / kind.of, tmp_path / kind.of)
    (tmp_path / kind.file).unlink()
    os.mkfifo(tmp_path / kind.file)
    with pytest.raises(UserError):
        kind.read(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_spoiled_files_are_one_line_each(sound: Path, tmp_path: Path, name: str) -> None:
    check(KINDS[name], sound, tmp_path / "spoiled", name, range(20, 150 if name in SLOW else 600))
