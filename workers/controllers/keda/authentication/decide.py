"""The decision about one authentication: KEDA's finalizer, and a word when it comes and goes.

What an authentication holds is no concern of this decision: the mirror keeps its metadata and its lists of users only.
"""

from datetime import datetime

from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Object
from workers.controllers.keda import metadata
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, Plan, RecordEvent
from workers.reconcile.snapshot import Snapshot

_USERS = {"scaledjobs": "ScaledJobs", "scaledobjects": "ScaledObjects"}


def decide(snapshot: Snapshot, now: datetime) -> Plan:  # noqa: ARG001 - as every decision has it
    """Hold on to a new one; let go of one that is being deleted, used or not, as KEDA does."""
    body = snapshot.body
    if body is None:
        return NOTHING
    kind = snapshot.ref.kind.kind
    if not body["metadata"].get("deletionTimestamp"):
        held = metadata.hold_on(snapshot, body)
        return (
            Plan((*held, RecordEvent("Normal", f"{kind}Added", f"New {kind} configured")), "new") if held else NOTHING
        )
    if not metadata.is_held(body):
        return NOTHING
    return Plan((metadata.let_go(snapshot, body), _farewell(kind, body)), "being deleted")


def _farewell(kind: str, body: Object) -> RecordEvent:
    """Who still uses it hears so by its own condition; here it is said to whoever deleted it."""
    status = body.get("status") or {}
    users = "; ".join(f"{what} {status[field]}" for field, what in _USERS.items() if status.get(field))
    if users:
        return RecordEvent("Warning", f"{kind}Deleted", f"{kind} was deleted while it is used by {users}")
    return RecordEvent("Normal", f"{kind}Deleted", f"{kind} was deleted")


CONTROLLERS = tuple(
    Controller(kind=kind, decide=decide) for kind in (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION)
)
