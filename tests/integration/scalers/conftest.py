"""What tests of several triggers need."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture
def sockets_of_pymongo() -> Iterator[None]:
    """pymongo leaves the socket of a monitor that it cancelled to the garbage collector: not to the next test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
