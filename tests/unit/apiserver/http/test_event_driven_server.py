"""The HTTPS server between two requests: it does nothing, and notices that it should end."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from deploy.processes import https


async def _app(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


async def _serving(kind: type[https.EventDrivenServer]) -> AsyncIterator[tuple[Any, asyncio.Task[None], int]]:
    listener = https.listen("127.0.0.1:0", "--listen")
    server = kind(https.configured(_app))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0)
    yield server, task, listener.getsockname()[1]
    server.should_exit = True
    await task


@pytest.fixture
async def serving() -> AsyncIterator[tuple[Any, asyncio.Task[None], int]]:
    async for one in _serving(https.SignalFreeServer):
        yield one


async def _date(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    return next(line for line in answer.splitlines() if line.lower().startswith("date: "))


async def test_it_sets_no_timer_while_no_client_is_connected(serving: tuple[Any, asyncio.Task[None], int]) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    loop: Any = asyncio.get_running_loop()
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []


async def test_each_answer_has_the_date_of_its_second(
    serving: tuple[Any, asyncio.Task[None], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, port = serving
    for second, date in ((1_700_000_000, "22:13:20"), (1_700_000_001, "22:13:21")):
        monkeypatch.setattr("time.time", lambda second=second: second + 0.5)
        assert await _date(port) == f"date: Tue, 14 Nov 2023 {date} GMT"


async def test_it_ends_when_a_thread_says_so(serving: tuple[Any, asyncio.Task[None], int]) -> None:
    server, task, _ = serving
    thread = threading.Thread(target=lambda: setattr(server, "should_exit", True))
    thread.start()
    await asyncio.wait_for(asyncio.shield(task), 60)
    thread.join()


async def test_it_ends_with_a_signal() -> None:
    # uvicorn raises the signal again once the server has ended.
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        async for _, task, _ in _serving(https.EventDrivenServer):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(asyncio.shield(task), 60)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
