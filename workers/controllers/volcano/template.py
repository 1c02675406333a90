"""JobTemplate: its status lists the Jobs that were made from it."""

from datetime import datetime

from workers.api.kinds import JOB_TEMPLATE, VC_JOB
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, HoldKey, PatchStatus, Plan, Step
from workers.reconcile.snapshot import Snapshot

#: All Jobs of a template are read whenever one of them changes. After a look at many there is a rest (seconds for each,
#: and at most), so that a thousand Jobs that start and end cost a few looks and not thousands.
REST, LONGEST = 1e-3, 2.0
#: Jobs so few that no rest is needed.
FEW = 100


def decide(snapshot: Snapshot, now: datetime) -> Plan:  # noqa: ARG001 - as decisions are made
    """List the Jobs by name. When none is left, the old list stays, as in Volcano."""
    body = snapshot.body
    if body is None or body["metadata"].get("deletionTimestamp"):
        return NOTHING
    names = sorted(entry.ref.name for entry in snapshot.referrers.get(VC_JOB.id, ()))
    observed = body.get("status") or {}
    rest: tuple[Step, ...] = (HoldKey(min(len(names) * REST, LONGEST)),) if len(names) > FEW else ()
    if not names or names == observed.get("jobDependsOnList"):
        return Plan(rest)
    return Plan((PatchStatus({**observed, "jobDependsOnList": names}), *rest), f"{len(names)} Jobs were made from it")


CONTROLLER = Controller(kind=JOB_TEMPLATE, decide=decide, referrers=(VC_JOB,))
