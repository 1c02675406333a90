"""The last reading of every polled object, in the broker: a poller stores it, a reconciler reads it."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import orjson
from redis.asyncio import Redis

from scheduler.broker.fast_path import together
from scheduler.keys import Keys
from scheduler.queue import PIECE, SCRIPTS, Finished, Lane, Lease, Outcome
from scheduler.scripts import Arg, JoinedScripts, Script, load, readable
from workers.decision import claims
from workers.decision.snapshot import Reading, TriggerSample
from workers.newest_entries import TurnCache

log = logging.getLogger(__name__)

_STORE_AND_FINISH = JoinedScripts(Script(load("workers", "readings"), ours=True), SCRIPTS["finish"])
#: Readings that a process remembers as they are stored, so that an unchanged one is not decoded again.
_REMEMBERED = 20_000
_READING = frozenset(field.name for field in fields(Reading))
_SAMPLE = frozenset(field.name for field in fields(TriggerSample))


@dataclass(frozen=True, slots=True)
class ReadingsStored:
    """refused: keys whose stored reading is newer. notifications: to be sent by the caller."""

    refused: frozenset[str]
    notifications: int


class Readings:
    """One hash of readings, by the object's key.

    Every call raises redis.exceptions.RedisError when the broker refuses or cannot be reached.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._hash = f"{keys.tag}:readings"
        self._generation = keys.generation
        self._known: TurnCache[str, tuple[bytes, Reading]] = TurnCache(_REMEMBERED)

    async def get_many(self, keys: Iterable[str]) -> list[Reading | None]:
        """Returns the readings of these objects in their order, None for a missing one; one round trip.

        A reading from before the broker lost data counts as missing: what was decided on it since may be lost, and
        deciding on it once more could create the same Jobs again.
        """
        wanted = list(keys)
        if not wanted:
            return []

        async def read() -> tuple[list[bytes | None], bytes | None]:
            asked = [("HMGET", self._hash, *wanted), ("GET", self._generation)]
            values, generation = await together(self._client, asked)
            return values, generation

        values, generation = await readable(self._client, [self._hash, self._generation], read)
        began = Keys.began(generation)
        return [self._reading(key, value, began) if value else None for key, value in zip(wanted, values, strict=True)]

    def _reading(self, key: str, value: bytes, began: int) -> Reading | None:
        """Returns a stored reading, None for one from before `began` (µs); one that is known is not decoded again."""
        known = self._known.used(key)
        if known and known[0] == value and known[1].started >= began:
            return known[1]
        return _decoded(key, value, began)

    async def hand_over(
        self,
        readings: Mapping[str, Reading],
        lane: Lane,
        outcomes: Sequence[tuple[Lease, Outcome]],
        polled: Lane,
        *,
        news: Collection[str] = (),
    ) -> tuple[ReadingsStored, Finished]:
        """Stores readings, marks the keys in `news`, and settles the leases of the polls: all of a script or nothing.

        A reading with a lower id than the stored one comes from a poll that lost its lease: it is refused, and its key
        not marked. outcomes: of the leases, one per reading and in their order. polled: the lane of the leases.
        """
        refused: set[str] = set()
        stale: list[Lease] = []
        notifications = finishing = 0
        keys = list(readings)
        for first in range(0, len(keys), PIECE):
            piece = keys[first : first + PIECE]
            args = self._stored_as({key: readings[key] for key in piece}, lane, news)
            call = polled.finishing(outcomes[first : first + PIECE])
            stored, answer = await _STORE_AND_FINISH(
                self._client, ((self._hash, *lane.keys.all()), args), (call.keys, call.args)
            )
            finished = call.finished(answer)
            refused.update(piece[place] for place in stored[1:])
            stale += finished.stale
            notifications += stored[0]
            finishing += finished.notifications
        return ReadingsStored(frozenset(refused), notifications), Finished(tuple(stale), finishing)

    def _stored_as(self, readings: Mapping[str, Reading], lane: Lane, news: Collection[str]) -> list[Arg]:
        """Returns the arguments of the script that stores these readings."""
        args: list[Arg] = ["", lane.slots]
        for key, reading in readings.items():
            text = orjson.dumps(reading)
            args += (key, reading.id, "1" if key in news else "0", text)
            self._known.keep(key, (b"%d %b" % (reading.id, text), reading))
        return args

    async def drop(self, keys: Iterable[str]) -> None:
        """Deletes the readings of these objects."""
        if unwanted := list(keys):
            await self._client.hdel(self._hash, *unwanted)
            for key in unwanted:
                self._known.pop(key, None)


def _decoded(key: str, value: bytes, began: int) -> Reading | None:
    """Decodes a reading; None for one in the format of another version, and for one from before `began` (µs)."""
    try:
        body: dict[str, Any] = orjson.loads(value.partition(b" ")[2])
        if body["started"] < began:
            return None
        samples = tuple(TriggerSample(**_known(sample, _SAMPLE)) for sample in body.get("samples", ()))
        ledger = claims.ledger(body["ledger"]) if body.get("ledger") else None
        return Reading(**{**_known(body, _READING), "samples": samples, "ledger": ledger})
    except (AttributeError, KeyError, TypeError, ValueError):
        log.warning("a reading that cannot be read counts as none", extra={"key": key})
        return None


def _known(body: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name in names}
