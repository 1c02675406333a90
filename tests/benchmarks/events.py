"""Events over HTTP: pushes per second of one gateway, next to a server of the same kind that only answers 202.

And the time from a push until its Job exists, at rest and while ten thousand others of its EventJob wait.
"""

import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import psutil
import redis.asyncio as redis

from deploy.demo.report import percentile
from scalers.deliveries.deliveries import Deliveries
from scheduler.keys import Keys
from tests.benchmarks import latency
from tests.benchmarks.harness import Figure, broker, median
from tests.benchmarks.manifests import TEMPLATE, body
from tests.benchmarks.stack import Stack, stack
from tests.chaos.test_gateway import process, ready
from tests.support.gateway_rig import GatewayRig
from tests.support.ports import free_port
from workers.api.kinds import EVENT_JOB
from workers.settings import Settings

import aiohttp  # isort: skip

#: Connections of the sender, requests of one run, and runs.
CONNECTIONS, REQUESTS, RUNS = 32, 8_000, 5
BATCH, BATCHES = 100, 200
#: Events that wait for their turn, and events of one request that adds them.
WAITING, PIECE = 10_000, 500
#: Pushes of the burst after which the memory is read.
BURST = 100_000
GROUP = "events over HTTP, one gateway process"
TO_JOB = "push over HTTP to Job created, embedded API server"
BODY = json.dumps({"order": 4711, "items": ["a", "b", "c"], "total": 12.5}).encode()

#: A server that reads bodies and answers 202.
_BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def take(request):
    await request.body()
    return JSONResponse({"id": "1", "source": "/s", "duplicate": False, "entry": "1-0"}, 202)
async def ready(request):
    return JSONResponse({})
routes = [Route("/events/team/orders", take, methods=["POST"]), Route("/readyz", ready)]
uvicorn.run(Starlette(routes=routes), port=int(sys.argv[1]), log_level="error", access_log=False)
"""


@dataclass(frozen=True)
class Pace:
    """Requests per second, seconds of the server's CPU per request, and the 99th percentile of seconds per answer."""

    rate: float
    cpu: float
    p99: float


async def figures() -> list[Figure]:
    return [*await _accepted_events(), *await _push_to_job()]


async def _accepted_events() -> list[Figure]:
    with broker() as url, tempfile.TemporaryDirectory() as folder:
        async with redis.Redis.from_url(url) as client, aiohttp.ClientSession() as http, _bare(http) as bare:
            rig = GatewayRig(client, url)
            await rig.event_job("orders", maxEvents=1_000_000)
            port = free_port()
            with process(Path(folder), url, port) as gateway:
                await ready(http, port)
                pushed, answered = await _alternating((gateway.pid, port), bare)
                batches = await median(lambda: _batch_rate(port), RUNS)
                slowest = await _latency(port)
                before = psutil.Process(gateway.pid).memory_info().rss
                await client.delete(*await client.keys("*:events:*"))
                await _sent(port, BURST, 256)
                growth = psutil.Process(gateway.pid).memory_info().rss - before
    return [
        Figure(GROUP, f"pushes, {CONNECTIONS} connections", pushed.rate, "events/s",
               against=f"a route that only answers, {answered.rate:,.0f}/s", ratio=pushed.rate / answered.rate),
        Figure(GROUP, "CPU of one push", pushed.cpu * 1e6, "µs",
               against=f"a route that only answers, {answered.cpu * 1e6:,.0f} µs", ratio=answered.cpu / pushed.cpu,
               goal="0.5"),
        Figure(GROUP, f"an answer, {CONNECTIONS} connections, p99", pushed.p99 * 1000, "ms",
               against=f"a route that only answers, {answered.p99 * 1000:,.1f} ms", ratio=answered.p99 / pushed.p99),
        Figure(GROUP, f"in batches of {BATCH}", batches, "events/s", goal="20,000"),
        Figure(GROUP, "one connection, median answer", slowest * 1000, "ms"),
        Figure(GROUP, f"memory that {BURST:,} pushes add", growth / 2**20, "MiB"),
    ]  # fmt: skip


async def _alternating(ours: tuple[int, int], bare: tuple[int, int]) -> tuple[Pace, Pace]:
    """Measures both servers in turn, so that other load of the machine weighs on both; each is a process and a port."""
    paces: dict[tuple[int, int], list[Pace]] = {ours: [], bare: []}
    for _ in range(RUNS + 1):
        for server, measured in paces.items():
            measured.append(await _pace(*server))
    # The first run of each does not count.
    found = [
        Pace(*(statistics.median(getattr(each, name) for each in runs[1:]) for name in ("rate", "cpu", "p99")))
        for runs in paces.values()
    ]
    return found[0], found[1]


async def _pace(pid: int, port: int) -> Pace:
    server = psutil.Process(pid)
    before, delays = server.cpu_times(), []
    seconds = await _sent(port, REQUESTS, CONNECTIONS, delays)
    after = server.cpu_times()
    used = after.user + after.system - before.user - before.system
    return Pace(REQUESTS / seconds, used / REQUESTS, percentile(delays, 0.99))


