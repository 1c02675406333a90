"""Small events and templates for tests of `workers.events`."""

from typing import Any

from workers.api.kinds import Object
from workers.api.penstock_dev.eventjob import EventJobSpec
from workers.api.penstock_dev.scheduledjob import RunTemplate
from workers.events.event_scope import EventScope


def event(data: str | None = None, **attributes: str) -> dict[str, str]:
    """An event of type order.placed, as its fields in the broker."""
    fields = {"specversion": "1.0", "id": "4711", "source": "/shop", "type": "order.placed", **attributes}
    return fields if data is None else {**fields, "data": data}


def scope(data: str | None = None, **attributes: str) -> EventScope:
    return EventScope(event(data, **attributes))


def spec(**fields: Any) -> EventJobSpec:
    template = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "worker"}]}}}}
    return EventJobSpec.model_validate({"jobTemplate": template, **fields})


def template(container: Object | None = None, *, pod: Object | None = None, **metadata: Any) -> RunTemplate:
    """A template with one container, and labels and annotations of Job and pod."""
    main = {"name": "main", "image": "worker", **(container or {})}
    inner = {"metadata": metadata, "spec": {"containers": [main], **(pod or {})}}
    return RunTemplate.model_validate({"metadata": metadata, "spec": {"template": inner}})
