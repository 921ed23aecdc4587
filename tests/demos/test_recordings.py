"""The example of docs/data.md for recordings of one's own."""

import subprocess
import sys
from pathlib import Path

from attentiontuner.demos import DemoStore

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_example_writes_a_data_set(tmp_path):
    section = PAGE.read_text(encoding="utf-8").split("## Recordings of your own")[1]
    code = section.split("```python\n")[1].split("```")[0]
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    run = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    store = DemoStore.open(tmp_path / "data" / "mine")
    store.verify()
    assert (store.task, store.annotator, len(store), store.complete) == ("mine", "expert", 200, True)
    assert [tuple(pair) for pair in store[7].memory_pairs()] == [(0, 19, 1)]
