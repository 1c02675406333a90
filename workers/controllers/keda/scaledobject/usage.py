"""Triggers `cpu` and `memory`: usage of the target's pods, and the replicas it proposes.

The arithmetic is a HorizontalPodAutoscaler's: pods that are not ready or not yet measured may only dampen a change, and
never reverse its direction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Literal

from scheduler.cron import durations
from scheduler.cron.errors import CronError
from workers.api import conditions, quantities, times
from workers.api.keda.scaledjob import TriggerSpec
from workers.api.keda.scaledobject import is_resource
from workers.api.kinds import Object
from workers.controllers.keda.scaledobject.trigger_metrics import Tolerance
from workers.decision.plan import Figure
from workers.decision.snapshot import Scalable
from workers.errors import PenstockError

#: Time after a pod's start in which its CPU usage may still be that of its start.
INITIALIZATION = timedelta(minutes=5)
#: Time after its start in which a pod that never was ready counts as starting.
INITIAL_READINESS = timedelta(seconds=30)


class Unmeasured(PenstockError):  # noqa: N818 - as workers.errors.Unavailable
    """The usage of the pods is unknown; the message says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The target of a trigger: percent of the requests, or billionths per pod. container: empty means all."""

    resource: str
    kind: Literal["Utilization", "AverageValue"]
    target: int
    container: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredPod:
    """One pod that counts. ready: not still starting. used, requested: billionths; used is None where unmeasured."""

    ready: bool
    used: int | None
    requested: int


@dataclass(frozen=True, slots=True)
class PodUsage:
    """One metric of the pods. value, target: percent or units. error: the reason that there is no value."""

    name: str
    asked: Asked
    pods: tuple[MeasuredPod, ...] = ()
    error: str | None = None

    @property
    def kind(self) -> str:
        return self.asked.kind

    @property
    def target(self) -> float:
        return self.asked.target if self.asked.kind == "Utilization" else self.asked.target / 1e9

    @property
    def value(self) -> float:
        """Returns the value of the measured pods that are not starting."""
        measured = [(pod.used, pod.requested) for pod in self.pods if pod.ready and pod.used is not None]
        ratio = _ratio(self.asked, measured)
        return float(ratio * self.asked.target) / (1 if self.asked.kind == "Utilization" else 1e9)

    def proposal(self, current: int, tolerance: Tolerance) -> int | None:
        """Returns the proposed replicas, None if the usage is unknown."""
        return None if self.error is not None else _proposal(self.asked, self.pods, current, tolerance)


def asked(trigger: TriggerSpec) -> Asked:
    """Returns the target of a valid trigger."""
    kind: Literal["Utilization", "AverageValue"] = (
        "Utilization" if trigger.metric_type == "Utilization" else "AverageValue"
    )
    text = trigger.metadata["value"]
    target = int(text) if kind == "Utilization" else quantities.parse(text)
    return Asked(trigger.type, kind, target, trigger.metadata.get("containerName") or "")


def of(triggers: Iterable[TriggerSpec], scale: Scalable, now: datetime) -> tuple[PodUsage, ...]:
    """Returns the metrics of those triggers that are of pod usage, in their order."""
    found = []
    for trigger in filter(is_resource, triggers):
        wanted = asked(trigger)
        name = f"{trigger.type} of container {wanted.container}" if wanted.container else trigger.type
        try:
            found.append(PodUsage(name, wanted, _pods(wanted, scale, now)))
        except Unmeasured as error:
            found.append(PodUsage(name, wanted, error=str(error)))
    return tuple(found)


def _pods(wanted: Asked, scale: Scalable, now: datetime) -> tuple[MeasuredPod, ...]:
    """Returns the pods that count. Raises Unmeasured if their usage is unknown or a request is missing."""
    if scale.usage is None:
        raise Unmeasured(scale.usage_error or "nothing was measured")
    pods = []
    for body in scale.pods:
        requested = _requested(wanted, body) if wanted.kind == "Utilization" else 0
        if body["metadata"].get("deletionTimestamp") or (body.get("status") or {}).get("phase") == "Failed":
            continue
        metrics = scale.usage.get(body["metadata"]["name"])
        used = None if metrics is None else _used(wanted, metrics)
        pods.append(MeasuredPod(_is_ready(wanted, body, metrics, now), used, requested))
    if not any(pod.ready and pod.used is not None for pod in pods):
        raise Unmeasured("no pod that has started was measured yet" if pods else "there are no pods")
    return tuple(pods)


def _is_ready(wanted: Asked, pod: Object, metrics: Object | None, now: datetime) -> bool:
    """Returns False for a starting pod, whose usage does not yet show its later one."""
    status = pod.get("status") or {}
    if status.get("phase") == "Pending":
        return False
    if wanted.resource != "cpu" or metrics is None:
        return True
    condition, started = conditions.find(pod, "Ready"), times.instant(status.get("startTime"))
    if condition is None or started is None:
        return False
    ready, changed = condition["status"] != "False", times.instant(condition.get("lastTransitionTime")) or started
    if now < started + INITIALIZATION:
        measured = times.instant(metrics.get("timestamp")) or now
        return ready and measured >= changed + _window(metrics)
    return ready or changed >= started + INITIAL_READINESS


def _requested(wanted: Asked, pod: Object) -> int:
    # Requests of the pod as a whole take the place of its containers', as for the HorizontalPodAutoscaler.
    whole = (pod["spec"].get("resources") or {}).get("requests")
    if whole and not wanted.container:
        if not (amount := quantities.parse(str(whole.get(wanted.resource) or 0))):
            raise Unmeasured(f"pod {pod['metadata']['name']} requests no {wanted.resource} as a whole")
        return amount
    total = 0
    for container in pod["spec"].get("containers") or ():
        if wanted.container and container["name"] != wanted.container:
            continue
        resources = container.get("resources") or {}
        # The API server turns a limit without a request into a request.
        text = (resources.get("requests") or {}).get(wanted.resource) or (resources.get("limits") or {}).get(
            wanted.resource
        )
        if not text or not quantities.parse(str(text)):
            name = pod["metadata"]["name"]
            raise Unmeasured(f"container {container['name']} of pod {name} requests no {wanted.resource}")
        total += quantities.parse(str(text))
    if not total:
        raise Unmeasured(f"pod {pod['metadata']['name']} has no container {wanted.container}")
    return total


def _used(wanted: Asked, metrics: Object) -> int | None:
    """Returns the usage of a pod, None if one of its containers was not measured."""
    total, found = 0, False
    for container in metrics.get("containers") or ():
        if wanted.container and container["name"] != wanted.container:
            continue
        text = (container.get("usage") or {}).get(wanted.resource)
        if text is None:
            return None
        total, found = total + quantities.parse(str(text)), True
    if not found and wanted.container:
        name = metrics["metadata"]["name"]
        raise Unmeasured(f"container {wanted.container} was not measured in pod {name}")
    return total if found else None


def _proposal(wanted: Asked, pods: Sequence[MeasuredPod], current: int, tolerance: Tolerance) -> int:
    """Returns a HorizontalPodAutoscaler's proposal; at least one pod is ready and measured."""
    ready = [(pod.used, pod.requested) for pod in pods if pod.ready and pod.used is not None]
    missing = [pod.requested for pod in pods if pod.ready and pod.used is None]
    starting = [pod.requested for pod in pods if not pod.ready]
    ratio, share = _ratio(wanted, ready), wanted.kind == "Utilization"
    up = ratio > 1
    if not missing and not (up and starting):
        return current if tolerance.covers(float(ratio)) else ceil(ratio * len(ready))
    # An unknown usage counts as the one that changes least: none on the way up, all of it on the way down.
    counted = list(ready)
    if up:
        counted += [(0, requested) for requested in (*missing, *starting)]
    elif ratio < 1:
        full = (requested * max(100, wanted.target) // 100 if share else wanted.target for requested in missing)
        counted += zip(full, missing, strict=True)
    else:
        return current
    again = _ratio(wanted, counted)
    if tolerance.covers(float(again)) or (again > 1) != up:
        return current
    proposal = ceil(again * len(counted))
    return max(proposal, current) if up else min(proposal, current)


def _ratio(wanted: Asked, pods: Sequence[tuple[int | None, int]]) -> Fraction:
    """Returns the ratio of usage to target, in whole percents as an autoscaler counts them."""
    used = sum(used or 0 for used, _ in pods)
    if not pods:
        return Fraction(0)
    if wanted.kind == "Utilization":
        return Fraction(used * 100 // sum(requested for _, requested in pods), wanted.target)
    return Fraction(used // len(pods), wanted.target)


def _window(metrics: Mapping[str, object]) -> timedelta:
    """Returns the window of a measurement, 0 for a malformed one."""
    try:
        return durations.duration(str(metrics.get("window") or "0"))
    except CronError:
        return timedelta()


def figures(usages: Sequence[PodUsage]) -> Iterator[Figure]:
    """Yields the value of every metric of the pods."""
    for each in usages:
        if each.error is not None:
            yield Figure(f"{each.name} is not known: {each.error}", 0)
            continue
        per = "% of the requests" if each.kind == "Utilization" else " per pod"
        measured = sum(pod.ready and pod.used is not None for pod in each.pods)
        yield Figure(f"{each.name} (target {each.target:g}{per}, {measured} of {len(each.pods)} pods)", each.value)
