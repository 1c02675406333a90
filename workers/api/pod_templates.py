"""The places of pod templates in objects, by kind, and the walk along such a place."""

from collections.abc import Iterator, Mapping
from typing import Any

from workers.api.kinds import (
    CRON_JOB,
    DEPLOYMENT,
    EVENT_JOB,
    JOB,
    JOB_TEMPLATE,
    REPLICA_SET,
    SCALED_JOB,
    SCHEDULED_JOB,
    STATEFUL_SET,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
)

_TASKS = "tasks[].template"
#: By kind id; ``[]`` stands for every item of a list.
_PLACES: Mapping[str, str] = {
    kind.id: place
    for kind, place in (
        *((kind, "spec.template") for kind in (DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET)),
        *((kind, "spec.jobTemplate.spec.template") for kind in (CRON_JOB, EVENT_JOB, SCHEDULED_JOB)),
        (SCALED_JOB, "spec.jobTargetRef.template"),
        *((kind, f"spec.{_TASKS}") for kind in (JOB_TEMPLATE, VC_JOB)),
        (VC_CRON_JOB, f"spec.jobTemplate.spec.{_TASKS}"),
    )
}


def of(kind: Kind, body: Object) -> Iterator[tuple[str, Any]]:
    """Yields the pod templates of an object with their places; none of a kind that has none.

    A template that is missing is None. What is there may be no object: schemas of custom resources let templates
    through unread.
    """
    if place := _PLACES.get(kind.id):
        yield from at(place, body)


def at(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields what is at the place, None where a field is missing, each with its path: ``spec.tasks[1].template``."""
    step, _, rest = place.partition(".")
    field = step.removesuffix("[]")
    inner = value.get(field) if isinstance(value, dict) else None
    found = [(field, inner)]
    if field != step:
        items = inner if isinstance(inner, list) else ()
        found = [(f"{field}[{index}]", item) for index, item in enumerate(items)]
    for path, item in found:
        if rest:
            yield from ((f"{path}.{below}", last) for below, last in at(rest, item))
        else:
            yield path, item
