"""What all tests share."""

import os
import signal
from collections.abc import Iterator

import pytest

from attentiontuner.core.threads import wait_briefly

wait_briefly()

import torch  # noqa: E402


def pytest_configure() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored, and every process started from there inherits
    that. Tests that press Ctrl-C need it to be heard."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test marked `gpu` says why it is skipped where there is none. Those of kernels alone can be interpreted."""
    if not torch.cuda.is_available():
        for item in items:
            marker = item.get_closest_marker("gpu")
            if marker and not (marker.kwargs.get("interpreted") and os.environ.get("TRITON_INTERPRET") == "1"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch computes with one thread, as golden numbers were made."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
