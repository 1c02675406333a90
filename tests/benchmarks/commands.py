"""A command to the broker: CPU time of the process that asks, next to redis-py's own client in the same run.

Callers side by side share round trips; the time that the broker takes is not in it.
"""

import asyncio
import statistics
import time

import redis.asyncio as redis

from scheduler.broker import clients
from tests.benchmarks.harness import Figure, broker

GROUP = "commands to the broker, CPU of one"
CALLERS = (1, 4, 16)
COMMANDS = 4_800
RUNS = 5


async def figures() -> list[Figure]:
    with broker() as url:
        async with clients.client(url, max_connections=64) as ours, redis.Redis.from_url(url, protocol=2) as theirs:
            return [await _compared(ours, theirs, callers) for callers in CALLERS]


async def _compared(ours: redis.Redis, theirs: redis.Redis, callers: int) -> Figure:
    used: dict[redis.Redis, list[float]] = {ours: [], theirs: []}
    # In turn, so that other load of the machine weighs on both; the first run of each opens connections.
    for _ in range(RUNS + 1):
        for client, measured in used.items():
            measured.append(await _cpu(client, callers))
    mine, other = (statistics.median(measured[1:]) * 1e6 for measured in used.values())
    subject = f"a script with one key, {callers} {'caller' if callers == 1 else 'callers'}"
    return Figure(GROUP, subject, mine, "µs", against=f"redis-py, {other:,.0f} µs", ratio=other / mine)


async def _cpu(client: redis.Redis, callers: int) -> float:
    """CPU seconds of this process for one command."""
    digest = await client.script_load("return {KEYS[1], ARGV[1]}")

    async def call() -> None:
        for _ in range(COMMANDS // callers):
            await client.evalsha(digest, 1, "key", "value")  # type: ignore[misc]

    before = time.process_time()
    await asyncio.gather(*(call() for _ in range(callers)))
    return (time.process_time() - before) / COMMANDS
