"""The timing table."""

from pathlib import Path

import pytest

from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.demos.annotations import Annotation, write_annotation
from attentiontuner.demos.pairs import PairTable
from attentiontuner.studio.times import TimeRow, for_ten, playing_file, read_playing, record_playing, times


def test_rows_are_people_with_a_running_clock(toy: Path) -> None:
    write_annotation(toy, "ada", 0, Annotation(PairTable.of([], 12), seconds=30.0))
    write_annotation(toy, "ada", 1, Annotation(PairTable.of([], 20), seconds=42.0))
    record_playing(toy, 0, "ada", 10.0)
    record_playing(toy, 1, "bob", 16.0)
    assert times(toy) == ("hallway", [TimeRow("ada", 1, 10.0, 2, 72.0), TimeRow("bob", 1, 16.0, 0, 0.0)])


def test_times_are_written_as_in_the_paper() -> None:
    assert for_ten(50.0, 1) == "8 min 20 sec"
    assert for_ten(72.0, 2) == "6 min 0 sec"
    assert for_ten(0.0, 0) == "not timed"


def test_a_line_cut_short_by_a_crash_is_left_out(toy: Path) -> None:
    record_playing(toy, 0, "ada", 10.0)
    with playing_file(toy).open("a") as stream:
        stream.write('{"episode": 1, "pla')
    assert read_playing(toy) == [(0, "ada", 10.0)]


def test_impossible_seconds_are_refused(toy: Path) -> None:
    for seconds in (-1.0, float("nan"), float("inf"), 1e9):
        with pytest.raises(UserError, match="cannot be right"):
            record_playing(toy, 0, "ada", seconds)


def test_the_command_prints_the_table(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio-times", str(toy)]) == 0
    assert "Nobody" in capsys.readouterr().out
    record_playing(toy, 0, "ada", 12.9)
    assert main(["studio-times", str(toy)]) == 0
    printed = capsys.readouterr().out
    assert "2 min 9 sec" in printed
    assert "Hallway" in printed
