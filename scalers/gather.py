"""Several questions of one trigger, or of several of one kind, at the same time."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def side_by_side(questions: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All answers, in order. Raises what the first one raises that fails; none of the others goes on then.

    No TaskGroup: who catches what one raises stays marked as cancelled in Python 3.11, and a time-out around both would
    end as a cancellation.
    """
    tasks = [asyncio.create_task(question) for question in questions]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
