"""The broker at rest: what keys it has, by pattern, and how much memory."""

import re
from collections import Counter
from collections.abc import Mapping

import redis.asyncio as redis

#: Parts of a key that differ from run to run.
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b")
_NUMBER = re.compile(r"\d+")

#: What stays on purpose when objects are deleted: the pattern, entries at most, and the reason.
KEPT = {
    "{penstock}:cluster:objects:events": (1000, "Events, which live for an hour"),
    "{penstock}:cluster:changed": (100, "the embedded API server's note of each kind that ever changed"),
    "{penstock}:lane:poll:meta": (20, "counters of the lane"),
    "{penstock}:lane:poll:tenants": (10, "the turn of each namespace"),
    "{penstock}:lane:reconcile:meta": (20, "counters of the lane"),
    "{penstock}:lane:reconcile:tenants": (10, "the turn of each namespace"),
    "{penstock}:wakeups:version": (1, "a counter"),
    "{penstock}:events:default/pushed:counts": (10, "numbers of events since the beginning, should it be fed again"),
}
_BURIED = re.compile(r"(.*):(objects|gone|owners):(.*)")


def pattern(key: str) -> str:
    """Returns the key without what differs from run to run."""
    return _NUMBER.sub("N", _HEX.sub("HEX", _UID.sub("UID", key)))


async def keys(client: redis.Redis) -> dict[str, int]:
    """Returns the number of entries of each key that does not end by itself, by pattern."""
    found: Counter[str] = Counter()
    async for raw in client.scan_iter(count=1000):
        if await client.ttl(raw) == -1:
            found[pattern(raw.decode(errors="replace"))] += await _size(client, raw)
    return dict(found)


async def _size(client: redis.Redis, key: bytes) -> int:
    kind = (await client.type(key)).decode()
    sizes = {"hash": client.hlen, "zset": client.zcard, "set": client.scard, "list": client.llen, "stream": client.xlen}
    return int(await sizes[kind](key)) if kind in sizes else 1


async def memory(client: redis.Redis) -> float:
    """Returns the memory of the server's data, MiB."""
    info = await client.info("memory")
    return float(info["used_memory_dataset"]) / 2**20


def more(before: Mapping[str, int], after: Mapping[str, int], *, buried: bool = True) -> dict[str, tuple[int, int]]:
    """Returns the patterns whose keys have more entries after than before, but for what is kept on purpose.

    buried: the tombstones of deleted objects, which are kept for ten minutes, do not count.
    """
    found = {name: (before.get(name, 0), n) for name, n in sorted(after.items()) if n > before.get(name, 0)}
    for name, (was, now) in list(found.items()):
        match = _BURIED.fullmatch(name)
        graves = after.get(f"{match[1]}:gone:{match[3]}", 0) if match and buried else 0
        if now - graves <= max(was, KEPT.get(name, (0, ""))[0]):
            del found[name]
    return found
