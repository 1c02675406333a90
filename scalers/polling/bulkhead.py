"""How many questions one server is asked at a time, and whose turn it is: a few, fairly, and slow ones least."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from scalers.polling.history import AnswerOutcome

#: A question that waits for its turn.
_Waiting = asyncio.Future[None]


#: Of all turns the share that questions of a standing, and of every worse one, may have together: a turn is always left
#: for those that were answered, so that the slow ones never have them all.
_SHARES = {AnswerOutcome.ANSWERED: 1.0, AnswerOutcome.NEW: 0.75, AnswerOutcome.SLOW: 0.5}


class BulkheadFull(Exception):  # noqa: N818 - what happened
    """The turn did not come in time."""


class Bulkhead:
    """The turns of one server.

    limit: questions at a time. Who waits is served by standing in rotation, within a standing owner by owner: an
    object with a hundred questions has its next one answered no sooner than the others have theirs.
    """

    def __init__(self, limit: int) -> None:
        self._caps = {standing: max(1, int(limit * share)) for standing, share in _SHARES.items()}
        self._taken = dict.fromkeys(AnswerOutcome, 0)
        self._waiting: dict[AnswerOutcome, OrderedDict[Hashable, deque[_Waiting]]] = {
            each: OrderedDict() for each in AnswerOutcome
        }
        self._rotation = deque(AnswerOutcome)

    @property
    def idle(self) -> bool:
        """Whether nobody has a turn or waits for one."""
        return not any(self._taken.values()) and not any(self._waiting.values())

    @asynccontextmanager
    async def turn(
        self, owner: Hashable, standing: AnswerOutcome, *, within: float | None = None
    ) -> AsyncIterator[None]:
        """One turn, once it has come. Raises NoTurn if it does not come within so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._come(owner, standing)
        except TimeoutError:
            raise BulkheadFull from None
        try:
            yield
        finally:
            self._taken[standing] -= 1
            self._pass_on()

    async def _come(self, owner: Hashable, standing: AnswerOutcome) -> None:
        waiting: _Waiting = asyncio.get_running_loop().create_future()
        self._waiting[standing].setdefault(owner, deque()).append(waiting)
        self._pass_on()
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._taken[standing] -= 1
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give every free turn away."""
        while (standing := self._next()) is not None:
            owners = self._waiting[standing]
            owner, questions = owners.popitem(last=False)
            question = questions.popleft()
            if questions:
                owners[owner] = questions
            if not question.done():
                self._taken[standing] += 1
                question.set_result(None)

    def _next(self) -> AnswerOutcome | None:
        """Whose questions are next, if there is a turn for any that wait."""
        for _ in range(len(self._rotation)):
            standing = self._rotation[0]
            self._rotation.rotate(-1)
            if self._waiting[standing] and self._room(standing):
                return standing
        return None

    def _room(self, standing: AnswerOutcome) -> bool:
        """Whether one more fits under the cap of its standing and of every better one."""
        return all(
            sum(taken for each, taken in self._taken.items() if each >= cap) < self._caps[cap]
            for cap in AnswerOutcome
            if cap <= standing
        )
