"""Helpers to watch processes from outside."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def pid_in(tmp_path: Path) -> Callable[[str], int]:
    """The number in a file of the test's folder, 0 while there is none."""

    def read(name: str) -> int:
        path = tmp_path / name
        return int(path.read_text().strip() or 0) if path.exists() else 0

    return read
