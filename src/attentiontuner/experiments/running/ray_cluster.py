"""A Ray cluster: whether there is one at RAY_ADDRESS, connecting to it, and what its nodes have room for."""

import os
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import shortened

KNOCK_SECONDS = 6.0
"""How long a cluster may take to answer at all, and then to say what it speaks."""

CLIENT_PORT = 10001
"""Where a cluster listens to `ray://host`, if it does not say."""

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of gRPC begins: HTTP/2, and an empty frame of settings. Its server answers with such a frame."""

SETTINGS, HEADERS, CLOSE = 4, 1, 7
"""Kinds of frames."""

OK, UNKNOWN = b"\x88", b"\x0bgrpc-status\x0212"
"""As HPACK writes `:status: 200`, and that a call is not known there."""

MOST_FRAMES = 20
"""After which there should have been an answer."""


def find_cluster() -> None:
    """A `UserError` where nobody listens at RAY_ADDRESS, or not in Ray's language: Ray itself would wait for minutes
    without a word. Nothing is imported for it."""
    with _named():
        _knock(os.environ.get("RAY_ADDRESS", ""))


def connect() -> Any:
    """Ray, connected to the cluster at RAY_ADDRESS or to a new local one."""
    import ray

    if not ray.is_initialized():
        with _named():
            ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=False, configure_logging=False)
    return ray


@contextmanager
def _named() -> Iterator[None]:
    """Whatever goes wrong with the cluster, in one line."""
    try:
        yield
    except Exception as error:  # Ray raises whatever it likes, a bare Exception where a busy machine is too slow
        address, said = os.environ.get("RAY_ADDRESS"), shortened(str(error))
        if address is None:
            raise UserError(
                f"Ray does not start on this machine: {said}; try again, or leave out --executor ray"
            ) from error
        raise UserError(
            f"there is no Ray cluster at RAY_ADDRESS={address}: {said}; start one (`ray start --head`), or unset "
            "RAY_ADDRESS for one on this machine"
        ) from error


def _knock(address: str) -> None:
    """An `OSError` where nobody listens at `host:port` or `ray://host`, or nobody who speaks gRPC."""
    scheme, _, place = address.rpartition("://")
    host, colon, port = place.rpartition(":")
    if scheme == "ray" and not port.isdecimal():
        host, colon, port = place.rstrip(":"), ":", str(CLIENT_PORT)
    if not colon or not port.isdecimal():
        return  # `auto` and the like, or no address at all
    if not host:
        raise ConnectionError("no host is named")
    with socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS) as knocking:
        if os.environ.get("RAY_USE_TLS") in (None, "", "0") and not _answers(knocking, scheme != "ray"):
            raise ConnectionError("what listens there is no Ray cluster")


def _answers(knocking: socket.socket, itself: bool) -> bool:
    """Whether a server answers a call of gRPC with the status 200, as other servers of HTTP/2 do not; and knows that
    call, where it shall be the cluster itself and not its door for `ray://`."""
    call = [b"\x83\x86", _header(4, "/ray.rpc.NodeInfoGcsService/GetClusterId"), _header(1, "ray")]
    call += [_header(0, "te", "trailers"), _header(0, "content-type", "application/grpc")]
    block = b"".join(call)
    knocking.sendall(HELLO)
    if _frame(knocking)[0] != SETTINGS:
        return False
    knocking.sendall(_framed(SETTINGS, 1, 0, b"") + _framed(HEADERS, 4, 1, block) + _framed(0, 1, 1, bytes(5)))
    for _ in range(MOST_FRAMES):
        kind, content = _frame(knocking)
        if kind in (HEADERS, CLOSE):
            return kind == HEADERS and OK in content[:8] and not (itself and UNKNOWN in content)
    return False


def _header(index: int, *words: str) -> bytes:
    """A header as HPACK writes it out: its name as `index` of the known ones, or (0) in words."""
    return bytes([index]) + b"".join(bytes([len(word)]) + word.encode() for word in words)


def _framed(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _frame(knocking: socket.socket) -> tuple[int, bytes]:
    """The kind and the content of the next frame."""
    head = knocking.recv(9, socket.MSG_WAITALL)
    if len(head) < 9 or (size := int.from_bytes(head[:3], "big")) > 2**14:
        return CLOSE, b""
    return head[3], knocking.recv(size, socket.MSG_WAITALL) if size else b""


def resources(ray: Any, jobs: int) -> dict[str, float]:
    """What one cell asks of a node: a share of a GPU where there are any, and of the cores of the poorest node."""
    nodes = [node["Resources"] for node in _nodes(ray) if node["Resources"].get("CPU", 0) >= 1]
    gpus = any(node.get("GPU", 0) > 0 for node in nodes)
    shares = [node["CPU"] // (jobs * max(1.0, node.get("GPU", 0))) for node in nodes]
    return {"num_cpus": max(1.0, min(shares, default=1.0))} | ({"num_gpus": 1 / jobs} if gpus else {})


def rooms(ray: Any, wanted: Mapping[str, float], full: Collection[str]) -> dict[str, int]:
    """How many cells each node can run, by its id; of those whose disk is not `full`."""
    shares = {name.removeprefix("num_").removesuffix("s").upper(): share for name, share in wanted.items()}
    each = {
        node["NodeID"]: int(min(node["Resources"].get(name, 0) / share for name, share in shares.items()))
        for node in _nodes(ray)
        if node["NodeID"] not in full
    }
    return {node: room for node, room in each.items() if room}


def place(room: Mapping[str, int], taken: Mapping[str, int]) -> Any:
    """Where Ray shall run a cell: on the node, of some, that has most room left."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(max(room, key=lambda node: room[node] - taken.get(node, 0)), soft=True)


def _nodes(ray: Any) -> list[Any]:
    return [node for node in ray.nodes() if node["Alive"]]
