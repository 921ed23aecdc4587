"""Made `made/` and `golden.json`. It was run at revision 2b3d0ce and is kept to show how; it is not to be run again,
as its files stand for those that people have from then:

    PYTHONPATH=<checkout of 2b3d0ce>/src OMP_NUM_THREADS=1 python -m tests.compat.make

The weights of networks that read grids and images were made coarse after training (few different numbers) and packed,
or they would be ten times as large; those of `vector-recall` are as they were trained.
"""

import json
import lzma
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

import attentiontuner as at
from attentiontuner.cli import main
from tests.compat.files import DATA, EXPECTED, MADE, RUNS, TINY, answers_of, content_of, unpacked
from tests.compat.golden import CASES, FILE, LENGTHS, arithmetic, golden_run
from tests.compat.inside import annotate, remarks
from tests.compat.vector_task import TASK

UNFINISHED = "vector-recall-unfinished"


def command(*words: object) -> None:
    assert main([str(word) for word in words]) == 0


def make_data(folder: Path) -> None:
    shards = ("--shard-episodes", 3)
    command(
        "collect", "hallway", "--episodes", 6, "--seed", 5, *shards, "--set", "length=4", "--out", folder / "hallway"
    )
    command(
        "collect",
        "counting",
        "--episodes",
        3,
        "--seed",
        11,
        "--set",
        "length=8",
        "test_freq=0.5",
        "--out",
        folder / "counting",
    )
    command("collect", "mystery-path", "--episodes", 2, "--seed", 5, "--out", folder / "mystery-path")
    hallway = folder / "hallway"
    some = [(1, 15), (5, 15, 2), *((p, 15) for p in range(8, 12))]
    annotate(hallway, "anna", 0, some[:2])
    annotate(
        hallway,
        "anna",
        0,
        [*some, *((p, 21, 3) for p in range(4, 7))],
        origins={"expert": frozenset({(1, 15)}), "suggestion": frozenset({(5, 15), (8, 15)})},
        note="Grün, then ‘blue’?",
        flagged=True,
        seconds=12.5,
    )
    annotate(hallway, "anna", 2, [], seconds=3.25)
    annotate(hallway, "anna", 4, [(1, 7), (1, 11)])
    make_vectors(folder / "vector")


def make_vectors(folder: Path) -> None:
    """Recordings of somebody's own, in two parts; one episode failed, one is not annotated."""
    generator = np.random.default_rng(3)
    writer = at.DemoWriter(
        folder, task=TASK.name, settings=TASK.settings, observation=TASK.observation, action_names=TASK.actions
    )
    demonstrations = []
    for number, length in enumerate((7, 5, 9, 6, 8)):
        demonstrations.append(
            at.Demonstration(
                generator.normal(size=(length, 4)).astype(np.float32),
                generator.integers(0, 3, length),
                rewards=np.linspace(0, 1, length, dtype=np.float32),
                terminated=number != 1,
                truncated=number == 1,
                seed=100 + number,
                success=number != 1,
                pairs=None if number == 3 else [(0, 2), (1, length - 1, 2)],
            )
        )
    writer.append(demonstrations[:3], annotator="expert")
    writer.append(demonstrations[3:], annotator="expert")


def train(task: str, data: Path, out: Path, method: str, *words: object) -> None:
    command("train", task, "--data", data, "--out", out, "--method", method, *TINY, *words)


def make_runs(data: Path, folder: Path) -> None:
    longer = ("--epochs", 60, "--learning-rate", 0.003, "--test-fraction", 0.2)
    watched = (*longer, "--eval-every", 20, "--eval-episodes", 4, "--heatmap-epochs", 0, 60)
    small = ("--d-model", 4)
    train("hallway", data / "hallway", folder / "hallway-attentiontuner", "attentiontuner", *watched)
    train("hallway", data / "hallway", folder / "hallway-vanilla", "vanilla", "--embedder", "lookup", *small)
    for method in ("recall", "recall-vanilla"):
        train("counting", data / "counting", folder / f"counting-{method}", method, *small)
    train("mystery-path", data / "mystery-path", folder / "mystery-path-attentiontuner", "attentiontuner", *small)
    train(TASK.name, data / "vector", folder / "vector-recall", "recall")
    for run in folder.iterdir():
        shutil.rmtree(run / "state")
        if run.name != "vector-recall":
            for path in run.glob("*.safetensors"):
                plays = path == folder / "hallway-attentiontuner" / "model.safetensors"
                path.write_bytes(coarse(path.read_bytes(), 0.5 if plays else 1.0))
    for _ in range(5):  # a batch at a time
        train(TASK.name, data / "vector", folder / UNFINISHED, "recall", "--budget", "0s")


