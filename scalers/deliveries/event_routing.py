"""Routing: an accepted entry becomes a delivery of an EventJob, or its filter does not take it. Pure."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import orjson

from workers.api import times
from workers.api.penstock_dev.eventjob import EventJobSpec
from workers.events import routing
from workers.events.expressions import ExpressionFailed
from workers.events.routing import NotTaken

#: Characters of a reason that are kept with a parked event.
_QUOTE = 500


@dataclass(frozen=True, slots=True)
class RoutedEvent:
    """An event that becomes a delivery.

    entry: its id in the channel. how: to be taken, or parked at once for a reason. id: of the event. attributes: as
    JSON. content: its data behind `t` (text) or `b` (base64), empty without data. key: its ordering key. dedup: digest
    of the text that tells it from others, empty without one. due: when it may get a Job (µs), 0 for at once.
    """

    entry: str
    how: Literal["take", "park"]
    id: str
    attributes: str
    content: str = ""
    key: str | None = None
    dedup: str = ""
    due: int = 0
    reason: str = ""

    @property
    def arguments(self) -> tuple[str | int, ...]:
        """The arguments of the script `route_events`."""
        key = "" if self.key is None else f"k{self.key}"
        due = self.due or ""
        return (
            *(self.entry, self.how, self.attributes, self.content),
            *(key, self.dedup, due, self.reason, self.id),
        )


def routed(spec: EventJobSpec, entry: str, fields: Sequence[bytes]) -> RoutedEvent | None:
    """Returns the routed event of an accepted entry; None if the filter does not take it."""
    event, problem = decoded(fields)
    data, encoded = event.get("data"), event.get("data_base64")
    content = f"t{data}" if data is not None else f"b{encoded}" if encoded is not None else ""
    attributes = {name: text for name, text in event.items() if name not in ("data", "data_base64")}
    packed, id = orjson.dumps(attributes).decode(), attributes.get("id", "")
    try:
        arrived = times.of_micros(arrival(entry))
        route = routing.route(spec, event, arrived) if problem is None else problem
    except ExpressionFailed as error:
        route = str(error)
    if isinstance(route, NotTaken):
        return None
    if isinstance(route, str):
        return RoutedEvent(entry, "park", id, packed, content, reason=_line(route))
    dedup = "" if route.dedup is None else hashlib.sha1(route.dedup.encode(), usedforsecurity=False).hexdigest()
    return RoutedEvent(entry, "take", id, packed, content, route.key, dedup, _due(spec, entry, route.not_before))


def arrival(entry: str) -> int:
    """Returns when the channel took this entry (µs, broker's clock)."""
    return int(entry.partition("-")[0]) * 1000


def decoded(fields: Sequence[bytes]) -> tuple[dict[str, str], str | None]:
    """Returns an entry as an event, and why it cannot be routed.

    Data that are not UTF-8 become `data_base64`; the names and texts of other attributes have to be UTF-8.
    """
    event: dict[str, str] = {}
    problem = None
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        try:
            event[name.decode()] = value.decode()
        except UnicodeDecodeError:
            if name == b"data":
                event["data_base64"] = b64encode(value).decode()
                continue
            plain = name.decode(errors="backslashreplace")
            event[plain] = value.decode(errors="backslashreplace")
            problem = f"event.{plain}: is not UTF-8"
    return event, problem


def _due(spec: EventJobSpec, entry: str, not_before: datetime | None) -> int:
    delayed = arrival(entry) + spec.delay_seconds * 1_000_000 if spec.delay_seconds else 0
    return max(delayed, round(not_before.timestamp() * 1_000_000) if not_before else 0)


def _line(text: str) -> str:
    return " ".join(text.split())[:_QUOTE]
