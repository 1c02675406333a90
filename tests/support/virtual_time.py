"""A loop whose time passes only while nothing is ready: deadlines end at once, and no stall of the machine ends one.

For tests without sockets. A test module asks for it with ``pytestmark = pytest.mark.virtual_time``.
"""

import asyncio
import selectors
from typing import Any


class _Jumping(selectors.DefaultSelector):
    """Where a loop would wait for its next timer, its clock is set forward. now: that clock, in seconds."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0 if timeout else timeout)
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that never waits; it blocks as others do if nothing but another thread can wake it."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Returns the seconds that have passed for what runs here."""
        return self._jumping.now
