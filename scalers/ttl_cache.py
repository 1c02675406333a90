"""The cache of answers in one process: for a short while, each asked for once."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workers.newest_entries import remember

V = TypeVar("V")

#: Earlier than every instant: an answer of any age will do.
EVER = float("-inf")


@dataclass(frozen=True, slots=True)
class _Answer:
    """asked, until: instants. The value stays out of the repr, for it may be secret."""

    value: Any = field(repr=False)
    asked: float
    until: float


@dataclass
class _Question:
    """waiting: callers that wait for its answer."""

    task: "asyncio.Task[Any]"
    asked: float
    waiting: int = 0


class TTLCache:
    """Answers by key. Callers that ask while a question is open share its answer. A failure is never remembered.

    seconds: time to live of an answer. limit: most answers; the least recently used give way. abandon: the last caller
    to give up cancels the question, which otherwise goes on for later callers. clock: monotonic seconds.
    """

    def __init__(
        self, *, seconds: float, limit: int, abandon: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._limit = limit
        self._abandon = abandon
        self._clock = clock
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._open: dict[Hashable, _Question] = {}

    def now(self) -> float:
        """Returns the clock's reading."""
        return self._clock()

    def known(self, key: Hashable) -> Any:
        """Returns the answer that is still good, None if it has to be asked for."""
        known = self._answers.get(key)
        if known is None or self._clock() >= known.until:
            return None
        self._answers.move_to_end(key)
        return known.value

    async def get(
        self,
        key: Hashable,
        ask: Callable[[], Awaitable[V]],
        *,
        since: float = EVER,
        seconds: Callable[[V], float] | None = None,
    ) -> V:
        """Returns an answer that was asked for no earlier than `since`; raises what `ask` raises.

        seconds: time to live of this answer, if not that of all. None as an answer is not remembered.
        """
        known = self._answers.get(key)
        if known and self._clock() < known.until and known.asked >= since:
            self._answers.move_to_end(key)
            value: V = known.value
            return value
        question = self._open.get(key)
        if question is None or question.asked < since:
            asked = self._clock()
            question = _Question(asyncio.ensure_future(self._ask(key, ask, asked, seconds)), asked)
            self._open[key] = question
            question.task.add_done_callback(lambda task: self._closed(key, task))
        question.waiting += 1
        try:
            # Shielded: a caller that is cancelled must not cancel the answer that others wait for.
            shared: V = await asyncio.shield(question.task)
        finally:
            question.waiting -= 1
            if self._abandon and not question.waiting and not question.task.done():
                question.task.cancel()
                # The next caller asks again, even before the task has ended.
                self._close(key, question.task)
        return shared

    async def _ask(
        self, key: Hashable, ask: Callable[[], Awaitable[V]], asked: float, seconds: Callable[[V], float] | None
    ) -> V:
        value = await ask()
        self._drop_stale()
        known = self._answers.get(key)
        # A late answer to an early question replaces no answer to a later one.
        if value is not None and not (known and known.asked > asked):
            until = asked + (seconds(value) if seconds else self._seconds)
            remember(self._answers, key, _Answer(value, asked, until), self._limit)
        return value

    def _drop_stale(self) -> None:
        """Drops the least recently used answers up to the first that is good: they may be large."""
        now = self._clock()
        while self._answers and now >= next(iter(self._answers.values())).until:
            self._answers.popitem(last=False)

    def _close(self, key: Hashable, task: "asyncio.Task[Any]") -> None:
        if (question := self._open.get(key)) and question.task is task:
            del self._open[key]

    def _closed(self, key: Hashable, task: "asyncio.Task[Any]") -> None:
        self._close(key, task)
        if not task.cancelled():
            # Retrieved here, for every caller may have been cancelled.
            task.exception()
