"""Progress where there is no terminal: a plain line now and then, with about how long it will take."""

import pytest

from attentiontuner.core import progress


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (60, "60 s"), (61, "2 min"), (3600, "1 h 00 min"), (25500, "7 h 05 min")]
)
def test_durations(seconds, text):
    assert progress.duration(seconds) == text


def test_a_line_says_how_far_and_how_long(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.progress("train", total=1000) as bar:
        bar.advance(0, "epoch 0/10")
        now[0] += 30
        bar.advance(100)
        now[0] += 30
        bar.advance(900, "epoch 10/10")
    assert capsys.readouterr().err.splitlines() == [
        "train: 100/1000 in 30 s, about 5 min left, epoch 0/10",
        "train: 1000/1000 in 60 s, epoch 10/10",
    ]
