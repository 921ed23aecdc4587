"""Cells on a real Ray cluster of two nodes, one of which is killed in mid-run."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.experiments import records
from attentiontuner.experiments.running import ray_cluster, ray_executor
from attentiontuner.experiments.running.reproduce import make_plan, reproduce

ray = pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.timeout(600)


def node(scratch: Path, **variables: str) -> dict[str, object]:
    """A node with a scratch folder of its own, as if it were another machine."""
    return {"num_cpus": 1, "env_vars": {"ATTENTIONTUNER_SCRATCH": str(scratch), **variables}}


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    first = {"include_dashboard": False, **node(tmp_path / "nodes" / "first")}
    made = Cluster(initialize_head=True, head_node_args=first)
    second = made.add_node(**node(tmp_path / "nodes" / "second"))
    ray.init(address=made.address, log_to_driver=False)
    yield made, second
    ray.shutdown()
    made.shutdown()


def kill_when_busy(cluster, node, work: Path, killed: threading.Event) -> None:
    """Kill the node as soon as a cell is being worked on there."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        if any(work.glob("records/.work/*/*/run/config.json")):
            cluster.remove_node(node, allow_graceful=False)
            killed.set()
            return
        time.sleep(0.01)


def test_a_lost_nodes_cells_run_elsewhere_and_every_record_is_written_once(cluster, tmp_path, monkeypatch):
    made, second = cluster
    ray_cluster._knock(made.address)  # what listens there is Ray
    written: list[str] = []
    real_write = records.write_record

    def counting_write(folder, record):
        written.append(record.cell.name)
        return real_write(folder, record)

    monkeypatch.setattr(ray_executor, "write_record", counting_write)
    scratch = tmp_path / "nodes" / "second" / ray_executor.SCRATCH
    killed = threading.Event()
    killer = threading.Thread(target=kill_when_busy, args=(made, second, scratch, killed))
    killer.start()
    plan = make_plan("imprecise-p", tmp_path / "records", only=["hallway"], scale="smoke", executor="ray")
    assert reproduce(plan) == 0
    killer.join()
    assert killed.is_set()
    assert sorted(written) == sorted(cell.name for cell in plan.cells)
    assert all(records.finished(plan.records, cell) for cell in plan.cells)
    assert sum(1 for _ in plan.records.glob("*/*.json")) == len(plan.cells) == 6
    data = list((tmp_path / "nodes").glob("*/*/data/*-seed0"))
    assert len(data) == 2  # the data set was collected once on each node


def test_a_cluster_that_does_not_start_is_one_line(monkeypatch):
    """As on a machine that is too busy, where Ray raises a bare Exception."""

    def slow(**given):
        raise Exception("The current node timed out during startup.\n\nMore.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", slow)
    with pytest.raises(UserError, match="^Ray does not start on this machine: The current node timed out .* More"):
        ray_cluster.connect()


def framed(kind: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, 0]) + content


NOBODY = {
    "hangs up": b"",
    "speaks HTTP/1": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "says nothing": None,
    "greets and hangs up": framed(4),
    "greets for ever": 30 * framed(4),
    "has no such page": framed(4) + framed(1, b"\x8d"),
    "is another service": framed(4) + framed(1, b"\x88@\x0bgrpc-status\x0212"),
    "sends a frame too large": framed(4) + b"\xff" * 9,
}


@pytest.mark.parametrize("answer", NOBODY.values(), ids=NOBODY)
def test_what_listens_but_is_no_cluster_is_one_line(monkeypatch, answer):
    monkeypatch.setattr(ray_cluster, "KNOCK_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{listening.getsockname()[1]}")

        def serve() -> None:
            there, _ = listening.accept()
            with there, suppress(OSError):
                if answer is not None:
                    there.recv(1000)
                    there.sendall(answer)
                while answer != b"" and there.recv(10**6):
                    pass

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(UserError, match="there is no Ray cluster at RAY_ADDRESS=127.0.0.1:"):
            ray_cluster.find_cluster()
        server.join()


@pytest.mark.parametrize("address", ["ray://", ":6379", "ray://:"])
def test_an_address_without_a_host_is_one_line(monkeypatch, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UserError, match="there is no Ray cluster at RAY_ADDRESS=.*: no host is named"):
        ray_cluster.find_cluster()


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_a_cluster_that_is_not_there_is_one_line(monkeypatch, address):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but nobody listens
        monkeypatch.setenv("RAY_ADDRESS", address.format(nobody.getsockname()[1]))
        with pytest.raises(UserError, match="there is no Ray cluster at RAY_ADDRESS=.*127.0.0.1.*refused"):
            ray_cluster.find_cluster()