def coarse(content: bytes, deviations: float) -> bytes:
    """The same file with the numbers of large tensors rounded to multiples of about so many standard deviations."""
    tensors = load(content)
    for name, tensor in tensors.items():
        if tensor.numel() > 512 and tensor.ndim > 1:
            unit = 2.0 ** round(float(tensor.std().log2())) * deviations
            tensors[name] = (tensor / unit).round() * unit
    return save(tensors)


def make_evaluation(run: Path, folder: Path) -> None:
    """A finished one, and one that was killed in the middle of its sixth line."""
    evaluate = ("evaluate", run, "--episodes", 12, "--workers", 0, "--device", "cpu")
    command(*evaluate, "--out", folder / "finished")
    killed = folder / "killed"
    killed.mkdir()
    lines = (folder / "finished" / "episodes.jsonl").read_text().splitlines()
    (killed / "episodes.jsonl").write_text("".join(line + "\n" for line in lines[:5]) + lines[5][:20])
    what = json.loads((folder / "finished" / "summary.json").read_text())["of"]
    (killed / "summary.json").write_text(json.dumps({"of": what, "episodes": 0}, indent=2) + "\n")


def make_records(folder: Path) -> None:
    smoke = ("--seeds", 1, "--scale", "smoke", "--records", folder)
    command("reproduce", "table1", "--only", "hallway,attentiontuner", *smoke)
    command("reproduce", "recall", "--only", "counting,recall", *smoke)
    for name in (".data", ".work"):
        shutil.rmtree(folder / name)


def pack(folder: Path) -> None:
    """Leave out what is of no use, and pack what is large."""
    for path in [*folder.rglob(".*lock"), *folder.rglob("*.png")]:
        path.unlink()
    for path in folder.rglob("*.safetensors"):
        if "vector-recall" not in str(path):
            packed = lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
            path.with_name(f"{path.name}.xz").write_bytes(packed)
            path.unlink()


def what_is_expected(folder: Path) -> dict[str, Any]:
    for part in ("data", "runs"):
        unpacked(part, folder)
    data, runs = folder / "data", folder / "runs"
    answers = {name: answers_of(runs / name, data / of) for name, of in RUNS.items()}
    answers["hallway-attentiontuner"]["best"] = answers_of(runs / "hallway-attentiontuner", data / "hallway", best=True)
    return {
        "data": {name: content_of(data / name) for name in DATA},
        "anna": {str(episode): remarks(data / "hallway", "anna", episode) for episode in (0, 2, 4)},
        "runs": answers,
        "report": what_the_report_says(folder / "report"),
    }


def what_the_report_says(folder: Path) -> dict[str, Any]:
    command("report", "--records", MADE / "records", "--out", folder)
    lines = (folder / "README.md").read_text().splitlines()
    return {
        "rows": [line for line in lines if line.startswith(("| Hallway", "| Counting"))],
        "figures": sorted(path.name for path in (folder / "figures").iterdir() if "experts" not in path.name),
    }


def compact(value: dict[str, Any]) -> str:
    """JSON with a line for each entry of an entry."""
    parts = []
    for name, part in value.items():
        if isinstance(part, dict):
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(item)}" for key, item in part.items())
            parts.append(f"{json.dumps(name)}: {{\n{inner}\n}}")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(part)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def make() -> None:
    torch.set_num_threads(1)
    shutil.rmtree(MADE, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        make_data(work / "data")
        make_runs(work / "data", work / "runs")
        make_evaluation(work / "runs" / "hallway-attentiontuner", work / "evaluation")
        make_records(work / "records")
        pack(work)
        shutil.copytree(work, MADE)
    with tempfile.TemporaryDirectory() as name:
        EXPECTED.write_text(compact(what_is_expected(Path(name))), encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        found = {f"{case} {length}": golden_run(case, length, Path(name)) for case in CASES for length in LENGTHS}
    head = {"revision": "2b3d0ce", "arithmetic": arithmetic()}
    FILE.write_text(compact({**head, "runs": found}), encoding="utf-8")


if __name__ == "__main__":
    make()
