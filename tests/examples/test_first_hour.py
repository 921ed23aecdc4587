"""The notebook runs in a real kernel, as a newcomer runs it, but smaller; what it shows is committed, and small."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_hour.ipynb"
SMALLER = 'DEMONSTRATIONS, EPISODES, CHANGES = 12, 40, {"epochs": 1}'


def cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown(cell: Any) -> dict[str, Any]:
    """What a cell shows, by its kind: text and pictures."""
    return {kind: value for output in cell["outputs"] for kind, value in output.get("data", {}).items()}


def test_it_runs_from_its_environment_to_the_film(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the notebook: pip install nbclient ipykernel")
    pytest.importorskip("ipykernel", reason="the notebook: pip install nbclient ipykernel")
    nbformat = pytest.importorskip("nbformat")
    for name, value in {"TMPDIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    sizes = cells(notebook)[0]
    assert sizes.metadata["tags"] == ["parameters"]
    sizes.source += f"\n{SMALLER}"
    nbclient.NotebookClient(notebook, timeout=250, resources={"metadata": {"path": str(tmp_path)}}).execute()
    *_, film = cells(notebook)
    said = "".join(output["text"] for cell in cells(notebook) for output in cell["outputs"] if "text" in output)
    for part in ("12 demonstrations with", "with pairs:", "% of 40 days"):
        assert part in said
    assert "Traceback" not in said
    assert "image/gif" in shown(film)
    (folder,) = tmp_path.glob("first-hour-*")
    assert {"data", "recall", "recall-vanilla", "episode.png"} <= {path.name for path in folder.iterdir()}


def test_what_it_shows_is_there_and_small() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert NOTEBOOK.stat().st_size < 300_000
    kinds = [kind for cell in cells(notebook) for kind in shown(cell)]
    assert kinds.count("image/png") == 2
    assert kinds.count("image/gif") == 1
    assert all(output["output_type"] != "error" for cell in cells(notebook) for output in cell["outputs"])
