"""Saving: every change at once, nothing overwritten, nothing claimed that nobody said."""

import sys
import threading
from pathlib import Path
from subprocess import run

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import locked
from attentiontuner.demos.annotations import Annotation, read_annotation, read_annotations, write_annotation
from attentiontuner.demos.pair_text import format_pairs, parse_pairs
from attentiontuner.demos.store.manifest import LOCK
from attentiontuner.studio import session as edits
from attentiontuner.studio.desk import Desk, Outdated
from attentiontuner.studio.remarks import Remark, read_remarks, write_remark
from attentiontuner.studio.session import ODD_LINE_ENDS, Edit, Session


def change(desk: Desk, episode: int, edit: Edit, seen: str | None = None, seconds: float = 0.0) -> str:
    """Apply `edit` for ada on the version `seen` (None: the present one); the version after it."""
    now = desk.open("ada", episode)[1] if seen is None else seen
    desk.change("ada", episode, now, lambda session: session.apply(edit), seconds)
    return desk.open("ada", episode)[1]


def saved_pairs(root: Path, episode: int) -> list[list[int]] | None:
    annotation = read_annotation(root, "ada", episode)
    return None if annotation is None else np.asarray(annotation.pairs).tolist()


def test_a_change_is_on_the_disk_at_once_and_undo_too(toy: Path) -> None:
    desk = Desk(toy)
    change(desk, 1, edits.add([(2, 9)]))
    assert saved_pairs(toy, 1) == [[2, 9, 1]]
    desk.change("ada", 1, desk.open("ada", 1)[1], Session.undo)
    assert saved_pairs(toy, 1) is None
    desk.change("ada", 1, desk.open("ada", 1)[1], Session.redo)
    assert saved_pairs(toy, 1) == [[2, 9, 1]]


def test_intervals_and_weights_outlive_edits_of_other_pairs(toy: Path) -> None:
    """The page shows such pairs at the middle of their intervals; it must not make them certain."""
    text = {"9": "2~5x2", "10~14": "1@0.5"}
    write_annotation(toy, "ada", 1, Annotation(parse_pairs(text, 20)))
    desk = Desk(toy)
    assert desk.open("ada", 1)[0].state.rows() == [(3, 9, 2), (1, 12, 1)]
    change(desk, 1, edits.add([(0, 19)]))
    kept = {**text, "19": "0"}
    assert format_pairs(read_annotation(toy, "ada", 1).pairs) == kept
    change(desk, 1, edits.remove([(3, 9)]))
    change(desk, 1, edits.add([(3, 9)]))
    assert format_pairs(read_annotation(toy, "ada", 1).pairs) == {"9": "3", "10~14": "1@0.5", "19": "0"}
    for _ in range(2):
        assert desk.change("ada", 1, desk.open("ada", 1)[1], Session.undo)
    assert format_pairs(read_annotation(toy, "ada", 1).pairs) == kept
    change(desk, 1, edits.count((3, 9), 1))
    assert format_pairs(read_annotation(toy, "ada", 1).pairs) == {**kept, "9": "2~5"}


def test_nothing_to_remember_is_an_annotation(toy: Path) -> None:
    change(Desk(toy), 0, edits.nothing())
    assert saved_pairs(toy, 0) == []


def test_a_note_alone_does_not_annotate(toy: Path) -> None:
    desk = Desk(toy)
    change(desk, 0, edits.note("look at step 3"))
    change(desk, 0, edits.flag(True))
    assert saved_pairs(toy, 0) is None
    assert read_remarks(toy, "ada") == {0: Remark("look at step 3", True)}
    assert desk.overview("ada") == {"annotated": [], "flagged": [0]}
    again = Desk(toy).open("ada", 0)[0].state
    assert (again.note, again.flagged, again.annotated) == ("look at step 3", True, False)


def test_a_note_moves_into_the_annotation_and_back(toy: Path) -> None:
    desk = Desk(toy)
    change(desk, 0, edits.note("odd"))
    change(desk, 0, edits.add([(0, 1)]))
    annotation = read_annotation(toy, "ada", 0)
    assert annotation is not None
    assert annotation.note == "odd"
    assert read_remarks(toy, "ada") == {}
    change(desk, 0, edits.clear())
    assert read_remarks(toy, "ada") == {0: Remark("odd", False)}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(text="one\u2028two\x85three")
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_note_comes_back(toy: Path, text: str) -> None:
    change(Desk(toy), 0, edits.nothing())
    change(Desk(toy), 0, edits.note(text))
    assert Desk(toy).open("ada", 0)[0].state.note == text.translate(ODD_LINE_ENDS)
    assert list(read_annotations(toy, "ada")) == [0]


def test_a_remark_waits_for_another_studio_that_is_writing(toy: Path) -> None:
    writer = threading.Thread(target=write_remark, args=(toy, "ada", 0, Remark("mine", False)))
    with locked(toy / LOCK):
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        assert read_remarks(toy, "ada") == {}
    writer.join(10)
    assert read_remarks(toy, "ada") == {0: Remark("mine", False)}


