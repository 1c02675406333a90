"""What the keyed work queue is, in plain Python: slow, obvious, and with a clock that is an argument.

All times are integers, microseconds. Bells are left out: they only decide who looks when, not what is true.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from scheduler.queue import UNSETTLED, Done, Failed, Outcome, Postponed, Requeue, RequeueAt

SECOND = 1_000_000
EXPIRED = "the lease expired at {}: its holder died or stood still"


@dataclass
class Model:
    """The state of one lane and its transitions."""

    lease: int
    base: int
    cap: int
    virtual: int = 0
    finish: dict[str, int] = field(default_factory=dict)
    ready: dict[str, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    later: dict[str, int] = field(default_factory=dict)
    leased: dict[str, int] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    dirty: set[str] = field(default_factory=set)
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)
    token: int = 0
    opens: int | None = None

    def mark(self, keys: Iterable[str], now: int, priority: int = 0, *, forgive: bool = False) -> int:
        """Answers how many keys became ready."""
        return sum(self._mark(key, now, priority, forgive) for key in dict.fromkeys(keys))

    def claim(self, n: int, now: int) -> list[str]:
        self.adopt(now)
        assert self.opens is not None
        if now < self.opens:
            return []
        first = sorted(self.ready, key=lambda key: (self.ready[key], key))[:n]
        if first:
            self.token = max(self.token + 1, now)
        for key in first:
            self.virtual = max(self.virtual, self.ready.pop(key))
            del self.since[key]
            self.leased[key] = self.token
            self.leases[key] = now + self.lease
        self.finish = {tenant: at for tenant, at in self.finish.items() if at > self.virtual}
        return first

    def renew(self, key: str, token: int, now: int) -> bool:
        held = self.leased.get(key) == token
        if held:
            self.leases[key] = now + self.lease
        return held

    def finish_lease(self, key: str, token: int, outcome: Outcome, now: int) -> bool:
        """Answers whether the lease was held."""
        if self.leased.get(key) != token:
            return False
        dirty = self._release(key)
        match outcome:
            case Failed(reason, after, within):
                self._fail(key, reason)
                longest = self._wait(key) if within is None else round(within * SECOND)
                self.later[key] = now + max(min(self._wait(key), longest), round((after or 0) * SECOND))
                return True
            case Postponed(after):
                self.later[key] = now + round(after * SECOND)
                return True
            case Done():
                self.later.pop(key, None)
            case RequeueAt(at):
                self.later[key] = round(at * SECOND)
        self.failures.pop(key, None)
        if dirty or isinstance(outcome, Requeue):
            self._make_ready(key, now)
        return True

    def sweep(self, limit: int, now: int) -> int:
        """Answers how many entries moved."""
        expired = _due(self.leases, now, limit)
        wanted = []
        for key in expired:
            self._release(key)
            self._fail(key, EXPIRED.format(now))
            if self._wait(key) > self.lease:
                self.later[key] = now + self._wait(key) - self.lease
            else:
                wanted.append(key)
        due, half = _due(self.later, now, len(self.later)), limit // 2
        if len(due) > limit:
            due = due[: limit - half] + due[len(due) - half :][::-1]
        for key in due:
            del self.later[key]
        for key in dict.fromkeys(wanted + due):
            self._make_ready(key, now)
        return len(expired) + len(due)

    def adopt(self, now: int) -> None:
        """A keyspace that is new refuses claims for one lease."""
        if self.opens is None:
            self.opens = now + self.lease

    def open(self, now: int) -> None:
        self.opens = 0
        for key in sorted(self.leases, key=lambda key: (self.leases[key], key)):
            self._release(key)
            self._make_ready(key, now)

    def _mark(self, key: str, now: int, priority: int, forgive: bool) -> bool:
        waits = key in self.failures and key not in self.leased and key not in self.ready and key in self.later
        reason = self.failures[key][1] if forgive and key in self.failures else ""
        if reason.startswith("the lease expired at "):
            # A decision must know what the holder did.
            self.failures[key] = (1, reason)
        elif reason.startswith(UNSETTLED):
            forgive = False
        elif forgive:
            self.failures.pop(key, None)
        if waits and not forgive:
            return False
        if waits:
            del self.later[key]
        return self._make_ready(key, now, priority)

    def _make_ready(self, key: str, now: int, priority: int = 0) -> bool:
        tenant = key.split("/")[1]
        start = max(self.virtual, self.finish.get(tenant, 0))
        score = start - 1000 * max(-10, min(10, priority))
        if key in self.leased:
            self.dirty.add(key)
            return False
        if key in self.ready:
            self.ready[key] = min(score, self.ready[key])
            return False
        self.ready[key] = score
        self.since[key] = now
        self.finish[tenant] = start + 1
        return True

    def _release(self, key: str) -> bool:
        """Answers whether the key was dirty."""
        del self.leased[key], self.leases[key]
        dirty = key in self.dirty
        self.dirty.discard(key)
        return dirty

    def _fail(self, key: str, reason: str) -> None:
        self.failures[key] = (self.failures.get(key, (0, ""))[0] + 1, reason)

    def _wait(self, key: str) -> int:
        return min(self.base * 2 ** (self.failures[key][0] - 1), self.cap)


def _due(times: dict[str, int], now: int, limit: float = inf) -> list[str]:
    due = sorted((at, key) for key, at in times.items() if at <= now)
    return [key for _, key in due[: int(limit)]]
