"""Wake-ups: a push enqueues its objects in the poll lane at once, instead of at the next poll.

Sources of wake-ups are keyspace notifications of Redis servers, changes of etcd keys and pushes of external scalers.
Polling goes on underneath: a server may send no notifications, and those sent while no process is connected are lost.
"""

import asyncio
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from penstock.scaler import Scaler
from scalers.triggers.object_probes import ObjectProbes, is_asked
from scalers.triggers.parse import TriggerProbe, Triggers, version
from scalers.wakeups.listeners import ListenerPool, NotifyingServer, Watch
from scalers.wakeups.redis_listener import ListenerStatus
from scheduler import shared_ticks
from scheduler.keys import Keys
from scheduler.queue import Lane
from workers.api import kinds
from workers.api.kinds import Object
from workers.cache.store import Store
from workers.json_logs import Outage
from workers.runtime.leases import Notify

log = logging.getLogger(__name__)

#: Objects that one refresh reads from the store at a time.
PIECE = 500


@dataclass(frozen=True, slots=True)
class WaitingObject:
    """The watches of one object.

    tag: identifies one spec of one object. watches: the keys and streams, with their servers, whose changes wake it.
    """

    tag: str
    watches: frozenset[Watch] = frozenset()

    @classmethod
    def of(cls, body: Object, probes: Sequence[TriggerProbe]) -> "WaitingObject":
        """Returns the watches of an object with these probes."""
        metadata = body["metadata"]
        watches = frozenset(watch for probe in probes for watch in watches_of(probe.scaler))
        return cls(f"{metadata['uid']}/{version(body)}", watches)


def watches_of(scaler: Scaler) -> frozenset[Watch]:
    """Returns the watches of one trigger; none on a server that sends no notifications."""
    server = scaler.server
    return frozenset((server, name) for name in scaler.watched) if isinstance(server, NotifyingServer) else frozenset()


