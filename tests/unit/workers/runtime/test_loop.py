"""The loop of a process: opened when needed, from any thread, closed once."""

import asyncio
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from workers.runtime.loop import LoopThread


class Opened:
    def __init__(self, *, fail=0):
        self.opened = self.closed = 0
        self.fail = fail
        self.threads = set()

    @asynccontextmanager
    async def __call__(self):
        if self.fail:
            self.fail -= 1
            raise ConnectionError("not yet")
        self.opened += 1
        yield self
        self.closed += 1

    async def work(self):
        self.threads.add(threading.current_thread().name)
        return threading.current_thread().name


def test_many_threads_share_one_service_on_one_loop():
    service = Opened()
    process = LoopThread(service)
    with ThreadPoolExecutor(8) as threads:
        names = set(threads.map(lambda _: process.run(lambda opened: opened.work()), range(50)))
    process.stop()
    process.stop()
    assert (service.opened, service.closed) == (1, 1)
    assert names == {"penstock-loop"}


def test_what_the_work_raises_reaches_the_caller_and_the_service_lives_on():
    process = LoopThread(Opened())

    async def fails(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        process.run(fails)
    assert process.run(lambda opened: opened.work()) == "penstock-loop"
    process.stop()


def test_running_work_is_cancelled_when_the_process_stops_and_its_caller_returns():
    service, started = Opened(), threading.Event()
    process = LoopThread(service)

    async def endless(_):
        started.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(process.run, endless)
        assert started.wait(10)
        process.stop()
        with pytest.raises(CancelledError):
            call.result(10)
    assert service.closed == 1


def test_a_service_that_could_not_be_opened_is_tried_again_at_the_next_call():
    service = Opened(fail=1)
    process = LoopThread(service)
    with pytest.raises(ConnectionError):
        process.start()
    assert process.run(lambda opened: opened.work()) == "penstock-loop"
    process.stop()
    assert (service.opened, service.closed) == (1, 1)
