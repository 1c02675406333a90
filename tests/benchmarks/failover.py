"""Take-over: two of each process, one of them is killed or frozen; how long work that needs it takes then.

Work is one item of a list that is claimed: it passes the scaler, a worker, the API server and the watch, and is done
when its Job is complete and accounted for. Of the watches the leader is struck. The struck worker has keys in hand.
`FAILOVER_RUNS` says how often each is struck.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import redis.asyncio as redis

from scheduler.keys import Keys
from tests.benchmarks.harness import Figure
from tests.chaos.disasters import FROZEN, KILLED, NO_API, NO_BROKER, Disaster, victim
from tests.support.conditions import eventually
from tests.support.members import Installation, installation
from tests.support.workload import ITEMS, Workload, workload
from workers.api.kinds import SCALED_JOB, Ref

RUNS = int(os.environ.get("FAILOVER_RUNS", "3"))
#: Frozen and cut off ones are let go after this time at the latest, seconds.
LONGEST = 120.0
STRUCK = ("watch", "worker", "scaler", "beat", "gateway")


async def figures() -> list[Figure]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        made = stack.enter_context(installation(Path(folder)))
        work = await stack.enter_async_context(workload(made))
        for part in STRUCK:
            for number in (1, 2):
                made.start(part, number)
        await made.ready()
        await work.probe()
        usual = statistics.median([await _timed(work, "worker") for _ in range(RUNS)])
        print(f"usual: {usual:.1f} s", file=sys.stderr, flush=True)
        found = []
        for disaster in (KILLED, FROZEN, NO_BROKER, NO_API):
            for part in STRUCK if disaster in (KILLED, FROZEN) else STRUCK[:3]:
                times = [await _struck(made, work, part, disaster) for _ in range(RUNS)]
                print(f"{part} {disaster.name}: {[round(each, 1) for each in times]} s", file=sys.stderr, flush=True)
                goal = "usual + 5 s" if disaster is KILLED else "usual + lease + 5 s"
                found += [
                    Figure("failover", f"{part} {disaster.name}, median of {RUNS}", statistics.median(times), "s",
                           against=f"usual, {usual:.1f} s", goal=goal),
                    Figure("failover", f"{part} {disaster.name}, worst of {RUNS}", max(times), "s"),
                ]  # fmt: skip
        await work.settle()
        if faults := await work.faults():
            raise RuntimeError(f"not everything was done once: {faults}")
        return found


async def _timed(work: Workload, part: str) -> float:
    began = time.perf_counter()
    await (work.event() if part == "gateway" else work.probe(LONGEST))
    return time.perf_counter() - began


async def _struck(made: Installation, work: Workload, part: str, disaster: Disaster) -> float:
    struck = await victim(made, work, part)
    if part == "worker" and disaster is KILLED:
        struck.api.drop()
        await _in_hand(made, work)
    disaster.begin(struck)
    began = time.perf_counter()
    if part == "gateway":
        await work.event()
    else:
        await work.probe(LONGEST)
        await _all_done(work)
    took = time.perf_counter() - began
    if disaster.end:
        disaster.end(struck)
    else:
        made.start(part, int(struck.name.partition("-")[2]))
    await made.ready()
    await work.probe(LONGEST)
    await work.probe(LONGEST)
    return took


async def _in_hand(made: Installation, work: Workload) -> None:
    """Returns when a worker that cannot reach the API server has the ScaledJob: the other one gives it back at once."""
    leased = Keys().lane("reconcile").of("leased")
    key = Ref(SCALED_JOB, "default", ITEMS).key
    async with redis.Redis.from_url(made.broker_url) as client:

        async def so() -> bool:
            await work.item()
            await asyncio.sleep(0.3)
            token = await client.hget(leased, key)
            await asyncio.sleep(0.3)
            return token is not None and await client.hget(leased, key) == token

        await eventually(so)


async def _all_done(work: Workload) -> None:
    async def so() -> bool:
        return work.items <= await work.done()

    await eventually(so, LONGEST)
