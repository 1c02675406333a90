"""Controllers of TriggerAuthentication and ClusterTriggerAuthentication: KEDA's finalizer, and Events at both ends.

The store keeps metadata and status of these kinds only, so the decision never sees a secret.
"""

from datetime import datetime

from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Object
from workers.controllers.keda import finalizer
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, Plan, RecordEvent
from workers.decision.snapshot import Snapshot

_USERS = {"scaledjobs": "ScaledJobs", "scaledobjects": "ScaledObjects"}


def decide(snapshot: Snapshot, now: datetime) -> Plan:  # noqa: ARG001 - the signature of every decision
    """Puts the finalizer on a new authentication and takes it off a deleted one, used or not, as KEDA does."""
    body = snapshot.body
    if body is None:
        return NOTHING
    kind = snapshot.ref.kind.kind
    if not body["metadata"].get("deletionTimestamp"):
        patches = finalizer.add(snapshot, body)
        added = RecordEvent("Normal", f"{kind}Added", f"New {kind} configured")
        return Plan((*patches, added), "new") if patches else NOTHING
    if not finalizer.is_on(body):
        return NOTHING
    return Plan((finalizer.remove(snapshot, body), _deleted(kind, body)), "being deleted")


def _deleted(kind: str, body: Object) -> RecordEvent:
    """Returns the Event of a deletion, a warning that names the users if there are any."""
    status = body.get("status") or {}
    users = "; ".join(f"{plural} {status[field]}" for field, plural in _USERS.items() if status.get(field))
    if users:
        return RecordEvent("Warning", f"{kind}Deleted", f"{kind} was deleted while it is used by {users}")
    return RecordEvent("Normal", f"{kind}Deleted", f"{kind} was deleted")


CONTROLLERS = tuple(
    Controller(kind=kind, decide=decide) for kind in (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION)
)
