"""From an object to its row: the kinds that the page shows, each with the function that sums it up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from deploy.object_rows import batch_rows, row, scaling_rows, volcano_rows
from deploy.object_rows.row import Row, Summary
from workers.api import kinds
from workers.api.kinds import Kind, Object, Ref


@dataclass(frozen=True, slots=True)
class ShownKind:
    """A kind that the page shows. depth: its objects have a depth of waiting work, which is sampled."""

    kind: Kind
    summed_up: Callable[[Object], Summary]
    depth: bool = False


_ALL = (
    ShownKind(kinds.SCALED_JOB, scaling_rows.scaled, depth=True),
    ShownKind(kinds.SCALED_OBJECT, scaling_rows.scaled, depth=True),
    ShownKind(kinds.EVENT_JOB, scaling_rows.event_job, depth=True),
    ShownKind(kinds.SCHEDULED_JOB, batch_rows.schedule),
    ShownKind(kinds.CRON_JOB, batch_rows.schedule),
    ShownKind(kinds.JOB, batch_rows.job),
    ShownKind(kinds.DEPLOYMENT, batch_rows.workload),
    ShownKind(kinds.STATEFUL_SET, batch_rows.workload),
    ShownKind(kinds.REPLICA_SET, batch_rows.workload),
    ShownKind(kinds.VC_JOB, volcano_rows.volcano_job),
    ShownKind(kinds.VC_CRON_JOB, batch_rows.schedule),
    ShownKind(kinds.QUEUE, volcano_rows.queue),
    ShownKind(kinds.POD_GROUP, volcano_rows.pod_group),
    ShownKind(kinds.JOB_FLOW, volcano_rows.job_flow),
    ShownKind(kinds.JOB_TEMPLATE, volcano_rows.job_template),
    ShownKind(kinds.COMMAND, volcano_rows.bus_command),
    ShownKind(kinds.POD, batch_rows.pod),
    ShownKind(kinds.SCALE_POLICY, scaling_rows.scale_policy),
    ShownKind(kinds.TRIGGER_AUTHENTICATION, scaling_rows.authentication),
    ShownKind(kinds.CLUSTER_TRIGGER_AUTHENTICATION, scaling_rows.authentication),
)
#: The kinds of the page, by id, in the order in which it lists them.
SHOWN: Mapping[str, ShownKind] = {each.kind.id: each for each in _ALL}
#: Kinds whose rows get the numbers of their children: their own status does not count them.
COUNTED = frozenset({kinds.SCALED_JOB.id})


def derived(ref: Ref, body: Object) -> Row:
    """Returns an object's row. An object whose status is not of its kind's form has phase Unreadable and a warning.

    Any client may write a status, and one that is malformed must not hide the others.
    """
    try:
        summary = SHOWN[ref.kind.id].summed_up(body)
        if body["metadata"].get("deletionTimestamp") and ref.kind != kinds.POD:
            # An error is the reason why it is still there.
            if summary.tone != "error":
                summary = replace(summary, tone="waiting", message=_deletion(body))
            summary = replace(summary, phase="Terminating")
        return row.assemble(ref, body, summary, _conditions(ref, body))
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        unreadable = Summary("Unreadable", "warning", f"its status cannot be read: {type(error).__name__}: {error}")
        return row.assemble(ref, {"metadata": _plain(body.get("metadata"))}, unreadable, ())


def _conditions(ref: Ref, body: Object) -> Sequence[Object]:
    status = row.status_of(body)
    if ref.kind.id == kinds.VC_JOB.id:
        return ()  # its field of this name is a history of phases
    found = status.get("flowConditions" if ref.kind.id == kinds.JOB_FLOW.id else "conditions")
    return found if isinstance(found, list) else ()


def _deletion(body: Object) -> str:
    """Returns the reason why a deleted object is still there, as far as it says so."""
    finalizers = kinds.finalizers_of(body)
    return f"deleted, and waits for {', '.join(map(str, finalizers))}" if finalizers else ""


def _plain(metadata: object) -> Object:
    """Returns the two fields of the metadata that every row has."""
    found = metadata if isinstance(metadata, dict) else {}
    return {name: found.get(name) for name in ("uid", "creationTimestamp")}
