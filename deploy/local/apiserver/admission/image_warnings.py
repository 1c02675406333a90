"""Warnings about containers that have nothing to run: images are not run on this cluster."""

from collections.abc import Iterator, Mapping
from typing import Any

from deploy.local.image_commands import Images
from workers.api.kinds import (
    CRON_JOB,
    DEPLOYMENT,
    EVENT_JOB,
    JOB,
    JOB_TEMPLATE,
    POD,
    REPLICA_SET,
    SCALED_JOB,
    SCHEDULED_JOB,
    STATEFUL_SET,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
)

_TEMPLATE = "template.spec"
_TASKS = f"tasks[].{_TEMPLATE}"
#: Where an object of a kind has its pod specs; ``[]`` stands for every item of a list.
_POD_SPECS: Mapping[str, str] = {
    kind.id: path
    for kind, path in (
        (POD, "spec"),
        *((kind, f"spec.{_TEMPLATE}") for kind in (DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET)),
        *((kind, f"spec.jobTemplate.spec.{_TEMPLATE}") for kind in (CRON_JOB, EVENT_JOB, SCHEDULED_JOB)),
        (SCALED_JOB, f"spec.jobTargetRef.{_TEMPLATE}"),
        *((kind, f"spec.{_TASKS}") for kind in (JOB_TEMPLATE, VC_JOB)),
        (VC_CRON_JOB, f"spec.jobTemplate.spec.{_TASKS}"),
    )
}


def warned(kind: Kind, body: Object, old: Object | None, images: Images) -> list[str]:
    """Returns one warning per container without a command. old: the version it replaces, whose warnings are known."""
    known = [] if old is None else warned(kind, old, None, images)
    return [text for text in _of_specs(kind, body, images) if text not in known]


def pod_specs(kind: Kind, body: Object) -> Iterator[tuple[str, Object]]:
    """Yields the pod specs of an object, each with its place; none of a kind that has none."""
    if path := _POD_SPECS.get(kind.id):
        yield from ((place, spec) for place, spec in reached(path, body) if isinstance(spec, dict))


def _of_specs(kind: Kind, body: Object, images: Images) -> Iterator[str]:
    for place, spec in pod_specs(kind, body):
        for part in ("initContainers", "containers"):
            for at, container in reached(f"{part}[]", spec):
                if isinstance(container, dict) and (problem := images.problem(container)):
                    yield f"{place}.{at}: {problem}"


def reached(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields what is at the path, and where. Schemas let templates of custom resources through unread."""
    step, _, rest = path.partition(".")
    field = step.removesuffix("[]")
    inner = value.get(field) if isinstance(value, dict) else None
    found = [(field, inner)]
    if field != step:
        items = inner if isinstance(inner, list) else ()
        found = [(f"{field}[{index}]", item) for index, item in enumerate(items)]
    for place, item in found:
        if rest:
            yield from ((f"{place}.{below}", last) for below, last in reached(rest, item))
        else:
            yield place, item
