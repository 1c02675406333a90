"""The limiter of requests to one API server: who goes next while the server takes no more at once.

Four rules, in this order:

* A request of a lower class waits for those of higher ones, and overtakes them once it has waited `AGING` seconds
  longer per class: nothing starves.
* Within a class, namespaces take turns.
* A namespace holds at most `SHARE` times as many places as are free: one whose requests hang, or several of them, leave
  places for the others.
* What waits is bounded. Beyond the bound the lowest class goes first, and comes back later.

Leader election has places of its own: a leader that may not speak is no leader.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice, takewhile
from random import random

from workers.client.concurrency_limit import JITTER, Bounds, ConcurrencyLimit
from workers.errors import Throttled
from workers.metrics import servers
from workers.newest_entries import remember

#: Seconds by which a request of one class may be older than one of the next higher class before it goes first.
AGING = 1.0
#: How many times the free places a namespace may hold; one alone holds three of four.
SHARE = 3.0
#: Seconds after which a request hangs.
HANGS = 2.0
#: Hanging requests of a namespace that make it slow; half of what it has in flight is enough.
SLOW = 8
#: Places beyond the limit: renewals of leader election, and the questions if the server answers at all, of which a
#: standalone process has one for each lane and one for its readiness. All are short.
ELECTION = 8
#: Most requests that wait.
WAITING = 4096
#: Waiting requests from which on a worker claims no further keys; those of slow namespaces do not count.
CROWDED = 512
#: Most waiting requests of the lowest class.
WAITING_REPORTS = 256
#: Seconds after which a request beyond the bound is tried again, prolonged by jitter.
LATER = 1.0
#: Longest wait for a place, in seconds.
PATIENCE = 30.0
#: Namespaces and shapes whose last answers are compared, and for how long, in seconds.
REMEMBERED, RECENTLY = 1024, 1.0

PAUSED = "the API server refuses everything, and is left alone for a while"
TOO_MANY = "too many requests wait for the API server"


class Priority(IntEnum):
    """The classes of requests, the most urgent first."""

    #: Keep, take or give up a Lease.
    ELECT = 0
    #: Finish work: status, finalizers, deletions, and proofs of freshness without which nothing is decided.
    FINISH = 1
    #: Read for a decision or for somebody who looks.
    READ = 2
    #: Start work: creations.
    START = 3
    #: Tell of it: Events, lists of users.
    REPORT = 4


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A call site's word on its requests.

    check: called before each is sent; if it raises, nothing is sent. warned: told each warning in the server's answers.
    """

    priority: Priority
    check: Callable[[], None] | None = None
    warned: Callable[[str], None] | None = None


_CONTEXT: ContextVar[RequestContext | None] = ContextVar("penstock_request_context", default=None)
_BY_METHOD = {"GET": Priority.READ, "HEAD": Priority.READ, "POST": Priority.START}


