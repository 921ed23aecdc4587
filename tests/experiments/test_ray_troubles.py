"""A driver in a process of its own on a real Ray cluster, and what can go wrong there: signals, lost nodes that come
back, full disks, clocks, servers that are something else."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attentiontuner.experiments.records import read_records
from attentiontuner.experiments.running import ray_executor
from tests.experiments.test_ray_executor import node

pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

WORDS = ["reproduce", "imprecise-p", "--only", "hallway", "--scale", "smoke", "--executor", "ray"]
CELLS = 6
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


@contextmanager
def cluster(*nodes: dict[str, object]) -> Iterator[tuple[Any, list[Any]]]:
    """A cluster of these nodes and a head, which runs nothing."""
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        yield made, [made.add_node(**each) for each in nodes]
    finally:
        made.shutdown()


def start(made: Any, records: Path, folder: Path) -> "subprocess.Popen[str]":
    """The command, in a folder where nothing is, as on another machine."""
    folder.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "attentiontuner", *WORDS, "--records", str(records)]
    environment = {**os.environ, "RAY_ADDRESS": made.address}
    return subprocess.Popen(words, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True)


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 240
    while not true():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def record_files(records: Path) -> list[Path]:
    return sorted(records.glob("*/*--seed*.json"))


def what_is_told(records: Path) -> list[object]:
    """All that does not depend on where and when it was computed."""
    return [(record.cell.name, record.evaluation, record.curves["imitation_loss"]) for record in read_records(records)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_says_how_to_go_on_and_nothing_is_lost(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """The command goes on from another folder, and has the records of one that nobody disturbed."""
    with cluster(node(tmp_path / "first"), node(tmp_path / "second")) as (made, _):
        records = tmp_path / "records"
        driver = start(made, records, tmp_path / "here")
        until(lambda: record_files(records))
        driver.send_signal(number)
        _, said = driver.communicate(timeout=60)
        assert driver.returncode == code
        assert said.splitlines()[-1] == "attentiontuner: stopped; the same command goes on from what is finished"
        assert "Traceback" not in said
        before = {path: path.read_bytes() for path in record_files(records)}
        assert 1 <= len(before) < CELLS
        driver = start(made, records, tmp_path / "elsewhere")
        _, said = driver.communicate(timeout=300)
        assert driver.returncode == 0, said
        assert f"{CELLS} cells: {len(before)} with a record, {CELLS - len(before)} to run" in said
        assert {path: path.read_bytes() for path in before} == before
        undisturbed = start(made, tmp_path / "undisturbed", tmp_path / "elsewhere")
        _, said = undisturbed.communicate(timeout=300)
        assert undisturbed.returncode == 0, said
    assert what_is_told(records) == what_is_told(tmp_path / "undisturbed")
    assert len(record_files(records)) == CELLS
    assert not list((tmp_path / "here").iterdir()) + list((tmp_path / "elsewhere").iterdir())
    for scratch in ("first", "second"):
        there = (tmp_path / scratch / ray_executor.SCRATCH / "records").rglob("*")
        assert not [path for path in there if path.is_file() and path.suffix != ".lock"]


def test_a_node_that_comes_back_goes_on_where_it_was(tmp_path: Path) -> None:
    """The only node: what it has begun is finished by the node that takes its place."""
    scratch = tmp_path / "machine"
    with cluster(node(scratch)) as (made, (only,)):
        driver = start(made, tmp_path / "records", tmp_path / "here")
        until(lambda: list(scratch.glob("*/records/.work/*/*/run/state/latest")))
        made.remove_node(only, allow_graceful=False)
        begun = {path: path.stat().st_mtime for path in scratch.glob("*/records/.work/*/*/run/config.json")}
        collected = {path: path.stat().st_mtime for path in scratch.glob("*/data/*/manifest.json")}
        assert begun
        assert collected
        made.add_node(**node(scratch))
        _, said = driver.communicate(timeout=300)
    assert driver.returncode == 0, said
    assert len(record_files(tmp_path / "records")) == CELLS
    assert {path: path.stat().st_mtime for path in collected} == collected  # nothing was collected again
    assert not list(scratch.glob("*/records/.work/*/*/run"))


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="a small disk is mounted as root")
@pytest.mark.parametrize("size", ["100k", "300k", "1m"])
def test_cells_leave_a_node_whose_disk_is_full(tmp_path: Path, size: str) -> None:
    """Full while it collects, while it trains, or later; then no node has room, and each cell says so."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], check=True)
    try:
        with small.joinpath("taken").open("wb") as taken:
            taken.write(bytes(shutil.disk_usage(small).free // 2))
        with cluster(node(small), node(tmp_path / "large")) as (made, (_, large)):
            driver = start(made, tmp_path / "records", tmp_path / "here")
            _, said = driver.communicate(timeout=300)
            assert driver.returncode == 0, said
            assert len(record_files(tmp_path / "records")) == CELLS
            if size != "100k":
                return
            assert said.count("it runs elsewhere") in (1, 2), said
            assert "no room left on the disk" in said
            made.remove_node(large)
            driver = start(made, tmp_path / "again", tmp_path / "here")
            _, said = driver.communicate(timeout=300)
            assert driver.returncode == 2, said
            assert said.count(": failed, ") == CELLS
            assert said.count("no room left on the disk") == CELLS
            assert "Traceback" not in said
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


@pytest.mark.skipif(not FAKETIME.exists(), reason="needs libfaketime")
def test_clocks_an_hour_apart_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")  # else Ray sets its own
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def late(hours: str) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME": hours,
            "DONT_FAKE_MONOTONIC": "1",
            "RAY_LD_PRELOAD_ON_WORKERS": "1",
        }

    with cluster(node(tmp_path / "first", **late("-1h")), node(tmp_path / "second", **late("+1h"))) as (made, both):
        ray.init(address=made.address, log_to_driver=False)
        clock = ray.remote(lambda: time.time())
        there = [NodeAffinitySchedulingStrategy(each.node_id, soft=False) for each in both]
        try:
            hours = [(ray.get(clock.options(scheduling_strategy=on).remote()) - time.time()) / 3600 for on in there]
        finally:
            ray.shutdown()
        assert [round(each, 1) for each in hours] == [-1, 1]
        driver = start(made, tmp_path / "records", tmp_path / "here")
        _, said = driver.communicate(timeout=300)
        assert driver.returncode == 0, said
        undisturbed = [*WORDS[:-1], "local", "--records", str(tmp_path / "undisturbed")]
        subprocess.run([sys.executable, "-m", "attentiontuner", *undisturbed], check=True, timeout=300)
    assert what_is_told(tmp_path / "records") == what_is_told(tmp_path / "undisturbed")
    assert all(0 <= record.seconds["train"] < 600 for record in read_records(tmp_path / "records"))
