"""Waiting for what a test expects, instead of sleeping and hoping."""

import asyncio
import inspect
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], within: float = 60.0) -> None:
    """Returns once the condition holds; fails when it does not within so many seconds."""
    deadline = time.monotonic() + within
    while True:
        held = condition()
        if inspect.isawaitable(held):
            held = await held
        if held:
            return
        assert time.monotonic() < deadline, f"did not come true within {within:g} s: {inspect.getsource(condition)}"
        await asyncio.sleep(0.005)
