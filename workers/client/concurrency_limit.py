"""The concurrency limit: how many requests one API server takes at a time, found from its answers. Pure.

Two signals move the limit (docs/backpressure.md has both measured against other rules):

* A refusal (429), or a failure that is the server's, lowers it by a factor, once per flight: the other requests of
  that flight were sent under the old limit. If nothing was answered since the last refusal, nothing is sent for as
  long as the server asks; then one request goes first.
* Latency lowers it no further than to `floor`, and keeps it from growing: a server that queues requests answers them
  later instead of refusing them, and more requests at once would only wait there.
"""

import math
from dataclasses import dataclass, field
from random import random
from statistics import quantiles

#: Part of the limit that stays after a refusal.
LOWERED = 0.7
#: How many times the usual latency still lets the limit grow, and lowers it. The usual one is the lowest of the lower
#: quartiles of the last two epochs.
GROWS, SHRINKS = 1.5, 2.0
#: Part of the limit that stays when latency lowers it.
EASED = 0.9
#: Answers that a flight needs before it says something about latency.
SAMPLES = 8
#: Most answers of one flight that are looked at.
MOST_SAMPLES = 64
#: Seconds that a flight lasts at least.
FLIGHT = 0.05
#: Seconds of an epoch: a server that has become slower for good is believed after two of them.
EPOCH = 30.0
#: Seconds from a refusal to the next attempt to grow past the limit that was refused: at first, and after many.
HOLD, MOST_HOLD = 1.0, 10.0
#: Seconds of the first pause after failures that name none, and of the longest. Doubled by each further one.
PAUSE, MOST_PAUSE = 0.2, 5.0
#: A wait is prolonged at random by up to this part, so that clients that were refused together return spread out.
JITTER = 0.25
#: Shapes of requests whose latency is remembered.
SHAPES = 256


@dataclass(frozen=True, slots=True)
class Bounds:
    """Requests in flight. least: always allowed. floor: latency lowers the limit no further. start, most: at first,
    and at most.
    """

    least: int = 1
    floor: int = 16
    start: int = 32
    most: int = 128


@dataclass(slots=True)
class _Usual:
    """The usual latency of one shape of requests: the lowest lower quartile of this epoch and of the one before."""

    before: float = math.inf
    now: float = math.inf

    @property
    def seconds(self) -> float:
        return min(self.before, self.now)


@dataclass(slots=True)
class _Flight:
    """Answers since `began`. crowded: requests waited for the limit meanwhile."""

    began: float
    answers: int = 0
    crowded: bool = False
    seconds: dict[str, list[float]] = field(default_factory=dict)


class ConcurrencyLimit:
    """The limit of one server. Moments and durations are monotonic seconds."""

    def __init__(self, bounds: Bounds = Bounds(), *, now: float = 0.0) -> None:
        self.bounds = bounds
        self._limit = float(bounds.start)
        # The limit at the last refusal: growing to it again waits for `_hold` seconds.
        self._refused_at = math.inf
        self._hold = HOLD
        # Refusals of requests sent before are of a flight that has lowered the limit already.
        self._lowered = -math.inf
        self._answered_since = True
        self._landed_since = True
        self._heard = -math.inf
        self._paused_until = -math.inf
        self._pause = PAUSE
        self._probing = False
        self._growth = 1.0
        self._epoch = now
        self._usual: dict[str, _Usual] = {}
        self._flight = _Flight(now)

    @property
    def limit(self) -> int:
        """Requests that may be in flight; one while a pause has just ended and the server has not answered since."""
        return self.bounds.least if self._probing else int(self._limit)

    def paused(self, now: float) -> float:
        """Returns the seconds for which nothing may be sent, 0 usually."""
        return max(0.0, self._paused_until - now)

    def answered(self, shape: str, started: float, now: float, *, crowded: bool) -> None:
        """Notes an answer that is no sign of overload.

        shape: which requests take similarly long; "": those whose latency says nothing. crowded: the limit kept other
        requests waiting.
        """
        self._answered_since, self._heard = True, now
        if started >= self._lowered:
            self._probing, self._pause = False, PAUSE
        flight = self._flight
        flight.answers += 1
        flight.crowded |= crowded
        if shape and flight.answers <= MOST_SAMPLES:
            flight.seconds.setdefault(shape, []).append(now - started)
        if flight.answers >= max(SAMPLES, min(self._limit, MOST_SAMPLES)) and now - flight.began >= FLIGHT:
            self._landed(now)

    def refused(self, started: float, now: float, retry_after: float | None = None) -> None:
        """Notes a refusal for overload, or a failure that is the server's.

        started: when the request was sent. retry_after: seconds that the server asks for, None if it asked nothing.
        """
        if started < self._lowered:
            return
        if self._answered_since or now - self._heard < self._slowest():
            if self._landed_since:
                # Further refusals before the next flight are of an outage, and say nothing about the limit.
                self._refused_at, self._landed_since = self._limit, False
                self._hold = min(MOST_HOLD, self._hold * 2)
            self._limit = max(self.bounds.least, self._limit * LOWERED)
        else:
            # Nothing is answered at all.
            self._limit = self.bounds.least
            self._probing = True
            seconds = self._pause if retry_after is None else retry_after
            self._paused_until = max(self._paused_until, now + seconds * (1 + JITTER * random()))
            self._pause = min(MOST_PAUSE, self._pause * 2)
        self._lowered, self._answered_since, self._growth = now, False, 1.0
        self._flight = _Flight(now)

    def _landed(self, now: float) -> None:
        """Moves the limit by one flight of answers, and begins the next."""
        flight, self._flight = self._flight, _Flight(now)
        self._landed_since = True
        slower = self._slower(flight, now)
        if slower >= SHRINKS:
            if self._limit > self.bounds.floor:
                self._limit = max(self.bounds.floor, self._limit * EASED)
            self._growth = 1.0
        if not flight.crowded:
            return
        if slower < GROWS or self._limit < self.bounds.floor:
            self._grow(now)

    def _grow(self, now: float) -> None:
        if self._limit + 1 <= self._refused_at / 2:
            # Far below what was possible: after an outage.
            self._limit = min(self._limit * 2, self._refused_at / 2)
        elif self._limit + 1 < self._refused_at:
            self._limit += 1
        elif now - self._lowered >= self._hold:
            if self._limit >= self._refused_at:
                # What was refused is possible now: the server has grown, and is followed faster and faster.
                self._refused_at, self._hold, self._growth = math.inf, HOLD, 2.0
            self._limit += self._growth
            self._growth = min(self._growth * 2, max(1.0, self._limit / 4))
        self._limit = min(self._limit, float(self.bounds.most))

    def _slowest(self) -> float:
        """Returns the seconds within which an answer may still come: the usual ones of the slowest shape."""
        return max((each.seconds for each in self._usual.values() if each.seconds < math.inf), default=0.0)

    def _slower(self, flight: _Flight, now: float) -> float:
        """Returns how many times the usual latency this flight took: of the shape that was slowed down the least.

        The least, because a slow admission of one kind of object is no overload of the server.
        """
        if now - self._epoch >= EPOCH:
            self._epoch = now
            usual = {shape: _Usual(before=each.now) for shape, each in self._usual.items() if each.now < math.inf}
            self._usual = dict(list(usual.items())[-SHAPES:])
        times = []
        for shape, seconds in flight.seconds.items():
            if len(seconds) < SAMPLES // 2:
                continue
            quartile = quantiles(seconds, n=4)[0]
            known = self._usual.setdefault(shape, _Usual())
            known.now = min(known.now, quartile)
            times.append(quartile / known.seconds)
        return min(times, default=1.0)
