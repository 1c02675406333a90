"""The polls of one claim, side by side: each is handed out when it is complete, whatever the others wait for."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from scalers.polling.object_poll import ObjectPoll

T = TypeVar("T")


class PollRound:
    """Work on the polls of one claim."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._aside: set[asyncio.Task[Any]] = set()
        self._complete: list[ObjectPoll] = []
        self._failure: BaseException | None = None
        self._news = asyncio.Event()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside everything else."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def aside(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin something whose outcome is for whoever has the task."""
        task = asyncio.create_task(work)
        self._aside.add(task)
        return task

    def complete(self, poll: ObjectPoll) -> None:
        """Nothing of this poll is left to be measured."""
        self._complete.append(poll)
        self._news.set()

    async def completed(self) -> AsyncIterator[list[ObjectPoll]]:
        """The complete polls, those of one moment together, until all work has ended. Raises what any of it raised."""
        while self._tasks or self._complete or self._failure:
            if not self._complete and not self._failure:
                await self._news.wait()
            self._news.clear()
            if self._failure:
                raise self._failure
            if self._complete:
                polls, self._complete = self._complete, []
                yield polls

    async def close(self) -> None:
        """Give up what still goes on."""
        left = [*self._tasks, *self._aside]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._failure = self._failure or error
        self._news.set()
