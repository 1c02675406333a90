"""Status and conditions of ScaledJobs and ScaledObjects, and the Events of their changes, as KEDA writes them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from workers.api.keda.scaledjob import TriggerSpec
from workers.api.kinds import Object
from workers.decision.plan import RecordEvent
from workers.decision.snapshot import Reading, Snapshot, TriggerSample


@dataclass(frozen=True, slots=True)
class KedaCondition:
    """One of KEDA's conditions; it carries no timestamps."""

    status: str
    reason: str = ""
    message: str = ""

    def render(self, type_: str) -> Object:
        texts = {key: value for key, value in (("reason", self.reason), ("message", self.message)) if value}
        return {"type": type_, "status": self.status, **texts}


def polling_interval(reading: Reading | None, by_spec: float) -> float:
    """Returns the seconds between two polls: as the reading says, and else by the object's spec."""
    return (reading.interval if reading else 0.0) or by_spec


UNKNOWN = KedaCondition("Unknown")
_NOT_PAUSED = KedaCondition("False")


@dataclass(frozen=True, slots=True)
class KedaConditions:
    """The four conditions in KEDA's order; the defaults are those of a new object. A subclass sets KIND."""

    KIND: ClassVar[str]
    TYPES: ClassVar[tuple[str, ...]] = ("Ready", "Active", "Fallback", "Paused")

    ready: KedaCondition = UNKNOWN
    active: KedaCondition = UNKNOWN
    fallback: KedaCondition = UNKNOWN
    paused: KedaCondition = _NOT_PAUSED

    @classmethod
    def observed(cls, body: Object) -> Self:
        """Returns the conditions that an object carries, defaults for those it lacks."""
        found: dict[str, KedaCondition] = {}
        for each in (body.get("status") or {}).get("conditions") or ():
            if each.get("type") in cls.TYPES:
                texts = (each.get("status", "Unknown"), each.get("reason") or "", each.get("message") or "")
                found[each["type"].lower()] = KedaCondition(*texts)
        return cls(**found)

    def render(self) -> list[Object]:
        found = ((type_, getattr(self, type_.lower())) for type_ in self.TYPES)
        return [condition.render(type_) for type_, condition in found if condition is not None]

    def with_pause(self) -> Self:
        """Returns the conditions of an object that its user paused."""
        return replace(
            self,
            ready=KedaCondition("True", f"{self.KIND}Ready", "defined correctly; paused, so scaling is skipped"),
            paused=KedaCondition("True", f"{self.KIND}Paused", "paused by annotation"),
        )

    def without_pause(self) -> Self:
        """Returns the conditions of an object that is not paused; one that never was keeps its first condition."""
        if self.paused.status != "True":
            return self
        return replace(self, paused=KedaCondition("False", f"{self.KIND}Unpaused", "not paused any more"))

    def with_readiness(self, problems: str, partly: bool, note: str = "") -> Self:
        """Returns the conditions with Ready as the triggers are measured.

        problems: the errors of triggers, empty if all were measured. partly: another trigger is active.
        """
        if not problems:
            ready = KedaCondition("True", f"{self.KIND}Ready", f"defined correctly and ready to scale{note}")
        elif partly:
            ready = KedaCondition("Unknown", "PartialTriggerError", f"some triggers do not work: {problems}")
        else:
            ready = KedaCondition("False", "TriggerError", f"the triggers do not work: {problems}")
        return replace(self, ready=ready)


def readiness_events(
    before: KedaConditions, after: KedaConditions, samples: Iterable[TriggerSample] = ()
) -> Iterator[RecordEvent]:
    """Yields the Events of a change of Ready."""
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
        if sample.failure is not None:
            yield RecordEvent("Warning", "KEDAScalerFailed", f"{sample.name}: {sample.failure}")


def fallback_and_pause_events(before: KedaConditions, after: KedaConditions) -> Iterator[RecordEvent]:
    """Yields the Events of a fallback or a pause that begins or ends."""
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


C = TypeVar("C", bound=KedaConditions)


@dataclass(frozen=True, slots=True)
class KedaStatus(Generic[C]):
    """A status to be written: the observed fields, overwritten by `fields` (None removes one) and the conditions."""

    observed: Object
    conditions: C
    fields: Object = field(default_factory=dict)

    def render(self) -> Object:
        whole = {**self.observed, **self.fields, "conditions": self.conditions.render()}
        return {name: value for name, value in whole.items() if value is not None}

    @property
    def changed(self) -> bool:
        """Returns True if the status differs from the observed one."""
        return self.render() != self.observed


def with_trigger_problem(problems: Iterable[str], snapshot: Snapshot) -> str:
    """Returns these problems and the one that the last poll found in the triggers of this spec, as one text.

    So a user who corrects one of them does not meet the next only then.
    """
    reading, generation = snapshot.reading, (snapshot.body or {}).get("metadata", {}).get("generation", 0)
    found = reading.problem if reading and reading.generation == generation else None
    return "; ".join((*problems, *((found,) if found else ())))


class Triggered(Protocol):
    """A spec with triggers."""

    @property
    def triggers(self) -> tuple[TriggerSpec, ...]: ...


def spec_fields(spec: Triggered) -> Object:
    """Returns the fields that follow from the spec alone: types of triggers, names of authentications or None.

    An empty text would say as little, and a kube-apiserver that was built with another JSON library than Kubernetes
    builds it with takes it for null, and refuses the whole status.
    """
    references = (trigger.authentication_ref for trigger in spec.triggers)
    return {
        "triggersTypes": ",".join(dict.fromkeys(trigger.type for trigger in spec.triggers)),
        "authenticationsTypes": ",".join(dict.fromkeys(each.name for each in references if each)) or None,
    }


def activity_fields(observed: Object, samples: Iterable[TriggerSample]) -> Object:
    """Returns `triggersActivity`; a trigger that could not be measured keeps its observed entry."""
    known = observed.get("triggersActivity") or {}
    found = {
        sample.name: known.get(sample.name) if sample.error is not None else {"isActive": sample.active}
        for sample in samples
    }
    return {"triggersActivity": {name: each for name, each in found.items() if each is not None}}
