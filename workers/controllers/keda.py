"""What ScaledJob and ScaledObject have in common, as KEDA writes it: conditions, statuses, lists of users."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Object, Ref
from workers.api.scaledjob import Trigger
from workers.api.triggerauthentication import kind_of
from workers.plan import Enlist, PatchStatus, Plan, Step
from workers.snapshot import Sample, Snapshot


@dataclass(frozen=True, slots=True)
class Condition:
    """One of KEDA's conditions; it carries no timestamps."""

    status: str
    reason: str = ""
    message: str = ""

    def render(self, type_: str) -> Object:
        texts = {key: value for key, value in (("reason", self.reason), ("message", self.message)) if value}
        return {"type": type_, "status": self.status, **texts}


class Rendered(Protocol):
    """All conditions of one kind."""

    def render(self) -> list[Object]: ...


C = TypeVar("C", bound=Rendered)


@dataclass(frozen=True, slots=True)
class Status(Generic[C]):
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


def enlisting(plan: Plan, snapshot: Snapshot) -> Plan:
    """The plan with its object's name in the lists of users of the authentications it refers to.

    Lists are kept when the status is written that names other authentications than before, so that it is not done each
    time; and just before, so that it is not forgotten.
    """
    observed = ((snapshot.body or {}).get("status") or {}).get("authenticationsTypes") or ""
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, PatchStatus) and (step.status.get("authenticationsTypes") or "") != observed:
            steps += _enlisted(snapshot, observed)
            observed = step.status.get("authenticationsTypes") or ""
        steps.append(step)
    return plan if len(steps) == len(plan.steps) else replace(plan, steps=tuple(steps))


def unlisted(snapshot: Snapshot) -> tuple[Enlist, ...]:
    """The object's name out of all lists of users."""
    body = snapshot.body or {}
    observed = (body.get("status") or {}).get("authenticationsTypes") or ""
    return tuple(
        _entry(snapshot.ref, ref, present=False)
        for ref in dict.fromkeys((*_referenced(snapshot.ref, body), *_named(snapshot.ref, observed)))
    )


def _enlisted(snapshot: Snapshot, observed: str) -> tuple[Enlist, ...]:
    used = tuple(dict.fromkeys(_referenced(snapshot.ref, snapshot.body or {})))
    left = (ref for ref in _named(snapshot.ref, observed) if ref not in used)
    entries = (*((ref, True) for ref in used), *((ref, False) for ref in left))
    return tuple(_entry(snapshot.ref, ref, present=present) for ref, present in entries)


def _entry(user: Ref, authentication: Ref, *, present: bool) -> Enlist:
    """Of an authentication that all namespaces share, users are told apart by theirs."""
    name = user.name if authentication.namespace else f"{user.namespace}/{user.name}"
    return Enlist(authentication, user.kind.plural, name, present)


def _referenced(user: Ref, body: Object) -> Iterator[Ref]:
    """The authentications that an object's triggers refer to."""
    for trigger in (body.get("spec") or {}).get("triggers") or ():
        reference = trigger.get("authenticationRef") or {}
        kind = kind_of(reference.get("kind"))
        if kind is not None and reference.get("name"):
            yield Ref(kind, user.namespace if kind.namespaced else "", reference["name"])


def _named(user: Ref, names: str) -> Iterator[Ref]:
    """The authentications that a status names, of either kind: it does not say which."""
    for name in filter(None, names.split(",")):
        yield Ref(TRIGGER_AUTHENTICATION, user.namespace, name)
        yield Ref(CLUSTER_TRIGGER_AUTHENTICATION, "", name)


class Triggered(Protocol):
    """A spec with triggers."""

    @property
    def triggers(self) -> tuple[Trigger, ...]: ...


def described(spec: Triggered) -> Object:
    """The fields that follow from the spec alone: types of triggers and names of authentications, each once."""
    references = (trigger.authentication_ref for trigger in spec.triggers)
    return {
        "triggersTypes": ",".join(dict.fromkeys(trigger.type for trigger in spec.triggers)),
        "authenticationsTypes": ",".join(dict.fromkeys(reference.name for reference in references if reference)),
    }


def activity(observed: Object, samples: Iterable[Sample]) -> Object:
    """`triggersActivity`: a trigger that could not be measured keeps what was known of it."""
    known = observed.get("triggersActivity") or {}
    found = {
        sample.name: known.get(sample.name) if sample.error is not None else {"isActive": sample.active}
        for sample in samples
    }
    return {"triggersActivity": {name: each for name, each in found.items() if each is not None}}
