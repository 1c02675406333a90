"""Reading one server's scalers: with a deadline, a second attempt on a fresh connection, and a circuit breaker."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from penstock.connections import Connections
from penstock.scaler import Measure, Scaler, patience
from scalers.claimable import ClaimableItems, Claiming, Errand
from scalers.polling.circuit_breaker import CircuitBreaker, CircuitBreakers
from scalers.polling.redaction import QUOTE, why
from scalers.polling.single import AT_ONCE, Asker, SingleReader

__all__ = ["QUOTE", "Answer", "Asker", "BatchedReader", "SourceState"]

log = logging.getLogger(__name__)

#: Share of the time for an answer by which a source as a whole may take longer: scalers that are slow are given up one
#: by one, and those beside them have their answers still.
LENIENCE = 0.1

#: What one scaler answered: a measure, or why there is none.
Answer = Measure | str


@dataclass(frozen=True, slots=True)
class SourceState:
    """One server as one class of scalers sees it. alone: tells sources apart that name no server."""

    scaler: type[Scaler]
    server: Hashable
    alone: Hashable = None

    @classmethod
    def of(cls, scaler: Scaler, alone: Hashable) -> "SourceState":
        """The source of a scaler; `alone` identifies the trigger in case it names no server."""
        server = scaler.server
        return cls(type(scaler), server, alone if server is None else None)

    def __str__(self) -> str:
        return "the source" if self.server is None else str(self.server)


class BatchedReader:
    """Every server this process measures.

    timeout: seconds that one read of one server may take, or one question to it, the second attempt included, unless
    its triggers are more patient. at_once: questions that one server is asked at a time.
    """

    def __init__(
        self, connections: Connections, breakers: CircuitBreakers, *, timeout: float, at_once: int = AT_ONCE
    ) -> None:
        self._connections = connections
        self._breakers = breakers
        self._timeout = connections.timeout = timeout
        self._questions = SingleReader(connections, breakers, timeout=timeout, at_once=at_once)

    async def close(self) -> None:
        """Close every connection."""
        await self._connections.close()

    def left_alone(self, source: SourceState, asker: Asker | None = None) -> CircuitBreaker | None:
        """The breaker of a source that is left alone because it keeps failing, None for any other.

        asker: or of its question alone.
        """
        alone = self._questions.left_alone(source, asker) if asker else None
        return alone or self._breakers.left_alone(source)

    async def read(
        self, source: SourceState, scalers: Sequence[Scaler], now: int, askers: Sequence[Asker] = ()
    ) -> list[Answer]:
        """Measure these scalers of one source; raises nothing that concerns the source.

        now, askers: as `ask` takes them.
        """
        found: dict[int, Answer] = {}
        await self.ask(source, scalers, now, found.__setitem__, askers)
        return [found[place] for place in range(len(scalers))]

    async def ask(
        self,
        source: SourceState,
        scalers: Sequence[Scaler],
        now: int,
        told: Callable[[int, Answer], object],
        askers: Sequence[Asker] = (),
    ) -> None:
        """Measure these scalers of one source; raises nothing that concerns the source.

        now: broker's clock (µs). told: called with the place and the answer of each as soon as that is there. askers:
        whose they are, if they are several objects'.
        """
        if not scalers[0].apart:
            for place, answer in enumerate(await self._together(source, scalers, now)):
                told(place, answer)
            return
        clock = _going_on(now)

        async def one(place: int) -> None:
            asker = askers[place] if askers else ("", place)
            told(place, await self._questions.ask(source, scalers[place], asker, now, clock))

        async with asyncio.TaskGroup() as asking:
            for place in range(len(scalers)):
                asking.create_task(one(place))

    async def _together(self, source: SourceState, scalers: Sequence[Scaler], now: int) -> list[Answer]:
        """All of them in one read.

        What failed is asked once more, as KEDA does, on a fresh connection if the
        connection was what failed. The reason of a server that is left alone is its last failure, word for word:
        a reason that changes from poll to poll would be news each time.
        """
        if refused := self._breakers.enter(source, now):
            return [refused] * len(scalers)
        clock = _going_on(now)
        timeout = max(patience(scaler, self._timeout) for scaler in scalers)
        try:
            async with asyncio.timeout(timeout * (1 + LENIENCE)) as limit:
                answers = await self._read_twice(source, scalers, (limit.when() or 0.0) - timeout * LENIENCE)
        except TimeoutError:
            reason = f"{source}: no answer within {timeout:g} s"
        except Exception as error:
            reason = why(error, *scalers)
        else:
            if self._breakers.succeeded(source):
                log.info("a source answers again", extra={"source": str(source)})
            return answers
        self._failed(source, now, clock(), reason)
        return [reason] * len(scalers)

    async def carry_out(self, source: SourceState, scaler: Claiming, errand: Errand, now: int) -> ClaimableItems | str:
        """One errand to one source, twice if the first attempt fails; or why it could not be done."""
        if refused := self._breakers.enter(source, now):
            return refused
        clock = _going_on(now)
        timeout = patience(scaler, self._timeout)
        try:
            async with asyncio.timeout(timeout):
                found = await self._go_twice(source, scaler, errand)
        except TimeoutError:
            reason = f"{source}: no answer within {timeout:g} s"
        except Exception as error:
            reason = why(error, scaler)
        else:
            self._breakers.succeeded(source)
            return found
        self._failed(source, now, clock(), reason)
        return reason

    async def _go_twice(self, source: SourceState, scaler: Claiming, errand: Errand) -> ClaimableItems:
        try:
            return await scaler.carry_out(errand, self._connections)
        except Exception as error:
            log.debug("a source is asked again", extra={"source": str(source), "error": why(error, scaler)})
            self._connections.retire(source.server)
            return await scaler.carry_out(errand, self._connections)

    async def _read_twice(self, source: SourceState, scalers: Sequence[Scaler], deadline: float) -> list[Answer]:
        try:
            answers = await self._read_once(source, scalers)
        except Exception as error:
            log.debug("a source is asked again", extra={"source": str(source), "error": why(error, *scalers)})
            self._connections.retire(source.server)
            return await self._read_once(source, scalers)
        failed = [place for place, answer in enumerate(answers) if isinstance(answer, str)]
        if failed:
            again = await self._read_again(source, [scalers[place] for place in failed], deadline)
            for place, answer in zip(failed, again, strict=False):
                answers[place] = answer
        return answers

    async def _read_again(self, source: SourceState, scalers: Sequence[Scaler], deadline: float) -> list[Answer]:
        """The second attempt for some: a failure of it is theirs alone, the others have been measured.

        Nothing if there is no time for it: the first attempt's reasons hold then.
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

    async def _read_once(self, source: SourceState, scalers: Sequence[Scaler]) -> list[Answer]:
        answers = await source.scaler.read(scalers, self._connections)
        return [
            why(answer, scaler)
            if isinstance(answer, Exception)
            else answer
            if isinstance(answer, Measure)
            else Measure(float(answer))
            for answer, scaler in zip(answers, scalers, strict=True)
        ]

    def _failed(self, source: SourceState, began: int, now: int, reason: str) -> None:
        """One more failure, unless it began before the last one: polls may wait for the source side by side."""
        if self._breakers.failed(source, now, reason, began=began):
            log.warning("a source is left alone for a while", extra={"source": str(source), "error": reason})


def _going_on(now: int) -> Callable[[], int]:
    """The broker's clock (µs), as it goes on from this moment."""
    began = time.monotonic()
    return lambda: now + round((time.monotonic() - began) * 1e6)
