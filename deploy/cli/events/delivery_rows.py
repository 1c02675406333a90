"""Deliveries as tables, as objects for YAML and JSON, and as CloudEvents."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from deploy.cli import output
from penstock import cloudevents
from scalers.deliveries.delivery import Delivery
from workers.api import times
from workers.api.kinds import Object

HEADER = ("ID", "TYPE", "STATE", "ATTEMPTS", "AGE", "REASON")
WIDE = (*HEADER, "SOURCE", "KEY", "DUE", "REPLAYS", "JOB", "ENTRY")
#: Characters of a reason in a table; `-o wide` shows the whole one.
_REASON = 60


def row(delivery: Delivery, now: datetime, *, wide: bool = False, job: str | None = None) -> Sequence[str]:
    """Returns the cells of one delivery. job: of its running attempt."""
    attributes, last = delivery.attributes, delivery.attempts[-1] if delivery.attempts else None
    why = delivery.reason or (last.reason if last else "")
    cells = (
        attributes.get("id", ""),
        attributes.get("type", ""),
        delivery.state,
        str(len(delivery.attempts)),
        output.span(now - _instant(delivery.arrived)),
        why if wide or len(why) <= _REASON else f"{why[: _REASON - 1]}…",
    )
    if not wide:
        return cells
    due = output.span(_instant(delivery.due) - now) if delivery.due else ""
    more = (attributes.get("source", ""), delivery.key or "", due, str(delivery.replays))
    return (*cells, *more, job or (last.job if last else ""), delivery.entry)


def described(delivery: Delivery, job: str | None, *, full: bool = False) -> Object:
    """Returns a delivery as an object.

    job: of its running attempt. full: with its data and further attributes of the event.
    """
    attributes = delivery.attributes
    named = {name: attributes.get(name) for name in ("id", "source", "type", "subject", "time")}
    attempts = [
        {"job": each.job, "ended": _rendered(each.ended), "outcome": each.outcome, "reason": each.reason}
        for each in delivery.attempts
    ]
    found = {
        "entry": delivery.entry,
        **named,
        "state": delivery.state,
        "arrived": _rendered(delivery.arrived),
        "due": _rendered(delivery.due) if delivery.due else None,
        "key": delivery.key,
        "job": job,
        "attempts": attempts,
        "reason": delivery.reason,
        "replays": delivery.replays,
    }
    return {**found, "event": cloud_event(delivery)} if full else found


def cloud_event(delivery: Delivery) -> Object:
    """Returns the event in CloudEvents' JSON format; its data as a JSON value where its media type says so."""
    event: dict[str, Any] = dict(delivery.attributes)
    if delivery.data is None:
        return event
    if delivery.is_base64:
        return {**event, "data_base64": delivery.data}
    is_json = cloudevents.is_json(event.get("datacontenttype", ""))
    return {**event, "data": _value(delivery.data) if is_json else delivery.data}


def json_line(delivery: Delivery) -> str:
    """Returns the event as one line of JSON; numbers in its data keep their digits."""
    event = cloud_event(delivery)
    if delivery.data is not None and not isinstance(event.get("data", ""), str):
        event["data"] = orjson.Fragment(delivery.data)
    # Only the blanks between values can hold them.
    return orjson.dumps(event).decode().translate({0x0A: " ", 0x0D: " "})


def _value(text: str) -> Any:
    try:
        orjson.loads(text)
        # It keeps the digits of numbers of more than 64 bits.
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _instant(micros: int) -> datetime:
    """Returns an instant of the broker's clock; the last one that there is for those beyond it."""
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _rendered(micros: int) -> str:
    return times.render_precisely(_instant(micros))
