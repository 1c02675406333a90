"""Asking one server's questions each by itself: a few at a time, with a deadline and a second attempt for each."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from functools import partial

from penstock.connections import Connections
from penstock.scaler import Measure, Scaler, TooSlow, attempt, patience, too_slow
from scalers.polling.bulkhead import Bulkhead, BulkheadFull
from scalers.polling.circuit_breaker import CircuitBreaker, CircuitBreakers
from scalers.polling.history import AnswerHistory, AnswerOutcome
from scalers.polling.redaction import why

log = logging.getLogger(__name__)

#: Questions that one server is asked at a time, unless a setting says otherwise.
AT_ONCE = 8

#: Whose question it is, and which one of its questions.
Asker = tuple[Hashable, Hashable]


class SingleReader:
    """The questions of one process to servers of which each is asked by itself.

    breakers: of the servers. timeout: seconds for both attempts together, unless the trigger is more patient. at_once:
    questions that one server is asked at a time.

    A server is left alone when it cannot be reached; a question, when it is not answered in time. Slowness is the
    server's only if a question is slow that was answered before, or if it answers nobody: a query that takes too long
    is no reason to leave the others' unasked.
    """

    def __init__(self, connections: Connections, breakers: CircuitBreakers, *, timeout: float, at_once: int) -> None:
        self._connections = connections
        self._breakers = breakers
        self._slow = CircuitBreakers(breakers.policy)
        self._timeout = timeout
        self._at_once = at_once
        self._standings = AnswerHistory()
        self._turns: dict[Hashable, Bulkhead] = {}
        self._trials: dict[Hashable, asyncio.Event] = {}

    def left_alone(self, source: Hashable, asker: Asker) -> CircuitBreaker | None:
        """The breaker of a question that is left alone because it keeps being too slow, None for any other."""
        return self._slow.left_alone((source, asker))

    async def ask(
        self, source: Hashable, scaler: Scaler, asker: Asker, now: int, clock: Callable[[], int]
    ) -> Measure | str:
        """The answer, or why there is none: the last reason while question or server are left alone.

        now: when the poll began that asks this. clock: broker's (both µs).
        """
        if refused := self._slow.enter((source, asker), clock()):
            return refused
        if source not in self._trials and (refused := self._breakers.refusal(source, clock())):
            return refused
        turns = self._turns.setdefault(source, Bulkhead(self._at_once))
        standing = self._standings.of(source, asker)
        # What else its object measures is not to wait for the turn of what will probably be too slow again.
        within = patience(scaler, self._timeout) if standing is AnswerOutcome.SLOW else None
        try:
            async with turns.turn(asker[0], standing, within=within):
                # It may have been given up while this question waited for its turn.
                if refused := await self._refused(source, clock):
                    return refused
                began = clock()
                async with self._trying(source):
                    answer = await self._ask_twice(source, scaler)
                    # Whatever one poll is refused is one failure; of what is too slow, each that began after the last.
                    since = began if isinstance(answer, TooSlow) else now
                    self._judge(source, scaler, asker, answer, since, clock())
                return answer if isinstance(answer, Measure) else why(answer, scaler)
        except BulkheadFull:
            return self._slow.reason((source, asker)) or too_slow(scaler, self._timeout)
        finally:
            if turns.idle and self._turns.get(source) is turns:
                del self._turns[source]

    async def _refused(self, source: Hashable, clock: Callable[[], int]) -> str | None:
        """Why the server is not to be asked; while somebody tries one that was left alone, nobody knows yet."""
        while refused := self._breakers.enter(source, clock()):
            if source not in self._trials:
                return refused
            await self._trials[source].wait()
        return None

    @asynccontextmanager
    async def _trying(self, source: Hashable) -> AsyncIterator[None]:
        """Have the others wait for what becomes of this question if its server was left alone until now."""
        if not self._breakers.left_alone(source):
            yield
            return
        trial = self._trials[source] = asyncio.Event()
        try:
            yield
        finally:
            trial.set()
            # One that takes longer than servers are left alone for may have been followed by another.
            if self._trials.get(source) is trial:
                del self._trials[source]

    async def _ask_twice(self, source: Hashable, scaler: Scaler) -> Measure | Exception:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience(scaler, self._timeout)
        first = await attempt(scaler, partial(_measured, scaler, self._connections), self._timeout)
        if isinstance(first, Measure | TooSlow) or loop.time() >= deadline:
            return first
        log.debug("a question is asked again", extra={"source": str(source), "error": why(first, scaler)})
        try:
            async with asyncio.timeout_at(deadline) as limit:
                return await _measured(scaler, self._connections)
        except TimeoutError as error:
            return first if limit.expired() else error
        except Exception as error:
            return error

    def _judge(
        self, source: Hashable, scaler: Scaler, asker: Asker, answer: Measure | Exception, began: int, now: int
    ) -> None:
        """What an answer says of the question and of its server."""
        before = self._standings.of(source, asker)
        if isinstance(answer, Measure) or not scaler.blames(answer):
            self._standings.note(source, asker, AnswerOutcome.ANSWERED)
            self._slow.succeeded((source, asker))
            if self._breakers.succeeded(source):
                log.info("a source answers again", extra={"source": str(source)})
            return
        reason = why(answer, scaler)
        if isinstance(answer, TooSlow):
            self._standings.note(source, asker, AnswerOutcome.SLOW)
            self._slow.failed((source, asker), now, reason)
            if before is not AnswerOutcome.ANSWERED and self._standings.answers(source):
                return
        else:
            self._standings.note(source, asker, AnswerOutcome.NEW)
        if self._breakers.failed(source, now, reason, began=began):
            log.warning("a source is left alone for a while", extra={"source": str(source), "error": reason})


async def _measured(scaler: Scaler, connections: Connections) -> Measure:
    answer = await scaler.answer(connections)
    return answer if isinstance(answer, Measure) else Measure(float(answer))
