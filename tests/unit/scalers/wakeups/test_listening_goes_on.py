"""Listening for pushes survives errors that nobody foresaw: they are told, and it begins afresh."""

import asyncio

import pytest

from scalers.polling import poll_worker
from scalers.sources.redis.connection import RedisServer
from scalers.wakeups.redis_listener import RedisListener


class Crashing:
    """Raises what it is given, one after the other, then listens for ever."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.listening = asyncio.Event()

    async def __call__(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.listening.set()
        await asyncio.Event().wait()

    run = __call__


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_listener_that_failed_unexpectedly_listens_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crashing = Crashing(KeyError("channel"), ExceptionGroup("several", [ValueError("odd")]), OSError("refused"))
    listener = RedisListener(RedisServer("redis.example", 6379), lambda names: None, backoff=(0.0, 0.0))
    monkeypatch.setattr(listener, "_listen", crashing)
    task = asyncio.create_task(listener.run())
    async with asyncio.timeout(60):
        await crashing.listening.wait()
    await _ended(task)
    assert [record.message for record in caplog.records].count("listening failed unexpectedly") == 2


async def test_wake_ups_that_failed_unexpectedly_begin_afresh(caplog: pytest.LogCaptureFixture) -> None:
    wakeups = Crashing(ExceptionGroup("several", [ValueError("odd")]))
    task = asyncio.create_task(poll_worker._listen(wakeups, pause=0.0))  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        await wakeups.listening.wait()
    await _ended(task)
    assert [record.message for record in caplog.records] == ["listening for wake-ups failed; it starts again"]
