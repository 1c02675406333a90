"""Fixtures that every tier shares: brokers (fake and real) with a fresh, empty keyspace per test."""

import gc
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache

import fakeredis
import pytest
import redis.asyncio as redis_async
from hypothesis import HealthCheck, settings

from scheduler.broker import clients
from tests.support import parallel
from tests.support.paths import ROOT
from tests.support.valkeys import ValkeyServer, installed
from workers.json_logs import JsonLines

# A slow machine is no defect of the code. `make test` draws the examples from a seed (--hypothesis-seed): a run can be
# repeated. A store of examples would make a run depend on those before it.
settings.register_profile("suite", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
# For hunting: HYPOTHESIS_PROFILE=hunt draws ten times as many.
settings.register_profile("hunt", settings.get_profile("suite"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# Until all tests are collected: what is made meanwhile stays, and to look for garbage in it takes a fifth of that time.
gc.disable()

# A shell ignores SIGINT for what it starts in the background, and so would every process that a test starts and stops.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock")
    group.addoption(
        "--broker-only",
        action="store_true",
        help="only tests that talk to the server that PENSTOCK_TEST_REDIS names, or start one like it",
    )
    group.addoption("--strict-skips", action="store_true", help="fail on skips that tests/allowed-skips.txt lacks")


def pytest_configure(config: pytest.Config) -> None:
    server = os.environ.get("PENSTOCK_TEST_REDIS", "")
    if "://" in server and getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("tests empty the server that PENSTOCK_TEST_REDIS names: one process only, with -n 0")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.broker_only:
        chosen = [_talks_to_the_broker(item) for item in items]
        config.hook.pytest_deselected(items=[item for item, wanted in zip(items, chosen, strict=True) if not wanted])
        items[:] = [item for item, wanted in zip(items, chosen, strict=True) if wanted]
    places = parallel.order(item.nodeid for item in items)
    items.sort(key=lambda item: places[parallel.unit(item.nodeid)])


def _talks_to_the_broker(item: pytest.Item) -> bool:
    """Returns true for a test that uses the fixture `redis_server`, or has the marker since it uses it otherwise."""
    return "redis_server" in getattr(item, "fixturenames", ()) or item.get_closest_marker("broker") is not None


def pytest_collection_finish() -> None:
    # Hypothesis looks at every module while it draws its first example, which runs those whose imports are deferred
    # (`penstock._deferred_imports`), and fails if random numbers are drawn meanwhile.
    for module in list(sys.modules.values()):
        if type(module).__name__ == "_LazyModule":
            vars(module)
    # Ten thousand tests are a million objects that stay: no garbage collection needs to look at them again.
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.option.strict_skips and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not any(re.fullmatch(pattern, reason) for pattern in _allowed_skips()):
            report.outcome = "failed"
            report.longrepr = f"skipped, for a reason that tests/allowed-skips.txt lacks: {reason}"
    return report


@cache
def _allowed_skips() -> tuple[str, ...]:
    """The patterns of the file."""
    lines = (ROOT / "tests" / "allowed-skips.txt").read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> parallel.Units:
    config.option.loadscopereorder = False
    return parallel.Units(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    if "://" in os.environ.get("PENSTOCK_TEST_REDIS", ""):
        return 0
    # More than half of the time tests wait for processes that they have started.
    return 5 * (os.cpu_count() or 1) // 2


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """No test leaves its log handlers and levels to the next: handlers write to a stream that is closed by then."""
    yield
    for package in ("scheduler", "workers", "scalers", "deploy"):
        logging.getLogger(package).setLevel(logging.NOTSET)
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler.formatter, JsonLines)]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a real server: PENSTOCK_TEST_REDIS names one (it will be flushed!), else the bundled Valkey.

    It may name a program too, such as `redis-server`: each process of a parallel run starts one of its own then.
    """
    given = os.environ.get("PENSTOCK_TEST_REDIS", "")
    if "://" in given:
        yield given
        return
    if given:
        with installed(given) as url:
            yield url
        return
    with ValkeyServer(config={"notify-keyspace-events": "KEA", "save": ""}) as server:
        yield f"{server.connection_url}/0"


@pytest.fixture
async def redis_url(redis_server: str) -> AsyncIterator[str]:
    """The real server's URL, emptied before and after the test."""
    async with redis_async.Redis.from_url(redis_server, client_name="tests") as client:
        await client.flushall()
        yield redis_server
        await client.flushall()


@pytest.fixture
async def real_redis(redis_url: str) -> AsyncIterator[redis_async.Redis]:
    """A client of the real server (bytes in, bytes out)."""
    async with clients.client(redis_url, client_name="tests") as client:
        yield client


@pytest.fixture
async def fake_redis() -> AsyncIterator[redis_async.Redis]:
    """A client of a private in-memory server that runs Lua."""
    # Without the time-out, whose implementation forgets cancellations; scheduler/broker/clients.py tells more.
    async with fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), version=(7,), socket_timeout=None) as client:
        yield client
