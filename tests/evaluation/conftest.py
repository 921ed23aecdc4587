"""What these tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from attentiontuner.runs.config import paper_config
from attentiontuner.runs.run import Run
from attentiontuner.tasks import task as tasks
from attentiontuner.tasks.task import register_task
from tests.evaluation.toys import recall_task


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small models are quickest on one thread, above all where several tests share a machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run on the toy task, untrained."""
    monkeypatch.setattr(tasks, "_TASKS", dict(tasks.all_tasks()))
    register_task(recall_task())
    folder = tmp_path / "run"
    config = paper_config(recall_task(), model={"d_model": 16, "layers": 2, "heads": 2, "feedforward": 32})
    Run(folder).begin(config, {"demonstrations": 5, "annotated": 4}, {"python": "3"})
    torch.manual_seed(3)
    Run(folder).save_best(config.network.build())
    (folder / "best.safetensors").rename(folder / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    return folder
