"""JobTemplate: its status lists the Jobs created from it."""

from datetime import datetime

from workers.api.kinds import JOB_TEMPLATE, VC_JOB
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, HoldKey, PatchStatus, Plan, Step
from workers.decision.snapshot import Snapshot

#: A reconcile reads all Jobs of the template. After many of them the key pauses (seconds per Job, and at most), so that
#: a thousand Jobs that start and end cost a few reconciles.
PAUSE, LONGEST_PAUSE = 1e-3, 2.0
#: Up to so many Jobs there is no pause.
FEW = 20


def decide(snapshot: Snapshot, now: datetime) -> Plan:  # noqa: ARG001 - as decisions are made
    """Returns the plan that lists the Jobs by name. When none is left, the old list stays, as in Volcano."""
    body = snapshot.body
    if body is None or body["metadata"].get("deletionTimestamp"):
        return NOTHING
    names = sorted(entry.ref.name for entry in snapshot.referrers.get(VC_JOB.id, ()))
    observed = body.get("status") or {}
    pause: tuple[Step, ...] = (HoldKey(min(len(names) * PAUSE, LONGEST_PAUSE)),) if len(names) > FEW else ()
    if not names or names == observed.get("jobDependsOnList"):
        return Plan(pause)
    return Plan((PatchStatus({**observed, "jobDependsOnList": names}), *pause), f"{len(names)} Jobs were made from it")


CONTROLLER = Controller(kind=JOB_TEMPLATE, decide=decide, referrers=(VC_JOB,))
