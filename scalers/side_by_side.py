"""Several questions of one trigger, or of several of one kind, at the same time."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def side_by_side(questions: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All answers, in order. Raises what the first one raises that fails; none of the others goes on then."""
    try:
        async with asyncio.TaskGroup() as asking:
            tasks = [asking.create_task(question) for question in questions]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
