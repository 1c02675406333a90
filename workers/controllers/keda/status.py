"""The status of a ScaledJob or ScaledObject, but for its conditions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from workers.api.keda.scaledjob import TriggerSpec
from workers.api.kinds import Object
from workers.controllers.keda.conditions import KedaConditions
from workers.reconcile.snapshot import TriggerSample

C = TypeVar("C", bound=KedaConditions)


@dataclass(frozen=True, slots=True)
class KedaStatus(Generic[C]):
    """What is to be written. Fields that are not computed here are carried over; those that are None go."""

    observed: Object
    conditions: C
    fields: Object = field(default_factory=dict)

    def render(self) -> Object:
        whole = {**self.observed, **self.fields, "conditions": self.conditions.render()}
        return {name: value for name, value in whole.items() if value is not None}

    @property
    def changed(self) -> bool:
        """Whether writing it would change anything."""
        return self.render() != self.observed


class Triggered(Protocol):
    """A spec with triggers."""

    @property
    def triggers(self) -> tuple[TriggerSpec, ...]: ...


def described(spec: Triggered) -> Object:
    """The fields that follow from the spec alone: types of triggers and names of authentications, each once."""
    references = (trigger.authentication_ref for trigger in spec.triggers)
    return {
        "triggersTypes": ",".join(dict.fromkeys(trigger.type for trigger in spec.triggers)),
        "authenticationsTypes": ",".join(dict.fromkeys(reference.name for reference in references if reference)),
    }


def activity(observed: Object, samples: Iterable[TriggerSample]) -> Object:
    """`triggersActivity`: a trigger that could not be measured keeps what was known of it."""
    known = observed.get("triggersActivity") or {}
    found = {
        sample.name: known.get(sample.name) if sample.error is not None else {"isActive": sample.active}
        for sample in samples
    }
    return {"triggersActivity": {name: each for name, each in found.items() if each is not None}}
