"""Real processes: killed at random moments, stopped by signals, and several at once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attentiontuner.core.wording import counted
from attentiontuner.runs.run import Run
from tests.training.toys import toy_store, without_times

TOY_TASK = """
from attentiontuner import register_task
from tests.training.toys import toy_task

register_task(toy_task("grid"))
"""
KILLS = 3
pytestmark = pytest.mark.timeout(600)  # real processes, many of them

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set and the file that registers its task."""
    folder = tmp_path_factory.mktemp("killed")
    toy_store(folder / "data", episodes=30)
    (folder / "toy.py").write_text(TOY_TASK)
    return folder


def command(place: Path, out: str, *words: str) -> list[str]:
    network = "--method attentiontuner --d-model 16 --layers 2 --feedforward 32 --embedder lookup"
    options = f"{network} --epochs 6 --batch-size 4 --learning-rate 0.001"
    paths = ["--data", str(place / "data"), "--out", str(place / out)]
    start = ["-m", "attentiontuner", "--import", str(place / "toy.py"), "train", "toy-grid"]
    return [*start, *paths, *options.split(), "--device", "cpu", *words]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def start(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(words: list[str]) -> str:
    process = start(words)
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return output


@pytest.fixture(scope="module")
def undisturbed(place: Path) -> Path:
    finish(command(place, "undisturbed"))
    return place / "undisturbed"


def wait_for(run: Path, states: int) -> None:
    """Until the run has written at least this many states since now."""
    seen: set[str] = set()
    deadline = time.monotonic() + 120
    while len(seen) < states and time.monotonic() < deadline:
        pointer = run / "state" / "latest"
        if pointer.exists():
            seen.add(pointer.read_text())
        time.sleep(0.0005)
    assert len(seen) >= states, "the run wrote no states"


def test_killed_at_random_moments_it_ends_bit_identical(place: Path, undisturbed: Path) -> None:
    moments = random.Random(7)
    words = command(place, "killed", "--checkpoint-seconds", "0")
    positions = []
    for _ in range(KILLS):
        process = start(words)
        wait_for(place / "killed", moments.randint(2, 6))
        time.sleep(moments.uniform(0, 0.02))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        state = Run(place / "killed").load_state()
        assert state is not None
        positions.append((state.epoch, state.batch))
    assert positions == sorted(set(positions)), "every session got further than the one before"
    assert any(batch for _, batch in positions), "no kill was inside an epoch"
    finish(words)
    assert without_times(Run(place / "killed").metrics()) == without_times(Run(undisturbed).metrics())
    assert (place / "killed" / "model.safetensors").read_bytes() == (undisturbed / "model.safetensors").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(place: Path, number: signal.Signals) -> None:
    out = place / number.name.lower()
    process = start(command(place, out.name, "--checkpoint-seconds", "0"))
    wait_for(out, 2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    state = Run(out).load_state()
    assert state is not None
    where = f"{state.epoch} of 6 epochs and {counted(state.batch, 'batch', 'batches')}"
    assert f"{number.name}: saved after {where} in {out}; the same command goes on from there" in errors
    assert "Traceback" not in errors


def test_two_processes_stopped_and_gone_on_compute_what_one_does(place: Path) -> None:
    choices = ["--dropout", "0", "--batch-size", "9"]  # 28 episodes: the last batch has none for the second process
    finish(command(place, "one", *choices))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [*torchrun, *command(place, "two", *choices)]
    assert "the budget ended" in finish([*words, "--budget", "0s"])
    state = Run(place / "two").load_state()
    assert state is not None
    assert (state.epoch, state.batch) == (0, 1)
    finish(words)
    for alone, together in zip(Run(place / "one").metrics(), Run(place / "two").metrics(), strict=True):
        assert set(alone) == set(together)
        for name in ("imitation_loss", "memory_loss", "train_accuracy", "gradient_norm", "test_imitation_loss"):
            assert together[name] == pytest.approx(alone[name], rel=2e-4), name
