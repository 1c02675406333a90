"""The manifest of one pod of a task: its template, the job's labels and annotations, volumes and plugins."""

from collections.abc import Mapping

from workers.api.kinds import POD, Object
from workers.api.names import fitting_labels
from workers.api.references import GANG_GATE, GROUP_NAME, TASK_NAME
from workers.api.volcano.job import Job, Task
from workers.controllers.volcano.job import names, plugins, podgroup, volumes
from workers.controllers.volcano.job.names import VOLCANO, Site
from workers.controllers.volcano.podgroup.topology import with_affinity

RETRY_COUNT = "volcano.sh/job-retry-count"
TASK_INDEX = "volcano.sh/task-index"
TEMPLATE_UID = "volcano.sh/template-uid"
NUMA_POLICY = "volcano.sh/numa-topology-policy"
FORWARDING = "volcano.sh/job-forwarding"
PREEMPTABLE = "volcano.sh/preemptable"
COOLDOWN = "volcano.sh/cooldown-time"
REVOCABLE = "volcano.sh/revocable-zone"
#: The first of these annotations is copied.
DISRUPTION_BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")


def build(
    job: Job, task: Task, index: int, *, version: int, retries: int, site: Site, group: str = "", held: bool = False
) -> Object:
    """Returns the manifest of the pod `<job>-<task>-<index>`.

    version: of the job; a full kill raises it. retries: restarts so far. group: its PodGroup, `<job>-<uid>` if empty.
    held: the pod is gated until admission removes the gate. Raises PluginError for a job that its plugins cannot serve.
    """
    body: Object = {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": _metadata(job, task, index, version, retries, group or names.group(job)),
        "spec": _spec(job, task, index, site, held),
    }
    mounted = volumes.mounted(job, body)
    return plugins.pod(plugins.PodSlot(job, site, task, index), mounted)


def _metadata(job: Job, task: Task, index: int, version: int, retries: int, group: str) -> Object:
    given = task.metadata
    annotations = _annotations(job, task, index, version, retries)
    metadata = {
        "name": names.pod(job, task, index),
        "namespace": job.metadata.namespace,
        "labels": {**(given.get("labels") or {}), **_labels(job, task, index)},
        "annotations": {**(given.get("annotations") or {}), **annotations, GROUP_NAME: group},
        "ownerReferences": [names.owner(job)],
    }
    return {**metadata, "finalizers": list(given["finalizers"])} if given.get("finalizers") else metadata


def _labels(job: Job, task: Task, index: int) -> dict[str, str]:
    labels = {
        **names.labels(job),
        TASK_NAME: task.name,
        TASK_INDEX: str(index),
        **_copied(job.metadata.labels, PREEMPTABLE, COOLDOWN),
    }
    # The annotation has a name that is too long for a label.
    labels |= fitting_labels({names.QUEUE: job.spec.queue})
    if is_forwarded(job):
        labels[FORWARDING] = "true"
    if parts := task.partition_policy:
        labels[names.PARTITION] = str(index // parts.partition_size)
    return labels


def _annotations(job: Job, task: Task, index: int, version: int, retries: int) -> dict[str, str]:
    annotations = {
        TASK_NAME: task.name,
        names.JOB_NAME: job.metadata.name,
        names.QUEUE: job.spec.queue,
        names.VERSION: str(version),
        TEMPLATE_UID: f"{job.metadata.name}-{task.name}",
        TASK_INDEX: str(index),
        RETRY_COUNT: str(retries),
        **_copied(job.metadata.annotations, PREEMPTABLE, COOLDOWN, REVOCABLE),
    }
    budget = next((key for key in DISRUPTION_BUDGETS if key in job.metadata.annotations), None)
    if budget:
        annotations[budget] = job.metadata.annotations[budget]
    if task.topology_policy:
        annotations[NUMA_POLICY] = task.topology_policy
    if is_forwarded(job):
        annotations[FORWARDING] = "true"
    return annotations


def is_forwarded(job: Job) -> bool:
    """Returns True if the job's queue forwards its jobs to other clusters."""
    return job.metadata.annotations.get(FORWARDING) == "true"


def _copied(given: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: given[key] for key in keys if key in given}


def _spec(job: Job, task: Task, index: int, site: Site, held: bool) -> Object:
    spec = task.pod_spec
    spec["schedulerName"] = site.placing(spec.get("schedulerName") or job.spec.scheduler_name or VOLCANO)
    if held and not spec.get("nodeName"):
        gates = [gate for gate in spec.get("schedulingGates") or () if gate.get("name") != GANG_GATE]
        spec["schedulingGates"] = [*gates, {"name": GANG_GATE}]
    if job.spec.priority_class_name and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.spec.priority_class_name
    spec = with_affinity(spec, podgroup.topology_of(job.spec.network_topology), site.topology, names.labels(job))
    if (parts := task.partition_policy) is None:
        return spec
    partition = {**names.labels(job), TASK_NAME: task.name, names.PARTITION: str(index // parts.partition_size)}
    return with_affinity(spec, podgroup.topology_of(parts.network_topology), site.topology, partition)
