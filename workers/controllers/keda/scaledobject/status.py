"""Status of a ScaledObject, computed whole and written once, and the Events of its changes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from workers.api.keda.scaledobject import ScaledObject
from workers.api.kinds import Object
from workers.controllers.keda import status as keda
from workers.controllers.keda.scaledobject.behavior import ScalingMemory
from workers.controllers.keda.status import KedaCondition, KedaStatus, activity_fields, spec_fields
from workers.decision.plan import PatchStatus, RecordEvent, Step
from workers.decision.snapshot import Reading, Scalable, TriggerSample


@dataclass(frozen=True, slots=True)
class ScaledObjectConditions(keda.KedaConditions):
    """KEDA's conditions of a ScaledObject, without HPAActive."""

    KIND = "ScaledObject"

    def failed(self, message: str, reason: str = "ScaledObjectCheckFailed") -> "ScaledObjectConditions":
        """Returns the conditions of an object on which the controller cannot act."""
        active = KedaCondition("Unknown", "UnknownState", "the triggers are not acted on")
        return replace(self, ready=KedaCondition("False", reason, message), active=active)

    def unreadable(self, scale: Scalable, problem: str = "") -> "ScaledObjectConditions":
        """Returns the conditions of an object whose target is missing or could not be read.

        problem: the error of the triggers, reported together with a missing target. While the target merely cannot be
        read Active stays as it was, because the triggers may be as active as before.
        """
        if scale.missing:
            return self.failed("; ".join(filter(None, (f"spec.scaleTargetRef: {scale.error}", problem))))
        text = f"the target cannot be read: {scale.error}"
        return replace(self, ready=KedaCondition("False", "ErrorGettingCurrentReplicas", text))

    def with_activity(self, active: bool, cooling: bool) -> "ScaledObjectConditions":
        """Returns the conditions with Active. cooling: only the cooldown keeps the replicas."""
        if active:
            condition = KedaCondition("True", "ScalerActive", "scaling is done because a trigger is active")
        elif cooling:
            condition = KedaCondition(
                "False", "ScalerCooldown", "no trigger is active; replicas stay until the cooldown ends"
            )
        else:
            condition = KedaCondition("False", "ScalerNotActive", "scaling is not done because no trigger is active")
        return replace(self, active=condition)

    def with_fallback(self, metrics: Sequence[str]) -> "ScaledObjectConditions":
        """Returns the conditions with Fallback. metrics: those whose value the fallback supplies."""
        if metrics:
            text = f"a fallback stands in for {', '.join(metrics)}"
            return replace(self, fallback=KedaCondition("True", "FallbackExists", text))
        return replace(self, fallback=KedaCondition("False", "NoFallbackFound", "no fallback stands in"))


def target_and_spec_fields(scaled: ScaledObject, body: Object, scale: Scalable) -> Object:
    """Returns the fields that follow from the spec and, if it could be read, the target."""
    fields = spec_fields(scaled.spec)
    return fields if scale.error is not None else fields | target_fields(body.get("status") or {}, scale)


def target_fields(observed: Object, scale: Scalable) -> Object:
    """Returns the fields that follow from the target; its first replica count never changes."""
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


def reading_fields(
    observed: Object, samples: Sequence[TriggerSample], memory: ScalingMemory, *, health: bool
) -> Object:
    """Returns the fields that follow from a reading; a trigger that could not be measured keeps its activity.

    health: the object has a fallback. KEDA counts failures for these only and leaves the status of others untouched.
    """
    return {
        "externalMetricNames": [sample.name for sample in samples],
        **activity_fields(observed, samples),
        **({"health": {sample.name: _health(sample) for sample in samples}} if health else {}),
        "memory": memory.render(),
    }


def _health(sample: TriggerSample) -> Object:
    """Returns the failures in a row."""
    if sample.failure is None:
        return {"numberOfFailures": 0, "status": "Happy"}
    return {"numberOfFailures": max(1, sample.failures), "status": "Failing"}


def events(
    before: ScaledObjectConditions, after: ScaledObjectConditions, samples: Iterable[TriggerSample] = ()
) -> Iterator[RecordEvent]:
    """Yields the Events of a change of conditions."""
    yield from keda.readiness_events(before, after, samples)
    yield from keda.fallback_and_pause_events(before, after)


def write(
    status: KedaStatus[ScaledObjectConditions], before: ScaledObjectConditions, reading: Reading | None = None
) -> Iterator[Step]:
    """Yields the write of a status that differs from the observed one, then the Events of its changes.

    In this order a crash may lose an Event and repeats none.
    """
    if status.changed:
        yield PatchStatus(status.render())
        yield from events(before, status.conditions, reading.samples if reading else ())
