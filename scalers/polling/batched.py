"""Reading one server's scalers: with a deadline, a second attempt on a fresh connection, and a circuit breaker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from penstock.connections import Connections
from penstock.scaler import Measure, Scaler, patience
from scalers.claimable import ClaimableItems, Claiming, ClaimRequest
from scalers.polling.circuit_breaker import CircuitBreaker, CircuitBreakers
from scalers.polling.single import AT_ONCE, Asker, SingleReader, as_measure, record_failure, record_success
from scalers.redaction import why
from scalers.triggers.parse import SourceKey

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Share of the timeout that a whole batch may take beyond it: scalers that are slow fail one by one within the
#: timeout, and the answers of the others still arrive.
LENIENCE = 0.1

#: The answer of one scaler: a measure, or the reason why there is none.
Answer = Measure | str


class BatchedReader:
    """Reads every server that this process measures.

    timeout: seconds of one read of one server, or of one question to it, the second attempt included, unless its
    triggers are more patient. at_once: questions that one server is asked at a time.
    """

    def __init__(
        self, connections: Connections, breakers: CircuitBreakers, *, timeout: float, at_once: int = AT_ONCE
    ) -> None:
        self._connections = connections
        self._breakers = breakers
        self._timeout = connections.timeout = timeout
        self._single = SingleReader(connections, breakers, timeout=timeout, at_once=at_once)

    async def close(self) -> None:
        """Closes every connection."""
        await self._connections.close()

    def open_breaker(self, source: SourceKey, asker: Asker | None = None) -> CircuitBreaker | None:
        """Returns the open breaker of a source, or of this asker's question to it; None if neither is open."""
        own = self._single.open_breaker(source, asker) if asker else None
        return own or self._breakers.opened(source)

    async def read(
        self, source: SourceKey, scalers: Sequence[Scaler], now: int, askers: Sequence[Asker] = ()
    ) -> list[Answer]:
        """Returns the answers of the scalers of one source, as `read_each` gives them."""
        found: dict[int, Answer] = {}
        await self.read_each(source, scalers, now, found.__setitem__, askers)
        return [found[place] for place in range(len(scalers))]

    async def read_each(
        self,
        source: SourceKey,
        scalers: Sequence[Scaler],
        now: int,
        on_answer: Callable[[int, Answer], object],
        askers: Sequence[Asker] = (),
    ) -> None:
        """Measures the scalers of one source. Raises nothing that concerns the source.

        now: the broker's clock (µs). on_answer: called with the place and the answer of each scaler as soon as it is
        there. askers: of the scalers, where they belong to several objects.
        """
        if not scalers[0].apart:
            for place, answer in enumerate(await self._read_batch(source, scalers, now)):
                on_answer(place, answer)
            return
        clock = _clock_from(now)

        async def one(place: int) -> None:
            asker = askers[place] if askers else ("", place)
            on_answer(place, await self._single.read(source, scalers[place], asker, now, clock))

        async with asyncio.TaskGroup() as reading:
            for place in range(len(scalers)):
                reading.create_task(one(place))

    async def carry_out(
        self, source: SourceKey, scaler: Claiming, request: ClaimRequest, now: int
    ) -> ClaimableItems | str:
        """Returns the outcome of one claim request, or the reason why it has none."""

        async def claim(_: float) -> ClaimableItems:
            attempt = partial(scaler.carry_out, request, self._connections)
            return await self._retried(source, [scaler], attempt, attempt)

        return await self._guarded(source, [scaler], now, claim)

    async def _read_batch(self, source: SourceKey, scalers: Sequence[Scaler], now: int) -> list[Answer]:
        answers = await self._guarded(
            source, scalers, now, lambda deadline: self._read_twice(source, scalers, deadline), lenience=LENIENCE
        )
        return [answers] * len(scalers) if isinstance(answers, str) else answers

    async def _guarded(
        self,
        source: SourceKey,
        scalers: Sequence[Scaler],
        now: int,
        work: Callable[[float], Awaitable[T]],
        *,
        lenience: float = 0.0,
    ) -> T | str:
        """Returns what the work returns, or the reason of its failure, and records either with the source's breaker.

        work: takes the instant (the loop's clock) at which the timeout is over. lenience: share of the timeout that
        it may take beyond.

        While the breaker is open the reason is that of the last failure, word for word: a reason that changed from
        poll to poll would be a change of the object's status each time.
        """
        if refused := self._breakers.acquire(source, now):
            return refused
        clock = _clock_from(now)
        timeout = max(patience(scaler, self._timeout) for scaler in scalers)
        try:
            async with asyncio.timeout(timeout * (1 + lenience)) as limit:
                result = await work((limit.when() or 0.0) - timeout * lenience)
        except TimeoutError:
            reason = f"{source}: no answer within {timeout:g} s"
        except Exception as error:
            reason = why(error, *scalers)
        else:
            record_success(self._breakers, source)
            return result
        # Polls that waited for the source side by side are one failure: all but the first began before it.
        record_failure(self._breakers, source, clock(), reason, began=now)
        return reason

    async def _retried(
        self,
        source: SourceKey,
        scalers: Sequence[Scaler],
        first: Callable[[], Awaitable[T]],
        second: Callable[[], Awaitable[T]],
    ) -> T:
        """Makes the first attempt and, if that fails, the second one on a fresh connection, as KEDA does."""
        try:
            return await first()
        except Exception as error:
            log.debug("a source is asked again", extra={"source": str(source), "error": why(error, *scalers)})
            self._connections.retire(source.server)
            return await second()

    async def _read_twice(self, source: SourceKey, scalers: Sequence[Scaler], deadline: float) -> list[Answer]:
        async def first() -> list[Answer]:
            answers = await self._read_once(source, scalers)
            failed = [place for place, answer in enumerate(answers) if isinstance(answer, str)]
            if failed:
                again = await self._read_again(source, [scalers[place] for place in failed], deadline)
                for place, answer in zip(failed, again, strict=False):
                    answers[place] = answer
            return answers

        return await self._retried(source, scalers, first, partial(self._read_once, source, scalers))

    async def _read_again(self, source: SourceKey, scalers: Sequence[Scaler], deadline: float) -> list[Answer]:
        """Returns the answers of the second attempt for some scalers; none if the time is over.

        The attempt's failure is theirs alone, for the first one measured the others; without time for it the first
        attempt's reasons hold.
        """
        if asyncio.get_running_loop().time() >= deadline:
            return []
        try:
            async with asyncio.timeout_at(deadline):
                return await self._read_once(source, scalers)
        except TimeoutError:
            return []
        except Exception as error:
            return [why(error, *scalers)] * len(scalers)

    async def _read_once(self, source: SourceKey, scalers: Sequence[Scaler]) -> list[Answer]:
        answers = await source.scaler.read(scalers, self._connections)
        return [
            why(answer, scaler) if isinstance(answer, Exception) else as_measure(answer)
            for answer, scaler in zip(answers, scalers, strict=True)
        ]


def _clock_from(now: int) -> Callable[[], int]:
    """Returns the broker's clock (µs) as it goes on from this moment."""
    clock = asyncio.get_running_loop().time
    began = clock()
    return lambda: now + round((clock() - began) * 1e6)
