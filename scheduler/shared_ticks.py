"""Moments that the periodic work of a process shares: what is due at the same moment wakes the process up once.

Waking up costs an idle process more than most of what it does then. Work of one period runs at the multiples of that
period on the event loop's clock, and each process has a phase of its own, so that processes do not run in step.
"""

import asyncio
import os

#: Seconds by which the moments of two process ids in a row differ: multiples of the golden ratio spread evenly.
_SPREAD = 0.6180339887


def until(every: float, now: float, phase: float = 0.0) -> float:
    """Returns the seconds until the next moment of this period (seconds) that is at least half a period away. Pure.

    now: seconds of any clock. phase: seconds by which the moments are later than the multiples of the period. Work of
    no period at all never waits.
    """
    if every <= 0:
        return 0.0
    left = every - (now - phase) % every
    return left if left > every / 2 else left + every


def until_tick(every: float) -> float:
    """Returns the seconds until this process's next moment of this period (seconds)."""
    return until(every, asyncio.get_running_loop().time(), os.getpid() * _SPREAD % 1)


async def tick(every: float) -> None:
    """Sleeps until this process's next moment of this period: for half of it to one and a half."""
    await asyncio.sleep(until_tick(every))
