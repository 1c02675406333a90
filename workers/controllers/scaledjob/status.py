"""A ScaledJob's status, computed whole, and the Events that tell of its changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from workers.api import times
from workers.api.kinds import Object
from workers.controllers.keda import Condition
from workers.controllers.scaledjob.fallback import Fallback
from workers.plan import Record
from workers.snapshot import Sample

#: `lastActiveTime` is never rewritten more often than this, however short the polling interval.
_LEAST_AGE = timedelta(seconds=5)

#: Triggers that only an autoscaler of running pods can use.
_IDLE = frozenset({"cpu", "memory"})


_UNKNOWN = Condition("Unknown")
_NOT_PAUSED = Condition("False")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The four conditions, in KEDA's order, and ours. The defaults are what it writes first; capped: None for none."""

    ready: Condition = _UNKNOWN
    active: Condition = _UNKNOWN
    fallback: Condition = _UNKNOWN
    paused: Condition = _NOT_PAUSED
    capped: Condition | None = None

    @classmethod
    def observed(cls, body: Object) -> Self:
        """The conditions an object carries; those it lacks are as at first."""
        found = {each.get("type"): each for each in (body.get("status") or {}).get("conditions") or ()}
        return cls(
            **{
                name.lower(): Condition(
                    each.get("status", "Unknown"), each.get("reason") or "", each.get("message") or ""
                )
                for name, each in found.items()
                if name in ("Ready", "Active", "Fallback", "Paused", "Capped")
            }
        )

    def render(self) -> list[Object]:
        return [
            self.ready.render("Ready"),
            self.active.render("Active"),
            self.fallback.render("Fallback"),
            self.paused.render("Paused"),
            *([self.capped.render("Capped")] if self.capped else []),
        ]

    def failing(self, message: str) -> "Conditions":
        """Something that had to be done was not possible."""
        return replace(self, ready=Condition("False", "ScaledJobCheckFailed", message))

    def refused(self, message: str) -> "Conditions":
        """The manifest, or something it needs, is wrong: nothing is known about activity."""
        return replace(
            self.failing(message),
            active=Condition("Unknown", "UnknownState", "the triggers were not measured"),
        )

    def pausing(self) -> "Conditions":
        """The user paused scaling."""
        return replace(
            self,
            ready=Condition("True", "ScaledJobReady", "defined correctly; paused, so scaling is skipped"),
            paused=Condition("True", "ScaledJobPaused", "paused by annotation"),
        )

    def resumed(self) -> "Conditions":
        """Not paused, or not any more; one that never was keeps the condition it began with."""
        if self.paused.status != "True":
            return self
        return replace(self, paused=Condition("False", "ScaledJobUnpaused", "not paused any more"))

    def limited(self, capped: Condition | None) -> "Conditions":
        """capped: what limits shared with other objects do, None for an object that is under none."""
        return replace(self, capped=capped)

    def falling_back(self, wanted: bool, fallback: Fallback | None) -> "Conditions":
        """wanted: the manifest asks for a fallback; if not, the condition is what KEDA writes. fallback: in force."""
        if not wanted:
            return replace(self, fallback=_UNKNOWN)
        if fallback is None:
            return replace(self, fallback=Condition("False", "NoFallbackFound", "no trigger has failed too often"))
        message = f"{fallback.floor} Jobs are kept alive because these do not work: {', '.join(fallback.failing)}"
        if fallback.unmeasured:
            message += f"; never measured, so that there is nothing to hold: {', '.join(fallback.unmeasured)}"
        return replace(self, fallback=Condition("True", "FallbackExists", message))

    def measured(self, samples: Sequence[Sample], active: bool) -> "Conditions":
        """The triggers were measured, each successfully or not."""
        verb = "are" if active else "are not"
        activity = Condition(
            "True" if active else "False",
            "ScalerActive" if active else "ScalerNotActive",
            f"scaling {'is' if active else 'is not'} done because the triggers {verb} active",
        )
        return replace(self, ready=_readiness(samples, active), active=activity)


def _readiness(samples: Sequence[Sample], active: bool) -> Condition:
    failing = ", ".join(f"{sample.name}: {sample.error}" for sample in samples if sample.error is not None)
    if not failing:
        idle = ", ".join(sample.name for sample in samples if sample.type in _IDLE)
        note = f"; without effect on a ScaledJob: {idle}" if idle else ""
        return Condition("True", "ScaledJobReady", f"defined correctly and ready to scale{note}")
    if active:
        return Condition("Unknown", "PartialTriggerError", f"some triggers do not work: {failing}")
    return Condition("False", "TriggerError", f"the triggers do not work: {failing}")


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


def events(before: Conditions, after: Conditions, samples: Sequence[Sample] = ()) -> Iterator[Record]:
    """What to tell about the way from one state to the next; nothing when nothing changed."""
    if after.ready != before.ready:
        yield from _readiness_events(before.ready, after.ready, samples)
    if after.active.status != before.active.status:
        if after.active.status == "True":
            yield Record("Normal", "ScaledJobActive", "Scaling is done because the triggers are active")
        elif after.active.status == "False" and before.active.status == "True":
            yield Record("Normal", "ScaledJobInactive", "Scaling is not done because no trigger is active")
    if after.fallback.status != before.fallback.status:
        if after.fallback.status == "True":
            yield Record("Warning", "ScaledJobFallbackActivated", after.fallback.message)
        elif before.fallback.status == "True":
            yield Record("Normal", "ScaledJobFallbackDeactivated", "The fallback is over")
    if after.paused.status != before.paused.status:
        if after.paused.status == "True":
            yield Record("Normal", "ScaledJobPaused", "Scaling is paused")
            yield Record("Normal", "KEDAScalersStopped", "Triggers are not measured any more")
        else:
            yield Record("Normal", "ScaledJobUnpaused", "Scaling goes on")


def _readiness_events(before: Condition, after: Condition, samples: Sequence[Sample]) -> Iterator[Record]:
    if after.reason == "ScaledJobCheckFailed":
        yield Record("Warning", after.reason, after.message)
    if after.status == "True" and before.status != "True":
        if before == _UNKNOWN:
            yield Record("Normal", "KEDAScalersStarted", "Triggers are being measured")
        yield Record("Normal", "ScaledJobReady", "The ScaledJob is ready to scale")
    for sample in samples:
        if sample.error is not None:
            yield Record("Warning", "KEDAScalerFailed", f"{sample.name}: {sample.error}")
