"""Hearing of changes in etcd: one watch per key, over etcd's JSON gateway."""

import base64
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from penstock.scaler import SourceError
from scalers.sources.http.web import Server, Session
from scalers.wakeups.streams import StreamListener


@dataclass(frozen=True, slots=True)
class EtcdServer(Server):
    """A cluster with the login. endpoints: URLs of its members, asked in their order."""

    endpoints: tuple[str, ...] = ()
    username: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.origin


@dataclass(frozen=True, slots=True)
class WatchedKey:
    """silence: seconds after which a watch that says nothing counts as lost; etcd tells of its progress meanwhile."""

    key: str
    silence: float


def encoded(text: str) -> str:
    """A key as etcd's JSON has it."""
    return base64.b64encode(text.encode()).decode()


class EtcdListener(StreamListener[Session]):
    """Follows keys of one cluster."""

    def __init__(
        self,
        server: EtcdServer,
        woke: Callable[[Iterable[WatchedKey]], None],
        *,
        backoff: tuple[float, float] = (2.0, 60.0),
    ) -> None:
        super().__init__(server, woke, backoff=backoff)
        self._etcd = server

    def connect(self) -> Session:
        """Connections of our own: a watch holds one for as long as it lasts."""
        return Session.of(self._etcd, limit=0)

    async def disconnect(self, client: Session) -> None:
        """Close them."""
        await client.close()

    async def news(self, client: Session, name: WatchedKey) -> AsyncIterator[bool]:
        """Each change of the key, of the first endpoint that watches it."""
        reason = "there is no endpoint"
        for base in self._etcd.endpoints:
            begun = False
            try:
                async for told in self._watch(client, base, name):
                    begun = True
                    yield told
            except (aiohttp.ClientError, OSError, ValueError, AttributeError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
            if begun:
                break
        else:
            raise SourceError(f"{self._etcd}: {reason}")

    async def _watch(self, client: Session, base: str, name: WatchedKey) -> AsyncIterator[bool]:
        headers = await self._login(client, base)
        request = {"create_request": {"key": encoded(name.key), "progress_notify": True}}
        patience = aiohttp.ClientTimeout(connect=5.0, sock_read=name.silence)
        async with client.http.post(f"{base}/v3/watch", json=request, headers=headers, timeout=patience) as response:
            if response.status != 200:
                raise ValueError(f"a watch is answered {response.status}")
            async for line in response.content:
                result: Any = orjson.loads(line).get("result") or {}
                if result.get("canceled"):
                    raise ValueError("a watch is refused")
                if result.get("created"):
                    yield False
                elif result.get("events"):
                    yield True

    async def _login(self, client: Session, base: str) -> dict[str, str]:
        if not self._etcd.username:
            return {}
        login = {"name": self._etcd.username, "password": self._etcd.password}
        patience = aiohttp.ClientTimeout(total=5.0)
        async with client.http.post(f"{base}/v3/auth/authenticate", json=login, timeout=patience) as response:
            answer: Any = await response.json(content_type=None)
        if not isinstance(answer, dict) or not answer.get("token"):
            raise ValueError("the login is refused")
        return {"Authorization": str(answer["token"])}
