"""A worker process for the chaos tests: it drains a lane with the real Drain and Hands, and logs what it does.

    python -m tests.chaos.holder <queue url> <truth url> <lease seconds>

What it knows for sure goes to a second server, the truth, which no test flushes:
  wanted      HASH key -> version that was asked for
  reconciled  HASH key -> version that was reconciled; only ever raised
  log         LIST of "<key> <token> start|end|lost|refused|stalled"; stalled: it stood still between the last look at
              its lease and the effect. No lease can prevent that, only a fence at the place of the effect can; what it
              did before it looked is another matter
"""

import asyncio
import contextlib
import random
import sys
import time

import redis.asyncio as redis
from redis.exceptions import RedisError

from scheduler.keys import Keys
from scheduler.queue import Backoff, Claim, Done, Lane, Lease, Outcome
from workers.drain import Drain
from workers.holding import MARGIN, Hands, LeaseLost

#: Raises a version, and tells whether it was higher: the fence that a resourceVersion is on a real cluster.
RAISE = """
local known = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if tonumber(ARGV[2]) < known then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
"""


async def main(queue_url: str, truth_url: str, lease: float) -> None:
    queue = redis.Redis.from_url(queue_url)
    truth = redis.Redis.from_url(truth_url)
    lane = Lane(queue, "chaos", Keys("chaos"), lease=lease, backoff=Backoff(base=0.05, cap=0.5))

    async def ring(_bells: object) -> None:
        """No bells: this process looks again by itself."""

    async def reconcile(lease: Lease, hands: Hands) -> Outcome:
        wanted = int(await truth.hget("wanted", lease.key) or 0)
        await truth.rpush("log", f"{lease.key} {lease.token} start")
        await asyncio.sleep(random.choice((0, 0.005, 0.05, 0.5)))
        looked = time.monotonic()
        try:
            hands.check(lease)
        except LeaseLost:
            await truth.rpush("log", f"{lease.key} {lease.token} lost")
            raise
        raised = await truth.eval(RAISE, 1, "reconciled", lease.key, wanted)
        stalled = time.monotonic() - looked > MARGIN
        how = "refused" if not raised else "stalled" if stalled else "end"
        await truth.rpush("log", f"{lease.key} {lease.token} {how}")
        return Done()

    async def handle(claim: Claim, hands: Hands) -> None:
        await asyncio.gather(*(hands.work(lease, reconcile(lease, hands)) for lease in claim.leases))

    hands = Hands(lane, ring, lease=lease)
    drain = Drain(hands, handle, ring, batch=8, work=1.0)
    sweeping = asyncio.create_task(drain.sweep_forever(0.2))
    await truth.incr("started")
    while not sweeping.done():
        with contextlib.suppress(RedisError, OSError):
            if not await drain.bell():
                await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
