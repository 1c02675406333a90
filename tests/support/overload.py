"""An overloaded server and a client of it in virtual time: what a rule for the client's concurrency is worth. Pure.

The server has seats, each of which serves one request at a time, and a queue before them; what finds the queue full is
refused at once. That is a kube-apiserver with API Priority and Fairness; without a queue it is one with
``--max-requests-inflight``. The client always has more to send.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

#: Seconds until a refusal is read.
REFUSAL = 0.002


class Rule(Protocol):
    """A rule for the client's concurrency, such as `workers.client.concurrency_limit.ConcurrencyLimit`."""

    @property
    def limit(self) -> int: ...
    def paused(self, now: float) -> float: ...
    def answered(self, shape: str, started: float, now: float, *, crowded: bool) -> None: ...
    def refused(self, started: float, now: float, retry_after: float | None = None) -> None: ...


@dataclass(frozen=True)
class Scenario:
    """One server. seats: at a moment (0: it refuses everything). queue: requests that may wait for a seat.

    service: draws the seconds of a request. retry_after: what its refusals ask for. lasts: virtual seconds.
    """

    seats: Callable[[float], int]
    service: Callable[[random.Random], float]
    queue: int = 0
    retry_after: float | None = 1.0
    lasts: float = 40.0


@dataclass
class Run:
    """What a rule achieved. possible: answers that seats which never rest would have given.

    seconds: of each answered request. answers, refusals_at: the moments of both.
    """

    possible: float = 0.0
    sent: int = 0
    refusals_at: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)

    @property
    def used(self) -> float:
        """The part of the possible answers that came."""
        return len(self.seconds) / self.possible if self.possible else 0.0

    @property
    def refusals(self) -> float:
        """The part of the requests that was refused."""
        return len(self.refusals_at) / self.sent if self.sent else 0.0

    def latency(self, quantile: float) -> float:
        """Seconds; 0.5 is the median."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] if ordered else 0.0


def play(scenario: Scenario, rule: Rule, *, seed: int = 1, holds: bool = False) -> Run:
    """Lets a client with this rule send all it may, until the scenario ends.

    holds: a refused request keeps its place until its Retry-After is over, as in a client that repeats it by itself.
    """
    return _Play(scenario, rule, seed, holds=holds).run()


class _Play:
    def __init__(self, scenario: Scenario, rule: Rule, seed: int, *, holds: bool) -> None:
        self._scenario = scenario
        self._rule = rule
        self._holds = holds
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = itertools.count()
        self._in_flight = 0
        self._busy = 0
        self._queue: deque[float] = deque()
        self._wakes = -1.0
        self._run = Run()

    def run(self) -> Run:
        scenario, now = self._scenario, 0.0
        mean = sum(scenario.service(random.Random(each)) for each in range(4000)) / 4000
        step = scenario.lasts / 1000
        self._run.possible = sum(scenario.seats(number * step) * step / mean for number in range(1000))
        self._send(now)
        while self._events and now < scenario.lasts:
            now, _, happens = heapq.heappop(self._events)
            happens(now)
            self._send(now)
        return self._run

    def _at(self, moment: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._number), happens))

    def _send(self, now: float) -> None:
        if pause := self._rule.paused(now):
            if self._wakes <= now:
                self._wakes = now + pause
                self._at(self._wakes, lambda _: None)
            return
        while self._in_flight < self._rule.limit and not self._rule.paused(now):
            self._in_flight += 1
            self._run.sent += 1
            self._arrive(now)

    def _arrive(self, now: float) -> None:
        seats = self._scenario.seats(now)
        if self._busy < seats:
            self._serve(now, now)
        elif seats and len(self._queue) < self._scenario.queue:
            self._queue.append(now)
        else:
            self._at(now + REFUSAL, lambda then: self._refuse(now, then))

    def _serve(self, sent: float, now: float) -> None:
        self._busy += 1
        self._at(now + self._scenario.service(self._random), lambda then: self._answer(sent, then))

    def _answer(self, sent: float, now: float) -> None:
        self._busy -= 1
        self._in_flight -= 1
        self._run.seconds.append(now - sent)
        self._run.answers.append(now)
        self._rule.answered("POST jobs", sent, now, crowded=True)
        while self._queue and self._busy < self._scenario.seats(now):
            self._serve(self._queue.popleft(), now)

    def _refuse(self, sent: float, now: float) -> None:
        if self._holds and self._scenario.retry_after:
            self._at(now + self._scenario.retry_after, self._free)
        else:
            self._in_flight -= 1
        self._run.refusals_at.append(now)
        self._rule.refused(sent, now, self._scenario.retry_after)

    def _free(self, _: float) -> None:
        self._in_flight -= 1


def steady(seats: int) -> Callable[[float], int]:
    """Seats that stay."""
    return lambda _: seats


def step(before: int, after: int, at: float) -> Callable[[float], int]:
    """Seats that become others at a moment."""
    return lambda now: before if now < at else after


def outage(seats: int, begins: float, ends: float) -> Callable[[float], int]:
    """No seats between two moments."""
    return lambda now: 0 if begins <= now < ends else seats


def noisy(median: float, sigma: float) -> Callable[[random.Random], float]:
    """Log-normal: of sigma 1 the slowest hundredth takes ten times the median."""
    return lambda source: median * source.lognormvariate(0.0, sigma)


def nearly(seconds: float) -> Callable[[random.Random], float]:
    """Within a tenth of so many seconds."""
    return lambda source: seconds * source.uniform(0.9, 1.1)


def mostly(usual: Callable[[random.Random], float], seconds: float, part: float) -> Callable[[random.Random], float]:
    """A part of the requests takes so many seconds: those that an admission webhook keeps waiting."""
    return lambda source: seconds if source.random() < part else usual(source)


#: By name.
SCENARIOS: dict[str, Scenario] = {
    "steady, 8 seats, no queue": Scenario(steady(8), nearly(0.02)),
    "steady, 1 seat, no queue": Scenario(steady(1), nearly(0.02)),
    "steady, 8 seats, queue of 300": Scenario(steady(8), nearly(0.02), queue=300),
    "steady, 100 seats, queue of 300": Scenario(steady(100), nearly(0.02), queue=300),
    "step down, 64 to 4 seats, no queue": Scenario(step(64, 4, 20), nearly(0.02)),
    "step up, 4 to 64 seats, no queue": Scenario(step(4, 64, 20), nearly(0.02)),
    "outage of 10 s, 16 seats": Scenario(outage(16, 10, 20), nearly(0.02), retry_after=1.0),
    "1 in 50 takes 10 s, 64 seats, queue of 300": Scenario(steady(64), mostly(nearly(0.02), 10.0, 0.02), queue=300),
    "noise, 64 seats, queue of 300": Scenario(steady(64), noisy(0.02, 1.0), queue=300),
}
