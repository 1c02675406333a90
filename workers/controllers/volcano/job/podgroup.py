"""The PodGroup of a job: how many of its pods must fit at once, and what they take."""

from collections.abc import Iterator, Mapping, Set

from workers.api.kinds import POD_GROUP, Object
from workers.api.volcano.job import Job, NetworkTopology, PartitionPolicy, Task
from workers.client.merge_patch import diff
from workers.controllers.volcano import amounts, demand
from workers.controllers.volcano.amounts import Amount
from workers.controllers.volcano.job import names
from workers.controllers.volcano.podgroup import places

#: By name, the value of a PriorityClass.
Priorities = Mapping[str, int]

#: What describes the job's own manifest, and would describe a PodGroup wrongly.
_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_NOBODY: frozenset[str] = frozenset()


def wanted(job: Job, priorities: Priorities, waiting: Set[str] = _NOBODY) -> Object:
    """The job's PodGroup as it is created.

    waiting: tasks that may not start yet, because of `dependsOn`. They do not count in the gang yet: it could never be
    whole, as they have no pods.
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
        "networkTopology": _topology(spec.network_topology),
        "subGroupPolicy": [_sub_group(task, task.partition_policy) for task in tasks if task.partition_policy] or None,
    }
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": metadata,
        "spec": {name: value for name, value in content.items() if value is not None},
    }


def members(job: Job, waiting: Set[str] = _NOBODY) -> int:
    """How many pods must be able to start together."""
    if not waiting:
        return job.spec.gang
    return min(job.spec.gang, sum(task.gang for task in job.spec.tasks if task.name not in waiting))


def chosen(job: Job, priorities: Priorities, waiting: Set[str] = _NOBODY) -> dict[str, int]:
    """By task, how many of its pods make up the gang: those of the lowest indexes."""
    tasks = _by_priority([task for task in job.spec.tasks if task.name not in waiting], priorities)
    found = dict.fromkeys((task.name for task in job.spec.tasks if task.name not in waiting), 0)
    for task, number in _chosen(tasks, members(job, waiting)):
        found[task.name] += number
    return found


def patch(existing: Object, wanted: Object) -> Object | None:
    """The merge patch after which an existing PodGroup says what is wanted; None if it does.

    Queue, labels and annotations stay as they are, and so do entries of tasks that are no longer counted.
    """
    old, new = existing.get("spec") or {}, wanted["spec"]
    changes: Object = {}
    for name in ("minMember", "priorityClassName", "subGroupPolicy"):
        if old.get(name) != new.get(name):
            changes[name] = new.get(name)
    known_members = _members(old)
    news = {task: least for task, least in new["minTaskMember"].items() if known_members.get(task) != least}
    if news:
        changes["minTaskMember"] = news
    for name in ("minTaskPods", "minTaskResources", "minTaskPlacement"):
        # Definitions of Volcano's own do not keep it: then it is not asked for with every sync.
        known = old.get(name)
        if (known is not None or changes) and known != new.get(name):
            changes[name] = diff(known, new.get(name))
    resources = old.get("minResources") or {}
    if not amounts.same(resources, new["minResources"]):
        changes["minResources"] = {**dict.fromkeys(resources), **new["minResources"]}
    return {"spec": changes} if changes else None


def min_resources(tasks: list[Task], least: int, priorities: Priorities) -> dict[str, str]:
    """What the least number of pods takes, by all the names a quota may count it by."""
    found: dict[str, Amount] = {}
    for task, number in _chosen(_by_priority(tasks, priorities), least):
        if number:
            found = amounts.total((found, amounts.multiplied(demand.usage(task.pod_spec), number)))
    return amounts.render(found)


def _sizes(tasks: list[Task]) -> Object | None:
    """What one pod of each task asks of a node; of a single task `minResources` says it."""
    if len(tasks) < 2:
        return None
    return {task.name: amounts.render(demand.requests(task.pod_spec)) for task in tasks}


def _by_priority(tasks: list[Task], priorities: Priorities) -> list[Task]:
    return sorted(tasks, key=lambda task: -priorities.get(str(task.pod_spec.get("priorityClassName") or ""), 0))


def _chosen(tasks: list[Task], least: int) -> Iterator[tuple[Task, int]]:
    """How many pods of which task make up the gang.

    Where the tasks' own minimums fit in, those come first, and the rest is filled up; otherwise whole tasks do.
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


def _members(spec: Object) -> Mapping[str, int]:
    return spec.get("minTaskMember") or {}


def _topology(given: NetworkTopology | None) -> Object | None:
    """The network topology; a tier by number wins over one by name."""
    if given is None:
        return None
    if given.highest_tier_allowed is not None:
        return {"mode": given.mode, "highestTierAllowed": given.highest_tier_allowed}
    return {"mode": given.mode, **({"highestTierName": given.highest_tier_name} if given.highest_tier_name else {})}


def _sub_group(task: Task, parts: PartitionPolicy) -> Object:
    """Each partition of a task as a gang of its own within the gang."""
    topology = _topology(parts.network_topology)
    return {
        "name": task.name,
        "labelSelector": {"matchLabels": {names.TASK: task.name}},
        "matchLabelKeys": [names.PARTITION],
        "subGroupSize": parts.partition_size,
        "minSubGroups": parts.min_partitions,
        **({"networkTopology": topology} if topology else {}),
    }
