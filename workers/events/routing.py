"""The route of an event: whether an EventJob takes it, in which order, and not before when."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from workers.api.penstock_dev.eventjob import EventJobSpec
from workers.events import expressions, filters, not_before
from workers.events.event_scope import EventScope
from workers.events.expressions import ExpressionFailed


@dataclass(frozen=True, slots=True)
class Route:
    """An event that becomes a delivery.

    key: its ordering key, None without one. dedup: the text that tells the same event again, None without one.
    not_before: the instant that the event itself names, aware and in UTC; the spec's delay is counted from its arrival
    beside it.
    """

    key: str | None
    dedup: str | None
    not_before: datetime | None


@dataclass(frozen=True, slots=True)
class NotTaken:
    """An event that the filter does not take."""


_NOT_TAKEN = NotTaken()


def route(spec: EventJobSpec, event: Mapping[str, str], arrived: datetime) -> Route | NotTaken:
    """Returns the route of an event. Raises ExpressionFailed where the event gives an expression no usable result.

    event: its attributes, and `data` or `data_base64`, as docs/events.md has them. arrived: when the channel took it.
    """
    scope = EventScope(event)
    if spec.filter is not None and not filters.matches(spec.filter, scope):
        return _NOT_TAKEN
    ordering, dedup = spec.concurrency.ordering_key, spec.dedup.key
    return Route(
        None if ordering is None else expressions.value(ordering, scope, "spec.concurrency.orderingKey"),
        None if dedup is None else expressions.value(dedup, scope, "spec.dedup.key"),
        _not_before(event, arrived),
    )


def problems(spec: EventJobSpec) -> Iterator[tuple[str, str]]:
    """Yields field and problem of every expression and filter of the spec that can never be evaluated."""
    if spec.filter is not None:
        yield from filters.problems(spec.filter)
    for field, text in (
        ("spec.concurrency.orderingKey", spec.concurrency.ordering_key),
        ("spec.dedup.key", spec.dedup.key),
    ):
        if text is not None and (problem := expressions.check(text)):
            yield field, problem


def _not_before(event: Mapping[str, str], arrived: datetime) -> datetime | None:
    try:
        return not_before.of(event, arrived)
    except ValueError as error:
        raise ExpressionFailed(f"event.{not_before.NAME}", str(error)) from None
