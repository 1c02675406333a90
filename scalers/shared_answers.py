"""Answers that callers of one process share: a question is asked once while it is open, and for a short while after."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

V = TypeVar("V")


@dataclass
class _SharedQuestion(Generic[V]):
    """A question that was asked. waiting: callers that wait for its answer; its text stays out of the repr."""

    task: "asyncio.Task[V]" = field(repr=False)
    until: float
    waiting: int = 0


class SharedAnswers(Generic[V]):
    """Answers by question. A failure is the failure of all who waited for it, and is not kept.

    seconds: from the asking, for which an answer is kept. limit: most answers; the oldest gives way. clock: monotonic
    seconds.
    """

    def __init__(self, *, seconds: float, limit: int = 1_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._limit = limit
        self._clock = clock
        self._asked: OrderedDict[Hashable, _SharedQuestion[V]] = OrderedDict()

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[V]]) -> V:
        """Returns the answer to a question; raises what `ask` raises. The last caller to give up cancels it."""
        question = self._asked.get(key)
        if question is None or (question.task.done() and self._clock() >= question.until):
            question = self._ask(key, ask)
        if question.task.done() and not question.task.cancelled():
            return question.task.result()
        question.waiting += 1
        try:
            # Shielded: a caller that gives up must not cancel the answer that others wait for.
            return await asyncio.shield(question.task)
        finally:
            question.waiting -= 1
            if not question.waiting and not question.task.done():
                question.task.cancel()
                self._forget(key, question)

    def _ask(self, key: Hashable, ask: Callable[[], Awaitable[V]]) -> _SharedQuestion[V]:
        async def asked() -> V:
            return await ask()

        now = self._clock()
        # An answer may be large: one that is out of date is not kept.
        while self._asked:
            oldest = next(iter(self._asked.values()))
            if not oldest.task.done() or now < oldest.until:
                break
            self._asked.popitem(last=False)
        question = _SharedQuestion(asyncio.ensure_future(asked()), now + self._seconds)
        self._asked[key] = question
        self._asked.move_to_end(key)
        question.task.add_done_callback(lambda task: self._ended(key, question, task))
        while len(self._asked) > self._limit:
            self._asked.popitem(last=False)
        return question

    def _ended(self, key: Hashable, question: _SharedQuestion[V], task: "asyncio.Task[Any]") -> None:
        # Retrieved here, for every caller may have given up.
        if task.cancelled() or task.exception():
            self._forget(key, question)

    def _forget(self, key: Hashable, question: _SharedQuestion[V]) -> None:
        if self._asked.get(key) is question:
            del self._asked[key]
