"""JobTemplate: its status lists the Jobs that were made from it."""

from datetime import datetime

from workers.api.kinds import JOB_TEMPLATE, VC_JOB
from workers.controller import Controller
from workers.plan import NOTHING, PatchStatus, Plan
from workers.snapshot import Snapshot


def decide(snapshot: Snapshot, now: datetime) -> Plan:  # noqa: ARG001 - as decisions are made
    """List the Jobs by name. When none is left, the old list stays, as in Volcano."""
    body = snapshot.body
    if body is None or body["metadata"].get("deletionTimestamp"):
        return NOTHING
    names = sorted(entry.ref.name for entry in snapshot.tied.get(VC_JOB.id, ()))
    observed = body.get("status") or {}
    if not names or names == observed.get("jobDependsOnList"):
        return NOTHING
    return Plan((PatchStatus({**observed, "jobDependsOnList": names}),), f"{len(names)} Jobs were made from it")


CONTROLLER = Controller(kind=JOB_TEMPLATE, decide=decide, tied=(VC_JOB,))
