"""Events over HTTP: pushes per second of one gateway, next to a server of the same kind that only answers 202."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import psutil
import redis.asyncio as redis

from tests.benchmarks.harness import Figure, broker, median
from tests.chaos.test_gateway import process, ready
from tests.support.gateway_rig import GatewayRig
from tests.support.ports import free_port

import aiohttp  # isort: skip

#: Connections of the sender, requests of one run, and runs.
CONNECTIONS, REQUESTS, RUNS = 32, 4_000, 3
BATCH, BATCHES = 100, 200
#: Pushes of the burst after which the memory is read.
BURST = 100_000
GROUP = "events over HTTP, one gateway process"
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


async def figures() -> list[Figure]:
    with broker() as url, tempfile.TemporaryDirectory() as folder:
        async with redis.Redis.from_url(url) as client, aiohttp.ClientSession() as http, _bare(http) as bare:
            rig = GatewayRig(client, url)
            await rig.event_job("orders", maxEvents=1_000_000)
            port = free_port()
            with process(Path(folder), url, port) as gateway:
                await ready(http, port)
                ours = await median(lambda: _rate(port), RUNS)
                alone = await median(lambda: _rate(bare), RUNS)
                batches = await median(lambda: _batch_rate(port), RUNS)
                slowest = await _latency(port)
                before = psutil.Process(gateway.pid).memory_info().rss
                await client.delete(*await client.keys("*:events:*"))
                await _sent(port, BURST, 256)
                growth = psutil.Process(gateway.pid).memory_info().rss - before
    return [
        Figure(GROUP, f"pushes, {CONNECTIONS} connections", ours, "events/s",
               against=f"a route that only answers, {alone:,.0f}/s", ratio=ours / alone),
        Figure(GROUP, f"in batches of {BATCH}", batches, "events/s"),
        Figure(GROUP, "one connection, median answer", slowest * 1000, "ms"),
        Figure(GROUP, f"memory that {BURST:,} pushes add", growth / 2**20, "MiB"),
    ]  # fmt: skip


@asynccontextmanager
async def _bare(http: aiohttp.ClientSession) -> AsyncIterator[int]:
    port = free_port()
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", _BARE, str(port))
    try:
        await ready(http, port)
        yield port
    finally:
        server.kill()
        await server.wait()


async def _rate(port: int) -> float:
    return REQUESTS / await _sent(port, REQUESTS, CONNECTIONS)


async def _sent(port: int, requests: int, connections: int) -> float:
    """Pushes so many plain events over so many connections, without a client's library; seconds that it takes."""
    numbers = iter(range(requests))
    request = (
        b"POST /events/team/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
    )

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in numbers:
            writer.write(request)
            await _accepted(reader)
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
