"""A ScaledJob's status, computed whole and written once, and the Events that tell of its changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.controllers.keda import conditions as keda
from workers.controllers.keda.conditions import KedaCondition
from workers.controllers.keda.scaledjob.fallback import FallbackDecision
from workers.controllers.keda.status import KedaStatus
from workers.reconcile.plan import PatchStatus, RecordEvent, Step
from workers.reconcile.snapshot import Reading, TriggerSample

#: `lastActiveTime` is never rewritten more often than this, however short the polling interval.
_LEAST_AGE = timedelta(seconds=5)

#: Triggers that only an autoscaler of running pods can use.
_IDLE = frozenset({"cpu", "memory"})


@dataclass(frozen=True, slots=True)
class ScaledJobConditions(keda.KedaConditions):
    """KEDA's conditions of a ScaledJob, and ours. capped: None for none."""

    KIND = "ScaledJob"
    TYPES = (*keda.KedaConditions.TYPES, "Capped")

    capped: KedaCondition | None = None

    def failing(self, message: str) -> "ScaledJobConditions":
        """Something that had to be done was not possible."""
        return replace(self, ready=KedaCondition("False", "ScaledJobCheckFailed", message))

    def refused(self, message: str) -> "ScaledJobConditions":
        """The manifest, or something it needs, is wrong: nothing is known about activity."""
        return replace(
            self.failing(message),
            active=KedaCondition("Unknown", "UnknownState", "the triggers were not measured"),
        )

    def limited(self, capped: KedaCondition | None) -> "ScaledJobConditions":
        """capped: what limits shared with other objects do, None for an object that is under none."""
        return replace(self, capped=capped)

    def falling_back(self, wanted: bool, fallback: FallbackDecision | None) -> "ScaledJobConditions":
        """wanted: the manifest asks for a fallback; if not, the condition is what KEDA writes. fallback: in force."""
        if not wanted:
            return replace(self, fallback=keda.UNKNOWN)
        if fallback is None:
            return replace(self, fallback=KedaCondition("False", "NoFallbackFound", "no trigger has failed too often"))
        message = f"{fallback.floor} Jobs are kept alive because these do not work: {', '.join(fallback.failing)}"
        if fallback.unmeasured:
            message += f"; never measured, so that there is nothing to hold: {', '.join(fallback.unmeasured)}"
        return replace(self, fallback=KedaCondition("True", "FallbackExists", message))

    def judged(self, samples: Sequence[TriggerSample], active: bool) -> "ScaledJobConditions":
        """The triggers were measured, each successfully or not."""
        verb = "are" if active else "are not"
        activity = KedaCondition(
            "True" if active else "False",
            "ScalerActive" if active else "ScalerNotActive",
            f"scaling {'is' if active else 'is not'} done because the triggers {verb} active",
        )
        failing = ", ".join(f"{sample.name}: {sample.error}" for sample in samples if sample.error is not None)
        idle = ", ".join(sample.name for sample in samples if sample.type in _IDLE)
        note = f"; without effect on a ScaledJob: {idle}" if idle else ""
        # Without the values: they would write the status with every reading.
        negative = ", ".join(sample.name for sample in samples if sample.error is None and sample.value < 0)
        note += f"; below 0, which counts as no work: {negative}" if negative else ""
        return replace(self.measured(failing, active, note), active=activity)


def last_active(observed: Object, interval: int, now: datetime) -> Object:
    """`lastActiveTime` of an object that is active now.

    KEDA writes it in every active poll. Here decisions are made far more often, so it is rewritten when it is a
    polling interval old (at least 5 s): as exact as KEDA's, and not a write per decision. interval: seconds; 0 writes
    it with every decision.
    """
    try:
        age = now - times.parse(observed.get("lastActiveTime") or "")
    except ValueError:
        age = timedelta.max
    return (
        {"lastActiveTime": times.render(now)}
        if not interval or age >= max(timedelta(seconds=interval), _LEAST_AGE)
        else {}
    )


def events(
    before: ScaledJobConditions, after: ScaledJobConditions, samples: Sequence[TriggerSample] = ()
) -> Iterator[RecordEvent]:
    """What to tell about the way from one state to the next; nothing when nothing changed."""
    yield from keda.readiness(before, after, samples)
    if after.active.status != before.active.status:
        if after.active.status == "True":
            yield RecordEvent("Normal", "ScaledJobActive", "Scaling is done because the triggers are active")
        elif after.active.status == "False" and before.active.status == "True":
            yield RecordEvent("Normal", "ScaledJobInactive", "Scaling is not done because no trigger is active")
    yield from keda.exceptions(before, after)


def warning(settled: KedaStatus[ScaledJobConditions], error: str | None) -> KedaStatus[ScaledJobConditions] | None:
    """Ready becomes False with what the last attempt failed on, if it did; all else is said as if it had worked."""
    if not error:
        return None
    return replace(settled, conditions=settled.conditions.failing(f"the last attempt failed: {error}"))


def write(
    status: KedaStatus[ScaledJobConditions],
    before: ScaledJobConditions,
    *,
    reading: Reading | None = None,
    anyway: bool = False,
) -> Iterator[Step]:
    """Write a status that differs from the observed one, then tell of it.

    In this order a crash may lose an Event and repeats none. anyway: an earlier step writes another status.
    """
    if status.changed or anyway:
        yield PatchStatus(status.render())
        yield from events(before, status.conditions, reading.samples if reading else ())
