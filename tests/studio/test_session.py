"""The edit state: single edits, undo and redo, and any sequence of them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attentiontuner.core.errors import UserError
from attentiontuner.demos import PairTable
from attentiontuner.studio import session as edits
from attentiontuner.studio.desk import annotation_of, state_of, version
from attentiontuner.studio.remarks import Remark
from attentiontuner.studio.session import MAX_NOTE, MAX_UNDO, EditState, Session


def test_nothing_is_annotated_at_first() -> None:
    session = Session(10)
    assert not session.state.annotated
    assert session.state.rows() == []
    assert not session.can_undo
    assert not session.can_redo


def test_pairs_come_in_order_of_q_then_p() -> None:
    session = Session(10)
    session.apply(edits.add([(3, 9), (1, 4), (0, 9)]))
    assert session.state.rows() == [(1, 4, 1), (0, 9, 1), (3, 9, 1)]


def test_adding_what_is_there_changes_nothing_and_keeps_redo() -> None:
    session = Session(10)
    session.apply(edits.add([(1, 4)]))
    session.apply(edits.add([(2, 4)]))
    session.undo()
    assert not session.apply(edits.add([(1, 4)]))
    assert session.can_redo


def test_an_edit_after_undo_forgets_what_was_undone() -> None:
    session = Session(10)
    session.apply(edits.add([(1, 4)]))
    session.undo()
    session.apply(edits.add([(2, 4)]))
    assert not session.can_redo
    assert not session.redo()
    assert session.state.rows() == [(2, 4, 1)]


def test_removing_the_last_pair_leaves_nothing_to_remember() -> None:
    session = Session(10)
    session.apply(edits.add([(1, 4)]))
    session.apply(edits.remove([(1, 4)]))
    assert session.state.annotated
    assert session.state.rows() == []
    session.undo()
    session.undo()
    assert not session.state.annotated


def test_clearing_is_not_the_same_as_nothing_to_remember() -> None:
    session = Session(10, EditState(pairs={(1, 4): 1}, note="odd", flagged=True))
    session.apply(edits.clear())
    assert not session.state.annotated
    assert (session.state.note, session.state.flagged) == ("odd", True)
    session.apply(edits.nothing())
    assert session.state.annotated


def test_an_accepted_suggestion_keeps_its_source_until_it_is_removed() -> None:
    session = Session(10)
    session.apply(edits.reject([(1, 4)], "run"))
    session.apply(edits.add([(1, 4), (2, 4)], source="run"))
    session.apply(edits.add([(3, 4)]))
    assert dict(session.state.origins) == {(1, 4): "run", (2, 4): "run"}
    assert not session.state.rejected
    session.apply(edits.remove([(1, 4)]))
    assert session.state.rejected == {("run", 1, 4)}
    session.apply(edits.add([(1, 4)]))
    assert dict(session.state.origins) == {(2, 4): "run"}
    assert not session.state.rejected


def test_rejected_suggestions_are_no_annotation() -> None:
    session = Session(10)
    session.apply(edits.reject([(1, 4)], "run"))
    assert not session.state.annotated
    assert session.state.rejected == {("run", 1, 4)}


def test_multiplicity() -> None:
    session = Session(10)
    session.apply(edits.add([(1, 4)]))
    session.apply(edits.count((1, 4), 2))
    assert session.state.rows() == [(1, 4, 2)]
    with pytest.raises(UserError, match="not marked"):
        session.apply(edits.count((2, 4), 2))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (edits.add([(4, 4)]), r"pair \(4, 4\): p must be before q"),
        (edits.add([(-1, 4)]), r"pair \(-1, 4\): p is negative"),
        (edits.add([(1, 10)]), r"pair \(1, 10\): q is outside the episode of 10 steps"),
        (edits.add([(1, 2)], source=""), "source"),
        (edits.reject([(1, 10)], "run"), "outside"),
        (edits.note("x" * (MAX_NOTE + 1)), "at most"),
    ],
)
def test_senseless_edits_are_refused_with_a_reason_and_change_nothing(edit: edits.Edit, reason: str) -> None:
    session = Session(10, EditState(pairs={(1, 4): 1}))
    before = session.state
    with pytest.raises(UserError, match=reason):
        session.apply(edit)
    assert session.state == before
    assert not session.can_undo


def test_a_block_that_is_too_large_is_refused_before_it_is_made() -> None:
    session = Session(100_000)
    with pytest.raises(UserError, match="more than 250,000 pairs at once"):
        session.apply(edits.add([], blocks=[(0, 99_998, 1, 99_999)]))


def test_undo_history_is_bounded() -> None:
    session = Session(3)
    for number in range(MAX_UNDO + 10):
        session.apply(edits.note(str(number)))
    while session.undo():
        pass
    assert session.state.note == "9"


LENGTH = 9
a_pair = st.tuples(st.integers(-1, LENGTH), st.integers(-1, LENGTH))
some_pairs = st.lists(a_pair, max_size=6)
a_source = st.sampled_from(["run", "labels:expert", "before"])
a_step = st.integers(-1, LENGTH)
any_edit = st.one_of(
    st.builds(lambda *block: edits.add([], blocks=[block]), a_step, a_step, a_step, a_step),
    st.builds(lambda *block: edits.remove([], blocks=[block]), a_step, a_step, a_step, a_step),
    st.builds(
        lambda p, i, q, j, times: edits.add(
            [((2 * p + i) // 2, (2 * q + j) // 2)], None, [times], [(p, p + i, q, q + j, 0.5)]
        ),
        *(st.integers(-1, LENGTH), st.integers(0, 3)) * 2,
        st.integers(0, 3),
    ),
    st.builds(edits.add, some_pairs, st.none() | a_source),
    st.builds(edits.remove, some_pairs),
    st.builds(edits.count, a_pair, st.integers(-1, 120)),
    st.builds(edits.reject, some_pairs, a_source),
    st.builds(edits.note, st.text(max_size=20)),
    st.builds(edits.flag, st.booleans()),
    st.just(edits.nothing()),
    st.just(edits.clear()),
)


def assert_savable(session: Session) -> None:
    """The state is valid, and comes back as it was after being saved."""
    state = session.state
    PairTable.of(state.rows(), session.length)
    assert set(state.origins) <= set(state.pairs or {})
    remark = Remark(state.note, state.flagged)
    saved = annotation_of(state, session.length, 1.0) if state.annotated else None
    assert version(state_of(saved, remark)) == version(state)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(any_edit, st.just("undo"), st.just("redo")), max_size=30))
def test_any_sequence_of_edits_undo_and_redo_is_valid_and_savable(actions: list[Any]) -> None:
    session = Session(LENGTH)
    past, future = [session.state], list[EditState]()
    for action in actions:
        if action == "undo":
            assert session.undo() == (len(past) > 1)
            if len(past) > 1:
                future.append(past.pop())
        elif action == "redo":
            assert session.redo() == bool(future)
            if future:
                past.append(future.pop())
        else:
            try:
                changed = session.apply(action)
            except UserError:
                changed = False
            if changed:
                past.append(session.state)
                future = []
        assert session.state == past[-1]
        assert_savable(session)
