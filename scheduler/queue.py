"""The keyed work queue: ready keys, due times, leases and backoffs (docs/queue.md).

Its state is in the broker. Every transition is one Lua script (``scheduler/lua``): atomic, idempotent under replay, and
on the broker's own clock; this module encodes arguments and decodes answers.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from random import random
from typing import TypeVar

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from penstock import _broker_format as broker_format
from scheduler.keys import Keys
from scheduler.scripts import Arg, Script, load

log = logging.getLogger(__name__)

#: Most keys that travel in one call, so that no call keeps the broker from its other work for long.
PIECE = 1000

#: Seconds that ready keys may stay unclaimed before a notification counts as lost.
PATIENCE = 1.0

#: The transitions, by name.
SCRIPTS = {
    name: Script(load("scheduler", name), ours=True)
    for name in ("mark", "claim", "renew", "finish", "sweep", "stats", "open")
}

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """The backoff of failing keys.

    base: seconds after the first failure in a row, doubled by each further one. cap: longest wait in seconds. jitter:
    the wait is shortened at random by up to this part (0..1), so that keys that failed together return spread out.
    """

    base: float = 0.25
    cap: float = 120.0
    jitter: float = 0.2


#: Begins the reason of a failure after which nothing may be decided for some time, also if the object changes meanwhile
#: (fair_queueing.lua).
UNSETTLED = "it may have taken effect: "
#: The reason that sweep.lua gives to keys of expired leases.
_EXPIRED = re.compile(r"the lease expired at (\d+): ")


@dataclass(frozen=True, slots=True)
class Lease:
    """One key leased to this process.

    token: the fence; every later claim of the key has a higher one. deadline: the moment on this process's
    `time.monotonic()` after which another process may claim the key, unless renewed. failures: in a row before this
    claim; reason: of the last one. generation: of the keyspace the claim was made in.
    """

    key: str
    token: int
    deadline: float
    failures: int
    reason: str | None
    generation: str

    def __hash__(self) -> int:
        # Its holder looks it up ten times, and rarely has two of one key.
        return hash(self.key)

    @property
    def expired(self) -> int | None:
        """The moment at which an earlier lease had expired, if that was the last failure; microseconds, broker's clock.

        Its holder may have acted until then, and may have told the store nothing of it.
        """
        found = _EXPIRED.match(self.reason or "")
        return int(found[1]) if found else None

    def still(self, reason: str) -> str:
        """Returns the reason of a failure before a decision; that of an expired lease stays until there was one."""
        return self.reason if self.reason and self.expired is not None else reason


@dataclass(frozen=True, slots=True)
class Done:
    """Success. A booking of the key is dropped: the decision replaces it."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Success; the key is ready again at once."""


@dataclass(frozen=True, slots=True)
class RequeueAt:
    """Success; the key is ready again at this moment (seconds since the epoch, broker's clock) at the latest."""

    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    """Failure; ready again after the backoff, but not before `after` seconds and within `within`, where given.

    within: for causes that may end at any moment, such as a server that is away.
    """

    reason: str
    after: float | None = None
    within: float | None = None


@dataclass(frozen=True, slots=True)
class Postponed:
    """The key was not worked on; ready again after so many seconds. Its failures stay, and so does their reason."""

    after: float


Outcome = Done | Requeue | RequeueAt | Failed | Postponed

#: Kinds of outcomes in finish.lua, and the numbers of all but the first in a call that has only leases that are done.
_KINDS = 5
_NO_OTHERS = (0,) * (_KINDS - 1)


@dataclass(frozen=True, slots=True)
class Marked:
    """ready: number of keys that became ready. notifications: number the caller must send."""

    ready: int
    notifications: int


@dataclass(frozen=True, slots=True)
class ClaimedKeys:
    """The leases of one claim.

    now: the moment of the claim, microseconds on the broker's clock. ready: keys still ready. opens: seconds until
    claims are allowed at all, or None when they are.
    """

    leases: tuple[Lease, ...]
    now: int
    ready: int
    opens: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """stale: leases that had been lost; their outcomes changed nothing. notifications: to be sent by the caller."""

    stale: tuple[Lease, ...]
    notifications: int


@dataclass(frozen=True, slots=True)
class Finishing:
    """A call of finish.lua. leases: in its order. booked: called once it is done, if it books keys."""

    keys: Sequence[str | bytes]
    args: Sequence[Arg]
    leases: Sequence[Lease]
    booked: Callable[[], None] | None

    def finished(self, answer: Sequence[int]) -> Finished:
        """Returns the script's answer as values."""
        if self.booked:
            self.booked()
        notifications, *places = answer
        return Finished(tuple(self.leases[place] for place in places), notifications)


