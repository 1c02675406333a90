"""Lists of users that authentications carry, as KEDA writes them: who may not find them gone."""

from collections.abc import Iterator
from dataclasses import replace

from workers.api.keda.triggerauthentication import kind_of
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Object, Ref
from workers.reconcile.plan import EditList, PatchStatus, Plan, Step
from workers.reconcile.snapshot import Snapshot


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


def unlisted(snapshot: Snapshot) -> tuple[EditList, ...]:
    """The object's name out of all lists of users."""
    body = snapshot.body or {}
    observed = (body.get("status") or {}).get("authenticationsTypes") or ""
    return tuple(
        _entry(snapshot.ref, ref, present=False)
        for ref in dict.fromkeys((*_referenced(snapshot.ref, body), *_named(snapshot.ref, observed)))
    )


def _enlisted(snapshot: Snapshot, observed: str) -> tuple[EditList, ...]:
    used = tuple(dict.fromkeys(_referenced(snapshot.ref, snapshot.body or {})))
    left = (ref for ref in _named(snapshot.ref, observed) if ref not in used)
    entries = (*((ref, True) for ref in used), *((ref, False) for ref in left))
    return tuple(_entry(snapshot.ref, ref, present=present) for ref, present in entries)


def _entry(user: Ref, authentication: Ref, *, present: bool) -> EditList:
    """Of an authentication that all namespaces share, users are told apart by theirs."""
    name = user.name if authentication.namespace else f"{user.namespace}/{user.name}"
    return EditList(authentication, user.kind.plural, name, present)


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