@contextmanager
def requests(
    priority: Priority, check: Callable[[], None] | None = None, warned: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Gives the requests that the running task makes in this context their class; see `RequestContext`."""
    token = _CONTEXT.set(RequestContext(priority, check, warned))
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def context_of(method: str) -> RequestContext:
    """Returns the running task's context; without one the method says the class."""
    return _CONTEXT.get() or RequestContext(_BY_METHOD.get(method, Priority.FINISH))


@dataclass(slots=True, eq=False)
class Ticket:
    """One request in flight. namespace: "" of those without one. shape: see `ConcurrencyLimit.answered`.

    started: when it was sent. reserved: it has a place of leader election.
    """

    priority: Priority
    namespace: str
    shape: str
    started: float
    reserved: bool = False


@dataclass(slots=True, eq=False)
class _Waiter:
    ticket: Ticket
    since: float
    admitted: "asyncio.Future[None]"

    def is_admitted(self) -> bool:
        """Returns True once its request holds a place."""
        return self.admitted.done() and not self.admitted.cancelled() and self.admitted.exception() is None


#: By namespace, the waiting requests in order of arrival; the first namespace is the next.
_Queue = OrderedDict[str, OrderedDict[_Waiter, None]]


class RequestLimiter:
    """The limiter of one server and one event loop. waiting: most requests that wait. clock: monotonic seconds."""

    def __init__(
        self,
        bounds: Bounds,
        *,
        waiting: int = WAITING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = ConcurrencyLimit(bounds, now=clock())
        self._clock = clock
        self._most_waiting = waiting
        self.in_flight = 0
        self.waiting = dict.fromkeys(Priority, 0)
        self._electing = 0
        self._waits = 0
        self._held: dict[str, int] = {}
        # In flight, in the order in which they were sent.
        self._sent: dict[Ticket, None] = {}
        self._queues: dict[Priority, _Queue] = {priority: OrderedDict() for priority in Priority}
        self._looking: asyncio.TimerHandle | None = None
        self._calm = asyncio.Event()
        self._calm.set()
        self._attribution = _Attribution()
        # Looking the series up costs more than counting.
        self._shown = {priority: servers.WAITING.labels(priority.name.lower()) for priority in Priority}
        self._shown_seconds = {
            priority: servers.THROTTLED_SECONDS.labels(priority.name.lower()) for priority in Priority
        }
        servers.LIMITERS.add(self)

    @property
    def allowed(self) -> int:
        """Requests that may be in flight now, those of leader election left out."""
        return self.limit.limit

    async def room(self) -> None:
        """Returns when so few requests wait that further work may be begun."""
        await self._calm.wait()

    def is_slow(self, namespace: str) -> bool:
        """Returns True if requests of the namespace hang: its own, for a busy server answers all a little later."""
        return namespace in self._slow()

    async def enter(self, priority: Priority, namespace: str, shape: str = "") -> Ticket:
        """Returns when the request may be sent; the caller passes the ticket to `leave` in any case.

        Raises Throttled if the server has asked for a pause, or too many wait: nothing was sent.
        """
        now = self._clock()
        ticket = Ticket(priority, namespace, shape, now)
        if priority is Priority.ELECT and self._electing < ELECTION:
            self._electing += 1
            ticket.reserved = True
            return ticket
        self.require_no_pause(priority)
        if not self._waits and self._has_place(namespace):
            self._take(ticket)
            return ticket
        return await self._wait(ticket, now)

    def require_no_pause(self, priority: Priority) -> None:
        """Raises Throttled while the server wants to be left alone."""
        if pause := self.limit.paused(self._clock()):
            raise self._refusal(priority, PAUSED, pause)

    def leave(self, ticket: Ticket) -> None:
        """Gives the place of a request back, and lets the next ones go."""
        if ticket.reserved:
            self._electing -= 1
            return
        self.in_flight -= 1
        del self._sent[ticket]
        held = self._held[ticket.namespace] - 1
        if held:
            self._held[ticket.namespace] = held
        else:
            del self._held[ticket.namespace]
        if self._waits:
            self._admit()

    def answered(self, ticket: Ticket, *, timed: bool = True) -> None:
        """Notes an answer that is no sign of overload, before `leave`. timed: its latency is the server's own."""
        now = self._clock()
        self._attribution.answered(ticket, now)
        crowded = self._waits > 0 or self.in_flight >= self.limit.limit
        self.limit.answered(ticket.shape if timed else "", ticket.started, now, crowded=crowded)

    def refused(self, ticket: Ticket, retry_after: float | None = None) -> None:
        """Notes that the server refuses because it has too much to do, before `leave`."""
        self.refused_stream(ticket.started, retry_after)

    def refused_stream(self, began: float, retry_after: float | None = None) -> None:
        """Notes that the server refuses a stream, which has no ticket. began: when it was asked for."""
        self.limit.refused(began, self._clock(), retry_after)
        self._give_up_if_paused()

    def failed(self, ticket: Ticket, retry_after: float | None = None) -> None:
        """Notes a failure or a time-out, before `leave`.

        It counts against the server once requests of several namespaces or shapes fail, and none of another one was
        answered while this one was under way, or in the last `RECENTLY` seconds. Else it is of these alone, such as an
        admission webhook that does not answer, or an aggregated API that is away.
        """
        if self._attribution.is_the_servers(ticket, min(ticket.started, self._clock() - RECENTLY)):
            self.refused(ticket, retry_after)

    def _has_place(self, namespace: str) -> bool:
        limit = self.limit.limit
        free, held = limit - self.in_flight, self._held.get(namespace, 0)
        if free > 0:
            return not held or held < SHARE * free
        return held < max(1, limit // 4) and self._has_room()

    def _has_room(self) -> bool:
        """Returns False if there is a place for no namespace."""
        free = self.limit.limit - self.in_flight
        # The limit was lowered below what hangs: others need not wait for that.
        return free > 0 or (self.in_flight < self.limit.bounds.most and free + sum(1 for _ in self._hanging()) > 0)

    def _hanging(self) -> Iterator[Ticket]:
        """Returns the requests that are under way for longer than `HANGS` seconds."""
        since = self._clock() - HANGS
        return takewhile(lambda ticket: ticket.started < since, self._sent)

    def _slow(self) -> set[str]:
        """Returns the namespaces whose requests hang."""
        hanging = Counter(ticket.namespace for ticket in self._hanging())
        return {namespace for namespace, number in hanging.items() if number >= min(SLOW, self._held[namespace] // 2)}

    def _take(self, ticket: Ticket) -> None:
        self.in_flight += 1
        self._sent[ticket] = None
        self._held[ticket.namespace] = self._held.get(ticket.namespace, 0) + 1

    async def _wait(self, ticket: Ticket, now: float) -> Ticket:
        self._make_room(ticket.priority)
        loop = asyncio.get_running_loop()
        waiter = _Waiter(ticket, now, loop.create_future())
        self._queues[ticket.priority].setdefault(ticket.namespace, OrderedDict())[waiter] = None
        self._count(ticket.priority, 1)
        # The limit may have grown, or a place be free that another namespace may not have.
        self._admit()
        if self._looking is None:
            self._looking = loop.call_later(HANGS, self._look_again)
        # Not asyncio.timeout: of a slow server most requests wait, and cancelling a task beside a shield costs more
        # than a timer.
        patience = loop.call_later(PATIENCE, self._give_up, waiter, f"no place for it in {PATIENCE:g} s", LATER)
        try:
            await waiter.admitted
        except BaseException:
            if waiter.is_admitted():
                # Admitted and cancelled in the same turn of the loop.
                self.leave(ticket)
            else:
                self._forget(waiter)
            raise
        finally:
            patience.cancel()
        ticket.started = self._clock()
        self._shown_seconds[ticket.priority].inc(ticket.started - now)
        return ticket

    def _look_again(self) -> None:
        """Admits what may go because time has passed: no request may come or end when others begin to hang."""
        self._looking = None
        self._admit()
        self._call_for_work()
        if self._waits:
            self._looking = asyncio.get_running_loop().call_later(HANGS, self._look_again)

    def _make_room(self, priority: Priority) -> None:
        """Raises Throttled, or refuses the youngest request of a lower class, if the bound is reached."""
        if priority is Priority.REPORT and self.waiting[priority] >= min(WAITING_REPORTS, self._most_waiting):
            raise self._refusal(priority, TOO_MANY, LATER)
        if self._waits < self._most_waiting:
            return
        lowest = max(each for each in Priority if self.waiting[each])
        if lowest <= priority:
            raise self._refusal(priority, TOO_MANY, LATER)
        # Of the namespace that has most of them.
        waiters = max(self._queues[lowest].values(), key=len)
        self._give_up(next(reversed(waiters)), TOO_MANY, LATER)

    def _admit(self) -> None:
        """Lets waiting requests go while there are places for them."""
        while not self.limit.paused(self._clock()):
            waiter = self._next()
            if waiter is None:
                return
            self._forget(waiter)
            if waiter.admitted.done():
                # Cancelled; its task has not run since.
                continue
            waiter.ticket.started = self._clock()
            self._take(waiter.ticket)
            waiter.admitted.set_result(None)

    def _next(self) -> _Waiter | None:
        """Returns the request that goes next, None without a place for one, or for a namespace that waits."""
        if not self._has_room():
            # Each namespace that waits would be asked in vain.
            return None
        found: tuple[float, _Waiter, _Queue] | None = None
        for priority, queue in self._queues.items():
            for namespace, waiters in queue.items():
                if self._has_place(namespace):
                    waiter = next(iter(waiters))
                    due = waiter.since + AGING * priority
                    if found is None or due < found[0]:
                        found = due, waiter, queue
                    break
        if found is None:
            return None
        _, waiter, queue = found
        # Its namespace has had its turn.
        queue.move_to_end(waiter.ticket.namespace)
        return waiter

    def _forget(self, waiter: _Waiter) -> None:
        queue = self._queues[waiter.ticket.priority]
        waiters = queue.get(waiter.ticket.namespace)
        if waiters is None or waiter not in waiters:
            return
        del waiters[waiter]
        if not waiters:
            del queue[waiter.ticket.namespace]
        self._count(waiter.ticket.priority, -1)

    def _count(self, priority: Priority, by: int) -> None:
        self.waiting[priority] += by
        self._waits += by
        self._call_for_work()
        self._shown[priority].inc(by)

    def _call_for_work(self) -> None:
        """Opens or closes the way for further work."""
        if self._waits < CROWDED or self._waits - self._waits_of_slow() < CROWDED:
            self._calm.set()
        else:
            self._calm.clear()

    def _waits_of_slow(self) -> int:
        """Returns how many requests wait that are of slow namespaces: who works on those keeps them out by itself."""
        return sum(len(queue.get(namespace, ())) for namespace in self._slow() for queue in self._queues.values())

    def _give_up_if_paused(self) -> None:
        """Refuses all that wait for a server that asked for a pause: a plan that waits must not hold its lease."""
        pause = self.limit.paused(self._clock())
        if not pause:
            return
        for queue in self._queues.values():
            for waiter in [waiter for waiters in queue.values() for waiter in waiters]:
                self._give_up(waiter, PAUSED, pause)

    def _give_up(self, waiter: _Waiter, why: str, seconds: float) -> None:
        self._forget(waiter)
        if not waiter.admitted.done():
            waiter.admitted.set_exception(self._refusal(waiter.ticket.priority, why, seconds))

    def _refusal(self, priority: Priority, why: str, seconds: float) -> Throttled:
        servers.THROTTLED.labels(priority.name.lower()).inc()
        return Throttled(f"not sent: {why}", retry_after=seconds * (1 + JITTER * random()))


class _Attribution:
    """The moments at which requests of a namespace and shape were answered last: whose failure is whose."""

    def __init__(self) -> None:
        self._answered: OrderedDict[tuple[str, str], float] = OrderedDict()
        # Those that failed since the last answer of any.
        self._failing: set[tuple[str, str]] = set()

    def answered(self, ticket: Ticket, now: float) -> None:
        key = (ticket.namespace, ticket.shape)
        if self._failing:
            self._failing.clear()
        remember(self._answered, key, now, REMEMBERED)

    def is_the_servers(self, ticket: Ticket, since: float) -> bool:
        """Returns True if another namespace or shape has failed, too, and none was answered since then."""
        key = (ticket.namespace, ticket.shape)
        if any(self._answered[other] >= since for other in islice(reversed(self._answered), 2) if other != key):
            return False
        if len(self._failing) < 2:
            self._failing.add(key)
        return len(self._failing) > 1