@asynccontextmanager
async def _bare(http: aiohttp.ClientSession) -> AsyncIterator[tuple[int, int]]:
    """A server that only answers: its process and its port."""
    port = free_port()
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", _BARE, str(port))
    try:
        await ready(http, port)
        yield server.pid, port
    finally:
        server.kill()
        await server.wait()


async def _sent(port: int, requests: int, connections: int, delays: list[float] | None = None) -> float:
    """Pushes so many plain events over so many connections, without a client's library; seconds that it takes.

    delays: gets the seconds of each answer.
    """
    numbers = iter(range(requests))
    request = (
        b"POST /events/team/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
    )

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in numbers:
            asked = perf_counter()
            writer.write(request)
            await _accepted(reader)
            if delays is not None:
                delays.append(perf_counter() - asked)
        writer.close()

    started = perf_counter()
    await asyncio.gather(*(connection() for _ in range(connections)))
    return perf_counter() - started


async def _accepted(reader: asyncio.StreamReader) -> None:
    """Reads one answer. Raises RuntimeError unless it is 202."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 202"):
        raise RuntimeError(f"{head!r} {body!r}")


async def _batch_rate(port: int) -> float:
    numbers = iter(range(BATCHES))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in numbers:
            mark = perf_counter()
            batch = [
                {"specversion": "1.0", "id": f"{mark}-{each}", "source": "/s", "type": "t", "data": {"n": each}}
                for each in range(BATCH)
            ]
            body = json.dumps(batch).encode()
            head = "POST /events/team/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
            head += f"{len(body)}\r\nContent-Type: application/cloudevents-batch+json\r\n\r\n"
            writer.write(head.encode() + body)
            await _accepted(reader)
        writer.close()

    started = perf_counter()
    await asyncio.gather(*(connection() for _ in range(8)))
    return BATCHES * BATCH / (perf_counter() - started)


async def _latency(port: int) -> float:
    return await median(lambda: _sent(port, 1, 1), 100)


async def _push_to_job() -> list[Figure]:
    found = []
    for single, parts in ((False, "four processes"), (True, "standalone")):
        async with stack(single=single, gateway=f"127.0.0.1:{free_port()}") as running:
            at_rest, behind = await _posted(running)
        found += [
            *(latency.figure(TO_JOB, f"{parts}: at rest", at_rest, share, goal="< 20 ms") for share in (0.5, 0.99)),
            *(latency.figure(TO_JOB, f"{parts}: {WAITING:,} events waiting", behind, share) for share in (0.5, 0.99)),
        ]
    return found


async def _posted(running: Stack) -> tuple[list[float], list[float]]:
    """Seconds from each request with an event until the watch shows its Job: at rest, and with others waiting.

    Those that wait are all of one ordering key, whose first Job never ends.
    """
    concurrency = {"total": 1_000, "orderingKey": "event.subject"}
    spec = {
        **{"concurrency": concurrency, "push": {"anonymous": True}, "maxEvents": 10 * WAITING},
        "jobTemplate": {"spec": {"template": TEMPLATE}},
    }
    await running.cluster.create(EVENT_JOB, body(EVENT_JOB, "orders", spec=spec))
    url = f"http://{running.gateway}/events/default/orders"
    async with aiohttp.ClientSession() as http, latency.arrivals(running) as arrived:

        async def push_one(subject: str) -> None:
            event = {"specversion": "1.0", "id": subject, "source": "/bench", "type": "t", "subject": subject}
            async with http.post(url, json=event, headers={"Content-Type": _EVENT}) as answer:
                if answer.status != 202:
                    raise RuntimeError(f"{answer.status} {await answer.text()}")

        async def measured(prefix: str) -> list[float]:
            return [
                await latency.delay(arrived, lambda number=number: push_one(f"{prefix}-{number}"), (0.2, 0.3))  # type: ignore[misc]
                for number in range(latency.PUSHES)
            ]

        while True:
            # The gateway knows the EventJob once its cache has it.
            try:
                await push_one("first")
                break
            except RuntimeError:
                await asyncio.sleep(0.1)
        await arrived.get()
        at_rest = await measured("rest")
        for first in range(0, WAITING, PIECE):
            events = [
                {"specversion": "1.0", "id": f"w-{first + each}", "source": "/bench", "type": "t", "subject": "one"}
                for each in range(PIECE)
            ]
            async with http.post(url, json=events, headers={"Content-Type": _EVENTS}) as answer:
                answer.raise_for_status()
        await arrived.get()
        await _taken_in(running, WAITING - 1)
        return at_rest, await measured("behind")


async def _taken_in(running: Stack, number: int) -> None:
    """Returns once so many events wait as deliveries."""
    keys = Keys(Settings().prefix)
    async with redis.Redis.from_url(running.broker) as client:
        deliveries = Deliveries(client, keys)
        [uid] = await deliveries.owners()
        while ((await deliveries.counts(uid)).waiting or 0) < number:
            await asyncio.sleep(0.1)


_EVENT, _EVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
