"""Penstock's own broker as a measured server."""

from dataclasses import dataclass, field

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from scalers.sources.redis.connection import CONNECTIONS, RedisServer
from scheduler.broker import address, clients
from scheduler.broker.address import BrokerAddress


@dataclass(frozen=True, slots=True)
class OwnBroker(RedisServer):
    """The broker at an address; behind sentinels the host is that of the first one."""

    address: BrokerAddress = field(default_factory=lambda: BrokerAddress((("127.0.0.1", 6379),)))

    def __str__(self) -> str:
        return str(self.address)

    def client(self, *, connections: int = CONNECTIONS) -> redis.Redis:
        """See `RedisServer.client`."""
        return clients.client(
            self.address,
            max_connections=connections,
            timeout=None,
            socket_timeout=None,
            socket_connect_timeout=None,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
        )


def own_broker(url: str, prefix: str) -> OwnBroker:
    """Returns Penstock's own broker at this URL. prefix: of its keys. Raises ValueError for a URL that is none."""
    at = address.parse(url, prefix=prefix)
    (host, port), *_ = at.places
    return OwnBroker(host, port, at.database, at.username, at.password, None, at)
