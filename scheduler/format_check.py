"""The check of the broker's data: a process that would misread it does not begin."""

from typing import Any

from redis.asyncio import Redis

from penstock import _broker_format as broker_format
from scheduler.keys import Keys
from scheduler.scripts import Script, load

_FORMAT = Script(load("scheduler", "format"), ours=True)


async def check_format(client: Redis, keys: Keys) -> None:
    """Adopts the data of a format that this release lays out alike, in one step.

    Raises penstock._broker_format.FormatRefused for any other, and redis.exceptions.RedisError if the broker refuses or
    is away.
    """
    args = (broker_format.FORMAT, *broker_format.adoptable())
    broker_format.check(await _FORMAT(client, (keys.format,), args))


async def stored_format(client: Redis, keys: Keys) -> str:
    """Returns what stands for the data's format, unchecked: empty for none. Raises redis.exceptions.RedisError."""
    found: Any = await client.get(keys.format)
    return (found or b"").decode()
