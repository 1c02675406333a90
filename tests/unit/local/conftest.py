"""Helpers to watch processes from outside."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits for the condition; fails when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def pid_in(tmp_path: Path) -> Callable[[str], int]:
    """The number in a file of the test's folder, 0 while there is none."""

    def read(name: str) -> int:
        path = tmp_path / name
        return int(path.read_text().strip() or 0) if path.exists() else 0

    return read
