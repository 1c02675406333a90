"""Scalers: small classes that declare their parameters and measure how much work waits.

    class Directory(Scaler):
        path: str = parameter()
        ...
        async def measure(self) -> float: ...

An entry point names it; docs/add-a-scaler.md is the whole how-to.
"""

import asyncio
import math
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

from penstock.connections import Connections
from penstock.errors import SourceError, TooSlow, Unreached
from penstock.parameters import Parameters, Source, parameter

__all__ = [
    "Connections",
    "Measure",
    "Scaler",
    "Source",
    "SourceError",
    "TooSlow",
    "Unreached",
    "attempt",
    "metric_name",
    "milli",
    "parameter",
]

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Measure:
    """A measurement: events waiting, and whether they make the trigger active.

    active: None, as for almost every scaler, means that the value is compared with the activation value. again: seconds
    after which the value changes by itself, if known; it is then measured sooner than at the next poll.
    target: events that one Job is meant for, if the source says so itself. incomplete: the reason why a part of the
    work could not be counted, None if all of it was; the value is then the least that waits, and removes no replicas.
    """

    value: float
    active: bool | None = None
    again: float | None = None
    target: float | None = None
    incomplete: str | None = None


class Scaler(Parameters):
    """One trigger of one object, ready to be measured. Subclasses declare parameters as fields.

    A subclass defines `metric` and `target`, and either `measure` or `answer` (each by itself, a few of one server side
    by side) or `read` (all of one server at once).
    """

    #: The names in PENSTOCK_KEDA_QUIRKS: KEDA's behaviours that are wanted instead of Penstock's.
    quirks: tuple[str, ...] = parameter((), sources=(Source.QUIRKS,))

    @property
    @abstractmethod
    def metric(self) -> str:
        """KEDA's name of the metric, without the ``s<index>-`` prefix: ``redis-work``."""

    @property
    @abstractmethod
    def target(self) -> float:
        """Events that one Job is meant for."""

    @property
    def activation(self) -> float:
        """The trigger is active above this value."""
        return 0.0

    @property
    def server(self) -> Hashable:
        """The server that this scaler asks; one `read` measures all scalers of one class with equal servers.

        Its text names the server in messages and must hold no secret. None: no other scaler shares its server.
        """
        return None

    @property
    def watched(self) -> tuple[Hashable, ...]:
        """The keys or streams of the server whose changes wake the object between polls.

        Single Redis servers, etcd and external scalers send such changes; other servers do not.
        """
        return ()

    @property
    def patience(self) -> float | None:
        """Seconds that one answer may take, if the trigger says so itself."""
        return None

    async def measure(self) -> float | Measure:
        """Returns the number of events that wait now. Any exception becomes the reason of an unknown value."""
        raise NotImplementedError(f"{type(self).__name__} defines neither measure nor read")

    async def answer(self, connections: Connections) -> float | Measure:  # noqa: ARG002 - subclasses need them
        """As `measure`, for a scaler that needs a client of its server."""
        return await self.measure()

    @property
    def apart(self) -> bool:
        """Returns whether it is asked by itself, and not by one `read` together with others."""
        return getattr(type(self).read, "__func__", None) is Scaler.read.__func__  # type: ignore[attr-defined]

    def blames(self, error: Exception) -> bool:
        """Returns whether a failure is the server's, and not only the refusal of this question.

        The exceptions of scalers with `measure` alone count as the server's.
        """
        return isinstance(error, Unreached | TooSlow) or type(self).answer is Scaler.answer

    @classmethod
    async def read(
        cls,
        scalers: Sequence[Self],
        connections: Connections,
    ) -> Sequence[float | Measure | Exception]:
        """Measures scalers of one server together. Returns a value or an exception per scaler, in their order.

        A returned exception concerns that scaler alone. A raised one means that the server itself does not answer:
        it is asked once more, and its circuit breaker opens if it goes on failing. This default measures side by
        side, and raises if every failure is the server's.
        """
        asked = ((scaler, partial(scaler.answer, connections)) for scaler in scalers)
        answers = await asyncio.gather(*(attempt(scaler, ask, connections.timeout) for scaler, ask in asked))
        blamed = [
            answer
            for scaler, answer in zip(scalers, answers, strict=True)
            if isinstance(answer, Exception) and scaler.blames(answer)
        ]
        if blamed and len(blamed) == len(answers):
            raise blamed[0]
        return answers


def patience(scaler: Scaler, timeout: float) -> float:
    """Returns the seconds that an answer may take. timeout: for triggers that are not more patient themselves."""
    return max(timeout, scaler.patience or 0.0)


def too_slow(scaler: Scaler, timeout: float) -> str:
    """Returns the reason for an answer that did not arrive in time. timeout: as for `patience`."""
    return f"{scaler.server or 'the source'}: no answer within {patience(scaler, timeout):g} s"


async def attempt(scaler: Scaler, ask: Callable[[], Awaitable[V]], timeout: float) -> V | Exception:
    """Returns one scaler's answer, or the exception: of several that are asked side by side a slow one fails alone.

    ask: returns the answer. timeout: seconds it may take, unless the trigger is more patient itself.
    """
    seconds = patience(scaler, timeout)
    try:
        async with asyncio.timeout(seconds if math.isfinite(seconds) else None) as limit:
            return await ask()
    except TimeoutError as error:
        return TooSlow(too_slow(scaler, timeout)) if limit.expired() else error
    except Exception as error:
        return error


def metric_name(index: int, metric: str) -> str:
    """Returns the full metric name of the trigger at this index, in KEDA's spelling."""
    return f"s{index}-{re.sub(r'[/.:%()]', '-', metric)}"


def milli(value: float) -> float:
    """Returns the value with KEDA's resolution of a thousandth; a negative or non-finite one is 0."""
    if not math.isfinite(value) or value < 0:
        return 0.0
    return float(f"{value:.3f}")