def test_origins_are_saved(toy: Path) -> None:
    change(Desk(toy), 0, edits.add([(1, 2), (1, 3)], source="labels:expert"))
    annotation = read_annotation(toy, "ada", 0)
    assert annotation is not None
    assert annotation.origins == {"labels:expert": {(1, 2), (1, 3)}}


def test_the_second_of_two_windows_is_told_and_nothing_is_overwritten(toy: Path) -> None:
    desk = Desk(toy)
    seen = desk.open("ada", 0)[1]
    change(desk, 0, edits.add([(0, 1)]), seen)
    with pytest.raises(Outdated, match="changed elsewhere"):
        change(desk, 0, edits.add([(2, 3)]), seen)
    assert saved_pairs(toy, 0) == [[0, 1, 1]]


def test_two_studios_on_one_folder_see_each_other(toy: Path) -> None:
    first, second = Desk(toy), Desk(toy)
    seen = first.open("ada", 0)[1]
    assert second.open("ada", 0)[1] == seen
    change(second, 0, edits.add([(0, 1)]), seen)
    with pytest.raises(Outdated):
        change(first, 0, edits.add([(2, 3)]), seen)
    change(first, 0, edits.add([(2, 3)]))
    assert saved_pairs(toy, 0) == [[0, 1, 1], [2, 3, 1]]


def test_a_change_sent_again_because_its_answer_was_lost_is_no_conflict(toy: Path) -> None:
    seen = Desk(toy).open("ada", 0)[1]
    change(Desk(toy), 0, edits.add([(0, 1)]), seen)
    change(Desk(toy), 0, edits.add([(0, 1)]), seen)
    assert saved_pairs(toy, 0) == [[0, 1, 1]]


def test_a_marked_change_is_made_once_undo_too(toy: Path) -> None:
    desk = Desk(toy)
    change(desk, 0, edits.add([(0, 1)]))
    change(desk, 0, edits.add([(0, 2)]))
    seen = desk.open("ada", 0)[1]
    for _ in range(2):  # the answer to the first was lost
        desk.change("ada", 0, seen, Session.undo, mark="m")
    assert saved_pairs(toy, 0) == [[0, 1, 1]]


def test_each_window_undoes_what_it_did(toy: Path) -> None:
    desk = Desk(toy)
    for window, pair in [("left", (0, 1)), ("right", (0, 2))]:
        seen = desk.open("ada", 0, window)[1]
        desk.change("ada", 0, seen, lambda session, pair=pair: session.apply(edits.add([pair])), window=window)
    assert not desk.open("ada", 0, "left")[0].can_undo
    desk.change("ada", 0, desk.open("ada", 0, "right")[1], Session.undo, window="right")
    assert saved_pairs(toy, 0) == [[0, 1, 1]]


def test_undo_history_survives_what_others_do_elsewhere(toy: Path) -> None:
    desk = Desk(toy)
    change(desk, 0, edits.add([(0, 1)]))
    change(desk, 1, edits.add([(0, 1)]))
    assert desk.open("ada", 0)[0].can_undo
    write_annotation(toy, "ada", 0, None)
    assert not desk.open("ada", 0)[0].can_undo


def test_the_scripted_experts_labels_are_left_alone(toy: Path) -> None:
    desk = Desk(toy)
    version = desk.open("expert", 0)[1]
    with pytest.raises(UserError, match="scripted expert"):
        desk.change("expert", 0, version, lambda session: session.apply(edits.nothing()))
    before = read_annotation(toy, "expert", 0)
    desk.spend("expert", 0, 30.0)
    desk.settle("expert", 0)
    after = read_annotation(toy, "expert", 0)
    assert before is not None
    assert after is not None
    assert (after.seconds, after.revision) == (before.seconds, before.revision)


def test_frames_can_be_looked_at_beside_damaged_labels(toy: Path) -> None:
    (toy / "annotations" / "expert" / "00000.jsonl").write_text("not an annotation\n")
    demonstration = Desk(toy).demonstration(0)
    assert demonstration.pairs is None


@pytest.mark.parametrize("name", ["../ada", "", ".ada", "a/b", "a" * 65, "ada\n"])
def test_annotator_names_cannot_leave_the_folder(toy: Path, name: str) -> None:
    with pytest.raises(UserError, match="annotator"):
        Desk(toy).open(name, 0)


def test_seconds_add_up_over_changes_and_wait_for_the_first(toy: Path) -> None:
    desk = Desk(toy)
    desk.spend("ada", 0, 2.0)
    desk.settle("ada", 0)
    assert saved_pairs(toy, 0) is None
    change(desk, 0, edits.add([(0, 1)]), seconds=1.5)
    change(desk, 0, edits.add([(0, 2)]), seconds=0.5)
    desk.spend("ada", 0, 3.0)
    version = desk.open("ada", 0)[1]
    desk.settle("ada", 0)
    annotation = read_annotation(toy, "ada", 0)
    assert annotation is not None
    assert annotation.seconds == pytest.approx(7.0)
    assert desk.open("ada", 0)[1] == version


def test_the_studio_needs_no_torch() -> None:
    code = "import sys, attentiontuner.studio.server, attentiontuner.cli.annotate; assert 'torch' not in sys.modules"
    assert run([sys.executable, "-c", code], check=False).returncode == 0
