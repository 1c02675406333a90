"""The pool of listeners: one per server, for every name that objects wait for there."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping

from scalers.sources.external.grpc_client import Address
from scalers.sources.http.etcd import EtcdServer
from scalers.sources.redis.connection import RedisServer
from scalers.wakeups.redis_listener import ListenerStatus, RedisListener
from scalers.wakeups.stream_listener import EtcdListener, PushListener

#: A server that sends notifications or streams.
NotifyingServer = RedisServer | Address | EtcdServer

#: The listener of one server.
Listener = RedisListener | EtcdListener | PushListener

#: A key or a stream of a server whose changes wake objects.
Watch = tuple[NotifyingServer, Hashable]


class ListenerPool:
    """Follows the names that each key waits for.

    woke: called with the keys whose names changed; also once with every key when listening for it begins, for earlier
    changes are lost.
    """

    def __init__(self, woke: Callable[[Iterable[str]], None]) -> None:
        self._woke = woke
        self._watches: dict[str, frozenset[Watch]] = {}
        self._followers: dict[NotifyingServer, dict[Hashable, set[str]]] = {}
        self._listeners: dict[NotifyingServer, tuple[Listener, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def follow(self, watches: Mapping[str, frozenset[Watch]]) -> None:
        """Replaces the names that these keys wait for; an empty set ends the waiting of a key."""
        touched: set[NotifyingServer] = set()
        for key, after in watches.items():
            before = self._watches.pop(key, frozenset())
            if after:
                self._watches[key] = after
            for server, name in before - after:
                self._leave(server, name, key)
            for server, name in after - before:
                self._join(server, name, key)
            touched.update(server for server, _ in before ^ after)
        for server in touched:
            self._listen(server)

    def status(self) -> tuple[ListenerStatus, ...]:
        """Returns the status of every listener."""
        return tuple(listener.status() for listener, _ in self._listeners.values())

    async def close(self) -> None:
        """Ends every listener."""
        self.follow(dict.fromkeys(self._watches, frozenset()))
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _join(self, server: NotifyingServer, name: Hashable, key: str) -> None:
        followers = self._followers.setdefault(server, {}).setdefault(name, set())
        if followers:
            # The name is subscribed already, and its beginning will not be reported once more.
            self._woke((key,))
        followers.add(key)

    def _leave(self, server: NotifyingServer, name: Hashable, key: str) -> None:
        followers = self._followers[server][name]
        followers.discard(key)
        if not followers:
            del self._followers[server][name]

    def _listen(self, server: NotifyingServer) -> None:
        names = self._followers[server]
        if server not in self._listeners and names:
            listener = _listener(server, lambda changed: self._changed(server, changed))
            self._listeners[server] = (listener, asyncio.create_task(listener.run(), name=f"listen to {server}"))
        if names:
            self._listeners[server][0].follow(names)
            return
        del self._followers[server]
        if server in self._listeners:
            _, task = self._listeners.pop(server)
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _changed(self, server: NotifyingServer, names: Iterable[Hashable]) -> None:
        followers = self._followers.get(server, {})
        self._woke(key for name in names for key in followers.get(name, ()))


def _listener(server: NotifyingServer, woke: Callable[[Iterable[Hashable]], None]) -> Listener:
    if isinstance(server, RedisServer):
        return RedisListener(server, woke)
    return EtcdListener(server, woke) if isinstance(server, EtcdServer) else PushListener(server, woke)
