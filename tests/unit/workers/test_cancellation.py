"""The end of tasks that nobody asks for an answer any more."""

import asyncio

from workers.cancellation import cancelled


async def test_tasks_have_ended_whatever_they_do_about_it() -> None:
    ends: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ends.append("slow")

    async def failing() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError("gone") from None

    tasks = [asyncio.create_task(work) for work in (slow(), failing())]
    await asyncio.sleep(0)
    await cancelled(*tasks)
    assert ends == ["slow"]
    assert [task.cancelled() for task in tasks] == [True, False]


async def test_there_may_be_none() -> None:
    await cancelled()
