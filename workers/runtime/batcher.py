"""A request batcher: items submitted while a batch is under way form the next batch."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Batches single submissions: an item waits for the batch before it at most, and for a pause it can bear.

    carry: carries out one batch and returns one result per item, in order. If it raises, every item of that batch
    raises the same error. limit: most items of one batch.
    """

    def __init__(self, carry: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], *, limit: int = 500) -> None:
        self._carry = carry
        self._limit = limit
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._pause = 0.0
        self._runner: asyncio.Task[None] | None = None

    async def submit(self, item: Item, *, pause: float = 0.0) -> Result:
        """Returns the item's result, carried out together with all that is waiting.

        pause: seconds that the next batch may wait for further items; of several items the shortest counts.
        """
        self._pause = min(self._pause, pause) if self._waiting else pause
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._runner is None:
            # It carries for all who submit, so that it has none of their contexts.
            self._runner = asyncio.create_task(self._run(), context=Context())
        return await future

    async def close(self) -> None:
        """Returns when everything submitted so far is carried out."""
        while self._runner is not None:
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        try:
            # At least one turn of the loop, so that all tasks that are runnable now submit to the first batch.
            await asyncio.sleep(self._pause)
            while self._waiting:
                batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
                await self._carry_out(batch)
                if self._waiting and self._pause:
                    await asyncio.sleep(self._pause)
        finally:
            self._runner = None

    async def _carry_out(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._carry([item for item, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
