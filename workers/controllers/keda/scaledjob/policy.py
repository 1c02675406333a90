"""ScalePolicies: limits that an object's Jobs share with the Jobs of other objects."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from workers.api import conditions
from workers.api.kinds import SCALE_POLICY, SCALED_JOB, Object
from workers.api.penstock_dev import scalepolicy
from workers.controllers.keda.status import KedaCondition
from workers.controllers.label_selectors import selects
from workers.decision.limits import JobLimit, LimitReservation
from workers.decision.plan import ComeBack, Figure
from workers.decision.snapshot import CachedObject, Snapshot

#: Interval at which an object with withheld Jobs asks again if no release of a limit wakes it before.
RETRY = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """The limits an object is under, and its answer from them.

    caps: the limits. alive: its unfinished Jobs. wanted: the unfinished Jobs it would have without these limits.
    allowance: the most unfinished Jobs it may have; None before the limits have answered.
    """

    caps: tuple[JobLimit, ...]
    alive: int
    wanted: int
    allowance: int | None = None

    def reservation(self, held: int = 0) -> LimitReservation | None:
        """Returns the question to the limits; None if they have answered or there are none. held: claims and Jobs."""
        unanswered = bool(self.caps) and self.allowance is None
        return LimitReservation(self.caps, self.alive, self.wanted, held) if unanswered else None

    @property
    def withholding(self) -> bool:
        """Returns True if the limits keep Jobs from being created."""
        return self.allowance is not None and self.allowance < self.wanted

    def granted(self, number: int) -> int:
        """Returns how many of so many new Jobs may be created."""
        return number if self.allowance is None else max(0, min(number, self.allowance - self.alive))

    def condition(self) -> KedaCondition | None:
        """Returns the condition Capped, None for an object that is under no limit."""
        if not self.caps:
            return None
        names = ", ".join(map(str, self.caps))
        if self.withholding:
            message = f"{self.wanted} Jobs are wanted and {self.allowance} allowed by {names}"
            return KedaCondition("True", "ScalePolicy", message)
        return KedaCondition("False", "WithinLimits", f"nothing is held back by {names}")

    def figures(self, number: int) -> tuple[Figure, ...]:
        """Returns the arithmetic of `granted`, empty without an answer."""
        if self.allowance is None:
            return ()
        how = f"max(0, min({number}, {self.allowance} - {self.alive}))"
        return (
            Figure("Jobs allowed by ScalePolicies", self.allowance),
            Figure("to create", self.granted(number), how),
        )

    def retry(self, now: datetime) -> tuple[ComeBack, ...]:
        """Returns the step that asks again later, empty unless the limits withhold Jobs."""
        return (ComeBack(now + RETRY),) if self.withholding else ()


def caps(snapshot: Snapshot, body: Object) -> tuple[JobLimit, ...]:
    """Returns the limits that the observed object is under. Raises UserError for a malformed policy."""
    policies = (entry.body for entry in snapshot.cluster_wide.get(SCALE_POLICY.id, ()) if entry.body is not None)
    return caps_of(sorted(policies, key=lambda policy: policy["metadata"]["name"]), body)


def caps_of(policies: Iterable[Object], body: Object) -> tuple[JobLimit, ...]:
    """Returns the limits that a ScaledJob is under. Raises UserError for a malformed policy, which may cover it."""
    found = []
    for policy in policies:
        spec = scalepolicy.parse(policy).spec
        metadata = body["metadata"]
        inside = not spec.namespaces or metadata.get("namespace") in spec.namespaces
        if inside and selects(policy["spec"].get("selector") or {})(body):
            group = (metadata.get("labels") or {}).get(spec.group_by, "") if spec.group_by else None
            found.append(JobLimit(policy, spec.max_jobs, SCALED_JOB, partial(_covers, policy, group), group))
    return tuple(found)


def unfinished(jobs: Iterable[CachedObject]) -> int:
    """Returns the number of Jobs that are not finished."""
    return sum(entry.body is not None and not conditions.finished(entry.body) for entry in jobs)


def _covers(policy: Object, group: str | None, body: Object) -> bool:
    """Returns True if Jobs of an object with these labels, in this namespace, count under the policy's group."""
    return any(limit.group == group for limit in caps_of((policy,), body))
