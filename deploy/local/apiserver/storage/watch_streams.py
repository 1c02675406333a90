"""Watches: the changes of a resource as a stream of events per client.

The recent changes of each resource are remembered, so that a client resumes from the version it saw last. After a
restart nothing is remembered but the version of each resource's last change: a client that has seen it resumes,
any other is told 410 and lists again.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from deploy.local.apiserver.api_errors import too_old
from deploy.local.apiserver.storage.object_store import ObjectStore, StoredChange, StoredObject

#: Changes remembered per resource, and the most and the least bytes of their objects: those may have megabytes each.
#: In between there are as many as the resource's objects have, because a client that lists again reads no more.
HISTORY, HISTORY_BYTES, HISTORY_LEAST = 8192, 8 * 1024 * 1024, 1024 * 1024
#: Seconds that a change is remembered, as by kube-apiserver's etcd; and seconds between two looks at what is older.
HISTORY_AGE, AGING = 300.0, 10.0
#: Events, and bytes of their objects, that a slow client may lag behind before its watch ends; it resumes from what it
#: saw.
LAG, LAG_BYTES = 16_384, 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Filter:
    """The objects of a resource that a client asked for. test: label and field selectors, None when all match."""

    namespace: str = ""
    test: Callable[[StoredObject], bool] | None = None

    def matches(self, record: StoredObject) -> bool:
        """True if the client sees this version."""
        if self.namespace and not record.key.startswith(f"{self.namespace}/"):
            return False
        return self.test is None or self.test(record)


@dataclass(frozen=True, slots=True)
class WatchedChange:
    """One line of a watch. type: ADDED, MODIFIED, DELETED."""

    type: str
    record: StoredObject


def event_of(change: StoredChange, chosen: Filter) -> WatchedChange | None:
    """Returns one client's event of a change: an object that no longer matches is DELETED for it."""
    now = not change.deleted and chosen.matches(change.after)
    was = change.before is not None and chosen.matches(change.before)
    if now:
        return WatchedChange("MODIFIED" if was else "ADDED", change.after)
    if not was:
        return None
    if change.deleted or change.before is None:
        return WatchedChange("DELETED", change.after)
    body = change.before.body
    body["metadata"]["resourceVersion"] = str(change.after.version)
    return WatchedChange("DELETED", StoredObject.of(change.before.key, body))


def compact(change: StoredChange) -> StoredChange:
    """Returns the change with one object instead of two if it deletes what had not changed otherwise. Pure.

    The version before is remembered for the selectors of clients, which would find the same in the last state.
    """
    before, after = change.before, change.after
    if not change.deleted or before is None or len(before.raw) != len(after.raw):
        return change
    old, new = (f'"resourceVersion":"{version}"'.encode() for version in (before.version, after.version))
    return replace(change, before=after) if before.raw.replace(old, new) == after.raw else change


@dataclass(eq=False)
class Watcher:
    """One client's stream."""

    filter: Filter
    _events: deque[WatchedChange] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _bytes: int = 0
    closed: bool = False

    def offer(self, change: StoredChange) -> None:
        """Takes in a change; called for every change of the resource, in order."""
        if event := event_of(change, self.filter):
            self.add(event)
            # What was there before the watch began does not count: the store keeps those objects anyway.
            self._bytes += len(event.record.raw)
            if len(self._events) > LAG or self._bytes > LAG_BYTES:
                self.close()

    def add(self, event: WatchedChange) -> None:
        """Puts an event in line, for what was there before the watch began."""
        self._events.append(event)
        self._wake.set()

    def close(self) -> None:
        """Ends the stream."""
        self.closed = True
        self._wake.set()

    async def next(self, seconds: float) -> list[WatchedChange]:
        """The waiting events; waits for one at most this long, and may answer none."""
        if not self._events and not self.closed:
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                return []
        self._wake.clear()
        events = list(self._events)
        self._events.clear()
        self._bytes = 0
        return events


class Hub:
    """Publishes the changes of a loaded store to the watchers of each resource, and keeps the recent ones."""

    def __init__(self, store: ObjectStore, history: int = HISTORY) -> None:
        self._store = store
        self._size = history
        self._history: dict[str, deque[StoredChange]] = defaultdict(deque)
        self._bytes: dict[str, int] = defaultdict(int)
        #: The moments of the latest looks, and the version of each.
        self._moments: deque[tuple[float, int]] = deque()
        self._floors = {resource: store.table(resource).changed for resource in store.resources()}
        self._watchers: dict[str, set[Watcher]] = defaultdict(set)
        self.closing = False
        store.listeners.append(self._publish)

    def _publish(self, change: StoredChange) -> None:
        resource = change.resource
        past = self._history[resource]
        past.append(compact(change))
        # Only the new versions count: an earlier one is the new version of the change before.
        self._bytes[resource] += len(change.after.raw)
        room = min(max(self._store.table(resource).size, HISTORY_LEAST), HISTORY_BYTES)
        while len(past) > self._size or (self._bytes[resource] > room and len(past) > 1):
            self._forget_oldest(resource)
        for watcher in self._watchers[resource]:
            watcher.offer(change)

    def _forget_oldest(self, resource: str) -> None:
        forgotten = self._history[resource].popleft().after
        self._bytes[resource] -= len(forgotten.raw)
        self._floors[resource] = forgotten.version

    def age(self, now: float) -> None:
        """Forgets changes that are older than `HISTORY_AGE`. now: seconds of any clock, that of the last call.

        A client that has seen the last change of its resource resumes all the same.
        """
        self._moments.append((now, self._store.version))
        floor = 0
        while self._moments[0][0] <= now - HISTORY_AGE:
            floor = self._moments.popleft()[1]
        for resource, past in self._history.items():
            while past and past[0].after.version <= floor:
                self._forget_oldest(resource)

    async def keep_aging(self) -> None:
        """Forgets what is too old again and again, until cancelled."""
        while True:
            self.age(time.monotonic())
            await asyncio.sleep(AGING)

    def floor(self, resource: str) -> int:
        """The oldest version from which this resource's changes are complete."""
        return self._floors.get(resource, self._store.born)

    def open(self, resource: str, chosen: Filter, since: int | None) -> Watcher:
        """Begins a watch after version `since`; with None it begins with everything that is there.

        Raises ApiError 410 when the changes since then are not all remembered, or `since` is from another life of
        the store.
        """
        # No await from here to the registration: a change in between would be lost or seen twice.
        store = self._store
        watcher = Watcher(chosen)
        if since is None:
            table = store.table(resource)
            for key in table.within(chosen.namespace):
                record = table.records[key]
                if chosen.matches(record):
                    watcher.add(WatchedChange("ADDED", record))
        else:
            floor = self.floor(resource)
            if since < floor or since > store.version:
                raise too_old(since, floor)
            for change in self._since(resource, since):
                watcher.offer(change)
        if self.closing:
            watcher.close()
        self._watchers[resource].add(watcher)
        return watcher

    def _since(self, resource: str, version: int) -> list[StoredChange]:
        newer: list[StoredChange] = []
        for change in reversed(self._history[resource]):
            if change.after.version <= version:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def done(self, resource: str, watcher: Watcher) -> None:
        """Forgets a watcher."""
        self._watchers[resource].discard(watcher)

    def close(self) -> None:
        """Ends all watches, now and later: the server is stopping."""
        self.closing = True
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.close()
