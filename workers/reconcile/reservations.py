"""Limits that several objects share, kept by reservations in the broker.

A reservation is an absolute number: the most unfinished Jobs its object may have. It is made before Jobs are, by one
script for all the object's limits, and made anew with every decision on the object, so that it can be repeated, and one
whose holder died is put right by the next decision on the same object. What the ledger cannot know (it was lost, or
objects went without a word) is counted in the store: before a ledger is used for the first time, and when somebody
gets less than it wants.
"""

import time
from collections import defaultdict
from collections.abc import Mapping

from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from scheduler.scripts import Arg, Script, load
from workers.api.kinds import JOB, SCALED_JOB, Ref, controller_of
from workers.cache.store import Store
from workers.controllers import conditions
from workers.controllers.keda.scaledjob import policy
from workers.reconcile.limits import JobLimit, LimitReservation
from workers.reconcile.snapshot import Snapshot
from workers.runtime.leases import Notify

#: Seconds: how long a ledger that nobody asks is kept; how long what an object wanted is believed; after which a
#: reservation that was not used is counted anew (longer than any plan, and than the answer to a create may stay away);
#: between two recounts by one process.
KEPT, BELIEVED, SETTLED, RECOUNT = 3600, 30, 180, 5.0
#: Objects that are told of room that was given back.
WOKEN = 16

_RESERVE, _RECOUNT = Script(load("workers", "reserve")), Script(load("workers", "recount"))


class Reservations:
    """The ledgers of one broker. lane, ring: objects that wait for room are marked there when some is given back."""

    def __init__(self, client: Redis, keys: Keys, store: Store, lane: Lane, notify: Notify, *, stale: float) -> None:
        self._client = client
        self._tag = keys.tag
        self._store = store
        self._lane = lane
        self._notify = notify
        self._stale = stale
        self._recounted: dict[str, float] = {}

    async def ask(self, snapshot: Snapshot, asked: LimitReservation) -> int:
        """How many unfinished Jobs the object may have: at least those it has, at most those it wants.

        Raises `errors.Stale` when what must be counted cannot be seen, and redis.exceptions.RedisError.
        """
        assert snapshot.body is not None
        granted = await self._reserve(snapshot, asked)
        if granted < asked.wanted:
            now = time.monotonic()
            due = [cap for cap in asked.caps if now - self._recounted.get(cap.id, -RECOUNT) >= RECOUNT]
            if due and sum([await self._recount(cap) for cap in due]):
                granted = await self._reserve(snapshot, asked)
        return granted

    async def _reserve(self, snapshot: Snapshot, asked: LimitReservation) -> int:
        assert snapshot.body is not None
        ledgers = [self._ledger(cap) for cap in asked.caps]
        # After a failure something may have been made that nobody has seen yet.
        keep = "1" if snapshot.failures else "0"
        args: list[Arg] = ["", snapshot.ref.key, snapshot.body["metadata"]["uid"], asked.alive, asked.wanted]
        args += [asked.held, keep, KEPT, BELIEVED, *(cap.limit for cap in asked.caps)]
        while True:
            answer = await _RESERVE(self._client, ledgers, args)
            if answer[0] == b"granted":
                await self._wake([key.decode() for key in answer[2][:WOKEN]])
                return int(answer[1])
            await self._recount(asked.caps[answer[1]])

    async def _wake(self, keys: list[str]) -> None:
        if keys:
            marked = await self._lane.mark(keys)
            await self._notify({self._lane.name: marked.notifications})

    async def _recount(self, cap: JobLimit) -> int:
        """Bring the ledger in line with the store; answers how many Jobs less are reserved."""
        counted = await self._counted(cap)
        args: list[Arg] = ["", SETTLED, KEPT]
        for key, (uid, alive) in counted.items():
            args += (key, uid, alive)
        freed: int = await _RECOUNT(self._client, [self._ledger(cap)], args)
        self._recounted = {id: at for id, at in self._recounted.items() if time.monotonic() - at < RECOUNT}
        self._recounted[cap.id] = time.monotonic()
        return freed

    async def _counted(self, cap: JobLimit) -> Mapping[str, tuple[str, int]]:
        """By key of every covered ScaledJob, its uid and its unfinished Jobs; without a uid those that are gone."""
        await self._store.require_fresh((SCALED_JOB, JOB), self._stale)
        alive: defaultdict[tuple[str, str], int] = defaultdict(int)
        covered: dict[str, bool] = {}
        async for job in self._store.scan(JOB):
            owner = controller_of(job.body) if job.body else None
            if job.body and owner and owner["kind"] == SCALED_JOB.kind and not conditions.finished(job.body):
                key = Ref(SCALED_JOB, job.ref.namespace, owner["name"]).key
                alive[owner["uid"], key] += 1
                # Jobs carry their object's labels.
                covered[key] = covered.get(key, False) or policy.covers(cap, job.body)
        counted: dict[str, tuple[str, int]] = {}
        there = set()
        async for entry in self._store.scan(SCALED_JOB):
            if entry.body is not None:
                there.add(entry.ref.key)
                if policy.covers(cap, entry.body):
                    uid = entry.body["metadata"]["uid"]
                    counted[entry.ref.key] = (uid, alive.get((uid, entry.ref.key), 0))
        for (_, key), number in alive.items():
            if key not in there and covered[key]:
                counted[key] = ("", number)
        return counted

    def _ledger(self, cap: JobLimit) -> str:
        return f"{self._tag}:cap:{cap.id}"