class Watchlist:
    """The waiting objects of all scaler processes, in the broker: a hash of tags by object key, and its version.

    Credentials never enter the broker: every process derives servers and logins from the object itself. Every call
    raises redis.exceptions.RedisError when the broker refuses or cannot be reached.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._hash = f"{keys.tag}:wakeups"
        self._version = f"{keys.tag}:wakeups:version"
        self._followed: bytes | None = None

    async def add(self, tags: Mapping[str, str]) -> None:
        """Adds objects that have watches."""
        if tags:
            await self._change("hset", *(part for item in tags.items() for part in item))

    async def remove(self, keys: Iterable[str]) -> None:
        """Removes objects that no longer have watches."""
        unwanted = list(keys)
        if not unwanted:
            return
        found: Sequence[Any] = await self._client.hmget(self._hash, unwanted)
        # A change makes every process read the whole list.
        if listed := [key for key, tag in zip(unwanted, found, strict=True) if tag is not None]:
            await self._change("hdel", *listed)

    async def changed(self) -> tuple[bytes | None, Mapping[str, str]] | None:
        """Returns the version and all tags by key, or None while `follow` has that version.

        An emptied broker is a change.
        """
        version: Any = await self._client.get(self._version)
        if version is not None and version == self._followed:
            return None
        tags: Mapping[Any, Any] = await self._client.hgetall(self._hash)
        return version, {key.decode(): tag.decode() for key, tag in tags.items()}

    def follow(self, version: bytes | None) -> None:
        """Remembers that everything in this version was taken in."""
        self._followed = version

    async def _change(self, command: str, *args: str) -> None:
        # A random version: a count would start again after the broker was emptied, and might meet a known one.
        pipeline = self._client.pipeline(transaction=True)
        pipeline.execute_command(command, self._hash, *args)
        pipeline.set(self._version, uuid.uuid4().hex)
        await pipeline.execute()


class Debounce:
    """Releases each key at once, then at most once per `gap` seconds. Instants are seconds of any one clock."""

    def __init__(self, gap: float) -> None:
        self._gap = gap
        self._waiting: set[str] = set()
        self._released: dict[str, float] = {}

    def offer(self, keys: Iterable[str]) -> None:
        """Adds keys to be released."""
        self._waiting.update(keys)

    def take(self, now: float) -> tuple[list[str], float | None]:
        """Returns the keys released now, and the seconds until the next one; None when no key waits."""
        self._released = {key: at for key, at in self._released.items() if now - at < self._gap}
        released = [key for key in self._waiting if key not in self._released]
        self._waiting.difference_update(released)
        self._released.update(dict.fromkeys(released, now))
        if not self._waiting:
            return released, None
        return released, max(0.0, min(self._released[key] for key in self._waiting) + self._gap - now)


class Wakeups:
    """Knows which objects wait on which keys of which servers, and enqueues them when a key changes.

    poll: the lane to enqueue in. refresh: seconds between two reads of the watchlist. gap: seconds in which further
    pushes for the same object count as one.
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
        self._probes = ObjectProbes(triggers, store)
        self._refresh = refresh
        self._known: dict[str, WaitingObject] = {}
        self._listeners = ListenerPool(lambda keys: self._wake(keys))
        self._debounce = Debounce(gap)
        self._woken = asyncio.Event()

    async def learn(self, polled: Mapping[str, WaitingObject]) -> None:
        """Takes the watches of these objects, by key, and shares them; costs nothing while none changes.

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
        """Drops the watches of objects that are gone or paused. Raises as `learn` does."""
        gone = list(keys)
        # Also those that only other processes know, which may never poll them again.
        await self._watchlist.remove(gone)
        self._set({key: WaitingObject("") for key in gone if key in self._known})

    def status(self) -> tuple[ListenerStatus, ...]:
        """Returns the status of every listener."""
        return self._listeners.status()

    async def run(self) -> None:
        """Listens, enqueues, and follows the watchlist, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._enqueue_forever())
                tasks.create_task(self._refresh_forever())
        finally:
            self._set(dict.fromkeys(self._known, WaitingObject("")))
            await self._listeners.close()

    def _set(self, changed: Mapping[str, WaitingObject]) -> None:
        """Replaces the watches of these objects."""
        for key, waiting in changed.items():
            self._known.pop(key, None)
            if waiting.watches:
                self._known[key] = waiting
        self._listeners.follow({key: waiting.watches for key, waiting in changed.items()})

    def _wake(self, keys: Iterable[str]) -> None:
        self._debounce.offer(keys)
        self._woken.set()

    async def _enqueue_forever(self) -> None:
        clock = asyncio.get_running_loop().time
        wait: float | None = None
        while True:
            # Not wait_for: in Python 3.11 it can swallow a cancellation that meets the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            self._woken.clear()
            keys, wait = self._debounce.take(clock())
            if not keys:
                continue
            try:
                marked = await self._poll.mark(keys)
                await self._notify({self._poll.name: marked.notifications})
            except RedisError as error:
                log.warning("woken objects could not be enqueued", extra={"error": str(error), "objects": len(keys)})
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
            await shared_ticks.tick(self._refresh)

    async def refresh(self) -> None:
        """Follows the watchlist as it is now. Raises as `learn` does."""
        changed = await self._watchlist.changed()
        if changed is None:
            return
        version, tags = changed
        self._set({key: WaitingObject("") for key in self._known if key not in tags})
        unknown = [key for key, tag in tags.items() if key not in self._known or self._known[key].tag != tag]
        for start in range(0, len(unknown), PIECE):
            self._set(await self._read(unknown[start : start + PIECE]))
        self._watchlist.follow(version)

    async def _read(self, keys: Sequence[str]) -> dict[str, WaitingObject]:
        """Returns the watches of objects that other processes have polled; one that cannot be parsed has none."""
        refs = {}
        for key in keys:
            with suppress(ValueError):
                refs[key] = kinds.parse_key(key)
        found = {}
        for (key, ref), entry in zip(refs.items(), await self._store.get_many(tuple(refs.values())), strict=True):
            if entry and entry.body and is_asked(ref.kind, entry.body):
                try:
                    parsed = await self._probes.parse(ref, entry.body)
                    found[key] = WaitingObject.of(entry.body, parsed.probes)
                except RedisError:
                    raise
                except Exception:
                    log.exception("an object could not be parsed", extra={"key": key})
        return found
