"""The bulkhead of one server: few requests at a time, shared fairly, with slots that slow requests never take."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from enum import IntEnum


class AnswerOutcome(IntEnum):
    """The outcome of a question when it was asked last, best first."""

    ANSWERED = 0
    NEW = 1
    SLOW = 2


class AnswerHistory:
    """The last outcome of each question, by source and asker.

    limit: questions that are remembered; the one recorded longest ago is new again.
    """

    def __init__(self, limit: int = 20_000) -> None:
        self._limit = limit
        self._known: OrderedDict[tuple[Hashable, Hashable], AnswerOutcome] = OrderedDict()
        self._answered: Counter[Hashable] = Counter()

    def outcome(self, source: Hashable, asker: Hashable) -> AnswerOutcome:
        """Returns the last outcome of one question."""
        return self._known.get((source, asker), AnswerOutcome.NEW)

    def answers_any(self, source: Hashable) -> bool:
        """Returns whether the last outcome of any question to the source was an answer."""
        return self._answered[source] > 0

    def record(self, source: Hashable, asker: Hashable, outcome: AnswerOutcome) -> None:
        """Remembers the outcome of one question."""
        self._forget((source, asker))
        self._known[source, asker] = outcome
        self._answered[source] += outcome is AnswerOutcome.ANSWERED
        while len(self._known) > self._limit:
            self._forget(next(iter(self._known)))

    def _forget(self, key: tuple[Hashable, Hashable]) -> None:
        if self._known.pop(key, None) is AnswerOutcome.ANSWERED:
            self._answered[key[0]] -= 1
            if not self._answered[key[0]]:
                del self._answered[key[0]]


_OUTCOMES = tuple(AnswerOutcome)

#: A question that waits for a slot.
_Waiting = asyncio.Future[None]

#: The share of all slots that questions of an outcome, and of every worse one, have together at most: slow questions
#: always leave a slot to those that were answered.
_SHARES = {AnswerOutcome.ANSWERED: 1.0, AnswerOutcome.NEW: 0.75, AnswerOutcome.SLOW: 0.5}


class BulkheadFull(Exception):  # noqa: N818 - what happened
    """No slot became free in time."""


class Bulkhead:
    """The slots of one server.

    limit: number of slots. A free slot goes to the outcomes in rotation, and within an outcome to the owners in
    rotation: an object with a hundred questions gets its second slot after every other object got its first.
    """

    def __init__(self, limit: int) -> None:
        self._caps = {outcome: max(1, int(limit * share)) for outcome, share in _SHARES.items()}
        #: By outcome, the slots that questions of it and of every worse one have.
        self._in_use = dict.fromkeys(_OUTCOMES, 0)
        self._waiting: dict[AnswerOutcome, OrderedDict[Hashable, deque[_Waiting]]] = {
            outcome: OrderedDict() for outcome in AnswerOutcome
        }
        self._rotation = deque(AnswerOutcome)

    @property
    def idle(self) -> bool:
        """Returns whether no slot is in use and no question waits for one."""
        return not self._in_use[AnswerOutcome.ANSWERED] and not any(self._waiting.values())

    @asynccontextmanager
    async def slot(
        self, owner: Hashable, outcome: AnswerOutcome, *, within: float | None = None
    ) -> AsyncIterator[None]:
        """Holds one slot. Raises BulkheadFull if none becomes free within so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._wait(owner, outcome)
        except TimeoutError:
            raise BulkheadFull from None
        try:
            yield
        finally:
            self._count(outcome, -1)
            self._grant()

    async def _wait(self, owner: Hashable, outcome: AnswerOutcome) -> None:
        waiting: _Waiting = asyncio.get_running_loop().create_future()
        self._waiting[outcome].setdefault(owner, deque()).append(waiting)
        self._grant()
        try:
            await waiting
        except asyncio.CancelledError:
            # The slot may have been granted in the moment of the cancellation: it goes to the next one.
            if waiting.done() and not waiting.cancelled():
                self._count(outcome, -1)
                self._grant()
            raise

    def _grant(self) -> None:
        """Gives every free slot to a question that waits."""
        while (outcome := self._next()) is not None:
            owners = self._waiting[outcome]
            owner, questions = owners.popitem(last=False)
            question = questions.popleft()
            if questions:
                owners[owner] = questions
            if not question.done():
                self._count(outcome, 1)
                question.set_result(None)

    def _next(self) -> AnswerOutcome | None:
        """Returns the next outcome in rotation for which a question waits and a slot is free."""
        for _ in range(len(self._rotation)):
            outcome = self._rotation[0]
            self._rotation.rotate(-1)
            if self._waiting[outcome] and self._is_free(outcome):
                return outcome
        return None

    def _is_free(self, outcome: AnswerOutcome) -> bool:
        """Returns whether one more fits under the cap of this outcome and of every better one."""
        return all(self._in_use[better] < self._caps[better] for better in _OUTCOMES[: outcome + 1])

    def _count(self, outcome: AnswerOutcome, slots: int) -> None:
        for better in _OUTCOMES[: outcome + 1]:
            self._in_use[better] += slots
