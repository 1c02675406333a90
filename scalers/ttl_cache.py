"""Answers that many ask for again and again: remembered for a short while, in this process only."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

V = TypeVar("V")

#: Before every instant: an answer of any age will do.
EVER = float("-inf")


@dataclass(frozen=True, slots=True)
class _Answer:
    """asked, until: instants. The value stays out of the repr, for it may be secret."""

    value: Any = field(repr=False)
    asked: float
    until: float


@dataclass(frozen=True, slots=True)
class _Question:
    task: "asyncio.Task[Any]"
    asked: float


class Recent:
    """Remembers answers by key. Who asks while a question is open shares its answer. A failure is never remembered.

    seconds: how long an answer is remembered. limit: most answers; those unused for longest give way. clock: seconds
    of any clock that only goes forward.
    """

    def __init__(self, *, seconds: float, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._limit = limit
        self._clock = clock
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._open: dict[Hashable, _Question] = {}

    def now(self) -> float:
        """The clock's reading."""
        return self._clock()

    async def get(
        self,
        key: Hashable,
        ask: Callable[[], Awaitable[V]],
        *,
        since: float = EVER,
        seconds: Callable[[V], float] | None = None,
    ) -> V:
        """The answer to a question, asked for no earlier than `since`; raises what `ask` raises.

        seconds: how long to remember this answer, if not as long as any. None is an answer that is not remembered.
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
        # Shielded: others may be waiting for the same answer.
        shared: V = await asyncio.shield(question.task)
        return shared

    async def _ask(
        self, key: Hashable, ask: Callable[[], Awaitable[V]], asked: float, seconds: Callable[[V], float] | None
    ) -> V:
        value = await ask()
        known = self._answers.get(key)
        if value is not None and not (known and known.asked > asked):
            self._answers[key] = _Answer(value, asked, asked + (seconds(value) if seconds else self._seconds))
            self._answers.move_to_end(key)
            while len(self._answers) > self._limit:
                self._answers.popitem(last=False)
        return value

    def _closed(self, key: Hashable, task: "asyncio.Task[Any]") -> None:
        if (question := self._open.get(key)) and question.task is task:
            del self._open[key]
        if not task.cancelled():
            # Looked at, should nobody be waiting any more.
            task.exception()
