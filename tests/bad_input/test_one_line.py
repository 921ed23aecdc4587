"""What nobody expected where it happened is one line too; what may not be read is not called damaged."""

import errno
import json
import resource
from pathlib import Path
from typing import Any

import pytest
import torch

from attentiontuner import cli
from attentiontuner.cli.values import parse_bytes, parse_duration, parse_seeds, parse_settings
from attentiontuner.core import files
from attentiontuner.core.errors import UserError, as_user_error
from attentiontuner.core.files import read_json, reading
from attentiontuner.demos import DemoStore
from attentiontuner.experiments.planning.cells import expand
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.records import finished, read_records, record_path, write_record
from attentiontuner.models.sizes import GruConfig, RecallConfig, SlotsConfig, TransformerConfig
from attentiontuner.spaces.observation import ObservationSpec
from tests.bad_input.limits import BOMB_BYTES
from tests.bad_input.spoiling import DEEP
from tests.demos.examples import write_store
from tests.experiments.made import make_record


def allocation_failure() -> RuntimeError:
    try:
        torch.empty(2**60, dtype=torch.uint8)
    except RuntimeError as error:
        return error
    raise AssertionError("there is room for everything here")


UNEXPECTED: list[tuple[Any, str]] = [
    (PermissionError(errno.EACCES, "Permission denied", "/their/run"), "cannot use /their/run: Permission denied"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), "x: File name too long"),
    (
        OSError(errno.ENOSPC, "No space left on device", "/run"),
        "no room left on the disk: /run; what was saved is kept",
    ),
    (OSError("odd"), "cannot use a file: odd"),
    (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "a text is not UTF-8"),
    (MemoryError(), "there is not enough memory for this"),
    (allocation_failure(), "there is not enough memory for this"),
    (torch.OutOfMemoryError("CUDA out of memory"), "there is not enough memory for this"),
]


@pytest.mark.parametrize(("error", "said"), UNEXPECTED)
def test_it_ends_in_one_line(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def fail(verb: str, words: object) -> int:
        raise error

    monkeypatch.setattr(cli, "run", fail)
    assert cli.main(["tasks"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("attentiontuner: ")
    assert said in line


def test_our_own_mistakes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_user_error(RuntimeError("a mistake")) is None
    monkeypatch.setattr(cli, "run", lambda verb, words: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["tasks"])


def test_what_may_not_be_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """So nothing is set aside, and nobody is told to delete it."""
    cell = expand(RECIPES["table1"], "smoke")[0]
    path = write_record(tmp_path, make_record(cell, 0.5))

    def forbidden(path: Path) -> object:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as changed:
        changed.setattr(files, "opened", forbidden)
        with pytest.raises(UserError, match="^cannot read .*: Permission denied$"):
            finished(tmp_path, cell)
        with pytest.raises(UserError, match="^cannot read .*: Permission denied$"):
            read_json(path)
        assert read_records(tmp_path) == []
    assert "left out: cannot read" in capsys.readouterr().err
    assert record_path(tmp_path, cell) == path
    assert finished(tmp_path, cell) is not None


def test_reading_names_the_file_in_one_short_line(tmp_path: Path) -> None:
    for error in (
        KeyError("x"),
        TypeError("x"),
        ValueError("x" * 9999),
        OverflowError("\n\n"),
        RecursionError(),
        MemoryError(),
    ):
        with (
            pytest.raises(UserError, match="bad.json is damaged: .+; delete it") as raised,
            reading(Path("bad.json"), "delete it"),
        ):
            raise error
        assert len(str(raised.value)) < 300
        assert "\n" not in str(raised.value)


def test_words_of_a_few_characters_ask_for_no_gigabytes() -> None:
    """What they stand for is bounded before it is counted out."""
    for said, parse in (
        ("1-99999999999", parse_seeds),
        ("1-99999,1-99999", parse_seeds),
        ("9" * 5000, parse_seeds),
        ("9" * 400, parse_duration),
        ("9" * 400 + "GB", parse_bytes),
    ):
        with pytest.raises(UserError, match="^--[a-z-]+ ") as raised:
            parse(said)
        assert len(str(raised.value)) < 200
    assert parse_settings(["a=NaN", "b=" + "9" * 5000, "c=" + "[" * DEEP]) == {
        "a": "NaN",
        "b": "9" * 5000,
        "c": "[" * DEEP,
    }


@pytest.mark.parametrize("network", [RecallConfig, TransformerConfig, GruConfig])
def test_networks_without_end_are_refused(network: Any) -> None:
    with pytest.raises(UserError, match="model layers: 1000000000 is not at most 1000"):
        network(ObservationSpec("vector", (2,)), 3, layers=10**9)


def test_sizes_without_end_are_refused_in_a_short_line() -> None:
    with pytest.raises(UserError, match="model feedforward: 9+… is not below 2147483648") as raised:
        RecallConfig(ObservationSpec("vector", (2,)), 3, feedforward=10**400 - 1)
    assert len(str(raised.value)) < 120


def test_memories_without_end_are_refused() -> None:
    with pytest.raises(UserError, match="model slots: 1000000000 is not from 1 to 10000"):
        SlotsConfig(ObservationSpec("vector", (2,)), 3, slots=10**9)


def test_bombs_cost_little(tmp_path: Path) -> None:
    """A few bytes that ask for gigabytes are refused before anybody has made room."""
    write_store(tmp_path / "d", 4)
    line = tmp_path / "d" / "annotations" / "expert" / "00000.jsonl"
    manifest = tmp_path / "d" / "manifest.json"
    value = json.loads(manifest.read_text())
    del value["seal"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for pairs in (
        {"9999999999": "0-9999999998"},
        {"3": "0-9999999998"},
        {"3": "0x99999999999999999999"},
        {"3": "9" * 9999},
    ):
        line.write_text(json.dumps({"episode": 0, "pairs": pairs}) + "\n")
        with pytest.raises(UserError, match="00000.jsonl, line 1"):
            DemoStore.open(tmp_path / "d").read_pairs()
    line.write_text("[" * 200_000)
    with pytest.raises(UserError, match="00000.jsonl, line 1"):
        DemoStore.open(tmp_path / "d").read_pairs()
    line.unlink()
    for lengths in ([2**40] * 4, [2**31] * 4, [10**9, 1, 1, 1]):
        shards = [{**value["shards"][0], "lengths": lengths, "distinct_frames": 2**40}]
        manifest.write_text(json.dumps({**value, "shards": shards, "annotations": {}}))
        store = DemoStore.open(tmp_path / "d")
        for read in (store.read_packed, store.summary, lambda: store[0]):  # noqa: B023
            if read != store.summary:
                with pytest.raises(UserError, match="00000.safetensors.zst is damaged"):
                    read()
            else:
                read()
    manifest.write_text('{"a":' * 200_000)
    with pytest.raises(UserError, match="manifest.json is damaged: it is nested too deeply"):
        DemoStore.open(tmp_path / "d")
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < BOMB_BYTES
