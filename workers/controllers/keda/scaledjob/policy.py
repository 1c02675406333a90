"""ScalePolicies: limits that an object's Jobs share with those of other objects."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from workers.api import scalepolicy
from workers.api.kinds import SCALE_POLICY, SCALED_JOB, Object
from workers.controllers import conditions
from workers.controllers.keda.conditions import KedaCondition
from workers.controllers.selectors import selects
from workers.reconcile.limits import JobLimit
from workers.reconcile.plan import ComeBack, Figure
from workers.reconcile.snapshot import CachedObject, Snapshot

#: How soon an object that got less than it wants asks again, should nobody tell it of room before.
AGAIN = timedelta(seconds=5)


def caps(snapshot: Snapshot, body: Object) -> tuple[JobLimit, ...]:
    """The limits that the object is under. Raises UserError for a policy that is wrong."""
    policies = (entry.body for entry in snapshot.cluster_wide.get(SCALE_POLICY.id, ()) if entry.body is not None)
    return caps_of(sorted(policies, key=lambda policy: policy["metadata"]["name"]), body)


def caps_of(policies: Iterable[Object], body: Object) -> tuple[JobLimit, ...]:
    """The limits that a ScaledJob is under. Raises UserError for a policy that is wrong: it may limit this one."""
    found = []
    for policy in policies:
        spec = scalepolicy.parse(policy).spec
        metadata = body["metadata"]
        inside = not spec.namespaces or metadata.get("namespace", "") in spec.namespaces
        if inside and selects(policy["spec"].get("selector") or {})(body):
            group = (metadata.get("labels") or {}).get(spec.group_by, "") if spec.group_by else None
            found.append(JobLimit(policy, spec.max_jobs, SCALED_JOB, partial(_covers, policy, group), group))
    return tuple(found)


def unfinished(jobs: Iterable[CachedObject]) -> int:
    """How many Jobs are not finished."""
    return sum(entry.body is not None and not conditions.finished(entry.body) for entry in jobs)


def _covers(policy: Object, group: str | None, body: Object) -> bool:
    """Returns True if Jobs of an object with these labels, in this namespace, count under the policy's group."""
    return any(limit.group == group for limit in caps_of((policy,), body))


def worked_out(number: int, allowance: int, running: int) -> tuple[Figure, ...]:
    """How many Jobs may be created under the limits."""
    return (
        Figure("Jobs allowed by ScalePolicies", allowance),
        Figure(
            "to create", max(0, min(number, allowance - running)), f"max(0, min({number}, {allowance} - {running}))"
        ),
    )


def condition(caps: tuple[JobLimit, ...], *, wanted: int, allowed: int) -> KedaCondition | None:
    """What the status says of the limits; None for an object that is under none."""
    if not caps:
        return None
    names = ", ".join(map(str, caps))
    if allowed < wanted:
        return KedaCondition("True", "ScalePolicy", f"{wanted} Jobs are wanted and {allowed} allowed by {names}")
    return KedaCondition("False", "WithinLimits", f"nothing is held back by {names}")


def ask_again(now: datetime) -> ComeBack:
    return ComeBack(now + AGAIN)
