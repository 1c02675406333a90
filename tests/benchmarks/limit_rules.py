"""Other rules for a client's concurrency, as far as the comparison in docs/backpressure.md needs them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.overload import Rule
from workers.client.concurrency_limit import ConcurrencyLimit

START, MOST = 32, 128


@dataclass
class Fixed:
    """So many at once, whatever the server says; a refused request waits in its place."""

    limit: int

    def paused(self, now: float) -> float:
        return 0.0

    def answered(self, shape: str, started: float, now: float, *, crowded: bool) -> None:
        """Learns nothing."""

    def refused(self, started: float, now: float, retry_after: float | None = None) -> None:
        """Learns nothing."""


class Aimd:
    """Refusals halve the limit, each flight of answers raises it by one.

    strict: every Retry-After stops all requests; else one that comes while nothing is answered.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._limit = float(START)
        self._lowered = -math.inf
        self._until = -math.inf
        self._strict = strict
        self._answered = True

    @property
    def limit(self) -> int:
        return max(1, int(self._limit))

    def paused(self, now: float) -> float:
        return max(0.0, self._until - now)

    def answered(self, shape: str, started: float, now: float, *, crowded: bool) -> None:
        self._answered = True
        self._limit = min(MOST, self._limit + 1 / self._limit)

    def refused(self, started: float, now: float, retry_after: float | None = None) -> None:
        if started < self._lowered and not self._strict:
            return
        if self._strict or not self._answered:
            self._until = max(self._until, now + (retry_after or 0.0))
        if started >= self._lowered:
            self._limit, self._lowered, self._answered = max(1.0, self._limit / 2), now, False


class Vegas(Aimd):
    """TCP Vegas, per answer: the queue that the latency tells of is kept between three and six requests."""

    def __init__(self) -> None:
        super().__init__()
        self._least = math.inf

    def answered(self, shape: str, started: float, now: float, *, crowded: bool) -> None:
        self._answered = True
        self._least = min(self._least, now - started)
        queue = self._limit * (1 - self._least / (now - started))
        if queue < 3:
            self._limit = min(MOST, self._limit + 1 / self._limit)
        elif queue > 6:
            self._limit = max(1.0, self._limit - 1 / self._limit)


class Gradient(Aimd):
    """The gradient of a long average of the latency over a short one moves the limit, beside a queue of its root."""

    def __init__(self) -> None:
        super().__init__()
        self._long = 0.0

    def answered(self, shape: str, started: float, now: float, *, crowded: bool) -> None:
        self._answered = True
        latency = now - started
        self._long = self._long + (latency - self._long) / 600 if self._long else latency
        if self._long > 2 * latency:
            self._long *= 0.95
        gradient = max(0.5, min(1.0, 1.5 * self._long / latency))
        wanted = self._limit * gradient + math.sqrt(self._limit)
        self._limit = max(1.0, min(MOST, 0.98 * self._limit + 0.02 * wanted))


#: By name; ours is the last.
RULES: dict[str, Callable[[], Rule]] = {
    "16 at once": lambda: Fixed(16),
    "128 at once": lambda: Fixed(128),
    "AIMD, any Retry-After stops all": lambda: Aimd(strict=True),
    "AIMD": Aimd,
    "Vegas": Vegas,
    "gradient": Gradient,
    "refusals and quartiles": ConcurrencyLimit,
}
