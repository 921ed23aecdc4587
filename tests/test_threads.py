"""Threads that wait do not take the cores from the others."""

import os

from attentiontuner.core.threads import wait_briefly


def test_threads_wait_briefly_unless_one_says_otherwise(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    wait_briefly()
    assert 0 < int(os.environ["GOMP_SPINCOUNT"]) < 100_000
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "7"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    wait_briefly()
    assert "GOMP_SPINCOUNT" not in os.environ
