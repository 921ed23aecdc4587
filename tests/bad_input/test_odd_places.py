"""Folders with pipes and devices where files belong, names that command a terminal, and odd surroundings."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attentiontuner.cli import main
from attentiontuner.core import terminal
from attentiontuner.core.errors import UserError
from attentiontuner.core.files import MOST_JSON, content_of, read_bytes, read_json
from attentiontuner.core.seals import sealed, unsealed
from attentiontuner.demos import DemoStore
from attentiontuner.experiments.records import record_path
from attentiontuner.runs.run import Run
from tests.bad_input.limits import BOMB_BYTES, Grown, in_time
from tests.bad_input.test_bad_files import CELL, KINDS, sound

__all__ = ["sound"]

NOWHERE_READ = {
    "inside of a shard",  # not a file of ours
    *("latest", "played episodes", "playing times"),  # what cannot be read of these is begun again
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="systems without pipes in folders")
@pytest.mark.parametrize("instead", ["a pipe", "/dev/zero"])
@pytest.mark.parametrize("name", sorted(set(KINDS) - NOWHERE_READ))
def test_what_is_no_file_is_not_waited_for(sound: Path, tmp_path: Path, name: str, instead: str) -> None:
    kind, root = KINDS[name], tmp_path / "spoiled"
    shutil.copytree(sound / kind.of, root / kind.of)
    path = root / kind.file
    path.unlink()
    if instead == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(instead)
    with in_time(10, 2**33), pytest.raises(UserError):
        kind.read(root)


def test_files_that_grew_without_end_are_not_read(tmp_path: Path, sound: Path) -> None:
    """Files with holes, which cost whoever sends them nothing."""
    for name in ("data", "run", "records"):
        shutil.copytree(sound / name, tmp_path / name)
    shard = tmp_path / "data" / "shards" / "00000.safetensors.zst"
    record = tmp_path / "records" / record_path(Path(), CELL)
    lines = tmp_path / "data" / "annotations" / "anna" / "00000.jsonl"
    weights = tmp_path / "run" / "model.safetensors"
    for path in (shard, record, lines, weights):
        os.truncate(path, 2**36)
    grown = Grown()
    store = DemoStore.open(tmp_path / "data", "anna")
    for read in (store.read_packed, store.read_pairs, lambda: read_json(record), Run(tmp_path / "run").load_model):
        with pytest.raises(UserError, match="is damaged: .*(more than such a file has|larger than the manifest says)"):
            read()
    assert grown.bytes() < BOMB_BYTES


def test_files_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\r\n\x00\xff")
    assert content_of(path) == read_bytes(path) == b"\r\n\x00\xff"
    with pytest.raises(UserError, match="is damaged: 4 bytes are more than such a file has"):
        read_bytes(path, 3)
    assert MOST_JSON > 10**7  # of ten million lengths


@pytest.mark.parametrize("words", ["\x1b[2Jx", "\x1b]0;x\x07", "\x9b2J", "\x7f", "\\\x1b"])
def test_names_never_command_a_terminal(tmp_path: Path, words: str, capsys: Any) -> None:
    with pytest.raises(UserError, match="has control characters"):
        sealed({"task": words})
    with pytest.raises(UserError, match="manifest.json is damaged: a text in it has control characters"):
        unsealed({"settings": {words: 1}}, Path("manifest.json"))
    assert main(["inspect", f"{tmp_path}/{words}"]) == 2
    assert terminal.CONTROLS.search(capsys.readouterr().err.rstrip("\n")) is None


@pytest.mark.parametrize("words", ["two\nlines\tof words", "\\u001b", "ü±×", "[/bold][red]", ":smile:"])
def test_other_names_stay_as_they_are(tmp_path: Path, words: str, capsys: Any) -> None:
    value = sealed({"task": words})
    assert unsealed(json.loads(json.dumps(value)), tmp_path) == {"task": words}
    terminal.console().print(words)
    assert words.splitlines()[0] in capsys.readouterr().out


SURROUNDINGS: dict[str, tuple[str, int, str]] = {
    "no UTF-8": ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {} inspect data --verify", 0, "episodes"),
    "a terminal of no columns": ("COLUMNS=0 {} inspect data", 0, "episodes"),
    "one column": ("COLUMNS=1 {} --help", 0, "usage"),
    "no docstrings": ("PYTHONOPTIMIZE=2 {} train nothing --data nowhere --out x", 2, "nowhere does not exist"),
    "messages that cannot be written": ("{} inspect nowhere 2> /dev/full", 2, ""),
    "no messages at all": ("{} inspect nowhere 2>&-", 2, ""),
    "no output at all": ("{} inspect data >&-", 0, ""),
    "output that cannot be written": ("{} inspect data > /dev/full", 2, "no room left on the disk"),
    "a folder that is gone": ("cd gone; rmdir ../gone; {} inspect nowhere", 2, "the current folder cannot be used"),
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_odd_surroundings(name: str, sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound / "data", tmp_path / "data")
    (tmp_path / "gone").mkdir()
    words, code, said = SURROUNDINGS[name]
    command = words.format(f"{sys.executable} -m attentiontuner")
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
