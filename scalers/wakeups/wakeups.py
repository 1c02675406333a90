"""Wake-ups: a push makes its objects due in the poll lane at once, instead of at the next poll.

What is heard: growth of a measured list, by the notifications of its Redis server, changes of a key of etcd, and what
an external scaler says by itself. Polling goes on underneath: notifications may be switched off, and they are lost
while nobody is connected.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import RedisError

from penstock.scaler import Scaler
from scalers.triggers.parse import TriggerProbe, Triggers, is_polled, version
from scalers.wakeups.debounce import Debounce
from scalers.wakeups.listeners import Audible, ListenerPool, Watch
from scalers.wakeups.redis_listener import ListenerStatus
from scalers.wakeups.watchlist import Watchlist
from scheduler.keys import Keys
from scheduler.queue import Lane
from workers.api import kinds
from workers.api.kinds import Object
from workers.cache.store import Store
from workers.logs import Outage
from workers.runtime.leases import Notify

log = logging.getLogger(__name__)

#: Objects whose specs one look reads at once.
PIECE = 500


@dataclass(frozen=True, slots=True)
class WaitingObject:
    """What one object waits for.

    tag: tells this spec of this object from all others. watches: what of which servers is news for it.
    """

    tag: str
    watches: frozenset[Watch] = frozenset()

    @classmethod
    def of(cls, body: Object, probes: Sequence[TriggerProbe]) -> "WaitingObject":
        """What an object with these probes waits for."""
        metadata = body["metadata"]
        watches = frozenset(watch for probe in probes for watch in watches_of(probe.scaler))
        return cls(f"{metadata['uid']}/{version(body)}", watches)


def watches_of(scaler: Scaler) -> frozenset[Watch]:
    """What one trigger waits for; nothing on a server that cannot be listened to."""
    server = scaler.server
    return frozenset((server, name) for name in scaler.watched) if isinstance(server, Audible) else frozenset()


class Wakeups:
    """Knows which objects wait on which keys of which servers, and marks them when a key grows.

    poll: the lane to mark. refresh: seconds between two looks at what other processes have learned. gap: seconds in
    which further pushes for the same object count as one.
    """

    def __init__(
        self,
        *,
        client: Redis,
        keys: Keys,
        poll: Lane,
        notify: Notify,
        store: Store,
        triggers: Triggers,
        refresh: float = 2.0,
        gap: float = 0.05,
    ) -> None:
        self._watchlist = Watchlist(client, keys)
        self._poll = poll
        self._notify = notify
        self._store = store
        self._triggers = triggers
        self._refresh = refresh
        self._known: dict[str, WaitingObject] = {}
        self._hearing = ListenerPool(lambda keys: self._wake(keys))
        self._debounce = Debounce(gap)
        self._news = asyncio.Event()

    async def learn(self, polled: Mapping[str, WaitingObject]) -> None:
        """What these objects, by key, wait for; costs nothing while nothing changes.

        Raises redis.exceptions.RedisError when the broker refuses or cannot be reached.
        """
        changed = {
            key: waiting
            for key, waiting in polled.items()
            if waiting != self._known.get(key) and (waiting.watches or key in self._known)
        }
        await self._watchlist.add({key: waiting.tag for key, waiting in changed.items() if waiting.watches})
        await self._watchlist.remove(key for key, waiting in changed.items() if not waiting.watches)
        self._set(changed)

    async def forget(self, keys: Iterable[str]) -> None:
        """These objects are gone or paused. Raises as `learn` does."""
        known = [key for key in keys if key in self._known]
        await self._watchlist.remove(known)
        self._set(dict.fromkeys(known, WaitingObject("")))

    def status(self) -> tuple[ListenerStatus, ...]:
        """How each server is being listened to."""
        return self._hearing.status()

    async def run(self) -> None:
        """Listen, mark, and keep up with what other processes learn, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._mark_forever())
                tasks.create_task(self._refresh_forever())
        finally:
            self._set(dict.fromkeys(self._known, WaitingObject("")))
            await self._hearing.close()

    def _set(self, changed: Mapping[str, WaitingObject]) -> None:
        """Follow what these objects wait for now, and no longer what they waited for before."""
        for key, waiting in changed.items():
            self._known.pop(key, None)
            if waiting.watches:
                self._known[key] = waiting
        self._hearing.follow({key: waiting.watches for key, waiting in changed.items()})

    def _wake(self, keys: Iterable[str]) -> None:
        self._debounce.offer(keys)
        self._news.set()

    async def _mark_forever(self) -> None:
        clock = asyncio.get_running_loop().time
        wait: float | None = None
        while True:
            # Not wait_for: in Python 3.11 it can swallow a cancellation that meets the news.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()
            self._news.clear()
            keys, wait = self._debounce.take(clock())
            if not keys:
                continue
            try:
                marked = await self._poll.mark(keys)
                await self._notify({self._poll.name: marked.notifications})
            except RedisError as error:
                log.warning("woken objects could not be marked", extra={"error": str(error), "objects": len(keys)})
                self._wake(keys)
                await asyncio.sleep(self._refresh)

    async def _refresh_forever(self) -> None:
        outage = Outage(log)
        while True:
            try:
                await self.refresh()
            except RedisError as error:
                outage.lasts("the watchlist could not be read", error=str(error))
            else:
                outage.over("the watchlist is read again")
            await asyncio.sleep(self._refresh)

    async def refresh(self) -> None:
        """Follow what the watchlist says now. Raises as `learn` does."""
        tags = await self._watchlist.news()
        if tags is None:
            return
        self._set({key: WaitingObject("") for key in self._known if key not in tags})
        unknown = [key for key, tag in tags.items() if key not in self._known or self._known[key].tag != tag]
        for start in range(0, len(unknown), PIECE):
            self._set(await self._read(unknown[start : start + PIECE]))

    async def _read(self, keys: Sequence[str]) -> dict[str, WaitingObject]:
        """What objects wait for that other processes have polled."""
        refs = [kinds.parse_key(key) for key in keys]
        found = {}
        for key, ref, entry in zip(keys, refs, await self._store.get_many(refs), strict=True):
            if entry and entry.body and is_polled(entry.body):
                parsed = await self._triggers.parse(ref, entry.body)
                found[key] = WaitingObject.of(entry.body, parsed.probes)
        return found
