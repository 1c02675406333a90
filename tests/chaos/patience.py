"""Calls to an API server that is killed again and again, and work beside them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from workers.api.kinds import COMMAND, POD, POD_GROUP, Kind, Object
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


@asynccontextmanager
async def beside(*works: Coroutine[Any, Any, None]) -> AsyncIterator["list[asyncio.Task[None]]"]:
    """Runs these beside the body, and cancels at its end those that are not done."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def nothing_left(cluster: Cluster) -> bool:
    """Returns true when no pod runs, and neither PodGroups nor Commands exist."""
    pods = [pod for pod in await everything(cluster, POD) if pod["status"].get("phase") in ("Pending", "Running")]
    return not pods and not await everything(cluster, POD_GROUP) and not await everything(cluster, COMMAND)
