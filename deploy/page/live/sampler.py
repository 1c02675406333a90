"""The sampler: points of objects with a depth, and new decisions on objects that visitors watch."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import orjson
from redis.exceptions import RedisError

from deploy.object_rows import derivation
from deploy.object_rows.row import Row, of_micros
from deploy.page.live.broadcast import Broadcast
from deploy.page.live.row_index import RowIndex
from deploy.page.live.series import OBJECTS, AllSeries, Point
from workers.api import times
from workers.api.kinds import SCALED_JOB, SCALED_OBJECT, Ref
from workers.decision.snapshot import Reading
from workers.json_logs import Outage
from workers.reconcile.decision_log import LoggedDecision

log = logging.getLogger(__name__)

#: Seconds between two looks at the objects on somebody's screen, and between two at all of them.
WATCHED, ALL = 2.0, 10.0
#: The triggers that an autoscaler of running pods measures: no depth.
_USAGE = frozenset({"cpu", "memory"})
#: Objects of one round trip.
_PIECE = 500
#: Kinds whose depth is in a reading; an EventJob's is in its status.
_READ = frozenset({SCALED_JOB.id, SCALED_OBJECT.id})


class ReadingSource(Protocol):
    """The part of `workers.handoff.readings.Readings` that the sampler uses."""

    async def get_many(self, keys: Iterable[str]) -> list[Reading | None]: ...


def depth(reading: Reading | None, uid: str) -> float | None:
    """Returns the events that wait according to a reading; None if it is of another object or a trigger failed."""
    if reading is None or reading.problem or reading.uid not in ("", uid):
        return None
    samples = [sample for sample in reading.samples if sample.type not in _USAGE]
    if not samples or any(sample.error is not None for sample in samples):
        return None
    return sum(max(0.0, sample.value) for sample in samples)


def parked(reading: Reading | None, uid: str) -> int | None:
    """Returns the items that are parked beside a queue, 0 where none are claimed; None where that is not known."""
    if reading is None or reading.uid not in ("", uid):
        return None
    if reading.ledger is None:
        return 0
    return (reading.ledger.counts or {}).get("parked")


def point(row: Row, waiting: float | None, now: datetime) -> Point:
    """Returns the point of a row at this moment. waiting: from its reading, where its row does not say."""
    numbers = row.numbers
    known = {name: numbers.get(name) for name in ("pending", "running", "done")}
    return Point(now.timestamp(), numbers.get("waiting") if waiting is None else waiting, **known)


def decision_json(decision: LoggedDecision) -> Mapping[str, object]:
    """Returns a decision as the page shows it."""
    figures = [{"name": each.name, "value": each.value, "how": each.how} for each in decision.figures]
    return {
        "at": of_micros(decision.at),
        "times": decision.times,
        "why": decision.why,
        "figures": figures,
        "did": decision.did,
        "failed": decision.failed,
    }


def point_json(found: Point) -> dict[str, object]:
    """Returns a point's numbers; whole ones without a fraction."""
    values = {name: getattr(found, name) for name in ("waiting", "pending", "running", "done")}
    return {name: int(value) if value is not None and value == int(value) else value for name, value in values.items()}


