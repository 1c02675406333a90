"""Waiting for what a test expects, instead of sleeping and hoping."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")


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
        waited = time.monotonic() - began
        what = told or (lambda: inspect.getsource(condition))
        assert waited < within, f"did not come true within {within:g} s: {what()}"
        # The longer it takes, the seldomer it is asked: questions keep the cores from what they wait for.
        await asyncio.sleep(min(0.05, max(0.005, waited / 20)))


async def until(read: Callable[[], Awaitable[Found]], wanted: Callable[[Found], object], within: float = 60.0) -> Found:
    """Reads again and again; returns what was read once it is as wanted, and fails as `eventually` does."""
    found: list[Found] = []

    async def holds() -> object:
        found[:] = [await read()]
        return wanted(found[0])

    await eventually(holds, within, told=lambda: f"{inspect.getsource(wanted)}\nlast: {found}")
    return found[0]
