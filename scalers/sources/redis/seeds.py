"""Asking one of several servers that all know the same, starting with the one that answered last."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.connections import Connections
from penstock.scaler import SourceError
from scalers.sources.redis.connection import RedisLink, RedisServer

T = TypeVar("T")


@dataclass
class Seeds:
    """Servers to ask. Each gets half of what one server of a source may take, then the next is asked."""

    servers: Sequence[RedisServer]
    preferred: int = 0

    async def ask(self, question: Callable[[RedisServer, RedisLink], Awaitable[T]], connections: Connections) -> T:
        """The first answer. Raises SourceError with the reasons of all when none of them has one."""
        reasons = []
        count = len(self.servers)
        for place in [(self.preferred + step) % count for step in range(count)]:
            server = self.servers[place]
            try:
                async with asyncio.timeout(connections.patience / 2), server.using(connections) as link:
                    answer = await question(server, link)
            except TimeoutError:
                reasons.append(f"{server.place}: no answer within {connections.patience / 2:g} s")
            except SourceError as error:
                reasons.append(str(error))
            else:
                self.preferred = place
                return answer
        raise SourceError("; ".join(reasons))
