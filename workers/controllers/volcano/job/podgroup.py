"""The PodGroup of a job: the size of its gang and the resources it needs."""

from collections.abc import Iterator, Mapping, Set

from workers.api.kinds import POD_GROUP, Object
from workers.api.merge_patch import diff
from workers.api.references import TASK_NAME
from workers.api.volcano.job import Job, NetworkTopology, PartitionPolicy, Task
from workers.controllers.volcano import amounts, pod_requests
from workers.controllers.volcano.amounts import Amount
from workers.controllers.volcano.job import names
from workers.controllers.volcano.podgroup import places

#: Values of PriorityClasses by name.
Priorities = Mapping[str, int]

#: Annotations of the job's manifest that would be wrong on a PodGroup.
_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_NOBODY: frozenset[str] = frozenset()


def wanted(job: Job, priorities: Priorities, waiting: Set[str] = _NOBODY) -> Object:
    """Returns the job's PodGroup.

    waiting: tasks that `dependsOn` holds back. They are not part of the gang: without pods it could never be whole.
    """
    spec = job.spec
    least = members(job, waiting)
    tasks = [task for task in spec.tasks if task.name not in waiting]
    least_of = {task.name: task.gang for task in tasks}
    pods = chosen(job, priorities, waiting)
    metadata = {
        **names.metadata(job, names.group(job)),
        "labels": dict(job.metadata.labels),
        "annotations": {key: text for key, text in job.metadata.annotations.items() if key not in _NOT_COPIED},
    }
    content = {
        "minMember": least,
        "minTaskMember": least_of,
        "minTaskPods": pods if pods != least_of else None,
        "minTaskResources": _sizes(tasks),
        "minTaskPlacement": {task.name: where for task in tasks if (where := places.part(task.pod_spec))} or None,
        "queue": spec.queue,
        "priorityClassName": spec.priority_class_name or None,
        "minResources": min_resources(tasks, least, priorities),
        "networkTopology": topology_of(spec.network_topology),
        "subGroupPolicy": [_sub_group(task, task.partition_policy) for task in tasks if task.partition_policy] or None,
    }
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": metadata,
        "spec": {name: value for name, value in content.items() if value is not None},
    }


def members(job: Job, waiting: Set[str] = _NOBODY) -> int:
    """Returns the number of pods that must be able to start together."""
    if not waiting:
        return job.spec.gang
    return min(job.spec.gang, sum(task.gang for task in job.spec.tasks if task.name not in waiting))


def chosen(job: Job, priorities: Priorities, waiting: Set[str] = _NOBODY) -> dict[str, int]:
    """Returns the number of pods in the gang by task; they have the lowest indexes."""
    tasks = _by_priority([task for task in job.spec.tasks if task.name not in waiting], priorities)
    found = dict.fromkeys((task.name for task in job.spec.tasks if task.name not in waiting), 0)
    for task, number in _chosen(tasks, members(job, waiting)):
        found[task.name] += number
    return found


def patch(existing: Object, wanted: Object) -> Object | None:
    """Returns the merge patch to the wanted PodGroup, None if nothing differs.

    Queue, labels and annotations stay, and so do entries of tasks that are no longer counted.
    """
    old, new = existing.get("spec") or {}, wanted["spec"]
    changes: Object = {}
    for name in ("minMember", "priorityClassName", "subGroupPolicy"):
        if old.get(name) != new.get(name):
            changes[name] = new.get(name)
    known_members = old.get("minTaskMember") or {}
    news = {task: least for task, least in new["minTaskMember"].items() if known_members.get(task) != least}
    if news:
        changes["minTaskMember"] = news
    for name in ("minTaskPods", "minTaskResources", "minTaskPlacement"):
        # Volcano's CRD prunes this field: a missing value alone causes no patch, or every sync would repeat it.
        known = old.get(name)
        if (known is not None or changes) and known != new.get(name):
            changes[name] = diff(known, new.get(name))
    resources = old.get("minResources") or {}
    if not amounts.same(resources, new["minResources"]):
        changes["minResources"] = {**dict.fromkeys(resources), **new["minResources"]}
    return {"spec": changes} if changes else None


def min_resources(tasks: list[Task], least: int, priorities: Priorities) -> dict[str, str]:
    """Returns the resources of the least number of pods, by every name that a quota may count them by."""
    found: dict[str, Amount] = {}
    for task, number in _chosen(_by_priority(tasks, priorities), least):
        if number:
            found = amounts.total((found, amounts.multiplied(pod_requests.usage(task.pod_spec), number)))
    return amounts.render(found)


def _sizes(tasks: list[Task]) -> Object | None:
    """Returns the requests of one pod by task; None for a single task, where `minResources` says it."""
    if len(tasks) < 2:
        return None
    return {task.name: amounts.render(pod_requests.requests(task.pod_spec)) for task in tasks}


def _by_priority(tasks: list[Task], priorities: Priorities) -> list[Task]:
    return sorted(tasks, key=lambda task: -priorities.get(str(task.pod_spec.get("priorityClassName") or ""), 0))


def _chosen(tasks: list[Task], least: int) -> Iterator[tuple[Task, int]]:
    """Yields the number of pods in the gang by task.

    Where the tasks' own minimums fit, they come first and the rest is filled up; otherwise whole tasks are taken in
    order.
    """
    fits = least >= sum(task.gang for task in tasks)
    fixed = [(task.min_available or 0) if fits else 0 for task in tasks]
    left = least
    for task, number in zip(tasks, fixed, strict=True):
        left -= number
        yield task, number
    for task, number in zip(tasks, fixed, strict=True):
        more = max(0, min(task.replicas - number, left))
        left -= more
        yield task, more


def topology_of(given: NetworkTopology | None) -> Object | None:
    """Returns the network topology; a tier by number wins over a tier by name."""
    if given is None:
        return None
    if given.highest_tier_allowed is not None:
        return {"mode": given.mode, "highestTierAllowed": given.highest_tier_allowed}
    return {"mode": given.mode, **({"highestTierName": given.highest_tier_name} if given.highest_tier_name else {})}


def _sub_group(task: Task, parts: PartitionPolicy) -> Object:
    """Returns each partition of a task as a gang within the gang."""
    topology = topology_of(parts.network_topology)
    return {
        "name": task.name,
        "labelSelector": {"matchLabels": {TASK_NAME: task.name}},
        "matchLabelKeys": [names.PARTITION],
        "subGroupSize": parts.partition_size,
        "minSubGroups": parts.min_partitions,
        **({"networkTopology": topology} if topology else {}),
    }
