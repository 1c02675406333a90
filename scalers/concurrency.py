"""asyncio.gather that cancels the rest when one fails."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from workers.cancellation import cancelled

T = TypeVar("T")


async def side_by_side(questions: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Returns all answers, in order. Raises the first failure, after it cancelled the others.

    No TaskGroup: in Python 3.11 a task that catches the failure stays marked as cancelled, and a timeout around both
    would end as a cancellation.
    """
    tasks = [asyncio.create_task(question) for question in questions]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancelled(*tasks)
