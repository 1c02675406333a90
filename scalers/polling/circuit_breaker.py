"""Leaving a server alone that does not answer, so that it costs nobody's time; pure, instants are arguments."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """How one server has been doing.

    failures: in a row. until: the instant (µs) before which it is left alone. reason: of the last failure. at: the
    instant (µs) of the last failure.
    """

    failures: int = 0
    until: int = 0
    reason: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a server is left alone, and for how long.

    threshold: failures in a row that open the breaker. base, cap: seconds of the first and the longest wait; it
    doubles with each further failure. probe: seconds that one attempt may take, during which nobody else tries.
    """

    threshold: int = 3
    base: float = 1.0
    cap: float = 30.0
    probe: float = 5.0

    def wait(self, failures: int) -> float:
        """Seconds to leave a server alone after so many failures in a row; 0 while the breaker stays closed."""
        beyond = failures - self.threshold
        return 0.0 if beyond < 0 else min(self.cap, self.base * 2.0 ** min(beyond, 30))


class CircuitBreakers:
    """One breaker per server that failed lately. Only failing servers take room here, the oldest give way.

    While a breaker is open nobody asks the server; after the wait one attempt at a time is let through (half open).
    """

    def __init__(self, policy: BreakerPolicy, limit: int = 10_000) -> None:
        self.policy = policy
        self._limit = limit
        self._failing: OrderedDict[Hashable, CircuitBreaker] = OrderedDict()

    def refusal(self, server: Hashable, now: int) -> str | None:
        """What `enter` would answer, without the attempt that it stands for."""
        breaker = self.left_alone(server)
        # Much further ahead than any wait lies only what the clock said before it was set back.
        longest = 2 * max(self.policy.cap, self.policy.probe)
        return breaker.reason if breaker and now < breaker.until <= now + round(longest * 1e6) else None

    def enter(self, server: Hashable, now: int) -> str | None:
        """Ask for permission to try; answers None, or the reason why not: what went wrong the last time."""
        if refused := self.refusal(server, now):
            return refused
        if breaker := self.left_alone(server):
            self._failing[server] = replace(breaker, until=now + round(self.policy.probe * 1e6))
        return None

    def succeeded(self, server: Hashable) -> bool:
        """The server answered; answers whether it had been left alone before."""
        breaker = self._failing.pop(server, CircuitBreaker())
        return breaker.failures >= self.policy.threshold

    def reason(self, server: Hashable) -> str:
        """Of the server's last failure; empty if it was not the last thing that happened."""
        return self._failing.get(server, CircuitBreaker()).reason

    def left_alone(self, server: Hashable) -> CircuitBreaker | None:
        """The server's breaker while it is open, half open too; None while the server is asked as usual."""
        breaker = self._failing.get(server, CircuitBreaker())
        return breaker if breaker.failures >= self.policy.threshold else None

    def failed(self, server: Hashable, now: int, reason: str, *, began: int | None = None) -> bool:
        """The server did not answer; answers whether this opened its breaker.

        began: the instant (µs) of the attempt. What began before the last failure is part of that one.
        """
        before = self._failing.get(server, CircuitBreaker())
        if began is not None and began < before.at <= now:
            return False
        failures = before.failures + 1
        self._failing[server] = CircuitBreaker(failures, now + round(self.policy.wait(failures) * 1e6), reason, now)
        self._failing.move_to_end(server)
        while len(self._failing) > self._limit:
            self._failing.popitem(last=False)
        return failures == self.policy.threshold
