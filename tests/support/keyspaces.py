"""Transcripts of a broker: what each call answers, and what it changes in the keys."""

import math
import re
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import orjson
from redis.asyncio import Redis

from tests.support.transcripts import Transcript, flow
from workers.api.merge_patch import diff

#: Ids that are drawn at random, and entries of streams, which begin with the server's time.
_DRAWN = re.compile(r"(?P<entry>\d{13}-\d+)|(?<![0-9a-f])(?P<id>[0-9a-f]{40}|[0-9a-f]{32})(?![0-9a-f])")
#: Objects as JSON, whose fields are their writers' matter.
_OBJECT = re.compile(r'\{"apiVersion":.*\}', re.DOTALL)
#: Instants in seconds to microseconds, in whole or broken numbers.
_INSTANT = re.compile(r"(?<![\w.-])\d{10,17}(?:\.\d+)?(?![\w.])")

#: Seconds from the first call within which a number is an instant.
_LONG = 86_400.0


class KeyspaceTranscript(Transcript):
    """What each call answers and changes.

    clock: microseconds; instants are shown in seconds since the first call. Without one they are the server's, and are
    shown in whole minutes. omitted: parts of texts that say nothing. Ids and entries are numbered as they come.
    """

    def __init__(self, folder: Path, client: Redis, clock: Callable[[], int] | None, *omitted: str) -> None:
        super().__init__(folder)
        self._client = client
        self._clock = clock
        self._began = clock() if clock else round(time.time() * 1e6)
        self._omitted = omitted
        self._before: dict[str, Any] = {}
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    async def after(self, call: str, answer: object = None) -> None:
        """Adds a call with its answer and the keys that it changed."""
        now = await self._now()
        change, self._before = diff(self._before, now), now
        lines = [] if answer is None else [f"-> {flow(self._shown(_plain(answer)))}"]
        lines += sorted(f"{key} {flow(value)}" for key, value in change.items())
        moment = f"{(self._clock() - self._began) / 1e6:g} " if self._clock else ""
        self.add(moment + self._shown(call), lines)

    def call(self, text: str, name: str) -> None:
        """Shows a text by this name from now on."""
        self._names[text] = name

    async def look(self) -> None:
        """Takes what the broker holds as known."""
        self._before = await self._now()

    async def _now(self) -> dict[str, Any]:
        if not self._clock:
            await self._next_millisecond()
        return {self._shown(key): self._shown(value) for key, value in (await _contents(self._client)).items()}

    async def _next_millisecond(self) -> None:
        """Waits for the server's clock: what two calls add to two streams within a millisecond has the same id."""
        client: Any = self._client
        began = await _milliseconds(client)
        while await _milliseconds(client) == began:
            pass

    def _shown(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._shown(key): self._shown(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._shown(each) for each in value]
        if isinstance(value, bytes):
            value = value.decode(errors="backslashreplace")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._instant(value) or value
        if not isinstance(value, str):
            return value
        if value.startswith(("{", "[")) and (read := _json(value)) is not None:
            return self._shown(read)
        for known, name in (*self._names.items(), *((each, "") for each in self._omitted)):
            value = value.replace(known, name)
        value = _OBJECT.sub("{…}", value)
        text = _DRAWN.sub(self._numbered, value)
        return _INSTANT.sub(lambda found: self._instant(float(found[0])) or found[0], text)

    def _numbered(self, found: re.Match[str]) -> str:
        """Returns the short name of an id."""
        kind = str(found.lastgroup)
        alike = sum(each.startswith(kind) for each in self._ids.values())
        return self._ids.setdefault(found[0], f"{kind}{alike + 1}")

    def _instant(self, value: float) -> str | None:
        """Returns an instant within a day of the first call as seconds since then; None for any other number."""
        for unit in (1, 1e3, 1e6):
            since = (value * unit - self._began) / 1e6
            if abs(since) < _LONG:
                return f"t{since:+.6f}".rstrip("0").rstrip(".") if self._clock else f"t{round(since / 60):+d}min"
        return None


def _json(text: str) -> Any:
    """Returns what a text is as JSON, with the names of its objects in order; None for an API object or no JSON."""
    if _OBJECT.match(text):
        return None
    try:
        return orjson.loads(orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS))
    except ValueError:
        return None


async def _milliseconds(client: Any) -> int:
    seconds, micros = await client.time()
    return int(seconds) * 1000 + int(micros) // 1000


async def _contents(client: Any) -> dict[bytes, Any]:
    """Returns everything that the broker holds, by key; the lifetime of keys that end."""
    found: dict[bytes, Any] = {}
    for key in sorted(await client.keys()):
        match (await client.type(key)).decode():
            case "string":
                found[key] = await client.get(key)
            case "hash":
                found[key] = await client.hgetall(key)
            case "zset":
                found[key] = dict(await client.zrange(key, 0, -1, withscores=True))
            case "set":
                found[key] = dict.fromkeys(sorted(await client.smembers(key)), True)
            case "list":
                found[key] = await client.lrange(key, 0, -1)
            case "stream":
                found[key] = dict(await client.xrange(key)) | await _groups(client, key)
        if isinstance(found[key], dict):
            found[key] = dict(sorted(found[key].items(), key=_numbers_apart))
        if (life := await client.pttl(key)) >= 0:
            # A machine may be slow: lifetimes are shown in whole tens of seconds.
            found[key] = {"value": found[key], "within": math.ceil(life / 10_000) * 10}
    return found


def _numbers_apart(item: tuple[bytes, Any]) -> list[Any]:
    """Returns a sort key by which 10 comes after 9."""
    return [int(part) if part.isdigit() else part for part in re.split(rb"(\d+)", item[0])]


async def _groups(client: Any, key: bytes) -> dict[bytes, Any]:
    """Returns the groups of a stream: the last entry that each was given, and its pending ones by consumer."""
    found = {}
    for group in await client.xinfo_groups(key):
        pending: dict[bytes, list[bytes]] = {}
        for entry in await client.xpending_range(key, group["name"], "-", "+", 1000):
            pending.setdefault(entry["consumer"], []).append(entry["message_id"])
        found[b"group " + group["name"]] = {"last": group["last-delivered-id"], **pending}
    return found


def _plain(value: Any) -> Any:
    """Returns an answer as values of YAML; of a dataclass what differs from its defaults, and no deadline."""
    if is_dataclass(value):
        shown = {each.name: _plain(getattr(value, each.name)) for each in fields(value) if each.name != "deadline"}
        return {name: each for name, each in shown.items() if each not in (None, [], "")}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value
