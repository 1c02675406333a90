"""The polls of one claim, side by side: each is yielded soon after it is complete."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from scalers.polling.object_poll import ObjectPoll
from workers.cancellation import cancelled

T = TypeVar("T")

#: Seconds for which complete polls wait for others while some go on: readings are stored, and leases settled, at the
#: cost of a round trip, however many they are.
GATHER = 0.01


class PollRound:
    """The tasks that work on the polls of one claim."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[Any]] = set()
        self._complete: list[ObjectPoll] = []
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts work that `completed` waits for, and whose failure it raises."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def start_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts work whose outcome concerns the caller alone; `close` cancels it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        return task

    def complete(self, poll: ObjectPoll) -> None:
        """Hands a poll over whose triggers are all measured."""
        self._complete.append(poll)
        self._changed.set()

    async def completed(self) -> AsyncIterator[list[ObjectPoll]]:
        """Yields complete polls, those within `GATHER` together, until all work has ended. Raises its first failure."""
        while self._tasks or self._complete or self._failure:
            await self._changed.wait()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=GATHER)
            self._changed.clear()
            if self._failure:
                raise self._failure
            if self._complete:
                polls, self._complete = self._complete, []
                yield polls

    async def close(self) -> None:
        """Cancels the work that has not ended."""
        left = [*self._tasks, *self._background]
        await cancelled(*left)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._failure = self._failure or error
        self._changed.set()
