"""Status of a ScaledJob, computed whole and written once, and the Events of its changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.controllers.keda import status as keda
from workers.controllers.keda.scaledjob.fallback import FallbackDecision
from workers.controllers.keda.status import KedaCondition, KedaStatus
from workers.decision.plan import PatchStatus, RecordEvent, Step
from workers.decision.snapshot import Reading, TriggerSample

#: `lastActiveTime` is rewritten at most this often, however short the polling interval.
_LEAST_AGE = timedelta(seconds=5)

#: Triggers that only an autoscaler of running pods can use.
_IDLE = frozenset({"cpu", "memory"})

#: The status field of servers whose circuit breaker is open.
LEFT_ALONE = "sourcesLeftAlone"


@dataclass(frozen=True, slots=True)
class ScaledJobConditions(keda.KedaConditions):
    """KEDA's conditions of a ScaledJob, and Penstock's own. capped: None for an object under no ScalePolicy."""

    KIND = "ScaledJob"
    TYPES = (*keda.KedaConditions.TYPES, "Capped")

    capped: KedaCondition | None = None

    def failed(self, message: str) -> "ScaledJobConditions":
        """Returns the conditions after an action that was not possible."""
        return replace(self, ready=KedaCondition("False", "ScaledJobCheckFailed", message))

    def unmeasured(self, message: str) -> "ScaledJobConditions":
        """Returns the conditions of an object whose triggers could not be measured at all."""
        active = KedaCondition("Unknown", "UnknownState", "the triggers were not measured")
        return replace(self.failed(message), active=active)

    def with_fallback(self, wanted: bool, fallback: FallbackDecision | None) -> "ScaledJobConditions":
        """Returns the conditions with Fallback. wanted: the manifest asks for one. fallback: the one in force."""
        if not wanted:
            return replace(self, fallback=keda.UNKNOWN)
        if fallback is None:
            return replace(self, fallback=KedaCondition("False", "NoFallbackFound", "no trigger has failed too often"))
        message = f"{fallback.floor} Jobs are kept alive because these do not work: {', '.join(fallback.failing)}"
        if fallback.unmeasured:
            message += f"; never measured, so that there is nothing to hold: {', '.join(fallback.unmeasured)}"
        return replace(self, fallback=KedaCondition("True", "FallbackExists", message))

    def with_samples(self, samples: Sequence[TriggerSample], active: bool) -> "ScaledJobConditions":
        """Returns the conditions after the triggers were measured, each successfully or not."""
        verb = "are" if active else "are not"
        activity = KedaCondition(
            "True" if active else "False",
            "ScalerActive" if active else "ScalerNotActive",
            f"scaling {'is' if active else 'is not'} done because the triggers {verb} active",
        )
        failing = ", ".join(f"{sample.name}: {sample.failure}" for sample in samples if sample.failure is not None)
        idle = ", ".join(sample.name for sample in samples if sample.type in _IDLE)
        note = f"; without effect on a ScaledJob: {idle}" if idle else ""
        # The note leaves out the values, which would cause a status write with every reading.
        negative = ", ".join(sample.name for sample in samples if sample.error is None and sample.value < 0)
        note += f"; below 0, which counts as no work: {negative}" if negative else ""
        untargeted = ", ".join(each.name for each in samples if each.error is None and each.active and each.target <= 0)
        note += f"; without a targetSize above 0, which asks for no Jobs: {untargeted}" if untargeted else ""
        return replace(self.with_readiness(failing, active, note), active=activity)


def last_active(observed: Object, interval: float, now: datetime) -> Object:
    """Returns `lastActiveTime` of an object that is active now, empty if the observed one is young enough.

    KEDA writes the field in every active poll. Penstock decides far more often, so it rewrites the field when it is a
    polling interval old (at least 5 s): as exact as KEDA's, without a write per decision. interval: seconds; 0 writes
    it with every decision.
    """
    try:
        age = now - times.parse(observed.get("lastActiveTime") or "")
    except ValueError:
        age = timedelta.max
    fresh = interval and age < max(timedelta(seconds=interval), _LEAST_AGE)
    return {} if fresh else {"lastActiveTime": times.render(now)}


def left_alone(samples: Sequence[TriggerSample]) -> Object:
    """Returns the status field of triggers whose server's circuit breaker is open; its value is None for none."""
    found = [
        {
            "trigger": sample.name,
            "source": sample.source,
            "since": times.render(times.of_micros(sample.alone_since)),
            "reason": sample.error or "",
            **({"nextAttempt": times.render(times.of_micros(sample.next_attempt))} if sample.next_attempt else {}),
        }
        for sample in samples
        if sample.alone_since
    ]
    return {LEFT_ALONE: found or None}


def circuit_breaker_events(observed: Object, fields: Object) -> Iterator[RecordEvent]:
    """Yields one Event per server whose circuit breaker opened or closed. fields: those to be written."""
    if LEFT_ALONE not in fields:  # nothing was measured
        return
    before = {each["source"]: each for each in observed.get(LEFT_ALONE) or ()}
    after = {each["source"]: each for each in fields.get(LEFT_ALONE) or ()}
    for source, each in after.items():
        if source not in before:
            yield RecordEvent("Warning", "SourceLeftAlone", f"{source} fails and is asked less often: {each['reason']}")
    for source in before:
        if source not in after:
            yield RecordEvent("Normal", "SourceAnswersAgain", f"{source} answers again")


def events(
    before: ScaledJobConditions, after: ScaledJobConditions, samples: Sequence[TriggerSample] = ()
) -> Iterator[RecordEvent]:
    """Yields the Events of a change of conditions."""
    yield from keda.readiness_events(before, after, samples)
    if after.active.status != before.active.status:
        if after.active.status == "True":
            yield RecordEvent("Normal", "ScaledJobActive", "Scaling is done because the triggers are active")
        elif after.active.status == "False" and before.active.status == "True":
            yield RecordEvent("Normal", "ScaledJobInactive", "Scaling is not done because no trigger is active")
    yield from keda.fallback_and_pause_events(before, after)


def write(
    status: KedaStatus[ScaledJobConditions],
    before: ScaledJobConditions,
    *,
    reading: Reading | None = None,
    anyway: bool = False,
) -> Iterator[Step]:
    """Yields the write of a status that differs from the observed one, then the Events of its changes.

    In this order a crash may lose an Event and repeats none. anyway: an earlier step writes another status.
    """
    if status.changed or anyway:
        yield PatchStatus(status.render())
        yield from events(before, status.conditions, reading.samples if reading else ())


def write_around(
    creates: Sequence[Step],
    others: Sequence[Step],
    status: KedaStatus[ScaledJobConditions],
    before: ScaledJobConditions,
    error: str | None,
    reading: Reading | None,
) -> Iterator[Step]:
    """Yields the creates, the other steps, and the status of an object for which they worked.

    error: the failure of the last reconcile, None after a success. Creates that failed may fail again and end the plan
    there, so a status with Ready False and this error comes before them.
    """
    warned = bool(error and creates)
    if warned:
        warning = replace(status, conditions=status.conditions.failed(f"the last attempt failed: {error}"))
        yield from write(warning, before)
        # The warning has recorded the change of Active.
        before = replace(before, active=status.conditions.active)
    yield from creates
    yield from others
    yield from write(status, before, reading=reading, anyway=warned)
