"""Deliberate differences that an object's content shows: which fields, what happens elsewhere and here.

What holds for every object of a kind is not repeated for each: `GENERAL` names the page that lists it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from scheduler import cron
from workers.api.keda_compat import FLAGS, Quirk
from workers.api.kinds import (
    CRON_JOB,
    JOB_FLOW,
    POD_GROUP,
    QUEUE,
    SCALED_JOB,
    SCALED_OBJECT,
    VC_JOB,
    Kind,
    Object,
)

#: Seconds between two questions of KEDA's autoscaler.
_AUTOSCALER = 15
#: KEDA's default of `pollingInterval`, seconds.
_POLLING = 30
_VOLCANO = "docs/volcano.md"

#: By kind id, the page with what differs for every object of the kind.
GENERAL: Mapping[str, str] = {
    SCALED_JOB.id: "docs/beyond-keda.md",
    SCALED_OBJECT.id: "docs/scaledobject.md",
    CRON_JOB.id: "docs/scheduledjob.md",
    VC_JOB.id: _VOLCANO,
    QUEUE.id: _VOLCANO,
    POD_GROUP.id: _VOLCANO,
    JOB_FLOW.id: "docs/flows.md",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One difference that an object shows.

    field: its path. text: there and here. advice: what to do, if anything. quirk: the flag that takes it away.
    """

    field: str
    text: str
    advice: str = ""
    quirk: Quirk | None = None


def of(kind: Kind, body: Object, quirks: Collection[Quirk]) -> list[Shown]:
    """Returns the differences that the object's content shows. quirks: the flags that are set. Pure."""
    found = (each for rule in _RULES.get(kind.id, ()) for each in rule(body))
    return [each for each in found if each.quirk not in quirks]


def flag(field: str, quirk: Quirk) -> Shown:
    """Returns the difference that a flag of PENSTOCK_KEDA_QUIRKS takes away."""
    row = FLAGS[quirk]
    text = f"KEDA: {row.keda}. Here: {row.penstock}"
    return Shown(field, text, f"PENSTOCK_KEDA_QUIRKS={quirk} keeps KEDA's way", quirk)


def _triggers(body: Object) -> Iterator[tuple[str, Object]]:
    found = (body.get("spec") or {}).get("triggers")
    for index, trigger in enumerate(found if isinstance(found, list) else ()):
        if isinstance(trigger, dict):
            yield f"spec.triggers[{index}]", trigger


def _of_triggers(body: Object) -> Iterator[Shown]:
    for path, trigger in _triggers(body):
        metadata = trigger.get("metadata") or {}
        if trigger.get("type") == "rabbitmq" and metadata.get("operation") == "avg":
            yield flag(f"{path}.metadata.operation", "integer-average")
        if trigger.get("type") == "metrics-api" and metadata.get("aggregateFromKubeServiceEndpoints") == "true":
            yield flag(f"{path}.metadata.aggregateFromKubeServiceEndpoints", "partial-aggregation")


def _of_scaled_job(body: Object) -> Iterator[Shown]:
    spec = body["spec"]
    if (spec.get("scalingStrategy") or {}).get("strategy") == "custom" and spec.get("minReplicaCount"):
        yield Shown(
            "spec.scalingStrategy.strategy",
            "KEDA: caps the new Jobs alone, and a minimum above the maximum doubles it. Here: maxReplicaCount limits"
            " the unfinished Jobs with every strategy",
        )


def _of_scaled_object(body: Object) -> Iterator[Shown]:
    spec = body["spec"]
    interval = spec.get("pollingInterval", _POLLING)
    for path, trigger in _triggers(body):
        if trigger.get("metricType") == "Value":
            yield flag(f"{path}.metricType", "ready-pods-only")
        asked = trigger.get("type") not in ("cpu", "memory", "cron") and not trigger.get("useCachedMetrics")
        if asked and isinstance(interval, int) and interval > _AUTOSCALER:
            yield Shown(
                path,
                f"KEDA: its autoscaler asks the source every {_AUTOSCALER} s. Here: only polls do, every {interval} s",
                f"spec.pollingInterval: {_AUTOSCALER} measures as often",
            )
    fallback = spec.get("fallback") or {}
    modifiers = (spec.get("advanced") or {}).get("scalingModifiers") or {}
    if modifiers.get("metricType") == "Value":
        yield flag("spec.advanced.scalingModifiers.metricType", "ready-pods-only")
    if fallback.get("replicas") == 0:
        yield flag("spec.fallback.replicas", "zero-fallback-activates")
    if fallback and not _whole(modifiers.get("target")):
        yield flag("spec.fallback", "whole-fallback-targets")


def _whole(target: object) -> bool:
    try:
        return not target or float(str(target)).is_integer()
    except ValueError:
        return True


def _of_cron_job(body: Object) -> Iterator[Shown]:
    spec = body.get("spec") or {}
    deadline, interval = spec.get("startingDeadlineSeconds"), _interval(spec.get("schedule"))
    if deadline == 0:
        yield Shown(
            "spec.startingDeadlineSeconds",
            "Kubernetes: 0 never runs. Here: lateness is measured in whole seconds, and the deadline itself is in time",
        )
    elif isinstance(deadline, int) and interval and deadline < interval.total_seconds():
        yield Shown(
            "spec.startingDeadlineSeconds",
            "Kubernetes: an @every with a shorter deadline never runs: it counts from the beginning of the deadline."
            " Here: it keeps its rhythm",
        )


def _interval(schedule: object) -> timedelta | None:
    """Returns the time between two slots of an ``@every``; None for others, and for what is no schedule."""
    try:
        return cron.parse(schedule).interval if isinstance(schedule, str) else None
    except cron.CronError:
        return None


def _of_pod_group(body: Object) -> Iterator[Shown]:
    if not (body.get("spec") or {}).get("minResources"):
        yield Shown(
            "spec.minResources",
            "Volcano: a group without them is admitted unchecked. Here: the requests of its pods count",
        )


_RULES: Mapping[str, Sequence[Callable[[Object], Iterator[Shown]]]] = {
    SCALED_JOB.id: (_of_scaled_job, _of_triggers),
    SCALED_OBJECT.id: (_of_scaled_object, _of_triggers),
    CRON_JOB.id: (_of_cron_job,),
    POD_GROUP.id: (_of_pod_group,),
}
