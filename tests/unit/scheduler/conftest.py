"""A lane on a clock of its own, on either server."""

from collections.abc import Callable

import pytest
from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.queue import Lane, RetryBackoff

SECOND = 1_000_000


class Clock:
    """Microseconds since the epoch, moved by the test."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    @property
    def seconds(self) -> float:
        return self.now / SECOND

    def forward(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def new_lane(fake_redis: Redis, clock: Clock) -> Callable[..., Lane]:
    """Makes lanes as they are before anybody opened them."""

    def make(name: str = "reconcile", *, slots: int = 4, lease: float = 10.0) -> Lane:
        backoff = RetryBackoff(base=1.0, cap=60.0, jitter=0.0)
        return Lane(fake_redis, name, Keys("test"), lease=lease, backoff=backoff, slots=slots, clock=clock)

    return make


@pytest.fixture
async def lane(new_lane: Callable[..., Lane]) -> Lane:
    """A lane that is open."""
    lane = new_lane()
    await lane.open()
    return lane
