"""Who listens to which server: one listener per server, for everything that is waited for there."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol

from scalers.sources.external.client import Address
from scalers.sources.redis.connection import RedisServer
from scalers.wakeups.etcd_listener import EtcdListener, EtcdServer
from scalers.wakeups.grpc_listener import PushListener
from scalers.wakeups.redis_listener import ListenerStatus, RedisListener

#: A server that can be listened to.
Audible = RedisServer | Address | EtcdServer

#: Something of a server that is news when it grows or is pushed on: a key, a stream.
Watch = tuple[Audible, Hashable]


class ListenerProtocol(Protocol):
    """Listens to one server until cancelled."""

    def follow(self, names: Iterable[Any]) -> None:
        """Listen for exactly these from now on."""

    def status(self) -> ListenerStatus:
        """How it goes."""
        ...

    async def run(self) -> None:
        """Listen."""


class ListenerPool:
    """Follows what each key waits for, and tells of each key for which there is news.

    woke: called with keys; also once with every key when listening for it begins, since what happened before was not
    heard.
    """

    def __init__(self, woke: Callable[[Iterable[str]], None]) -> None:
        self._woke = woke
        self._watches: dict[str, frozenset[Watch]] = {}
        self._followers: dict[Audible, dict[Hashable, set[str]]] = {}
        self._ears: dict[Audible, tuple[ListenerProtocol, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def follow(self, watches: Mapping[str, frozenset[Watch]]) -> None:
        """What these keys wait for now, and no longer what they waited for before; nothing ends it for a key."""
        touched: set[Audible] = set()
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
        """How each server is being listened to."""
        return tuple(ear.status() for ear, _ in self._ears.values())

    async def close(self) -> None:
        """Listen to nobody any more."""
        self.follow(dict.fromkeys(self._watches, frozenset()))
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _join(self, server: Audible, name: Hashable, key: str) -> None:
        followers = self._followers.setdefault(server, {}).setdefault(name, set())
        if followers:
            # The subscription is there already and will not report its beginning once more.
            self._woke((key,))
        followers.add(key)

    def _leave(self, server: Audible, name: Hashable, key: str) -> None:
        followers = self._followers[server][name]
        followers.discard(key)
        if not followers:
            del self._followers[server][name]

    def _listen(self, server: Audible) -> None:
        names = self._followers[server]
        if server not in self._ears and names:
            ear = _ear(server, lambda grown: self._grew(server, grown))
            self._ears[server] = (ear, asyncio.create_task(ear.run(), name=f"listen to {server}"))
        if names:
            self._ears[server][0].follow(names)
            return
        del self._followers[server]
        if server in self._ears:
            _, task = self._ears.pop(server)
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _grew(self, server: Audible, names: Iterable[Hashable]) -> None:
        lists = self._followers.get(server, {})
        self._woke(key for name in names for key in lists.get(name, ()))


def _ear(server: Audible, woke: Callable[[Iterable[Hashable]], None]) -> ListenerProtocol:
    if isinstance(server, RedisServer):
        return RedisListener(server, woke)
    return EtcdListener(server, woke) if isinstance(server, EtcdServer) else PushListener(server, woke)
