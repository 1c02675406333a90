"""The event loop of a process, on a thread of its own, with the service that runs on it.

Celery's threads pass notifications to it and wait. Everything below is async; there is no second, blocking version.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import uvloop

from workers.cancellation import cancelled

Service = TypeVar("Service")
Result = TypeVar("Result")


class LoopThread(Generic[Service]):
    """Opens a service on a loop of its own on first use, and closes it once.

    open_service: makes the service, as an async context manager.
    """

    def __init__(self, open_service: Callable[[], AbstractAsyncContextManager[Service]]) -> None:
        self._open = open_service
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._context: AbstractAsyncContextManager[Service] | None = None
        self._service: Service | None = None
        self._calls: set[asyncio.Task[Any]] = set()

    def run(self, work: Callable[[Service], Awaitable[Result]]) -> Result:
        """Returns what `work` returns for the service; blocks the calling thread, which may be any."""
        self.start()

        async def call() -> Result:
            assert self._service is not None
            task = asyncio.current_task()
            assert task is not None
            self._calls.add(task)
            try:
                return await work(self._service)
            finally:
                self._calls.discard(task)

        result: Result = self._submit(call).result()
        return result

    def start(self) -> None:
        """Opens the service. Raises what opening it raises; a later call tries again."""
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
        """Closes the service and ends the loop's thread; a second call does nothing.

        Running calls are cancelled first: a thread that waited for one on a stopped loop would wait for ever.
        Raises what closing the service raises.
        """
        with self._lock:
            try:
                if self._context is not None:
                    context, self._context, self._service = self._context, None, None
                    self._submit(self._cancel_calls).result()
                    self._submit(lambda: context.__aexit__(None, None, None)).result()
            finally:
                if self._loop is not None and self._thread is not None:
                    self._loop.call_soon_threadsafe(self._loop.stop)
                    self._thread.join()
                    self._loop.close()
                    self._loop = self._thread = None

    async def _cancel_calls(self) -> None:
        await cancelled(*self._calls)

    def _submit(self, work: Callable[[], Awaitable[Any]]) -> Future[Any]:
        async def call() -> Any:
            return await work()

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(call(), self._loop)
