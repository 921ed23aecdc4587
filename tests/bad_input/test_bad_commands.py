"""Bad words on the command line and in the environment: exit code 2 and one line, nothing written elsewhere."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

import attentiontuner
from attentiontuner.cli import COMMANDS, main
from tests.demos.examples import write_store

WORDS = [
    "", " ", "-1", "0", "1e999", "nan", "inf", "-inf", "1.5", "x", "9" * 30, "a" * 300, "ü", "\udcff", "../..", "/",
    "/proc/x/y", "--", "-", "--out", "a,b", "a,,a", "1-99999999999", "None", "x=1", "=",
    "\n",
]  # fmt: skip
OPTIONS = {
    "tasks": ["--json"],
    "collect": ["--episodes", "--seed", "--workers", "--shard-episodes", "--set"],
    "convert": ["--to", "--task", "--annotator", "--fps", "--out"],
    "inspect": ["--verify", "--json", "--picture", "--episode", "--annotator"],
    "train": ["--epochs", "--learning-rate", "--memory-weight", "--noise-p", "--checkpoint-seconds", "--budget",
              "--memory-limit", "--device", "--model", "--annotator", "--log", "--test-data", "--method", "--late",
              "--heatmap-epochs", "--encoders", "--demos"],
    "evaluate": ["--episodes", "--seed", "--policy", "--task", "--set", "--execute", "--video", "--workers", "--batch"],
    "reproduce": ["--seeds", "--only", "--scale", "--methods", "--budget", "--jobs", "--executor", "--records"],
    "report": ["--scale", "--films", "--times", "--pages"],
    "annotate": ["--annotator", "--suggest", "--threshold", "--host", "--port", "--by", "--as"],
    "merge": ["--annotators", "--as", "--rule"],
    "play": ["--player", "--seed", "--seeds", "--realtime", "--host", "--port", "--set"],
    "studio-times": [],
    "memory-report": ["--out", "--count", "--seed"],
    "publish": ["--out", "--episodes", "--seed", "--device"],
    "benchmark": ["--task", "--name", "--board", "--records", "--episodes", "--by", "--told"],
}  # fmt: skip
VARIABLES = [
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "OMP_NUM_THREADS",
    "ATTENTIONTUNER_REVISION",
    "COLUMNS",
    "TMPDIR",
    "RAY_ADDRESS",
    "RAY_USE_TLS",
    "ATTENTIONTUNER_SCRATCH",
    "WANDB_MODE",
    "WANDB_NAME",
    "WANDB_PROJECT",
]
SET_BY_US = {"GOMP_SPINCOUNT", "MUJOCO_GL", "PYGAME_HIDE_SUPPORT_PROMPT", "SDL_AUDIODRIVER", "SDL_VIDEODRIVER",
             "WANDB_ERROR_REPORTING"}  # fmt: skip
"""For others to read, where nobody else has."""


def test_every_variable_is_spoiled() -> None:
    """A new one has to be named above."""
    sources = "".join(path.read_text() for path in Path(attentiontuner.__file__).parent.rglob("*.py"))
    read = re.findall(r"environ(?:\.\w+\(|\[)\s*[\"']([A-Z_]+)", sources)
    assert len(set(read)) > 10
    assert set(read) - SET_BY_US <= set(VARIABLES)


def words_of(verb: str, rng: random.Random, data: Path, out: Path) -> list[str]:
    """A command that has something wrong, or that has nothing to do: there is no folder, task or run of that name."""
    first = {
        "collect": ["nothing", "--out", str(out)],
        "convert": [str(data / "nothing"), "--out", str(out)],
        "train": ["nothing", "--data", str(data), "--out", str(out)],
        "evaluate": [str(data)],
        "reproduce": ["nothing"],
        "report": ["--records", str(data / "nothing")],
        "play": ["nothing", "--out", str(out)],
        "annotate": [str(data / "nothing")],
        "memory-report": [str(data / "nothing"), "--out", str(out)],
        "publish": [str(data), "--out", str(out)],
        "benchmark": [str(data)],
        "merge": [str(data), "--annotators", "expert,x", "--as", "y"],
    }.get(verb, [str(data)])
    words = [rng.choice(WORDS) if rng.random() < 0.2 else word for word in first]
    for _ in range(rng.randrange(4)):
        if OPTIONS[verb]:
            words += [rng.choice(OPTIONS[verb]), rng.choice(WORDS)]
    return words


def outcome(words: list[str]) -> Any:
    try:
        return main(words)
    except SystemExit as end:  # what the parser of options does
        return end.code


def check(numbers: range, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    write_store(data, 4)
    home.mkdir()
    monkeypatch.chdir(home)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    verbs, wrong = sorted(OPTIONS), []
    for number in numbers:
        rng = random.Random(f"command {number}")
        verb = rng.choice(verbs)
        words = [verb, *words_of(verb, rng, data, home / "out")]
        with monkeypatch.context() as changed:
            if rng.random() < 0.3:
                value = rng.choice([word for word in WORDS if "\n" not in word])
                changed.setenv(rng.choice(VARIABLES), value)
            try:
                code = outcome(words)
            except BaseException as error:
                wrong.append(f"{words}: {type(error).__name__}: {str(error)[:200]}")
                continue
        said = capsys.readouterr()
        if code not in (0, 2) or "Traceback" in said.err:
            wrong.append(f"{words}: exit code {code}: {said.err[-300:]}")
        if code == 2 and not said.err.strip():
            wrong.append(f"{words}: nothing was said")
    assert not wrong, f"{len(wrong)} of {len(numbers)}:\n" + "\n".join(wrong)
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    assert sorted(tmp_path.iterdir()) == [data, home]


@pytest.mark.timeout(120)
def test_a_bad_command_is_one_line(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    assert set(OPTIONS) == set(COMMANDS) - {"doctor"}
    check(range(300), tmp_path, capsys, monkeypatch)


@pytest.mark.slow
def test_many_bad_commands_are_one_line_each(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    check(range(300, 3000), tmp_path, capsys, monkeypatch)
