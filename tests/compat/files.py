"""The fixtures in `made/`, and what is expected of them. Tests work on copies."""

import hashlib
import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import attentiontuner as at
from tests.compat import vector_task  # noqa: F401  (registers the task of some of the files)
from tests.compat.inside import forward_logits, streamed_logits

MADE = Path(__file__).parent / "made"
EXPECTED = MADE / "expected.json"

DATA = ("hallway", "counting", "mystery-path", "vector")
RUNS = {
    "hallway-attentiontuner": "hallway",
    "hallway-vanilla": "hallway",
    "counting-recall": "counting",
    "counting-recall-vanilla": "counting",
    "mystery-path-attentiontuner": "mystery-path",
    "vector-recall": "vector",
}
"""run → its data set"""

TINY = (
    *("--d-model", "8", "--layers", "1", "--feedforward", "16", "--device", "cpu", "--keep", "1"),
    *("--epochs", "4", "--batch-size", "2", "--learning-rate", "0.01"),
)
"""Options of `attentiontuner train` for these runs; `vector-recall` has no others."""


def unpacked(part: str, folder: Path) -> Path:
    """A copy of `made/<part>` in `folder`, packed weights unpacked."""
    target = folder / part
    shutil.copytree(MADE / part, target)
    for path in target.rglob("*.xz"):
        path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
        path.unlink()
    return target


def expected(*names: str) -> Any:
    """That entry of `expected.json`."""
    value = json.loads(EXPECTED.read_text(encoding="utf-8"))
    for name in names:
        value = value[name]
    return value


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def content_of(data: Path) -> dict[str, Any]:
    """All that a data set says, as a JSON value."""
    store = at.DemoStore.open(data)
    summary = store.summary()
    del summary["path"]
    value = {
        "summary": summary,
        "lengths": store.lengths.tolist(),
        "episodes": [_content_of(demonstration) for demonstration in store],
        "pairs": {
            name: [
                None if demo.pairs is None else np.asarray(demo.pairs).tolist()
                for demo in at.DemoStore.open(data, name)
            ]
            for name in store.annotators()
        },
    }
    return json.loads(json.dumps(value))


def _rows(pairs: at.PairTable | None) -> list[list[int]] | None:
    return None if pairs is None else np.asarray(pairs).tolist()


def _content_of(demonstration: at.Demonstration) -> dict[str, Any]:
    observations = np.ascontiguousarray(demonstration.observations)
    return {
        "observations": [str(observations.dtype), list(observations.shape), sha256(observations.tobytes())],
        "sum": float(observations.astype(np.float64).sum()),
        "actions": demonstration.actions.tolist(),
        "rewards": [float(reward) for reward in demonstration.rewards],
        "ending": [demonstration.terminated, demonstration.truncated, demonstration.success],
        "seed": int(demonstration.seed),
    }


def answers_of(run: Path, data: Path, **options: Any) -> dict[str, Any]:
    """What the network of a run says about the first demonstration of its data set: by a forward pass, and streaming.

    `options` are those of `load_policy`.
    """
    policy = at.load_policy(run, device="cpu", **options)
    return {
        "parameters": sum(parameter.numel() for parameter in policy.model.parameters()),
        "forward": _rounded(forward_logits(policy, data)),
        "streamed": _rounded(streamed_logits(policy, at.DemoStore.open(data)[0])),
    }


def _rounded(numbers: np.ndarray) -> list[list[float]]:
    return [[round(float(number), 6) for number in row] for row in numbers]
