"""A ScaledObject's status, computed whole, and the Events that tell of its changes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from workers.api import times
from workers.api.kinds import Object
from workers.controllers.keda import conditions as keda
from workers.controllers.keda.conditions import KedaCondition
from workers.controllers.keda.scaledobject.memory import ScalingMemory
from workers.controllers.keda.status import activity
from workers.reconcile.plan import RecordEvent
from workers.reconcile.snapshot import Scalable, TriggerSample


@dataclass(frozen=True, slots=True)
class ScaledObjectConditions(keda.KedaConditions):
    """KEDA's conditions of a ScaledObject. HPAActive there never is."""

    KIND = "ScaledObject"

    def failing(self, message: str, reason: str = "ScaledObjectCheckFailed") -> "ScaledObjectConditions":
        """Nothing can be done: the manifest, its target, or something else it needs is wrong."""
        active = KedaCondition("Unknown", "UnknownState", "the triggers are not acted on")
        return replace(self, ready=KedaCondition("False", reason, message), active=active)

    def acting(self, active: bool, cooling: bool) -> "ScaledObjectConditions":
        """Whether something is active, and if not whether the cooldown still holds the replicas."""
        if active:
            condition = KedaCondition("True", "ScalerActive", "scaling is done because a trigger is active")
        elif cooling:
            condition = KedaCondition(
                "False", "ScalerCooldown", "no trigger is active; replicas stay until the cooldown ends"
            )
        else:
            condition = KedaCondition("False", "ScalerNotActive", "scaling is not done because no trigger is active")
        return replace(self, active=condition)

    def standing_in(self, metrics: Sequence[str]) -> "ScaledObjectConditions":
        """The metrics that failed more often than the fallback bears."""
        if metrics:
            text = f"a fallback stands in for {', '.join(metrics)}"
            return replace(self, fallback=KedaCondition("True", "FallbackExists", text))
        return replace(self, fallback=KedaCondition("False", "NoFallbackFound", "no fallback stands in"))


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


def measured(observed: Object, samples: Sequence[TriggerSample], memory: ScalingMemory) -> Object:
    """The fields that follow from a reading. What could not be measured keeps what was known of its activity."""
    return {
        "externalMetricNames": [sample.name for sample in samples],
        **activity(observed, samples),
        "health": {sample.name: _health(sample) for sample in samples},
        "memory": memory.render(),
    }


def _health(sample: TriggerSample) -> Object:
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


def events(
    before: ScaledObjectConditions, after: ScaledObjectConditions, samples: Iterable[TriggerSample] = ()
) -> Iterator[RecordEvent]:
    """What to tell about the way from one state to the next; nothing when nothing changed."""
    yield from keda.readiness(before, after, samples)
    yield from keda.exceptions(before, after)
