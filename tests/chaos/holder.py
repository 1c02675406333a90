"""A worker process for the chaos tests: it drains a lane with the real Drain and Hands, and logs what it does.

    python -m tests.chaos.holder <queue url> <truth url> <lease seconds>

What it knows for sure goes to a second server, the truth, which no test flushes:
  wanted      HASH key -> version that was asked for
  reconciled  HASH key -> version that was reconciled; only ever raised
  log         LIST of lines, in the order in which the truth heard of them; tests/chaos/hands.py says what they mean
                <key> <token> start <moment> <process id>
                <key> <token> effect <moment of the last look at the lease>
                <key> <token> lost
Moments are those of `time.monotonic()`, which is one clock for all processes of a machine.
"""

import asyncio
import contextlib
import os
import random
import sys
import time

from redis.exceptions import RedisError

from scheduler.broker import clients
from scheduler.keys import Keys
from scheduler.queue import ClaimedKeys, Done, Lane, Lease, Outcome, RetryBackoff
from workers.runtime.consumer import Consumer
from workers.runtime.leases import LeaseKeeper, LeaseLost

#: Takes effect, and says so in the same breath: a process that stands still between the two would be blamed for
#: nothing. It only ever raises a version, as a resourceVersion does on a real cluster.
EFFECT = """
redis.call('RPUSH', KEYS[2], ARGV[3])
local known = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if tonumber(ARGV[2]) > known then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
"""


async def main(queue_url: str, truth_url: str, lease: float) -> None:
    queue = clients.client(queue_url)
    # Nobody touches the truth: who stood still finds his answer there, however late, and asks for nothing twice.
    truth = clients.client(truth_url, socket_timeout=None)
    lane = Lane(queue, "chaos", Keys("chaos"), lease=lease, backoff=RetryBackoff(base=0.05, cap=0.5))

    async def notify(_notifications: object) -> None:
        """No bells: this process looks again by itself."""

    async def reconcile(lease: Lease, keeper: LeaseKeeper) -> Outcome:
        name = f"{lease.key} {lease.token}"
        try:
            start = time.monotonic()
            wanted = int(await truth.hget("wanted", lease.key) or 0)
            await truth.rpush("log", f"{name} start {start} {os.getpid()}")
            await asyncio.sleep(random.choice((0, 0.05, 0.5, 1.0)))
            looked = time.monotonic()
            keeper.check(lease)
            await truth.eval(EFFECT, 2, "reconciled", "log", lease.key, wanted, f"{name} effect {looked}")
        except (LeaseLost, asyncio.CancelledError):
            await truth.rpush("log", f"{name} lost")
            raise
        return Done()

    async def handle(claim: ClaimedKeys, keeper: LeaseKeeper) -> None:
        await asyncio.gather(*(keeper.work(lease, reconcile(lease, keeper)) for lease in claim.leases))

    keeper = LeaseKeeper(lane, notify, lease=lease)
    consumer = Consumer(keeper, handle, notify, batch=16, work=1.0)
    sweeping = asyncio.create_task(consumer.sweep_forever(0.2))
    await truth.incr("started")
    while not sweeping.done():
        with contextlib.suppress(RedisError, OSError):
            if not await consumer.consume():
                await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
