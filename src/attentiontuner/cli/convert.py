"""`attentiontuner convert`."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted

if TYPE_CHECKING:
    from attentiontuner.demos import DemoStore

FORMATS = ("lerobot", "minari")
MINARI_NAME = re.compile(r"([\w.-]+/)*[\w.-]+-v\d+")


def convert(
    src: Positional[Annotated[str, arg(metavar="SRC")]],
    /,
    out: Annotated[str, arg(metavar="DST")],
    to: Annotated[str | None, arg(metavar="lerobot|minari")] = None,
    task: str | None = None,
    annotator: str | None = None,
    fps: float | None = None,
    video: bool = False,
    without_pairs: bool = False,
) -> int:
    """Bring a LeRobot or Minari data set in, or write one.

    In: attentiontuner convert datasets/pusht --out data/pusht

    Out: attentiontuner convert data/hallway --out datasets/hallway --to lerobot

    DST appears when everything is in it: stopped, or refused for a mistake in SRC, nothing is left behind.

    Args:
        src: what to read: the folder of a LeRobot data set (version 3), the name of a local Minari data set, such as
            theirs/walk-v0, or, with --to, the folder of an AttentionTuner data set.
        out: what to write: a new folder; with --to minari the name of a new Minari data set.
        to: the format to write, lerobot or minari; not given, SRC is brought in.
        task: what the task of a data set that comes in is called; its folder or environment if not given.
        annotator: whose the pairs are that come in without a name.
        fps: frames a second that a LeRobot data set is given; those it came with, or 10, if not given.
        video: write LeRobot's images as videos, which are small but a little different, in place of PNG.
        without_pairs: leave the pairs out of a LeRobot data set: LeRobot reads them from version 0.6 on.
    """
    outward = {"--fps": fps is not None, "--video": video, "--without-pairs": without_pairs}
    inward = {"--task": task is not None, "--annotator": annotator is not None}
    try:
        if to is not None:
            _refuse(inward, "is for what comes in, not for --to")
            return _write(src, out, to, {"fps": fps, "video": video, "pairs": not without_pairs}, outward)
        _refuse(outward, "is for --to lerobot")
        store = _read(src, out, {"task": task} | ({"annotator": annotator} if annotator else {}))
    except KeyboardInterrupt:
        print("attentiontuner: stopped; nothing was written", file=sys.stderr)
        return 130
    print(f"{out}: {_size(store)} of {store.task}: {store.observation}; {store.actions}")
    return 0


def _refuse(given: dict[str, bool], why: str) -> None:
    for option, is_given in given.items():
        if is_given:
            raise UserError(f"{option} {why}")


def _read(src: str, out: str, words: dict[str, Any]) -> "DemoStore":
    from attentiontuner.demos.exchange.lerobot.layout import is_lerobot, read_layout
    from attentiontuner.demos.store.manifest import FILE as MANIFEST

    folder = Path(src)
    if (folder / MANIFEST).is_file():
        raise UserError(f"{src} is an AttentionTuner data set: say --to {' or --to '.join(FORMATS)}")
    if is_lerobot(folder):
        from attentiontuner.demos.exchange.lerobot.features import plan_of
        from attentiontuner.demos.exchange.lerobot.importing import from_lerobot

        store = from_lerobot(folder, out, **words)
        for name, why in plan_of(read_layout(folder), store.actions).left_out.items():
            print(f"left out: {name} ({why})")
        return store
    if folder.exists() or not MINARI_NAME.fullmatch(src):
        what = "it has no meta/info.json" if folder.is_dir() else "there is no such folder"
        raise UserError(f"{src} is neither a LeRobot data set ({what}) nor a Minari data set's name, such as walk-v0")
    from attentiontuner.demos.exchange.minari import from_minari

    return from_minari(src, out, **words)


def _write(src: str, out: str, to: str, words: dict[str, Any], outward: dict[str, bool]) -> int:
    from attentiontuner.demos import DemoStore

    if to not in FORMATS:
        raise UserError(f"--to {to}: there are {' and '.join(FORMATS)}")
    store = DemoStore.open(src)
    if to == "minari":
        _refuse(outward, "is for --to lerobot")
        from attentiontuner.demos.exchange.minari import to_minari

        to_minari(store, out)
        whose = f"with the pairs of {store.annotator}" if store.annotator else "without pairs"
    else:
        from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot

        cameras = "video" if words["video"] else "image"
        to_lerobot(store, out, fps=words["fps"], cameras=cameras, pairs=words["pairs"])  # type: ignore[arg-type]
        people = store.annotators() if words["pairs"] else []
        whose = f"with the pairs of {', '.join(people)}" if people else "without pairs"
    print(f"{out}: {_size(store)} of {store.task} for {'LeRobot' if to == 'lerobot' else 'Minari'}, {whose}")
    return 0


def _size(store: "DemoStore") -> str:
    steps = counted(int(store.lengths.sum()), "step", form=",")
    return f"{counted(len(store), 'episode', form=',')} ({steps})"
