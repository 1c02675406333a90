"""Volcano's Job: what a new one is filled in with, and what of it is refused.

The schema comes first: what it refuses is left as it was, for it to say so. `faults` are those a Job has by itself;
`problems` are all of them, with the change and the queue.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from workers.admission.findings import Finding
from workers.admission.lookup import Lookup
from workers.admission.volcano import plugins, policies, queue_lookup, tasks
from workers.admission.volcano.tasks import tiers
from workers.api import model, names
from workers.api.kinds import VC_JOB, Object
from workers.api.model import Model, Problems
from workers.api.references import DEFAULT_QUEUE
from workers.api.volcano.job import MAX_RETRY, JobSpec, Volume


class _Job(Model):
    spec: JobSpec


def defaulted(body: Object, schedulers: Sequence[str] = ("volcano",)) -> Object:
    """The Job with everything that its author left to Volcano. Doing so twice changes nothing more."""
    spec = filled(body.get("spec"), schedulers)
    return body if spec == body.get("spec") else {**body, "spec": spec}


def filled(spec: Object | None, schedulers: Sequence[str] = ("volcano",)) -> Object | None:
    """The spec of a Job with everything that its author left out; one that the schema refuses is left alone."""
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
    """Everything that is wrong with a Job. old: what it replaces, None for a new one."""
    if old is None:
        return [*faults(body), *queue_lookup.admits_job(body["spec"].get("queue") or DEFAULT_QUEUE, lookup)]
    if body.get("spec") == old.get("spec"):
        # What was stored before a rule was made may stay, and may lose its finalizers.
        return []
    try:
        spec = _read(body)
    except Problems as error:
        return refused(error)
    found = [*_counts(spec), *_topologies(body["spec"])]
    return [*found, *forbidden_changes(body["spec"], old.get("spec") or {})]


def faults(body: Object, longest: str | None = None) -> list[Finding]:
    """What is wrong with a Job by itself, whatever the cluster has.

    longest: the name to judge instead of its own: that of the longest Job that is made from a template.
    """
    try:
        spec = _read(body)
    except Problems as error:
        return refused(error)
    # A name that is still to be generated is judged when it is there.
    name = (body.get("metadata") or {}).get("name") or "" if longest is None else longest
    misnamed = [Finding("metadata.name", problem) for problem in names.qualified_name(name)] if name else []
    found = [
        *plugins.problems(spec, "spec.plugins"),
        *(misnamed or (plugins.misnamed(spec, name) if name else ())),
        *tasks.problems(spec, "" if misnamed else name),
        *policies.problems(spec.policies or (), "spec.policies"),
        *_total(spec),
        *_volumes(spec.volumes or ()),
        *_topologies(body["spec"]),
    ]
    return found or list(tasks.order(spec.tasks))


def templates(body: Object) -> Iterator[tuple[str, Object]]:
    """The pod templates of a Job that the schema accepts, and where they stand: an API server knows what they must be.

    The schema lets them through unread.
    """
    for index, task in enumerate((body.get("spec") or {}).get("tasks") or ()):
        yield f"spec.tasks[{index}].template", task.get("template") or {}


def _read(body: Object) -> JobSpec:
    return model.parse(_Job, VC_JOB, body).spec


def refused(error: Problems) -> list[Finding]:
    """What a model says of an object, as findings."""
    return [Finding(each.field, "must be there" if each.missing else _lower(each.message)) for each in error.found]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _counts(spec: JobSpec) -> Iterable[Finding]:
    """What must hold of the numbers, also after a change."""
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


#: Volcano's, then those that only Penstock has.
FREE = frozenset({"minAvailable", "priorityClassName"})
OURS = frozenset({"suspend", "activeDeadlineSeconds", "restartBackoff", "ttlSecondsAfterAborted"})
_FREE_IN_TASKS = frozenset({"replicas", "minAvailable"})
_RULE = "must not change: of a job only minAvailable, priorityClassName and its tasks' replicas and minAvailable may"


def forbidden_changes(new: Object, old: Object) -> Iterator[Finding]:
    """The fields of a spec that changed and must not. Both specs are such as the schema accepts."""
    tasks, before = new.get("tasks") or [], old.get("tasks") or []
    if len(tasks) != len(before):
        yield Finding("spec.tasks", f"must stay as many as they are, {len(tasks)} != {len(before)}")
    else:
        for index, (task, known) in enumerate(zip(tasks, before, strict=True)):
            for field in _differing(task, known, _FREE_IN_TASKS):
                yield Finding(f"spec.tasks[{index}].{field}", _RULE)
    for field in _differing(new, old, FREE | OURS | {"tasks", "volumes"}):
        yield Finding(f"spec.{field}", _RULE)
    if _claimless(new) != _claimless(old):
        yield Finding("spec.volumes", _RULE)


def _claimless(spec: Object) -> list[Object]:
    """The volumes without the names of claims that a controller makes."""
    return [
        {key: value for key, value in volume.items() if key != "volumeClaimName" or not volume.get("volumeClaim")}
        for volume in spec.get("volumes") or ()
    ]


def _differing(new: Object, old: Object, free: frozenset[str]) -> list[str]:
    """The names of the fields that differ; an absent field and a null are the same."""
    return [name for name in sorted({*new, *old} - free) if _sent(new.get(name)) != _sent(old.get(name))]


def _sent(value: Any) -> Any:
    """A value without the nulls in it."""
    if isinstance(value, dict):
        return {name: _sent(each) for name, each in value.items() if each is not None}
    return [_sent(each) for each in value] if isinstance(value, list) else value
