"""Answers about the deliveries of EventJobs, and about everything that is parked."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from deploy.object_rows.row import of_micros
from deploy.page.answers import requests_read
from deploy.page.answers.object_answers import ObjectAnswers
from deploy.page.browser_page import BrowserPage
from deploy.page.page_actions import MOST_ENTRIES, DeliveryChange
from deploy.page.web.web_answers import HttpRefusal, json
from scalers.deliveries.delivery import STATES, Delivery, DeliveryFilter, DeliveryPage, DeliveryState
from workers.api.kinds import EVENT_JOB, SCALED_JOB, Kind
from workers.errors import UserError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

#: Deliveries of one answer, and objects whose parked intake entries are counted.
MOST, INTAKES = 500, 2_000
_TODO = "Look at the reasons, mend them, then replay the events; drop those that no longer matter."
_TODO_ENTRIES = "They are no CloudEvents: look at the field reason of each in the stream, and correct their sender."
_TODO_ITEMS = "Look at the field reason of each in the stream of parked items, and add those again that still matter."
_TODO_UNREADABLE = "Values of the broker that could not be read are set aside for a week: the workers' logs say why."


class DeliveryRecords(Protocol):
    """The part of `scalers.deliveries.deliveries.Deliveries` that the page uses."""

    async def page(
        self, uid: str, filter: DeliveryFilter = ..., after: str | None = None, limit: int = 100
    ) -> DeliveryPage:
        """Returns some deliveries, the newest first."""
        ...

    async def get(self, uid: str, entry: str) -> Delivery | None:
        """Returns a delivery with its data."""
        ...

    async def counts(self, uid: str) -> Any:
        """Returns the deliveries by state, as `workers.api.penstock_dev.eventjob.EventCounts`."""
        ...

    async def replay(self, uid: str, entries: Sequence[str]) -> int:
        """Makes ended deliveries wait again. Returns their number."""
        ...

    async def drop(self, uid: str, entries: Sequence[str]) -> int:
        """Gives deliveries up. Returns their number."""
        ...


def shown(delivery: Delivery, name: str, uid: str) -> dict[str, Any]:
    """Returns a delivery as the page shows it, without its data. name, uid: of its EventJob."""
    event = delivery.attributes
    return {
        "entry": delivery.entry,
        **{name: event.get(name) for name in ("id", "source", "type", "subject", "time")},
        "state": delivery.state,
        "arrived": of_micros(delivery.arrived),
        "due": of_micros(delivery.due) if delivery.state in ("delayed", "retrying") else None,
        "key": delivery.key,
        "job": delivery.job(name, uid),
        "attempts": [
            {"job": each.job, "ended": of_micros(each.ended), "outcome": each.outcome, "reason": each.reason}
            for each in delivery.attempts
        ],
        "reason": delivery.reason,
        "replays": delivery.replays,
    }


#: The number of arrival of a delivery, as `DeliveryPage.after` has it.
_CURSOR = re.compile("[0-9]{1,16}")


class DeliveryAnswers:
    """The answers about deliveries. objects: finds the EventJob of a path."""

    def __init__(self, page: BrowserPage, objects: ObjectAnswers, records: DeliveryRecords) -> None:
        self._page = page
        self._objects = objects
        self._records = records

    async def some(self, request: "Request") -> "Response":
        """`GET …/deliveries`."""
        name, uid = await self._event_job(request)
        given = request.query_params
        states = [state for state in given.getlist("state") if state]
        if unknown := [state for state in states if state not in STATES]:
            raise UserError(f"state: {unknown[0][:40]!r} is none of {', '.join(STATES)}")
        wanted: frozenset[DeliveryState] = frozenset(state for state in STATES if not states or state in states)
        chosen = DeliveryFilter(states=wanted, type=given.get("type") or None)
        limit = requests_read.number(request, "limit", 50, 1, MOST)
        after = given.get("after") or None
        if after is not None and not _CURSOR.fullmatch(after):
            raise UserError("after: not a cursor of this list")
        found = await self._records.page(uid, chosen, after, limit)
        counts = await self._records.counts(uid)
        items = [shown(each, name, uid) for each in found.deliveries]
        return json({"items": items, "next": found.after, "counts": _counts(counts)})

    async def one(self, request: "Request") -> "Response":
        """`GET …/deliveries/{entry}`."""
        name, uid = await self._event_job(request)
        found = await self._records.get(uid, request.path_params["entry"])
        if found is None:
            raise HttpRefusal(404, "there is no such delivery")
        return json({**shown(found, name, uid), "data": found.data})

    async def parked(self, request: "Request") -> "Response":
        """`GET /parked`."""
        await self._page.access.check_read(request, EVENT_JOB)
        await self._page.current()
        # Items of queues are those of ScaledJobs, which the visitor may have no right to list.
        kinds = [EVENT_JOB, *([SCALED_JOB] if await self._page.access.may_read(request, SCALED_JOB) else [])]
        found = [
            _parked(row.kind, row.namespace, row.name, number, None, _TODO if kind is EVENT_JOB else _TODO_ITEMS)
            for kind in kinds
            for row in (each.row for each in self._page.index.of_kind(kind.id))
            if (number := row.numbers.get("parked"))
        ]
        found.sort(key=lambda each: -each["count"])
        found += await self._intakes(kinds)
        if unreadable := await self._page.client.hlen(self._page.store.keys.unreadable):
            found.append({"object": None, "count": unreadable, "oldest": None, "todo": _TODO_UNREADABLE})
        return json(found)

    async def change(self, uid: str, change: DeliveryChange) -> str:
        """Carries an action on deliveries out. Returns the words for what it did."""
        entries = change.entries if change.entries is not None else await self._parked_entries(uid)
        doing = self._records.replay if change.verb == "replay" else self._records.drop
        number = await doing(uid, entries) if entries else 0
        what = f"{number} deliver{'y' if number == 1 else 'ies'}"
        return f"{what} {'replayed' if change.verb == 'replay' else 'dropped'}"

    async def _parked_entries(self, uid: str) -> Sequence[str]:
        """Returns the parked deliveries, at most as many as one action may name."""
        chosen, after = DeliveryFilter(frozenset({"parked"})), None
        found: list[str] = []
        while len(found) < MOST_ENTRIES:
            page = await self._records.page(uid, chosen, after, MOST)
            found += [each.entry for each in page.deliveries]
            after = page.after
            if after is None:
                break
        return found[:MOST_ENTRIES]

    async def _intakes(self, kinds: Sequence[Kind]) -> list[Mapping[str, Any]]:
        """Returns the objects of these kinds whose intake has entries that are no events."""
        rows = [each.row for kind in kinds for each in self._page.index.of_kind(kind.id)][:INTAKES]
        streams = [f"{self._page.keys.tag}:events:{row.namespace}/{row.name}:parked" for row in rows]
        pipeline = self._page.client.pipeline(transaction=False)
        for stream in streams:
            pipeline.xlen(stream)
        lengths = await pipeline.execute(raise_on_error=False)
        found = []
        for row, stream, length in zip(rows, streams, lengths, strict=True):
            if isinstance(length, int) and length:
                oldest: Any = await self._page.client.xrange(stream, count=1)
                since = of_micros(int(oldest[0][0].partition(b"-")[0]) * 1000) if oldest else None
                found.append(_parked(row.kind, row.namespace, row.name, length, since, _TODO_ENTRIES))
        return found

    async def _event_job(self, request: "Request") -> tuple[str, str]:
        """Returns name and uid of the EventJob of the path."""
        ref, body = await self._objects.found(request)
        if ref.kind.id != EVENT_JOB.id:
            raise HttpRefusal(404, f"{ref.kind.kind} has no deliveries")
        return ref.name, str(body["metadata"].get("uid") or "")


def _parked(kind: str, namespace: str, name: str, number: float, oldest: str | None, todo: str) -> Mapping[str, Any]:
    where = {"kind": kind, "namespace": namespace, "name": name}
    return {"object": where, "count": number, "oldest": oldest, "todo": todo}


def _counts(counts: Any) -> Mapping[str, int]:
    """Returns the known counts."""
    names = (*STATES, "filtered", "duplicates")
    values = {name: getattr(counts, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}
