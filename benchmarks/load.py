"""Much of everything, and what it holds in memory: not part of `make bench`, since each takes many minutes.

python -m benchmarks.load studio                10,000 demonstrations, 20 clients, ten minutes
python -m benchmarks.load cells                 `reproduce` with 500 cells of scale smoke
python -m benchmarks.load episodes              an evaluation of 100,000 episodes
python -m benchmarks.load large --folder DIR    30 GB of images, trained on, annotated by the run, reported on and in
                                                the studio with 8 GB of memory (Linux, as root; DIR is filled, or gone
                                                on with, and stays)
"""

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

from attentiontuner.demos import Demonstration, DemoStore, PairTable, read_annotations
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.experiments.planning.cells import expand
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.running.reproduce import make_plan, reproduce
from attentiontuner.spaces import ObservationSpec
from benchmarks.watching import Watch, bounded, refused, run_watched, start

COMMAND = [sys.executable, "-m", "attentiontuner"]
ENCODER = Path(__file__).parents[1] / "examples" / "custom_encoder.py"
SIDE, STEPS, AT_ONCE = 336, 100, 10
"""Of the images of `large`, of its demonstrations, and of its shards."""

SMALL = ["--d-model", "64", "--layers", "2", "--feedforward", "128"]
"""What is loaded is the data, not the network."""

PAUSE = 0.3
"""Seconds a client rests between two requests, on average."""


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["studio", "cells", "episodes", "large"])
    parser.add_argument("--minutes", type=float, help="of the studio's clients, 10; of training, no limit")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--count", type=int, help="cells or episodes")
    parser.add_argument("--gigabytes", type=float, default=30)
    parser.add_argument("--memory", type=float, default=8, help="gigabytes")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        if given.what == "studio":
            many_clients(Path(folder), given.minutes or 10, given.clients)
        elif given.what == "cells":
            many_cells(Path(folder), given.count or 500)
        elif given.what == "episodes":
            many_episodes(Path(folder), given.count or 100_000)
        else:
            much_data(given.folder or Path(folder), given.gigabytes, given.memory, given.minutes)


# --- the studio ------------------------------------------------------------------------------------------------------


def many_clients(folder: Path, minutes: float, clients: int) -> None:
    """Clients that look at the table, open demonstrations and annotate them; every pair that was answered is there in
    the end."""
    from benchmarks.studio_table import made_data

    data = made_data(folder / "many")
    ask = [*COMMAND, "annotate", str(data), "--port", "0", "--no-browser"]
    process = start(ask, None, stdout=subprocess.PIPE)
    try:
        with Watch(process.pid, 5) as watch:
            found = _annotated_by(process, minutes, clients)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    took = sorted(second for one in found for second in one.seconds)
    statuses = sum((one.statuses for one in found), Counter[int]())
    print(f"{len(took):,} requests in {minutes:g} minutes: " + ", ".join(f"{n:,} × {s}" for s, n in statuses.items()))
    print(f"a request: {1e3 * median(took):.0f} ms, of a hundred one {1e3 * quantiles(took, n=100)[-1]:.0f} ms or more")
    print(watch.words())
    lost = 0
    for one in found:
        there = read_annotations(data, one.name)
        lost += sum(pair not in set(there[episode].pairs.one(0) or ()) for episode, pair in one.saved)
    print(f"{sum(len(one.saved) for one in found):,} pairs were answered to be saved, {lost} of them are not there")


def _annotated_by(process: "subprocess.Popen[str]", minutes: float, clients: int) -> "list[Client]":
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/\S*token=(\S+)", process.stdout.readline())
    assert found, "the studio printed no address"
    end = time.monotonic() + 60 * minutes
    there = [Client(f"client{number}", int(found.group(1)), found.group(2), end) for number in range(clients)]
    threads = [threading.Thread(target=one.go) for one in there]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return there


class Client:
    """Somebody who annotates demonstrations drawn at random."""

    def __init__(self, name: str, port: int, token: str, end: float) -> None:
        self.name, self.port, self.end = name, port, end
        self.headers = {"cookie": f"studio_{port}={token}", "content-type": "application/json"}
        self.rng = random.Random(name)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.seconds: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.saved: list[tuple[int, tuple[int, int, int]]] = []

    def go(self) -> None:
        episodes = len(self.ask("GET", f"/api/dataset?annotator={self.name}")["lengths"])
        stamp = ""
        while time.monotonic() < self.end:
            episode = self.rng.randrange(episodes)
            self.ask("POST", "/api/here", {"window": self.name, "annotator": self.name, "episode": episode})
            opened = self.ask("GET", f"/api/episodes/{episode}?annotator={self.name}&window={self.name}")
            self.ask("GET", f"/api/episodes/{episode}/sprites/0.png")
            self.annotate(episode, opened)
            if self.rng.random() < 0.2:
                table = self.ask("GET", f"/api/table?annotator={self.name}&seen={stamp}")
                stamp = table.get("stamp", stamp)

    def annotate(self, episode: int, opened: Any) -> None:
        version, present = opened["state"]["version"], {(p, q) for p, q, _ in opened["state"]["pairs"]}
        for _ in range(self.rng.randrange(1, 5)):
            q = self.rng.randrange(1, opened["length"])
            pair = (self.rng.randrange(q), q)
            if pair in present:
                continue
            body = {
                "annotator": self.name,
                "version": version,
                "edit": {"kind": "add", "pairs": [pair]},
                "seconds": 0.5,
                "window": self.name,
                "mark": f"{self.name} {len(self.seconds)}",
            }
            answer = self.ask("POST", f"/api/episodes/{episode}/change", body)
            version = answer["version"]
            present.add(pair)
            self.saved.append((episode, (*pair, 1)))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        time.sleep(self.rng.uniform(0, 2 * PAUSE))
        started = time.perf_counter()
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        content = answer.read()
        self.seconds.append(time.perf_counter() - started)
        self.statuses[answer.status] += 1
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {content[:300]!r}")
        return json.loads(content) if content[:1] == b"{" else content


