"""Waiting for what a test expects, instead of sleeping and hoping."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")

#: Seconds between two looks at first, and at most. A look may cost a call to a server.
SHORTEST, LONGEST = 0.005, 0.05
#: Of the time waited so far, the next pause is this part: what takes long is not looked at as often.
PART = 0.1


async def eventually(
    condition: Callable[[], object], within: float = 60.0, *, told: Callable[[], str] | None = None
) -> None:
    """Returns once the condition holds; fails when it does not within so many seconds.

    told: what a failure says, instead of the condition's source.
    """
    began = time.monotonic()
    while True:
        held = condition()
        if inspect.isawaitable(held):
            held = await held
        if held:
            return
        what = told or (lambda: inspect.getsource(condition))
        waited = time.monotonic() - began
        assert waited < within, f"did not come true within {within:g} s: {what()}"
        await asyncio.sleep(min(max(waited * PART, SHORTEST), LONGEST))


async def until(read: Callable[[], Awaitable[Found]], wanted: Callable[[Found], object], within: float = 60.0) -> Found:
    """Reads again and again; returns what was read once it is as wanted, and fails as `eventually` does."""
    found: list[Found] = []

    async def holds() -> object:
        found[:] = [await read()]
        return wanted(found[0])

    await eventually(holds, within, told=lambda: f"{inspect.getsource(wanted)}\nlast: {found}")
    return found[0]
