"""What every chaos test begins with."""

import psutil
import pytest

from tests.chaos.parts import STRANGERS


@pytest.fixture(autouse=True)
def _strangers() -> None:
    """What runs before a house is built is none of its parts, and outlives the test."""
    STRANGERS.clear()
    STRANGERS.update(psutil.Process().children())
