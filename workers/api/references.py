"""Ties: references from an object to one that does not own it, by the kind of the referring object.

A tie works like an owner reference: the referenced object is reconciled at every change of the referring one, and its
decision observes all of them.
"""

from collections.abc import Callable, Mapping

from workers.api import kinds
from workers.api.kinds import Object, Ref
from workers.api.penstock_dev import taken_channels

#: A pod's annotation that names its PodGroup.
GROUP_NAME = "scheduling.k8s.io/group-name"
#: Annotation of a pod or a namespace: the queue of PodGroups that name none.
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
#: Label and annotation of a Volcano Job's pod: its task.
TASK_NAME = "volcano.sh/task-spec"
#: Label of a StatefulSet's pod: the revision of its template.
REVISION_HASH = "controller-revision-hash"
#: A Volcano Job's label: ``<namespace>.<name>`` of the JobTemplate it was made from.
CREATED_BY_TEMPLATE = "volcano.sh/createdByJobTemplate"
#: Annotation of a Volcano Job's pod: its deletion comes from a controller, not from a user.
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
#: The scheduling gate of a pod whose gang is not admitted.
GANG_GATE = "penstock.dev/gang"
#: The queue of objects that name none.
DEFAULT_QUEUE = "default"
#: The parent of all other queues.
ROOT_QUEUE = "root"


def is_gated(pod: Object) -> bool:
    """Returns True until the pod's gang is admitted."""
    return any(gate.get("name") == GANG_GATE for gate in (pod.get("spec") or {}).get("schedulingGates") or ())


def _group_of(pod: Object) -> Ref | None:
    metadata = pod["metadata"]
    name = (metadata.get("annotations") or {}).get(GROUP_NAME)
    return Ref(kinds.POD_GROUP, metadata["namespace"], name) if name else None


def _parent_of(queue: Object) -> Ref | None:
    parent = (queue.get("spec") or {}).get("parent") or ROOT_QUEUE
    # The root queue is always open and observes all others anyway, so their changes need not wake it.
    name = queue["metadata"]["name"]
    return None if name == ROOT_QUEUE or parent in (ROOT_QUEUE, name) else Ref(kinds.QUEUE, "", parent)


def _target_of(command: Object) -> Ref | None:
    target = command.get("target") or {}
    kind = kinds.by_manifest(target.get("apiVersion") or "", target.get("kind") or "")
    if kind is None or not target.get("name"):
        return None
    return Ref(kind, command["metadata"]["namespace"] if kind.namespaced else "", target["name"])


def _template_of(job: Object) -> Ref | None:
    metadata = job["metadata"]
    namespace, _, name = (metadata.get("labels") or {}).get(CREATED_BY_TEMPLATE, "").partition(".")
    # Any user may write the label: without this check a Job would change the status of another namespace's template.
    if namespace != metadata["namespace"]:
        return None
    # A name with dots is ambiguous, because a dot ends the namespace; Volcano does not match one either.
    return Ref(kinds.JOB_TEMPLATE, namespace, name) if name and "." not in name else None


def _group_of_workload(workload: Object) -> Ref | None:
    metadata = workload["metadata"]
    return Ref(kinds.POD_GROUP, metadata["namespace"], f"podgroup-{metadata['uid']}")


def _target_of_scaled(scaled: Object) -> Ref | None:
    target = (scaled.get("spec") or {}).get("scaleTargetRef") or {}
    kind, name = target.get("kind") or "Deployment", target.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        return None
    group = str(target.get("apiVersion") or "apps/v1").rpartition("/")[0]
    # All scalers of one target share this key. Its kind has upper case, as no real kind's id, so that the target itself
    # is not woken.
    return Ref(kinds.Kind(group, "", kind, f"Target-{kind}"), scaled["metadata"]["namespace"], name)


#: By kind id, a function from an object of that kind to the object it refers to, or None.
REFERENCES: Mapping[str, Callable[[Object], Ref | None]] = {
    kinds.POD.id: _group_of,
    kinds.REPLICA_SET.id: _group_of_workload,
    kinds.STATEFUL_SET.id: _group_of_workload,
    kinds.POD_GROUP.id: lambda group: Ref(kinds.QUEUE, "", (group.get("spec") or {}).get("queue") or DEFAULT_QUEUE),
    kinds.QUEUE.id: _parent_of,
    kinds.COMMAND.id: _target_of,
    kinds.VC_JOB.id: _template_of,
    kinds.SCALED_OBJECT.id: _target_of_scaled,
    kinds.SCALED_JOB.id: taken_channels.index_of,
    kinds.EVENT_JOB.id: lambda event_job: taken_channels.named(event_job["metadata"]["namespace"]),
}