class Sampler:
    """Takes points of rows and readings while the page is open, and sends those of watched objects.

    decisions: returns an object's decisions, newest first. changed: gets the rows whose depth is another now.
    pipeline: returns the state of the pipeline as JSON. now: the wall clock.
    """

    def __init__(
        self,
        index: RowIndex,
        series: AllSeries,
        broadcast: Broadcast,
        readings: ReadingSource,
        decisions: Callable[[Ref], Awaitable[Sequence[LoggedDecision]]],
        *,
        looked_at: Callable[[], bool],
        changed: Callable[[list[Row], list[Row]], None],
        pipeline: Callable[[], Awaitable[bytes]],
        now: Callable[[], datetime],
    ) -> None:
        self._index = index
        self._series = series
        self._broadcast = broadcast
        self._readings = readings
        self._decisions = decisions
        self._looked_at = looked_at
        self._changed = changed
        self._pipeline = pipeline
        self._now = now
        # By key of a watched object, the newest decision that was sent.
        self._sent: dict[str, tuple[int, int]] = {}

    async def run(self) -> None:
        """Samples until cancelled."""
        outage, turns = Outage(log), 0
        while True:
            if self._looked_at():
                try:
                    watched = self.watched()
                    everything = not turns % round(ALL / WATCHED)
                    await self.sample(self._with_depth() if everything else watched, watched)
                    await self.send_decisions(watched)
                    if "pipeline" in self._broadcast.topics:
                        self._broadcast.publish(("pipeline",), "pipeline", await self._pipeline())
                except (RedisError, OSError) as error:
                    outage.lasts("readings and decisions cannot be read", error=str(error))
                else:
                    outage.over("readings and decisions can be read again")
            turns += 1
            await asyncio.sleep(WATCHED)

    def watched(self) -> list[Row]:
        """Returns the rows of the objects that visitors watch by themselves."""
        found = []
        for topic in self._broadcast.topics:
            word, _, key = topic.partition(":")
            if word == "more" and (row := self._row(key)):
                found.append(row)
        return found

    async def sample(self, rows: Sequence[Row], watched: Sequence[Row]) -> None:
        """Takes a point of these rows that have a depth, and sends those of watched ones."""
        rows = [row for row in rows if derivation.SHOWN[row.kind].depth][:OBJECTS]
        now = self._now()
        shown = {_key(row) for row in watched}
        for first in range(0, len(rows), _PIECE):
            piece = rows[first : first + _PIECE]
            asked = [_key(row) for row in piece if row.kind in _READ]
            readings = dict(zip(asked, await self._readings.get_many(asked), strict=True))
            points = {
                _key(row): point(row, depth(readings.get(_key(row)), row.uid), now)
                for row in piece
                if self._index.get(row.kind, row.namespace, row.name)
            }
            self._series.add(points)
            self._show_numbers(piece, points, readings)
            for row in piece:
                if (found := points.get(_key(row))) and _key(row) in shown:
                    data = {"object": _object(row), "at": times.render_precisely(now), **point_json(found)}
                    self._broadcast.publish((f"more:{_key(row)}",), "point", orjson.dumps(data))

    def _show_numbers(
        self, rows: Sequence[Row], points: Mapping[str, Point], readings: Mapping[str, Reading | None]
    ) -> None:
        """Adds the depths of readings to the rows, and the items that are parked."""
        news = []
        for row in rows:
            found = points.get(_key(row))
            if found is None or row.kind not in _READ:
                continue
            numbers = {"waiting": point_json(found)["waiting"], "parked": parked(readings.get(_key(row)), row.uid)}
            known = {
                name: number
                for name, number in numbers.items()
                if number is not None and (number or name != "parked" or "parked" in row.numbers)
            }
            if known and self._index.with_numbers(row.kind, row.namespace, row.name, known):  # type: ignore[arg-type]
                news.append(row)
        if news:
            self._changed(news, [])

    async def send_decisions(self, watched: Sequence[Row]) -> None:
        """Sends the decisions on these rows that were made since the last call, the oldest first.

        Of a row that was not watched before it sends the newest one: what was decided between the watcher's first
        look and this one is not lost.
        """
        sent, self._sent = self._sent, {}
        for row in watched:
            key = _key(row)
            made = [each for each in await self._decisions(_ref(row)) if each.uid == row.uid]
            before = sent.get(key)
            if made:
                self._sent[key] = (made[0].at, made[0].times)
            for each in reversed(made if before else made[:1]):
                if before is None or (each.at, each.times) > before:
                    data = {**decision_json(each), "object": _object(row)}
                    self._broadcast.publish((f"more:{key}",), "decision", orjson.dumps(data))

    def _with_depth(self) -> list[Row]:
        kinds = [kind_id for kind_id, each in derivation.SHOWN.items() if each.depth]
        return [found.row for kind_id in kinds for found in self._index.of_kind(kind_id)]

    def _row(self, key: str) -> Row | None:
        kind, _, rest = key.partition("/")
        namespace, _, name = rest.partition("/")
        found = self._index.get(kind, namespace, name)
        return found.row if found else None


def _key(row: Row) -> str:
    return f"{row.kind}/{row.namespace}/{row.name}"


def _ref(row: Row) -> Ref:
    return Ref(derivation.SHOWN[row.kind].kind, row.namespace, row.name)


def _object(row: Row) -> dict[str, str]:
    return {"kind": row.kind, "namespace": row.namespace, "name": row.name}
