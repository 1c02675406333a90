"""The conditions that KEDA gives ScaledJobs and ScaledObjects, and the Events that tell of their changes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from workers.api.kinds import Object
from workers.reconcile.plan import Record
from workers.reconcile.snapshot import Sample


@dataclass(frozen=True, slots=True)
class Condition:
    """One of KEDA's conditions; it carries no timestamps."""

    status: str
    reason: str = ""
    message: str = ""

    def render(self, type_: str) -> Object:
        texts = {key: value for key, value in (("reason", self.reason), ("message", self.message)) if value}
        return {"type": type_, "status": self.status, **texts}


UNKNOWN = Condition("Unknown")
_NOT_PAUSED = Condition("False")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The four conditions, in KEDA's order; the defaults are what it writes first. A subclass says of which kind."""

    KIND: ClassVar[str]
    TYPES: ClassVar[tuple[str, ...]] = ("Ready", "Active", "Fallback", "Paused")

    ready: Condition = UNKNOWN
    active: Condition = UNKNOWN
    fallback: Condition = UNKNOWN
    paused: Condition = _NOT_PAUSED

    @classmethod
    def observed(cls, body: Object) -> Self:
        """The conditions an object carries; those it lacks are as at first."""
        found: dict[str, Condition] = {}
        for each in (body.get("status") or {}).get("conditions") or ():
            if each.get("type") in cls.TYPES:
                texts = (each.get("status", "Unknown"), each.get("reason") or "", each.get("message") or "")
                found[each["type"].lower()] = Condition(*texts)
        return cls(**found)

    def render(self) -> list[Object]:
        found = ((type_, getattr(self, type_.lower())) for type_ in self.TYPES)
        return [condition.render(type_) for type_, condition in found if condition is not None]

    def pausing(self) -> Self:
        """The user paused scaling."""
        return replace(
            self,
            ready=Condition("True", f"{self.KIND}Ready", "defined correctly; paused, so scaling is skipped"),
            paused=Condition("True", f"{self.KIND}Paused", "paused by annotation"),
        )

    def resumed(self) -> Self:
        """Not paused, or not any more; one that never was keeps the condition it began with."""
        if self.paused.status != "True":
            return self
        return replace(self, paused=Condition("False", f"{self.KIND}Unpaused", "not paused any more"))

    def measured(self, problems: str, partly: bool, note: str = "") -> Self:
        """problems: what could not be measured, empty if nothing. partly: something else is active."""
        if not problems:
            ready = Condition("True", f"{self.KIND}Ready", f"defined correctly and ready to scale{note}")
        elif partly:
            ready = Condition("Unknown", "PartialTriggerError", f"some triggers do not work: {problems}")
        else:
            ready = Condition("False", "TriggerError", f"the triggers do not work: {problems}")
        return replace(self, ready=ready)


def readiness(before: Conditions, after: Conditions, samples: Iterable[Sample] = ()) -> Iterator[Record]:
    """What to tell about a change of readiness."""
    kind = after.KIND
    if after.ready == before.ready:
        return
    if after.ready.reason in (f"{kind}CheckFailed", "ErrorGettingCurrentReplicas"):
        yield Record("Warning", f"{kind}CheckFailed", after.ready.message)
    if after.ready.status == "True" and before.ready.status != "True":
        if before.ready == UNKNOWN:
            yield Record("Normal", "KEDAScalersStarted", "Triggers are being measured")
        yield Record("Normal", f"{kind}Ready", f"The {kind} is ready to scale")
    for sample in samples:
        if sample.error is not None:
            yield Record("Warning", "KEDAScalerFailed", f"{sample.name}: {sample.error}")


def exceptions(before: Conditions, after: Conditions) -> Iterator[Record]:
    """What to tell about fallback and pause that begin or end."""
    kind = after.KIND
    if after.fallback.status != before.fallback.status:
        if after.fallback.status == "True":
            yield Record("Warning", f"{kind}FallbackActivated", after.fallback.message)
        elif before.fallback.status == "True":
            yield Record("Normal", f"{kind}FallbackDeactivated", "Every trigger is measured again")
    if after.paused.status != before.paused.status:
        if after.paused.status == "True":
            yield Record("Normal", f"{kind}Paused", "Scaling is paused")
            yield Record("Normal", "KEDAScalersStopped", "Triggers are not measured any more")
        else:
            yield Record("Normal", f"{kind}Unpaused", "Scaling goes on")
