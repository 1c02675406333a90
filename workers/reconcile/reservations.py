"""Limits that several objects share, kept by reservations in the broker.

A reservation is an absolute number: the most unfinished Jobs its object may have. One script reserves it in all of the
object's limits before Jobs are created, and every decision on the object reserves anew: repeating is safe, and the next
decision repairs a reservation whose lease holder died. Ledgers are recounted from the store before their first use, and
when an object is granted less than it wants: a ledger may be lost, and objects may be deleted without a decision.
"""

import time
from collections import defaultdict
from collections.abc import Mapping

from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from scheduler.scripts import Arg, Script, load
from workers.api import conditions
from workers.api.kinds import JOB, Ref, controller_of
from workers.cache.staleness import require_fresh
from workers.cache.store import Store
from workers.decision.limits import JobLimit, LimitReservation
from workers.decision.snapshot import Snapshot
from workers.runtime.leases import Notify

#: Seconds a ledger is kept after its last reservation.
KEPT = 3600
#: Seconds for which the number an object wanted counts in the fair shares of others.
BELIEVED = 30
#: Seconds after which an unused reservation is recounted: longer than any plan, and than a create may stay unanswered.
SETTLED = 180
#: Seconds between two recounts of one ledger by one process.
RECOUNT = 5.0

_RESERVE, _RECOUNT = (Script(load("workers", name), ours=True) for name in ("reserve", "recount"))


class Reservations:
    """The ledgers of one broker. lane, notify: objects that wait for room are marked there when some is given back."""

    def __init__(self, client: Redis, keys: Keys, store: Store, lane: Lane, notify: Notify, *, stale: float) -> None:
        self._client = client
        self._tag = keys.tag
        self._generation = keys.generation
        self._store = store
        self._lane = lane
        self._notify = notify
        self._stale = stale
        self._recounted: dict[str, float] = {}

    async def ask(self, snapshot: Snapshot, asked: LimitReservation) -> int:
        """Returns how many unfinished Jobs the object may have: at least those it has, at most those it wants.

        Raises `errors.Stale` when the store is too old to be counted, and redis.exceptions.RedisError.
        """
        granted = await self._reserve(snapshot, asked)
        if granted < asked.wanted:
            now = time.monotonic()
            due = [limit for limit in asked.limits if now - self._recounted.get(limit.id, -RECOUNT) >= RECOUNT]
            if due and sum([await self._recount(limit) for limit in due]):
                granted = await self._reserve(snapshot, asked)
        return granted

    async def _reserve(self, snapshot: Snapshot, asked: LimitReservation) -> int:
        assert snapshot.body is not None
        ledgers = [self._ledger(limit) for limit in asked.limits]
        names = [self._generation, *ledgers, *(f"{ledger}:turns" for ledger in ledgers)]
        # After a failure Jobs may exist that the watch has not shown yet: what was reserved for them is kept.
        keep = "1" if snapshot.failures else "0"
        args: list[Arg] = ["", snapshot.ref.key, snapshot.body["metadata"]["uid"], asked.alive, asked.wanted]
        args += [asked.held, keep, KEPT, BELIEVED, snapshot.at, *(limit.limit for limit in asked.limits)]
        while True:
            answer = await _RESERVE(self._client, names, args)
            if answer[0] == b"granted":
                if waiting := [key.decode() for key in answer[2]]:
                    marked = await self._lane.mark(waiting)
                    await self._notify({self._lane.name: marked.notifications})
                return int(answer[1])
            await self._recount(asked.limits[answer[1]])

    async def _recount(self, limit: JobLimit) -> int:
        """Brings the ledger in line with the store. Returns how many Jobs fewer are reserved."""
        began, counted = await self._counted(limit)
        args: list[Arg] = ["", SETTLED, KEPT, began]
        for key, (uid, alive) in counted.items():
            args += (key, uid, alive)
        freed: int = await _RECOUNT(self._client, [self._generation, self._ledger(limit)], args)
        self._recounted = {id: at for id, at in self._recounted.items() if time.monotonic() - at < RECOUNT}
        self._recounted[limit.id] = time.monotonic()
        return freed

    async def _counted(self, limit: JobLimit) -> tuple[int, Mapping[str, tuple[str, int]]]:
        """Returns the moment at which the counting began (µs, broker's clock), and the count.

        The count has by key of every covered object its uid ("" once it is deleted) and its unfinished Jobs.
        """
        owners = limit.owners
        began, ages = await self._store.as_of((owners, JOB))
        require_fresh(ages, (owners, JOB), self._stale)
        alive: defaultdict[tuple[str, str], int] = defaultdict(int)
        covered: dict[str, bool] = {}
        async for job in self._store.scan(JOB):
            owner = controller_of(job.body) if job.body else None
            if job.body and owner and owner["kind"] == owners.kind and not conditions.finished(job.body):
                key = Ref(owners, job.ref.namespace, owner["name"]).key
                alive[owner["uid"], key] += 1
                # Jobs carry their object's labels: they tell of an object that is deleted.
                covered[key] = covered.get(key, False) or limit.covers(job.body)
        counted: dict[str, tuple[str, int]] = {}
        existing = set()
        async for entry in self._store.scan(owners):
            if entry.body is not None:
                existing.add(entry.ref.key)
                if limit.covers(entry.body):
                    uid = entry.body["metadata"]["uid"]
                    counted[entry.ref.key] = (uid, alive.get((uid, entry.ref.key), 0))
        for (_, key), number in alive.items():
            if key not in existing and covered[key]:
                counted[key] = ("", number)
        return began, counted

    def _ledger(self, limit: JobLimit) -> str:
        return f"{self._tag}:limit:{limit.id}"
