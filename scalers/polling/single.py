"""Reading one server question by question: a few at a time, with a deadline and a second attempt for each."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from functools import partial

from penstock.connections import Connections
from penstock.scaler import Measure, Scaler, TooSlow, attempt, patience, too_slow
from scalers.polling.bulkhead import AnswerHistory, AnswerOutcome, Bulkhead, BulkheadFull
from scalers.polling.circuit_breaker import CircuitBreaker, CircuitBreakers
from scalers.redaction import why

log = logging.getLogger(__name__)

#: Questions that one server is asked at a time, unless a setting says otherwise.
AT_ONCE = 8

#: The owner of a question, and the question among the owner's.
Asker = tuple[Hashable, Hashable]


class SingleReader:
    """Reads the scalers that ask their servers one by one (`Scaler.apart`).

    breakers: of the servers. timeout: seconds for both attempts together, unless the trigger is more patient. at_once:
    slots of each server's bulkhead.

    A server that cannot be reached opens its breaker; a question that is not answered in time opens its own. Slowness
    is the server's failure only if the question was answered before, or if the server answers none: a query that takes
    too long is no reason to leave the other questions unasked.
    """

    def __init__(self, connections: Connections, breakers: CircuitBreakers, *, timeout: float, at_once: int) -> None:
        self._connections = connections
        self._breakers = breakers
        self._slow = CircuitBreakers(breakers.policy)
        self._timeout = timeout
        self._at_once = at_once
        self._history = AnswerHistory()
        self._bulkheads: dict[Hashable, Bulkhead] = {}
        self._probes: dict[Hashable, asyncio.Event] = {}

    def open_breaker(self, source: Hashable, asker: Asker) -> CircuitBreaker | None:
        """Returns the breaker of this question if it is open because its answers keep being too slow."""
        return self._slow.opened((source, asker))

    async def read(
        self, source: Hashable, scaler: Scaler, asker: Asker, now: int, clock: Callable[[], int]
    ) -> Measure | str:
        """Returns the answer, or the reason why there is none: the last one while a breaker is open.

        now: the instant at which the poll began. clock: the broker's (both µs).
        """
        if refused := self._slow.acquire((source, asker), clock()):
            return refused
        if source not in self._probes and (refused := self._breakers.refusal(source, clock())):
            return refused
        bulkhead = self._bulkheads.setdefault(source, Bulkhead(self._at_once))
        outcome = self._history.outcome(source, asker)
        # An object's other triggers must not wait for the slot of a question that will probably be too slow again.
        within = patience(scaler, self._timeout) if outcome is AnswerOutcome.SLOW else None
        try:
            async with bulkhead.slot(asker[0], outcome, within=within):
                # The breaker may have opened while this question waited for its slot.
                if refused := await self._refused(source, clock):
                    return refused
                began = clock()
                async with self._probing(source):
                    answer = await self._read_twice(source, scaler)
                    # The refusals of one poll are one failure; slow answers are one each, for each took its time.
                    since = began if isinstance(answer, TooSlow) else now
                    self._record(source, scaler, asker, answer, since, clock())
                return answer if isinstance(answer, Measure) else why(answer, scaler)
        except BulkheadFull:
            return self._slow.reason((source, asker)) or too_slow(scaler, self._timeout)
        finally:
            if bulkhead.idle and self._bulkheads.get(source) is bulkhead:
                del self._bulkheads[source]

    async def _refused(self, source: Hashable, clock: Callable[[], int]) -> str | None:
        """Returns why the server is not asked; waits for the outcome of a probe that is under way."""
        while refused := self._breakers.acquire(source, clock()):
            if source not in self._probes:
                return refused
            await self._probes[source].wait()
        return None

    @asynccontextmanager
    async def _probing(self, source: Hashable) -> AsyncIterator[None]:
        """Makes other questions wait for the outcome of this one if the server's breaker is half open."""
        if not self._breakers.opened(source):
            yield
            return
        probe = self._probes[source] = asyncio.Event()
        try:
            yield
        finally:
            probe.set()
            # A probe that took longer than the breaker's wait may have been followed by another.
            if self._probes.get(source) is probe:
                del self._probes[source]

    async def _read_twice(self, source: Hashable, scaler: Scaler) -> Measure | Exception:
        deadline = asyncio.get_running_loop().time() + patience(scaler, self._timeout)
        read = partial(_measured, scaler, self._connections)
        first = await attempt(scaler, read, self._timeout)
        if isinstance(first, Measure | TooSlow) or asyncio.get_running_loop().time() >= deadline:
            return first
        log.debug("a source is asked again", extra={"source": str(source), "error": why(first, scaler)})
        try:
            async with asyncio.timeout_at(deadline) as limit:
                return await read()
        except TimeoutError as error:
            return first if limit.expired() else error
        except Exception as error:
            return error

    def _record(
        self, source: Hashable, scaler: Scaler, asker: Asker, answer: Measure | Exception, began: int, now: int
    ) -> None:
        """Records an answer with the history and the breakers of the question and of its server."""
        before = self._history.outcome(source, asker)
        if isinstance(answer, Measure) or not scaler.blames(answer):
            self._history.record(source, asker, AnswerOutcome.ANSWERED)
            self._slow.record_success((source, asker))
            record_success(self._breakers, source)
            return
        reason = why(answer, scaler)
        if isinstance(answer, TooSlow):
            self._history.record(source, asker, AnswerOutcome.SLOW)
            self._slow.record_failure((source, asker), now, reason)
            if before is not AnswerOutcome.ANSWERED and self._history.answers_any(source):
                return
        else:
            # The server's failure by now; what the question's own breaker says is of before.
            self._history.record(source, asker, AnswerOutcome.NEW)
            self._slow.record_success((source, asker))
        record_failure(self._breakers, source, now, reason, began=began)


def record_success(breakers: CircuitBreakers, source: Hashable) -> None:
    """Closes the breaker of a source, and logs it if it was open."""
    if breakers.record_success(source):
        log.info("a circuit breaker closed", extra={"source": str(source)})


def record_failure(breakers: CircuitBreakers, source: Hashable, now: int, reason: str, *, began: int) -> None:
    """Counts a failure of a source, and logs it if its breaker opened."""
    if breakers.record_failure(source, now, reason, began=began):
        log.warning("a circuit breaker opened", extra={"source": str(source), "error": reason})


async def _measured(scaler: Scaler, connections: Connections) -> Measure:
    return as_measure(await scaler.answer(connections))


def as_measure(answer: float | Measure) -> Measure:
    """Returns the answer of a scaler as a measure."""
    return answer if isinstance(answer, Measure) else Measure(float(answer))
