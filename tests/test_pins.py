"""What CI installs: the versions of constraints.txt, each with the hash of its file."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WITHOUT_HASH = {"torch", "triton"}
"""Of which every index has another build, and which the kernels' tests alone install."""


def test_every_version_that_is_pinned_has_its_hash():
    pinned = (ROOT / "constraints.txt").read_text().split()
    _, *lines = (ROOT / ".ci" / "requirements.txt").read_text().splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        line for line in pinned if line.partition("==")[0] not in WITHOUT_HASH
    ]
    for line in lines:
        assert re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line), line
