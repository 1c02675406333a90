"""The decision about one authentication: KEDA's finalizer, and a word when it comes and goes.

What an authentication holds is no concern of this decision: the mirror keeps its metadata and its lists of users only.
"""

from datetime import datetime

from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Object
from workers.controller import Controller
from workers.plan import NOTHING, Patch, Plan, Record, Step
from workers.snapshot import Snapshot

FINALIZER = "finalizer.keda.sh"
_USERS = {"scaledjobs": "ScaledJobs", "scaledobjects": "ScaledObjects"}


def decide(snapshot: Snapshot, now: datetime) -> Plan:  # noqa: ARG001 - as every decision has it
    """Hold on to a new one; let go of one that is being deleted, used or not, as KEDA does."""
    body = snapshot.body
    if body is None:
        return NOTHING
    finalizers = body["metadata"].get("finalizers") or []
    kind = snapshot.ref.kind.kind
    if not body["metadata"].get("deletionTimestamp"):
        if FINALIZER in finalizers:
            return NOTHING
        record = Record("Normal", f"{kind}Added", f"New {kind} configured")
        return Plan((_change(snapshot, body, [*finalizers, FINALIZER]), record), "new")
    if FINALIZER not in finalizers:
        return NOTHING
    rest = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    return Plan((_change(snapshot, body, rest), _farewell(kind, body)), "being deleted")


def _change(snapshot: Snapshot, body: Object, finalizers: list[str]) -> Step:
    metadata = {"finalizers": finalizers}
    return Patch(snapshot.ref, {"metadata": metadata}, body["metadata"]["resourceVersion"])


def _farewell(kind: str, body: Object) -> Record:
    """Who still uses it hears so by its own condition; here it is said to whoever deleted it."""
    status = body.get("status") or {}
    users = "; ".join(f"{what} {status[field]}" for field, what in _USERS.items() if status.get(field))
    if users:
        return Record("Warning", f"{kind}Deleted", f"{kind} was deleted while it is used by {users}")
    return Record("Normal", f"{kind}Deleted", f"{kind} was deleted")


CONTROLLERS = tuple(
    Controller(kind=kind, decide=decide) for kind in (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION)
)