# --- cells and episodes ----------------------------------------------------------------------------------------------


def many_cells(folder: Path, count: int) -> None:
    """One process after another runs cells; the one that hands them out is what may grow."""
    plan = make_plan("table1", folder / "records", scale="smoke")
    cell = expand(RECIPES["table1"], "smoke", ["hallway", "vanilla"])[0]
    plan = replace(plan, cells=[replace(cell, seed=seed) for seed in range(1, count + 1)])
    started = time.monotonic()
    with Watch(os.getpid(), 2) as watch:
        code = reproduce(plan)
    records = len(list((folder / "records").rglob("*--seed*.json")))
    work = (folder / "records" / ".work").rglob("*")
    left = sum(path.is_file() and path.suffix != ".lock" for path in work)
    seconds = time.monotonic() - started
    print(f"{records} of {count} records in {seconds:,.0f} s, exit code {code}; {left} files left behind")
    print(watch.words())


def many_episodes(folder: Path, count: int) -> None:
    words = [*COMMAND, "evaluate", "--policy", "random", "--task", "ordering", "--episodes", str(count)]
    watch, seconds = run_watched([*words, "--workers", "1", "--out", str(folder / "played")])
    lines = len((folder / "played" / "episodes.jsonl").read_text().splitlines())
    print(f"{lines:,} of {count:,} episodes in {seconds:,.0f} s")
    print(watch.words())


# --- much data -------------------------------------------------------------------------------------------------------


def much_data(folder: Path, gigabytes: float, memory: float, minutes: float | None) -> None:
    """Noise, so that no frame is stored twice and none becomes smaller: as large on the disk as in memory."""
    data, run = folder / "noise", folder / "run"
    started = time.monotonic()
    store = noise(data, gigabytes)
    on_disk = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    seconds = time.monotonic() - started
    print(f"{len(store):,} demonstrations, {on_disk / 1e9:.1f} GB on the disk, made in {seconds:,.0f} s")
    options = ["--encoders", "dct", "--epochs", "1", "--batch-size", "8", "--labels", "exact", *SMALL]
    options += ["--budget", f"{minutes:g}m"] if minutes else []
    own = ["--import", str(ENCODER)]
    steps = {
        "inspect --verify": ["inspect", str(data), "--verify"],
        "train": [*own, "train", "noise", "--data", str(data), "--out", str(run), *options],
        "annotate by the run": [*own, "annotate", str(data), "--by", str(run), "--as", "machine", "--threshold", "0.9"],
        "memory-report": ["memory-report", str(data), "--out", str(folder / "report")],
    }
    with bounded(memory) as group:
        for what, words in steps.items():
            watch, seconds = run_watched([*COMMAND, *words], 2, group)
            print(f"{what}, with {memory:g} GB: {seconds:,.0f} s; {watch.words()}; {refused(group):,} refusals")
        page = [*COMMAND, "annotate", str(data), "--port", "0", "--no-browser"]
        process = start(page, group, stdout=subprocess.PIPE)
        try:
            with Watch(process.pid, 1) as watch:
                (one,) = _annotated_by(process, 2, 1)
            print(f"the studio, with {memory:g} GB, two minutes: {len(one.seconds):,} requests; {watch.words()}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def noise(folder: Path, gigabytes: float, at_once: int = AT_ONCE) -> DemoStore:
    """Demonstrations of noise, where the first step is recalled at the last; as many as are not there yet."""
    spec = ObservationSpec("image", (SIDE, SIDE, 3))
    writer = DemoWriter(folder, task="noise", observation=spec, actions=("a", "b"), shard_episodes=at_once)
    there, size = len(DemoStore.open(folder)) // at_once, at_once * STEPS * SIDE * SIDE * 3
    rng, pairs = np.random.default_rng(there), PairTable.of([(0, STEPS - 1)], STEPS)
    for _ in range(there, -(-int(gigabytes * 1e9) // size)):
        frames = np.frombuffer(rng.bytes(size), np.uint8).reshape(at_once, STEPS, SIDE, SIDE, 3)
        actions = rng.integers(2, size=(at_once, STEPS))
        made = [Demonstration(seen, acted, pairs=pairs) for seen, acted in zip(frames, actions, strict=True)]
        writer.append(made, annotator="expert")
    return DemoStore.open(folder)


if __name__ == "__main__":
    main()
