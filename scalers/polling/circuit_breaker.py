"""Circuit breakers of measured servers. Pure: instants are arguments, in µs of the broker's clock."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace

from workers.newest_entries import remember


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """The failures of one server.

    failures: in a row. until: the instant before which no request is allowed. reason: of the last failure. at: the
    instant of the last failure.
    """

    failures: int = 0
    until: int = 0
    reason: str = ""
    at: int = 0


_CLOSED = CircuitBreaker()


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """The threshold and the waits of a breaker.

    threshold: failures in a row that open it. base, cap: seconds of the first and the longest wait, which doubles
    with each further failure. probe: seconds that the one request of a half-open breaker may take.
    """

    threshold: int = 3
    base: float = 1.0
    cap: float = 30.0
    probe: float = 5.0

    def wait(self, failures: int) -> float:
        """Returns the seconds to wait after so many failures in a row; 0 while the breaker stays closed."""
        beyond = failures - self.threshold
        return 0.0 if beyond < 0 else min(self.cap, self.base * 2.0 ** min(beyond, 30))


class CircuitBreakers:
    """The breakers of servers that failed lately, at most `limit`; the one that failed longest ago gives way.

    An open breaker allows no request; after the wait it is half open and allows one at a time.
    """

    def __init__(self, policy: BreakerPolicy, limit: int = 10_000) -> None:
        self.policy = policy
        self._limit = limit
        self._failing: OrderedDict[Hashable, CircuitBreaker] = OrderedDict()

    def refusal(self, server: Hashable, now: int) -> str | None:
        """Returns the reason of the last failure if a request is not allowed, None if it is."""
        breaker = self.opened(server)
        # A wait that ends later than any wait can was begun before the clock was set back.
        longest = 2 * max(self.policy.cap, self.policy.probe)
        return breaker.reason if breaker and now < breaker.until <= now + round(longest * 1e6) else None

    def acquire(self, server: Hashable, now: int) -> str | None:
        """As `refusal`; a request that is allowed by a half-open breaker is its probe, and no other is meanwhile."""
        if refused := self.refusal(server, now):
            return refused
        if breaker := self.opened(server):
            # A probe whose outcome is never recorded blocks the server no longer than it may take.
            self._failing[server] = replace(breaker, until=now + round(self.policy.probe * 1e6))
        return None

    def record_success(self, server: Hashable) -> bool:
        """Closes the server's breaker. Returns True if it was open."""
        return self._failing.pop(server, _CLOSED).failures >= self.policy.threshold

    def record_failure(self, server: Hashable, now: int, reason: str, *, began: int | None = None) -> bool:
        """Counts a failure. Returns True if it opened the server's breaker.

        began: the instant at which the request began; one that began before or as the last failure came belongs to it.
        """
        before = self._failing.get(server, _CLOSED)
        if began is not None and before.failures and began <= before.at <= now:
            return False
        failures = before.failures + 1
        breaker = CircuitBreaker(failures, now + round(self.policy.wait(failures) * 1e6), reason, now)
        remember(self._failing, server, breaker, self._limit)
        return failures == self.policy.threshold

    def reason(self, server: Hashable) -> str:
        """Returns the reason of the server's last failure; empty if it succeeded since."""
        return self._failing.get(server, _CLOSED).reason

    def opened(self, server: Hashable) -> CircuitBreaker | None:
        """Returns the server's breaker if it is open or half open."""
        breaker = self._failing.get(server, _CLOSED)
        return breaker if breaker.failures >= self.policy.threshold else None
