import os
import stat
import subprocess
import sys

import pytest

from attentiontuner.core import files
from attentiontuner.core.errors import UserError
from attentiontuner.core.files import append_line, locked, new_folder, read_json, write_bytes, write_json
from attentiontuner.core.seeds import (
    BLOCKS,
    EVALUATION_END,
    EVALUATION_START,
    LAST_DATA_SEED,
    demonstration_seed,
    evaluation_seed,
)


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with pytest.raises(TypeError):
        write_bytes(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_is_on_the_disk_under_its_name(tmp_path, monkeypatch):
    done = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        real_sync(handle)

    def replace(source, target):
        done.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    write_bytes(tmp_path / "file", b"new")
    assert done == ["content", "rename", "folder"]


def test_what_is_no_file_is_never_replaced(tmp_path):
    """Somebody who writes to /dev/null does not want a file in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="pipe: it is a device or a pipe"):
        write_bytes(pipe, b"x")
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_line_does_not_stick_to_one_that_was_cut_off(tmp_path):
    path = tmp_path / "new" / "lines"
    append_line(path, "one")
    path.write_text(path.read_text() + "tw")  # the disk was full
    append_line(path, "three")
    append_line(path, "four")
    assert path.read_text().splitlines() == ["one", "tw", "three", "four"]


def test_a_path_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write .*file/below"):
        write_bytes(tmp_path / "file" / "below", b"x")


def test_a_new_folder_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "above" / "new"
    with new_folder(path) as filling:
        (filling / "file").write_text("whole")
        assert not path.exists()
    assert (path / "file").read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]

    def half(error):
        with new_folder(tmp_path / "above" / "other") as filling:
            (filling / "file").write_text("half")
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            half(error)
    assert list(path.parent.iterdir()) == [path]


def test_a_new_folder_takes_nothing_away(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match="is there already: give a new folder"), new_folder(path):
            pass
    (tmp_path / "empty").mkdir()
    with new_folder(tmp_path / "empty") as filling:
        (filling / "file").touch()
    assert (tmp_path / "empty" / "file").exists()


def test_json_errors_name_the_file(tmp_path):
    write_json(tmp_path / "a.json", {"x": [1]})
    assert read_json(tmp_path / "a.json") == {"x": [1]}
    (tmp_path / "a.json").write_bytes(b"\xff")
    with pytest.raises(UserError, match="a.json is damaged"):
        read_json(tmp_path / "a.json")
    with pytest.raises(UserError, match="b.json does not exist"):
        read_json(tmp_path / "b.json")


def test_a_lock_is_held_against_other_processes_and_let_go(tmp_path):
    code = """
import sys
from pathlib import Path
from attentiontuner.core.errors import UserError
from attentiontuner.core.files import locked
try:
    with locked(Path(sys.argv[1]), wait=False):
        print("mine")
except UserError as error:
    print(error)
"""

    def other() -> str:
        return subprocess.run([sys.executable, "-c", code, tmp_path / "l"], capture_output=True, text=True).stdout

    with locked(tmp_path / "l"):
        assert "being written by another process" in other()
    assert other() == "mine\n"


def test_demonstration_and_evaluation_seeds_never_meet():
    assert demonstration_seed(BLOCKS - 1, 999_999) < EVALUATION_START <= evaluation_seed(0, 0)
    assert evaluation_seed(BLOCKS - 1, 999_999) < EVALUATION_END <= demonstration_seed(BLOCKS, 0)
    assert demonstration_seed(LAST_DATA_SEED, 999_999) < 2**53
    for seed, index in ((-1, 0), (LAST_DATA_SEED + 1, 0), (0, -1), (0, 1_000_000)):
        with pytest.raises(UserError, match="out of range"):
            demonstration_seed(seed, index)
    with pytest.raises(UserError, match="seed 1073 is out of range: give one between 0 and 1072"):
        evaluation_seed(1073, 0)


def test_every_data_set_has_seeds_of_its_own():
    assert [demonstration_seed(seed, 3) for seed in (0, 1, 1072)] == [3, 1_000_003, 1_072_000_003]
    for seed in (0, 500, 1073, 2024, 10**9):
        assert demonstration_seed(seed + 1, 0) == demonstration_seed(seed, 999_999) + 1


@pytest.mark.parametrize(("mask", "rights"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_and_folders_give_the_rights_that_new_ones_give(tmp_path, monkeypatch, mask, rights):
    monkeypatch.setattr(files, "MASK", mask)
    write_bytes(tmp_path / "file", b"x")
    with new_folder(tmp_path / "folder"):
        pass
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == rights
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o777 & ~mask
