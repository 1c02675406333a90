"""Talking to an API server that is killed again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from workers.api.kinds import Kind, Object
from workers.client.rest import Cluster
from workers.errors import Unavailable

T = TypeVar("T")

#: Seconds until everything must have ended; less than a minute does, a busy machine may take its time.
PATIENCE = 300.0


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """The answer, however often the API server dies before it gives one."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(0.1)


async def everything(cluster: Cluster, kind: Kind) -> list[Object]:
    """All objects of the kind."""

    async def call() -> list[Object]:
        return (await cluster.list(kind, "default"))[0]

    return await insist(call)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Returns once it holds."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.2)