@dataclass(frozen=True, slots=True)
class Swept:
    """moved: entries that were due or expired. notifications: to be sent by the caller.

    next: when the next entry is due or the next lease ends (seconds since the epoch, broker's clock), or None when
    nothing is booked or leased. now: the moment of the sweep, in the same terms.
    """

    moved: int
    notifications: int
    next: float | None
    now: float


@dataclass(frozen=True, slots=True)
class Stats:
    """One lane in numbers.

    later: entries in the table of due times, `due` of them now. leased: leased keys, `expired` of them past their
    lease. dirty: leased keys marked since their claim. failing: keys whose last outcome was a failure. notifications:
    under way. oldest: seconds for which the longest waiting ready key has been ready, None when none is.
    """

    ready: int
    later: int
    due: int
    leased: int
    expired: int
    dirty: int
    failing: int
    notifications: int
    oldest: float | None


class Lane:
    """One keyed work queue.

    client: of the broker; it must answer bytes. lease: seconds a claim lasts without renewal. slots: most notifications
    under way at once. spread: ready keys that each notification stands for, once this lane was claimed from; None for
    the default. clock: replaces the broker's clock, microseconds since the epoch; for tests only.

    Every method raises redis.exceptions.RedisError when the broker refuses or cannot be reached. The call may then have
    been carried out or not; repeating it is always safe.
    """

    def __init__(
        self,
        client: Redis,
        name: str,
        keys: Keys,
        *,
        lease: float = 4.0,
        backoff: RetryBackoff = RetryBackoff(),
        slots: int = 16,
        spread: int | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.name = name
        self.keys = keys.lane(name)
        self.lease = lease
        self.slots = slots
        #: Called after each call of this object that booked a key: by `RequeueAt`, `Postponed`, or for the end of a
        #: backoff.
        self.booked: Callable[[], None] = lambda: None
        self._client = client
        self._backoff = backoff
        self._spread = spread or ""
        self._clock = clock
        self._lane = tuple(key.encode() for key in self.keys.all())
        self._generation = keys.generation.encode()
        self._format = keys.format.encode()
        self._lease = _micros(lease)
        self._base, self._cap = _micros(backoff.base), _micros(backoff.cap)
        # The last generation that this process has seen, and the highest token in it.
        self._seen = (b"", 0)

    async def mark(self, keys: Iterable[str], *, priority: int = 0, forgive: bool = False) -> Marked:
        """Makes these keys ready; leased ones become dirty, and those in backoff stay there.

        priority: a head start of so many thousand keys of its own namespace, -10 to 10. forgive: drops failures and
        the backoff. Marking nothing returns the number of missing notifications.
        """
        ready = notifications = 0
        for piece in list(_pieces(keys)) or [[]]:
            args: tuple[Arg, ...] = (self._now(), self.slots, priority, "1" if forgive else "0", *piece)
            newly, missing = await SCRIPTS["mark"](self._client, self._lane, args)
            ready += newly
            notifications += missing
        return Marked(ready, notifications)

    async def claim(self, n: int, *, notified: bool = False) -> ClaimedKeys:
        """Leases up to `n` ready keys, in fair order. notified: the caller consumes a notification.

        Raises penstock._broker_format.FormatRefused if the data has a newer format by now.
        """
        call = uuid.uuid4().hex
        # Before the call: the broker's lease begins later than this, so our deadline passes before the broker's.
        deadline = time.monotonic() + self.lease
        try:
            now, ready, closed, generation, token, *pairs = await SCRIPTS["claim"](
                self._client,
                (self._generation, self.keys.call(call), *self._lane, self._format),
                (
                    self._now(),
                    n,
                    self._lease,
                    "1" if notified else "0",
                    call,
                    *self._seen,
                    broker_format.FORMAT,
                    self._spread,
                ),
            )
        except ResponseError as error:
            if (message := str(error)).startswith("FORMAT "):
                broker_format.check(message.removeprefix("FORMAT "))
            raise
        if generation != self._seen[0] and self._seen[0]:
            waits = round(closed / 1e6, 1)
            log.warning("the broker lost data, or may have", extra={"lane": self.name, "claims wait for": waits})
        self._seen = (generation, max(token, self._seen[1] if generation == self._seen[0] else 0))
        id = generation.decode()
        leases, unreadable = [], []
        for key, failure in zip(pairs[::2], pairs[1::2], strict=True):
            try:
                leases.append(Lease(key.decode(), token, deadline, *_failures(failure), id))
            except UnicodeDecodeError:
                unreadable += [key, token]
        if unreadable:
            await self._drop(unreadable)
        return ClaimedKeys(tuple(leases), now, ready, closed / 1e6 if closed else None)

    async def _drop(self, claimed: Sequence[Arg]) -> None:
        """Settles claimed keys that cannot be read: pairs of key and token."""
        log.error("keys that cannot be read were dropped", extra={"lane": self.name, "keys": repr(claimed[::2])[:1000]})
        await SCRIPTS["finish"](
            self._client,
            (self.keys.call(uuid.uuid4().hex), *self._lane),
            (self._now(), self.slots, self._lease, self._base, self._cap, len(claimed) // 2, *_NO_OTHERS, *claimed),
        )

    async def renew(self, leases: Iterable[Lease]) -> frozenset[Lease]:
        """Extends these to one whole lease from now. Returns the lost ones."""
        lost: set[Lease] = set()
        for piece in _pieces(leases):
            args: list[Arg] = [self._now(), self._lease]
            for lease in piece:
                args += (lease.key, lease.token)
            lost.update(piece[place] for place in await SCRIPTS["renew"](self._client, self._lane, args))
        return frozenset(lost)

    async def finish(self, outcomes: Iterable[tuple[Lease, Outcome]]) -> Finished:
        """Settles leases, each with its outcome."""
        stale: list[Lease] = []
        notifications = 0
        for piece in _pieces(outcomes):
            call = self.finishing(piece)
            finished = call.finished(await SCRIPTS["finish"](self._client, call.keys, call.args))
            stale += finished.stale
            notifications += finished.notifications
        return Finished(tuple(stale), notifications)

    def finishing(self, outcomes: Sequence[tuple[Lease, Outcome]]) -> "Finishing":
        """Returns the call of the script that settles these leases (at most `PIECE`), to be joined with another."""
        leases, args = self._outcomes(outcomes)
        books = any(isinstance(outcome, RequeueAt | Failed | Postponed) for _, outcome in outcomes)
        return Finishing(
            (self.keys.call(uuid.uuid4().hex), *self._lane),
            (self._now(), self.slots, self._lease, self._base, self._cap, *args),
            leases,
            self.booked if books else None,
        )

    async def sweep(self, limit: int = 1000) -> Swept:
        """Makes due keys and those of expired leases ready, at most `limit` of each; replaces lost notifications.

        An expired lease counts as a failure of its key; the time it lasted counts as backoff.
        """
        moved, notifications, due, now = await SCRIPTS["sweep"](
            self._client,
            self._lane,
            (self._now(), self.slots, self._lease, self._base, self._cap, limit, _micros(PATIENCE)),
        )
        return Swept(moved, notifications, due / 1e6 if due else None, now / 1e6)

    async def stats(self) -> Stats:
        """Returns the lane in numbers."""
        answer: list[int] = await SCRIPTS["stats"](self._client, self._lane, (self._now(),))
        ready, later, due, leased, expired, dirty, failing, notifications, oldest = answer
        age = oldest / 1e6 if oldest >= 0 else None
        return Stats(ready, later, due, leased, expired, dirty, failing, notifications, age)

    async def open(self) -> None:
        """Allows claims at once, without the quarantine of a new generation, and expires all leases.

        Only for a caller that knows that no process holds a lease (a supervisor that starts everything).
        """
        left = 1
        while left:
            left = await SCRIPTS["open"](
                self._client,
                (self._generation, *self._lane),
                (self._now(), PIECE, uuid.uuid4().hex),
            )

    def _now(self) -> Arg:
        return self._clock() if self._clock else ""

    def _outcomes(self, piece: Sequence[tuple[Lease, Outcome]]) -> tuple[list[Lease], list[Arg]]:
        """Returns the leases in the order of finish.lua, and its arguments from the counts on."""
        leases: list[list[Lease]] = [[] for _ in range(_KINDS)]
        args: list[list[Arg]] = [[] for _ in range(_KINDS)]
        for lease, outcome in piece:
            kind, more = self._encoded(outcome)
            leases[kind].append(lease)
            args[kind].extend((lease.key, lease.token, *more))
        counts = [len(kind) for kind in leases]
        return list(chain.from_iterable(leases)), [*counts, *chain.from_iterable(args)]

    def _encoded(self, outcome: Outcome) -> tuple[int, tuple[Arg, ...]]:
        """Returns the outcome's kind in finish.lua, and that kind's arguments after key and token."""
        match outcome:
            case Done():
                return 0, ()
            case Requeue():
                return 1, ()
            case RequeueAt(at):
                return 2, (_micros(at),)
            case Failed(reason, after, within):
                longest = self._cap if within is None else _micros(within)
                return 3, (1.0 - self._backoff.jitter * random(), _micros(after or 0.0), longest, reason)
            case Postponed(after):
                return 4, (_micros(after),)


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _failures(text: bytes) -> tuple[int, str | None]:
    if not text:
        return 0, None
    count, _, reason = text.decode(errors="replace").partition(" ")
    # The script that counts failures takes what it cannot read for none, too.
    return (int(count), reason) if count.isdecimal() else (0, None)


def _pieces(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while piece := list(islice(rest, PIECE)):
        yield piece
