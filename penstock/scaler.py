"""What a scaler is: a small class that knows its parameters and measures how much work waits.

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
    """What was measured: events waiting, and whether that makes the trigger active.

    active: None means what holds for almost every scaler: the value is above the activation value. again: seconds
    after which the value changes by itself, if that is known; it is then measured sooner than at the next poll.
    target: events that one Job is meant for, where the source says so itself.
    """

    value: float
    active: bool | None = None
    again: float | None = None
    target: float | None = None


class Scaler(Parameters):
    """One trigger of one object, ready to be measured. Subclasses declare parameters as fields.

    A subclass defines `metric` and `target`, and either `measure` or `answer` (each by itself, a few of one server side
    by side) or `read` (all of one server at once).
    """

    @property
    @abstractmethod
    def metric(self) -> str:
        """What KEDA calls the metric, without the ``s<index>-`` prefix: ``redis-work``."""

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
        """What this scaler asks; scalers of one class with equal servers are measured by one `read`.

        Its text names the server in messages and must hold no secret. None: this scaler stands alone.
        """
        return None

    @property
    def watched(self) -> tuple[Hashable, ...]:
        """What of the server is listened to between polls.

        Keys of a single Redis server or of etcd, streams of an external scaler; of any other server nothing is heard.
        """
        return ()

    @property
    def patience(self) -> float | None:
        """Seconds that one answer may take, where the trigger says so itself."""
        return None

    async def measure(self) -> float | Measure:
        """How many events wait now. Whatever it raises becomes the reason of an unknown value."""
        raise NotImplementedError(f"{type(self).__name__} defines neither measure nor read")

    async def answer(self, connections: Connections) -> float | Measure:  # noqa: ARG002 - subclasses need them
        """As `measure`, for a scaler that needs a client of its server."""
        return await self.measure()

    @property
    def apart(self) -> bool:
        """Whether it is asked by itself rather than by one `read` together with others."""
        return getattr(type(self).read, "__func__", None) is Scaler.read.__func__  # type: ignore[attr-defined]

    def blames(self, error: Exception) -> bool:
        """Whether a failure says that the server does not answer, and not only that it refuses this question.

        What no scaler of ours raised is taken for the server's failure.
        """
        return isinstance(error, Unreached | TooSlow) or type(self).answer is Scaler.answer

    @classmethod
    async def read(
        cls,
        scalers: Sequence[Self],
        connections: Connections,
    ) -> Sequence[float | Measure | Exception]:
        """Measure scalers of one server together; answers one value, or one reason, per scaler and in their order.

        An exception in the answer concerns that scaler alone. An exception that is raised says that the server
        itself does not answer: it is tried again once, and left alone for a while when it goes on failing. This
        default measures side by side, and raises when the server is to blame for everything.
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
    """Seconds that an answer may take. timeout: for triggers that are not more patient themselves."""
    return max(timeout, scaler.patience or 0.0)


def too_slow(scaler: Scaler, timeout: float) -> str:
    """The reason of an answer that did not come in time. timeout: as for `patience`."""
    return f"{scaler.server or 'the source'}: no answer within {patience(scaler, timeout):g} s"


async def attempt(scaler: Scaler, ask: Callable[[], Awaitable[V]], timeout: float) -> V | Exception:
    """One scaler's answer, or why there is none: of several that are asked side by side a slow one fails alone.

    ask: asks. timeout: seconds it may take, unless the trigger is more patient itself.
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
    """The full metric name of the trigger at this index, in KEDA's spelling."""
    return f"s{index}-{re.sub(r'[/.:%()]', '-', metric)}"


def milli(value: float) -> float:
    """The value with KEDA's resolution of a thousandth; what is negative or not a number counts as nothing."""
    if not math.isfinite(value) or value < 0:
        return 0.0
    return float(f"{value:.3f}")
