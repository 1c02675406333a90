"""Volcano's Job: defaults, validation, and the fields that may change after its creation.

What the schema refuses is left to the schema. `faults` are the findings on the Job alone; `problems` add the change and
the queue.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from workers.admission.findings import Finding
from workers.admission.lookup import Lookup
from workers.admission.volcano import lifecycle_policies, plugins, queue_lookup
from workers.admission.volcano import task_rules as tasks
from workers.admission.volcano.task_rules import tiers
from workers.api import model, names
from workers.api.kinds import VC_JOB, Object
from workers.api.model import Model, Problems
from workers.api.references import DEFAULT_QUEUE
from workers.api.volcano.job import MAX_RETRY, JobSpec, Volume


class _Job(Model):
    spec: JobSpec


def defaulted(body: Object, schedulers: Sequence[str] = ("volcano",)) -> Object:
    """Returns the Job with Volcano's defaults; idempotent."""
    spec = filled(body.get("spec"), schedulers)
    return body if spec == body.get("spec") else {**body, "spec": spec}


def stored(body: Object) -> Object:
    """Returns a stored Job with the defaults of what it lacks.

    Only the creation of a Job replaces a `minAvailable` of 0: one that a later edit wrote is meant.
    """
    found = defaulted(body)
    edited = (body["metadata"].get("generation") or 1) > 1 and (body.get("spec") or {}).get("minAvailable") == 0
    return {**found, "spec": {**found["spec"], "minAvailable": 0}} if edited else found


def filled(spec: Object | None, schedulers: Sequence[str] = ("volcano",)) -> Object | None:
    """Returns a Job's spec with defaults; a spec that the schema refuses is returned as it is."""
    if spec is None:
        return None
    try:
        read = JobSpec.model_validate(spec)
    except ValidationError:
        return spec
    result = {**spec, "tasks": [tasks.filled(task, index) for index, task in enumerate(spec["tasks"])]}
    result["queue"] = spec.get("queue") or DEFAULT_QUEUE
    result["schedulerName"] = spec.get("schedulerName") or schedulers[0]
    result["maxRetry"] = spec.get("maxRetry") or MAX_RETRY
    result["minAvailable"] = spec.get("minAvailable") or sum(task.gang for task in read.tasks)
    if read.plugins:
        result["plugins"] = {**spec["plugins"], **{name: [] for name in plugins.implied(read.plugins)}}
    return result


def problems(body: Object, old: Object | None, lookup: Lookup) -> list[Finding]:
    """Returns all findings on a Job. old: the Job it replaces, None for a new one."""
    if old is None:
        return [*faults(body), *queue_lookup.admits_job(body["spec"].get("queue") or DEFAULT_QUEUE, lookup)]
    if body.get("spec") == old.get("spec"):
        # A Job stored before a rule existed stays valid, and may lose its finalizers.
        return []
    try:
        spec = _read(body)
    except Problems as error:
        return refused(error)
    found = [*_counts(spec), *_topologies(body["spec"])]
    return [*found, *forbidden_changes(body["spec"], old.get("spec") or {})]


def faults(body: Object, longest: str | None = None) -> list[Finding]:
    """Returns the findings on a Job alone.

    longest: judged instead of its name: the longest name of a Job created from a template.
    """
    try:
        spec = _read(body)
    except Problems as error:
        return refused(error)
    # A generated name is judged after its generation.
    name = (body.get("metadata") or {}).get("name") or "" if longest is None else longest
    misnamed = [Finding("metadata.name", problem) for problem in names.qualified_name(name)] if name else []
    found = [
        *plugins.problems(spec, "spec.plugins"),
        *(misnamed or (plugins.misnamed(spec, name) if name else ())),
        *tasks.problems(spec, "" if misnamed else name),
        *lifecycle_policies.problems(spec.policies or (), "spec.policies"),
        *_total(spec),
        *_volumes(spec.volumes or ()),
        *_topologies(body["spec"]),
    ]
    return found or list(tasks.order(spec.tasks))


def _read(body: Object) -> JobSpec:
    return model.parse(_Job, VC_JOB, body).spec


