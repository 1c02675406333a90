"""Comma separated lists of users in the status of authentications, as KEDA writes them.

A deletion warns of these users. A list of an authentication that all namespaces share names them ``namespace/name``.
"""

from collections.abc import Iterator
from dataclasses import replace

from workers.api.keda.triggerauthentication import kind_of
from workers.api.keda_compat import NONE, Quirks
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Object, Ref
from workers.decision.plan import EditList, PatchStatus, Plan, Step
from workers.decision.snapshot import Snapshot


def with_users(plan: Plan, snapshot: Snapshot, quirks: Quirks = NONE) -> Plan:
    """Returns the plan with steps that list its object as a user of the authentications it refers to.

    quirks: KEDA's behavior that is wanted. The steps come only with a status that names other authentications than the
    observed one, so that an unchanged object costs nothing; and just before that status, so that a crash in between
    repeats them.
    """
    observed = ((snapshot.body or {}).get("status") or {}).get("authenticationsTypes") or ""
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, PatchStatus) and (step.status.get("authenticationsTypes") or "") != observed:
            used = tuple(dict.fromkeys(_referenced(snapshot.ref, snapshot.body or {})))
            left = [ref for ref in _named(snapshot.ref, observed) if ref not in used]
            steps += [_edit(snapshot.ref, ref, quirks, present=True) for ref in used]
            steps += [_edit(snapshot.ref, ref, quirks, present=False) for ref in left]
            observed = step.status.get("authenticationsTypes") or ""
        steps.append(step)
    return plan if len(steps) == len(plan.steps) else replace(plan, steps=tuple(steps))


def removed(snapshot: Snapshot, quirks: Quirks) -> tuple[EditList, ...]:
    """Returns the steps that take the object out of all lists of users. quirks: KEDA's behavior that is wanted."""
    body = snapshot.body or {}
    observed = (body.get("status") or {}).get("authenticationsTypes") or ""
    known = dict.fromkeys((*_referenced(snapshot.ref, body), *_named(snapshot.ref, observed)))
    return tuple(_edit(snapshot.ref, ref, quirks, present=False) for ref in known)


def _edit(user: Ref, authentication: Ref, quirks: Quirks, *, present: bool) -> EditList:
    bare = authentication.namespace or "bare-user-names" in quirks
    name = user.name if bare else f"{user.namespace}/{user.name}"
    return EditList(authentication, user.kind.plural, name, present)


def _referenced(user: Ref, body: Object) -> Iterator[Ref]:
    """Yields the authentications that an object's triggers refer to."""
    for trigger in (body.get("spec") or {}).get("triggers") or ():
        reference = trigger.get("authenticationRef") or {}
        kind = kind_of(reference.get("kind"))
        if kind is not None and reference.get("name"):
            yield Ref(kind, user.namespace if kind.namespaced else "", reference["name"])


def _named(user: Ref, names: str) -> Iterator[Ref]:
    """Yields the authentications that a status names, of either kind: the status does not say which."""
    for name in filter(None, names.split(",")):
        yield Ref(TRIGGER_AUTHENTICATION, user.namespace, name)
        yield Ref(CLUSTER_TRIGGER_AUTHENTICATION, "", name)
