"""The conditions that KEDA gives ScaledJobs and ScaledObjects, and the Events that tell of their changes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from workers.api.kinds import Object
from workers.reconcile.plan import RecordEvent
from workers.reconcile.snapshot import TriggerSample


@dataclass(frozen=True, slots=True)
class KedaCondition:
    """One of KEDA's conditions; it carries no timestamps."""

    status: str
    reason: str = ""
    message: str = ""

    def render(self, type_: str) -> Object:
        texts = {key: value for key, value in (("reason", self.reason), ("message", self.message)) if value}
        return {"type": type_, "status": self.status, **texts}


UNKNOWN = KedaCondition("Unknown")
_NOT_PAUSED = KedaCondition("False")


@dataclass(frozen=True, slots=True)
class KedaConditions:
    """The four conditions, in KEDA's order; the defaults are what it writes first. A subclass says of which kind."""

    KIND: ClassVar[str]
    TYPES: ClassVar[tuple[str, ...]] = ("Ready", "Active", "Fallback", "Paused")

    ready: KedaCondition = UNKNOWN
    active: KedaCondition = UNKNOWN
    fallback: KedaCondition = UNKNOWN
    paused: KedaCondition = _NOT_PAUSED

    @classmethod
    def observed(cls, body: Object) -> Self:
        """The conditions an object carries; those it lacks are as at first."""
        found: dict[str, KedaCondition] = {}
        for each in (body.get("status") or {}).get("conditions") or ():
            if each.get("type") in cls.TYPES:
                texts = (each.get("status", "Unknown"), each.get("reason") or "", each.get("message") or "")
                found[each["type"].lower()] = KedaCondition(*texts)
        return cls(**found)

    def render(self) -> list[Object]:
        found = ((type_, getattr(self, type_.lower())) for type_ in self.TYPES)
        return [condition.render(type_) for type_, condition in found if condition is not None]

    def pausing(self) -> Self:
        """The user paused scaling."""
        return replace(
            self,
            ready=KedaCondition("True", f"{self.KIND}Ready", "defined correctly; paused, so scaling is skipped"),
            paused=KedaCondition("True", f"{self.KIND}Paused", "paused by annotation"),
        )

    def resumed(self) -> Self:
        """Not paused, or not any more; one that never was keeps the condition it began with."""
        if self.paused.status != "True":
            return self
        return replace(self, paused=KedaCondition("False", f"{self.KIND}Unpaused", "not paused any more"))

    def measured(self, problems: str, partly: bool, note: str = "") -> Self:
        """problems: what could not be measured, empty if nothing. partly: something else is active."""
        if not problems:
            ready = KedaCondition("True", f"{self.KIND}Ready", f"defined correctly and ready to scale{note}")
        elif partly:
            ready = KedaCondition("Unknown", "PartialTriggerError", f"some triggers do not work: {problems}")
        else:
            ready = KedaCondition("False", "TriggerError", f"the triggers do not work: {problems}")
        return replace(self, ready=ready)


def readiness(
    before: KedaConditions, after: KedaConditions, samples: Iterable[TriggerSample] = ()
) -> Iterator[RecordEvent]:
    """What to tell about a change of readiness."""
    kind = after.KIND
    if after.ready == before.ready:
        return
    if after.ready.reason in (f"{kind}CheckFailed", "ErrorGettingCurrentReplicas"):
        yield RecordEvent("Warning", f"{kind}CheckFailed", after.ready.message)
    if after.ready.status == "True" and before.ready.status != "True":
        if before.ready == UNKNOWN:
            yield RecordEvent("Normal", "KEDAScalersStarted", "Triggers are being measured")
        yield RecordEvent("Normal", f"{kind}Ready", f"The {kind} is ready to scale")
    for sample in samples:
        if sample.error is not None:
            yield RecordEvent("Warning", "KEDAScalerFailed", f"{sample.name}: {sample.error}")


def exceptions(before: KedaConditions, after: KedaConditions) -> Iterator[RecordEvent]:
    """What to tell about fallback and pause that begin or end."""
    kind = after.KIND
    if after.fallback.status != before.fallback.status:
        if after.fallback.status == "True":
            yield RecordEvent("Warning", f"{kind}FallbackActivated", after.fallback.message)
        elif before.fallback.status == "True":
            yield RecordEvent("Normal", f"{kind}FallbackDeactivated", "Every trigger is measured again")
    if after.paused.status != before.paused.status:
        if after.paused.status == "True":
            yield RecordEvent("Normal", f"{kind}Paused", "Scaling is paused")
            yield RecordEvent("Normal", "KEDAScalersStopped", "Triggers are not measured any more")
        else:
            yield RecordEvent("Normal", f"{kind}Unpaused", "Scaling goes on")