def refused(error: Problems) -> list[Finding]:
    """Returns a model's errors as findings."""
    return [
        Finding(each.field, "must be there" if each.missing else (each.message[:1].lower() + each.message[1:]))
        for each in error.found
    ]


def _counts(spec: JobSpec) -> Iterable[Finding]:
    """Yields the findings on numbers, which hold after a change too."""
    for index, task in enumerate(spec.tasks):
        yield from tasks.counts(task, f"spec.tasks[{index}]")
    yield from _total(spec)


def _total(spec: JobSpec) -> Iterator[Finding]:
    if spec.total < (spec.min_available or 0):
        text = f"must not be greater than the replicas of all tasks, {spec.min_available} > {spec.total}"
        yield Finding("spec.minAvailable", text)


def _topologies(spec: Object) -> Iterator[Finding]:
    yield from tiers(spec.get("networkTopology"), "spec.networkTopology")
    for index, task in enumerate(spec["tasks"]):
        place = f"spec.tasks[{index}].partitionPolicy.networkTopology"
        yield from tiers((task.get("partitionPolicy") or {}).get("networkTopology"), place)


def _volumes(volumes: Sequence[Volume]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        place = f"spec.volumes[{index}]"
        if not volume.mount_path:
            yield Finding(f"{place}.mountPath", "must not be empty")
        elif volume.mount_path in seen:
            yield Finding(f"{place}.mountPath", f"{volume.mount_path!r} is there twice")
        seen.add(volume.mount_path)
        if bool(volume.volume_claim_name) == (volume.volume_claim is not None):
            yield Finding(place, "must have either a volumeClaim or a volumeClaimName")
        for problem in names.dns_subdomain(volume.volume_claim_name) if volume.volume_claim_name else ():
            yield Finding(f"{place}.volumeClaimName", problem)


#: Mutable fields: Volcano's, then Penstock's own.
FREE = frozenset({"minAvailable", "priorityClassName"})
OURS = frozenset({"suspend", "activeDeadlineSeconds", "restartBackoff", "ttlSecondsAfterAborted"})
_FREE_IN_TASKS = frozenset({"replicas", "minAvailable"})
_RULE = (
    "must not change: of a job only its tasks' replicas and minAvailable may, "
    f"and {', '.join((*sorted(FREE), *sorted(OURS)))}"
)


def forbidden_changes(new: Object, old: Object) -> Iterator[Finding]:
    """Yields the changed fields that must not change. Both specs are accepted by the schema.

    Defaults that one of them lacks are no change: `kubectl apply` sends the list of tasks as the manifest has it.
    """
    new, old = filled(new) or {}, filled(old) or {}
    wanted, before = new.get("tasks") or [], old.get("tasks") or []
    if len(wanted) != len(before):
        yield Finding("spec.tasks", f"must stay as many as they are, {len(wanted)} != {len(before)}")
    else:
        for index, (task, known) in enumerate(zip(wanted, before, strict=True)):
            for field in _differing(task, known, _FREE_IN_TASKS):
                yield Finding(f"spec.tasks[{index}].{field}", _RULE)
    for field in _differing(new, old, FREE | OURS | {"tasks", "volumes"}):
        yield Finding(f"spec.{field}", _RULE)
    if _claimless(new) != _claimless(old):
        yield Finding("spec.volumes", _RULE)


def _claimless(spec: Object) -> list[Object]:
    """Returns the volumes without the names of claims that a controller creates."""
    return [
        {key: value for key, value in volume.items() if key != "volumeClaimName" or not volume.get("volumeClaim")}
        for volume in spec.get("volumes") or ()
    ]


def _differing(new: Object, old: Object, free: frozenset[str]) -> list[str]:
    """Returns the names of the fields that differ; an absent field equals null."""
    return [name for name in sorted({*new, *old} - free) if _sent(new.get(name)) != _sent(old.get(name))]


def _sent(value: Any) -> Any:
    """Returns a value without the nulls in it."""
    if isinstance(value, dict):
        return {name: _sent(each) for name, each in value.items() if each is not None}
    return [_sent(each) for each in value] if isinstance(value, list) else value
