"""A ScaledObject's status, computed whole, and the Events that tell of its changes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from workers.api import times
from workers.api.kinds import Object
from workers.controllers.keda import Condition, activity
from workers.controllers.scaledobject.memory import Memory
from workers.plan import Record
from workers.snapshot import Sample, Scalable

_UNKNOWN = Condition("Unknown")
_NOT_PAUSED = Condition("False")
_TYPES = ("Ready", "Active", "Fallback", "Paused")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The four conditions, in KEDA's order. The defaults are what it writes first. HPAActive there never is."""

    ready: Condition = _UNKNOWN
    active: Condition = _UNKNOWN
    fallback: Condition = _UNKNOWN
    paused: Condition = _NOT_PAUSED

    @classmethod
    def observed(cls, body: Object) -> Self:
        """The conditions an object carries; those it lacks are as at first."""
        found: dict[str, Condition] = {}
        for each in (body.get("status") or {}).get("conditions") or ():
            if each.get("type") in _TYPES:
                texts = (each.get("status", "Unknown"), each.get("reason") or "", each.get("message") or "")
                found[each["type"].lower()] = Condition(*texts)
        return cls(**found)

    def render(self) -> list[Object]:
        return [getattr(self, type_.lower()).render(type_) for type_ in _TYPES]

    def failing(self, message: str, reason: str = "ScaledObjectCheckFailed") -> "Conditions":
        """Nothing can be done: the manifest, its target, or something else it needs is wrong."""
        active = Condition("Unknown", "UnknownState", "the triggers are not acted on")
        return replace(self, ready=Condition("False", reason, message), active=active)

    def pausing(self) -> "Conditions":
        """The user paused scaling."""
        return replace(
            self,
            ready=Condition("True", "ScaledObjectReady", "defined correctly; paused, so scaling is skipped"),
            paused=Condition("True", "ScaledObjectPaused", "paused by annotation"),
        )

    def resumed(self) -> "Conditions":
        """Not paused, or not any more; one that never was keeps the condition it began with."""
        if self.paused.status != "True":
            return self
        return replace(self, paused=Condition("False", "ScaledObjectUnpaused", "not paused any more"))

    def acting(self, active: bool, cooling: bool) -> "Conditions":
        """Whether something is active, and if not whether the cooldown still holds the replicas."""
        if active:
            condition = Condition("True", "ScalerActive", "scaling is done because a trigger is active")
        elif cooling:
            condition = Condition(
                "False", "ScalerCooldown", "no trigger is active; replicas stay until the cooldown ends"
            )
        else:
            condition = Condition("False", "ScalerNotActive", "scaling is not done because no trigger is active")
        return replace(self, active=condition)

    def standing_in(self, metrics: Sequence[str]) -> "Conditions":
        """The metrics that failed more often than the fallback bears."""
        if metrics:
            text = f"a fallback stands in for {', '.join(metrics)}"
            return replace(self, fallback=Condition("True", "FallbackExists", text))
        return replace(self, fallback=Condition("False", "NoFallbackFound", "no fallback stands in"))

    def measured(self, problems: str, partly: bool) -> "Conditions":
        """What could not be measured, empty if nothing; partly: something else is active."""
        if not problems:
            ready = Condition("True", "ScaledObjectReady", "defined correctly and ready to scale")
        elif partly:
            ready = Condition("Unknown", "PartialTriggerError", f"some triggers do not work: {problems}")
        else:
            ready = Condition("False", "TriggerError", f"the triggers do not work: {problems}")
        return replace(self, ready=ready)


def targeted(observed: Object, scale: Scalable) -> Object:
    """The fields that follow from the target; its first replica count is kept for ever."""
    if scale.ref is None:
        return {}
    kind = scale.ref.kind
    return {
        "scaleTargetKind": f"{kind.api_version}.{kind.kind}",
        "scaleTargetGVKR": {
            "group": kind.group,
            "version": kind.version,
            "kind": kind.kind,
            "resource": kind.plural,
        },
        "originalReplicaCount": observed.get("originalReplicaCount", scale.replicas),
    }


def measured(observed: Object, samples: Sequence[Sample], memory: Memory) -> Object:
    """The fields that follow from a reading. What could not be measured keeps what was known of its activity."""
    return {
        "externalMetricNames": [sample.name for sample in samples],
        **activity(observed, samples),
        "health": {sample.name: _health(sample) for sample in samples},
        "memory": memory.render(),
    }


def _health(sample: Sample) -> Object:
    """Failures in a row; only an object with a fallback counts beyond the first."""
    if sample.error is None:
        return {"numberOfFailures": 0, "status": "Happy"}
    return {"numberOfFailures": max(1, sample.failures), "status": "Failing"}


def instant(text: object) -> datetime | None:
    """The instant a field of the status names, or None."""
    try:
        return times.parse(str(text or ""))
    except ValueError:
        return None


def events(before: Conditions, after: Conditions, samples: Iterable[Sample] = ()) -> Iterator[Record]:
    """What to tell about the way from one state to the next; nothing when nothing changed."""
    if after.ready != before.ready:
        yield from _readiness(before.ready, after.ready, samples)
    if after.fallback.status != before.fallback.status:
        if after.fallback.status == "True":
            yield Record("Warning", "ScaledObjectFallbackActivated", after.fallback.message)
        elif before.fallback.status == "True":
            yield Record("Normal", "ScaledObjectFallbackDeactivated", "Every trigger is measured again")
    if after.paused.status != before.paused.status:
        if after.paused.status == "True":
            yield Record("Normal", "ScaledObjectPaused", "Scaling is paused")
            yield Record("Normal", "KEDAScalersStopped", "Triggers are not measured any more")
        else:
            yield Record("Normal", "ScaledObjectUnpaused", "Scaling goes on")


def _readiness(before: Condition, after: Condition, samples: Iterable[Sample]) -> Iterator[Record]:
    if after.reason in ("ScaledObjectCheckFailed", "ErrorGettingCurrentReplicas"):
        yield Record("Warning", "ScaledObjectCheckFailed", after.message)
    if after.status == "True" and before.status != "True":
        if before == _UNKNOWN:
            yield Record("Normal", "KEDAScalersStarted", "Triggers are being measured")
        yield Record("Normal", "ScaledObjectReady", "The ScaledObject is ready to scale")
    for sample in samples:
        if sample.error is not None:
            yield Record("Warning", "KEDAScalerFailed", f"{sample.name}: {sample.error}")
