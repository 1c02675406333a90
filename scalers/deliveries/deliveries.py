"""The deliveries of EventJobs, for people: read, replayed, dropped and exported."""

import hashlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Literal

import orjson
from redis.asyncio import Redis

from penstock.client import beside
from scalers.deliveries import event_routing
from scalers.deliveries.delivery import STATES, AttemptOutcome, Delivery, DeliveryAttempt, DeliveryFilter, DeliveryPage
from scalers.deliveries.event_ledger import removal
from scheduler.keys import DeliveryKeys, Keys
from scheduler.scripts import Script, load
from workers.api.penstock_dev.eventjob import EventCounts

log = logging.getLogger(__name__)

_LIST = Script(load("scalers", "list_deliveries"))
_CHANGE = Script(load("scalers", "change_deliveries"))

#: Deliveries that one script looks at, or changes; scripts that one page takes at most; bytes of attributes of one.
LOOK, CHANGES, SCRIPTS, BYTES = 500, 500, 40, 2_000_000

_ALL = DeliveryFilter()


class Deliveries:
    """The deliveries of every EventJob, by its UID.

    client: of Penstock's own broker. Every call raises redis.exceptions.RedisError when the broker refuses or cannot be
    reached.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def page(
        self, uid: str, filter: DeliveryFilter = _ALL, after: str | None = None, limit: int = 100
    ) -> DeliveryPage:
        """Returns deliveries without their data, the newest first, at most `limit`.

        after: of the page before. A page of a filter that few deliveries pass may have fewer, and even none, though
        others follow: a call looks at 20,000 at most. Deliveries that change their state between two pages are neither
        skipped nor repeated.
        """
        found: list[Delivery] = []
        for _ in range(SCRIPTS):
            rows, after = await self._look(uid, filter, after, limit - len(found))
            found += rows
            if after is None or len(found) >= limit:
                break
        return DeliveryPage(tuple(found), after)

    async def get(self, uid: str, entry: str) -> Delivery | None:
        """Returns a delivery with its data, None for one that is not known (any more)."""
        return (await self._read(uid, [entry]))[0]

    async def of_event(self, uid: str, id: str, source: str | None = None) -> tuple[Delivery, ...]:
        """Returns the deliveries of the event with this id, with their data, the newest first, at most 16.

        source: of the event; without one, events of every source.
        """
        index = hashlib.sha1(id.encode(), usedforsecurity=False).hexdigest()[:16]
        entries: Any = await self._client.hget(self._keys.deliveries(uid).of("ids"), index)
        known = await self._read(uid, [entry.decode(errors="replace") for entry in (entries or b"").split()])
        return tuple(
            each
            for each in known
            if each and each.attributes.get("id") == id and source in (None, each.attributes.get("source"))
        )

    async def counts(self, uid: str) -> EventCounts:
        """Returns the numbers of deliveries by state, and of events that ended otherwise."""
        keys = self._keys.deliveries(uid)
        states = ("waiting", "delayed", "running", "retrying", "parked")
        pipeline = self._client.pipeline(transaction=True)
        for state in states:
            pipeline.zcard(keys.of(state))
        pipeline.hmget(keys.of("meta"), ["done", "filtered", "duplicates"])
        *numbers, sums = await pipeline.execute()
        done, filtered, duplicates = (int(number) if number and number.isdigit() else 0 for number in sums)
        by_state = dict(zip(states, numbers, strict=True))
        return EventCounts(**by_state, done=done, filtered=filtered, duplicates=duplicates)

    async def replay(self, uid: str, entries: Iterable[str]) -> int:
        """Starts parked, dropped and done deliveries anew, behind all others. Returns how many.

        Their attempts are kept; they have as many attempts again as at first.
        """
        return await self._change(uid, "replay", entries)

    async def drop(self, uid: str, entries: Iterable[str]) -> int:
        """Gives waiting, delayed, retrying and parked deliveries up. Returns how many. Running ones go on."""
        return await self._change(uid, "drop", entries)

    async def export(self, uid: str, filter: DeliveryFilter = _ALL) -> AsyncIterator[Delivery]:
        """Yields deliveries with their data, the newest first."""
        after: str | None = None
        while True:
            rows, after = await self._look(uid, filter, after, LOOK)
            for row in rows:
                # One by one: the data of an event may have a megabyte.
                if (full := await self.get(uid, row.entry)) is not None:
                    yield full
            if after is None:
                return

    async def owners(self) -> set[str]:
        """Returns the UIDs of all EventJobs that have deliveries, or had some in the last hour."""
        first, last = self._keys.deliveries("*").of("meta").split("*")
        # Braces and the like of the prefix have no meaning in a pattern; a prefix has no other special characters.
        found = {key.decode() async for key in self._client.scan_iter(match=f"{first}*{last}", count=1_000)}
        return {key.removeprefix(first).removesuffix(last) for key in found}

    async def remove(self, uid: str) -> None:
        """Removes everything of an EventJob that is gone; deliveries that were not finished go with it."""
        keys = self._keys.deliveries(uid)
        if intake := await self._intake(keys):
            call = removal(keys, intake)
            await call.script(self._client, call.keys, call.args)

    async def _look(
        self, uid: str, filter: DeliveryFilter, after: str | None, limit: int
    ) -> tuple[list[Delivery], str | None]:
        """Returns what one script finds, and where the next goes on."""
        type_ = "" if filter.type is None else f"t{filter.type}"
        since, until = ("" if instant is None else instant for instant in (filter.since, filter.until))
        states = [state for state in STATES if state in filter.states]
        arguments = (after or "", limit, LOOK, BYTES, type_, since, until, *states)
        next_, *rows = await _LIST(self._client, self._keys.deliveries(uid).all(), arguments)
        found = [_delivery(*rows[place : place + 3]) for place in range(0, len(rows), 3)]
        return [each for each in found if each], next_.decode() or None

    async def _read(self, uid: str, entries: Sequence[str]) -> list[Delivery | None]:
        if not entries:
            return []
        keys = self._keys.deliveries(uid)
        pipeline = self._client.pipeline(transaction=True)
        for part in ("records", "attributes", "data"):
            pipeline.hmget(keys.of(part), list(entries))
        rows = zip(entries, *await pipeline.execute(), strict=True)
        return [_delivery(entry.encode(), *row) for entry, *row in rows]

    async def _change(self, uid: str, verb: Literal["replay", "drop"], entries: Iterable[str]) -> int:
        keys = self._keys.deliveries(uid)
        # The oldest first, so that they keep their order.
        asked = sorted(set(entries), key=_place)
        intake = await self._intake(keys)
        if not asked or intake is None:
            return 0
        changed = 0
        for start in range(0, len(asked), CHANGES):
            arguments = (uid, verb, *asked[start : start + CHANGES])
            changed += await _CHANGE(self._client, (*keys.all(), beside(intake, "unfinished")), arguments)
        return changed

    async def _intake(self, keys: DeliveryKeys) -> str | None:
        """Returns the intake of the channel that the EventJob belongs to, None before its first poll."""
        found: Any = await self._client.hget(keys.of("meta"), "intake")
        return found.decode(errors="replace") if found else None


def _place(entry: str) -> tuple[int, int]:
    time, _, number = entry.partition("-")
    return (int(time), int(number)) if time.isdecimal() and number.isdecimal() else (0, 0)


def _delivery(
    entry: bytes, record: bytes | None, attributes: bytes | None, content: bytes | None = None
) -> Delivery | None:
    """Returns the delivery of these values of the hashes, None if they are gone or cannot be read."""
    if record is None or attributes is None:
        return None
    try:
        return _decoded(entry.decode(), orjson.loads(record), orjson.loads(attributes), content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # The others are still to be read.
        log.warning("a delivery that cannot be read is left out", extra={"entry": repr(entry), "error": str(error)})
        return None


def _decoded(entry: str, known: Mapping[str, Any], attributes: Mapping[str, str], content: bytes | None) -> Delivery:
    if known["s"] not in STATES or not all(isinstance(text, str) for text in attributes.values()):
        raise ValueError(f"a state or an attribute is none: {known['s']!r}"[:200])
    arrived = event_routing.arrival(entry)
    return Delivery(
        entry=entry,
        attributes=attributes,
        state=known["s"],
        arrived=arrived,
        due=int(known.get("d", 0)),
        key=known.get("k"),
        attempts=tuple(_attempt(*each) for each in known.get("h", ())),
        reason=known.get("x", ""),
        replays=known.get("r", 0),
        claim=_claim(entry, known) if known["s"] == "running" else None,
        data=content[1:].decode() if content else None,
        is_base64=bool(content and content.startswith(b"b")),
    )


def _claim(entry: str, record: Mapping[str, Any]) -> tuple[str, int]:
    """Returns id and attempt of a running delivery's claim, as the script `claim_deliveries` makes them."""
    left = int(record.get("t", 0))
    return f"{entry}-{left}" if "t" in record else entry, int(record.get("a", 0))


def _attempt(job: str, ended: str, outcome: AttemptOutcome, reason: str) -> DeliveryAttempt:
    return DeliveryAttempt(job, int(ended), outcome, reason)
