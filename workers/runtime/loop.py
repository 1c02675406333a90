"""The event loop of one process: on a thread of its own, with the service that lives on it.

Celery's threads hand their bells over to it. Everything below is async, and there is no second, blocking copy.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import uvloop

Service = TypeVar("Service")
Answer = TypeVar("Answer")


class LoopThread(Generic[Service]):
    """Opens a service on a loop of its own when it is first needed, and closes it once.

    open: makes the service, as an async context manager.
    """

    def __init__(self, open_service: Callable[[], AbstractAsyncContextManager[Service]]) -> None:
        self._open = open_service
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._context: AbstractAsyncContextManager[Service] | None = None
        self._service: Service | None = None
        self._calls: set[asyncio.Task[Any]] = set()

    def run(self, work: Callable[[Service], Awaitable[Answer]]) -> Answer:
        """Do something with the service from any thread; waits for the answer."""
        self.start()

        async def call() -> Answer:
            assert self._service is not None
            task = asyncio.current_task()
            assert task is not None
            self._calls.add(task)
            try:
                return await work(self._service)
            finally:
                self._calls.discard(task)

        answer: Answer = self._submit(call).result()
        return answer

    def start(self) -> None:
        """Open the service now. Raises what opening it raises; a later call tries again."""
        with self._lock:
            if self._service is not None:
                return
            if self._loop is None:
                self._loop = uvloop.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-loop", daemon=True)
                self._thread.start()
            context = self._open()
            self._service = self._submit(context.__aenter__).result()
            self._context = context

    def stop(self) -> None:
        """Close the service and end the loop's thread; stopping twice is stopping once.

        What still runs is cancelled first: a thread that waited for it on a loop that has ended would wait for ever.
        """
        with self._lock:
            if self._context is not None:
                context, self._context, self._service = self._context, None, None
                self._submit(self._cancel_calls).result()
                self._submit(lambda: context.__aexit__(None, None, None)).result()
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
                self._loop = self._thread = None

    async def _cancel_calls(self) -> None:
        calls = tuple(self._calls)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _submit(self, work: Callable[[], Awaitable[Any]]) -> Future[Any]:
        async def call() -> Any:
            return await work()

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(call(), self._loop)
