"""The tasks of Volcano's Job: defaults, and the rules for each task and for all together."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.admission.findings import Finding
from workers.admission.volcano import lifecycle_policies
from workers.api import names, quantities
from workers.api.kinds import Object
from workers.api.volcano.job import MAX_RETRY, JobSpec, Task

_WHOLE = quantities.parse("1")


def filled(task: Object, index: int) -> Object:
    """Returns a task with defaults."""
    result = dict(task)
    result["name"] = task.get("name") or f"default{index}"
    result["maxRetry"] = task.get("maxRetry") or MAX_RETRY
    if task.get("minAvailable") is None:
        result["minAvailable"] = Task.model_validate(task).gang
    template = task.get("template") or {}
    spec = _object(template.get("spec"))
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        result["template"] = {**template, "spec": {**spec, "dnsPolicy": "ClusterFirstWithHostNet"}}
    return result


def problems(spec: JobSpec, job: str) -> Iterator[Finding]:
    """Yields the findings on each task. job: the job's name, empty if it is still to be generated."""
    seen: set[str] = set()
    for index, task in enumerate(spec.tasks):
        place = f"spec.tasks[{index}]"
        yield from counts(task, place)
        yield from (Finding(f"{place}.name", problem) for problem in names.dns_label(task.name))
        if task.name in seen:
            yield Finding(f"{place}.name", f"{task.name!r} is the name of two tasks")
            return
        seen.add(task.name)
        yield from lifecycle_policies.problems(task.policies or (), f"{place}.policies")
        yield from _pod_name(spec, task, index, job)
        yield from _topology(task, place)


def counts(task: Task, place: str) -> Iterator[Finding]:
    """Yields the findings on a task's numbers, which hold after a change too."""
    if task.min_available is not None and task.min_available > task.replicas:
        yield Finding(
            f"{place}.minAvailable", f"must not be greater than replicas, {task.min_available} > {task.replicas}"
        )
    parts = task.partition_policy
    if parts is None:
        return
    pods = parts.total_partitions * parts.partition_size
    if pods != task.replicas:
        text = f"totalPartitions * partitionSize must be replicas, {pods} != {task.replicas}"
        yield Finding(f"{place}.partitionPolicy", text)
    least = parts.min_partitions * parts.partition_size
    if least and task.min_available is not None and task.min_available != least:
        text = f"must be minPartitions * partitionSize, {task.min_available} != {least}"
        yield Finding(f"{place}.minAvailable", text)


def _pod_name(spec: JobSpec, task: Task, index: int, job: str) -> Iterator[Finding]:
    """Yields findings on pod names. As in Volcano the task's index stands for the pod's, except for host names."""
    if not job:
        return
    last = max(index, task.replicas - 1) if "svc" in (spec.plugins or {}) else index
    name = f"{job}-{task.name}-{last}"
    for problem in names.qualified_name(name):
        yield Finding(f"spec.tasks[{index}].name", f"the pods' names are built from it, {name!r}: {problem}")


def _topology(task: Task, place: str) -> Iterator[Finding]:
    """Yields containers without whole CPUs, which a NUMA policy requires."""
    if task.topology_policy in (None, "none"):
        return
    spec = _object(task.template.get("spec"))
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            resources = _object(_object(container).get("resources"))
            amounts = _object(resources.get("requests") or resources.get("limits"))
            if not _whole(amounts.get("cpu")):
                where = f"{place}.template.spec.{part}[{index}].resources.requests[cpu]"
                yield Finding(where, f"must be a whole number with topologyPolicy {task.topology_policy}")


def _object(value: Any) -> Object:
    """Returns a dictionary as it is, and an empty one for anything else: the schema lets templates through unread."""
    return value if isinstance(value, dict) else {}


def _whole(amount: Any) -> bool:
    try:
        number = quantities.parse(str(amount)) if amount else 0
    except ValueError:
        return False
    return number > 0 and number % _WHOLE == 0


def order(found: Sequence[Task]) -> Iterator[Finding]:
    """Yields findings on `dependsOn`: unknown names, duplicates and cycles."""
    wanted = {task.name: tuple((task.depends_on.name if task.depends_on else None) or ()) for task in found}
    for index, task in enumerate(found):
        place = f"spec.tasks[{index}].dependsOn.name"
        for name in sorted(set(wanted[task.name])):
            if name not in wanted:
                yield Finding(place, f"there is no task {name!r}")
            if wanted[task.name].count(name) > 1:
                yield Finding(place, f"{name!r} is there twice")
    if circle := _circle(wanted):
        yield Finding("spec.tasks", f"they wait for each other in a circle: {' -> '.join(circle)}")


def _circle(wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns a cycle of names, empty without one."""
    waiting = dict(wanted)
    while ready := [name for name, needs in waiting.items() if not any(need in waiting for need in needs)]:
        for name in ready:
            del waiting[name]
    path: list[str] = []
    name = next(iter(waiting), "")
    while name and name not in path:
        path.append(name)
        name = next(need for need in waiting[name] if need in waiting)
    return [*path[path.index(name) :], name] if name else []


def tiers(topology: Object | None, path: str) -> Iterator[Finding]:
    """Yields the findings on a networkTopology."""
    if topology and topology.get("highestTierAllowed") is not None and topology.get("highestTierName"):
        yield Finding(path, "must not have both highestTierAllowed and highestTierName")
