"""The observed view of a Job: its spec, its status, its pods and the objects it owns."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from workers.admission.volcano.job import stored
from workers.api import conditions, times
from workers.api.kinds import (
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    POD_GROUP,
    QUEUE,
    SERVICE,
    Object,
    Ref,
    ref_of,
)
from workers.api.references import DEFAULT_QUEUE, OUT_OF_SYNC, TASK_NAME, is_gated
from workers.api.statuses import is_finished
from workers.api.volcano.job import Job, JobStatus, Phase, Task, parse
from workers.api.volcano.podgroup import GIVEN_UP
from workers.controllers.volcano import commands
from workers.controllers.volcano.job import names
from workers.decision.snapshot import CachedObject, Snapshot
from workers.errors import UserError

_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
#: Kinds that plugins create. Their objects carry the job's label, so that the reflector's index finds them.
ATTACHED = (CONFIG_MAP, SERVICE, NETWORK_POLICY)


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod of the job. index: None for a name that no replica has. version: of the job it was created for."""

    body: Object
    name: str
    uid: str
    task: str
    index: int | None
    version: int

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return str((self.body.get("status") or {}).get("phase") or "Pending")

    @property
    def placed(self) -> bool:
        """True if it has, or had, a node."""
        return bool((self.body.get("spec") or {}).get("nodeName")) or self.phase != "Pending"

    @property
    def gated(self) -> bool:
        """True until the gang's admission lets it start."""
        return is_gated(self.body)

    @property
    def leaving(self) -> bool:
        """True while it is being deleted."""
        return bool(self.body["metadata"].get("deletionTimestamp"))

    @property
    def ended(self) -> bool:
        """True if it succeeded or failed."""
        return is_finished(self.body)

    @property
    def partition(self) -> int | None:
        """Its partition, in a task with a partitionPolicy."""
        return _number((self.body["metadata"].get("labels") or {}).get(names.PARTITION))

    @property
    def given_up(self) -> bool:
        """True if its deletion was announced by the annotation OUT_OF_SYNC."""
        return (self.body["metadata"].get("annotations") or {}).get(OUT_OF_SYNC) == "true"

    @property
    def going(self) -> bool:
        """True from the announcement of its deletion on: what becomes of it then is no event, as in Volcano."""
        return self.leaving or self.given_up


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """The view of one decision.

    body: with defaults. status: as stored; memory: the same, typed. group: the current PodGroup; groups: also PodGroups
    that are being deleted. attached: plugins' objects. queue: None if it does not exist.
    failures: failed reconciles in a row; error: of the last one.
    """

    ref: Ref
    body: Object
    job: Job
    status: Object
    memory: JobStatus
    pods: tuple[ObservedPod, ...]
    group: Object | None
    groups: tuple[Object, ...]
    attached: Mapping[Ref, Object | None]
    commands: tuple[Object, ...]
    queue: Object | None
    relatives: Mapping[Ref, Object | None]
    failures: int = 0
    error: str | None = None

    @property
    def phase(self) -> Phase:
        """The stored phase; Pending without one."""
        return (self.memory.state.phase if self.memory.state else None) or "Pending"

    @property
    def new(self) -> bool:
        """True if the status was never written."""
        return self.memory.state is None or not self.memory.state.phase

    @property
    def version(self) -> int:
        """A number that rises with every full kill."""
        return self.memory.version or 0

    @property
    def group_phase(self) -> str | None:
        """The PodGroup's phase; None without a current PodGroup."""
        return ((self.group or {}).get("status") or {}).get("phase") or None

    @property
    def backed_out(self) -> bool:
        """True if the gang was admitted, did not get its nodes in time, and gave its resources back."""
        return self.group_phase == "Pending" and bool(((self.group or {}).get("status") or {}).get("backOff"))

    @property
    def abandoned(self) -> str | None:
        """The message of a gang that is never admitted any more; None while it may be."""
        found = conditions.find(self.group, "Unschedulable") if self.group and self.group_phase == "Pending" else None
        given_up = found and (found.get("status"), found.get("reason")) == ("True", GIVEN_UP)
        return str(found.get("message") or GIVEN_UP) if found and given_up else None

    @property
    def created(self) -> datetime:
        """The job's creation time."""
        return times.parse(self.body["metadata"]["creationTimestamp"])

    def of(self, task: Task) -> tuple[ObservedPod, ...]:
        """Returns the pods of one task."""
        return tuple(pod for pod in self.pods if pod.task == task.name)


def observe(snapshot: Snapshot) -> ObservedJob:
    """Returns the view of a snapshot with a job. Raises UserError for a malformed spec or status."""
    assert snapshot.body is not None
    body = stored(snapshot.body)
    job = parse(body)
    groups = tuple(_bodies(snapshot.children.get(POD_GROUP.id, ())))
    return ObservedJob(
        ref=snapshot.ref,
        body=body,
        job=job,
        status=body.get("status") or {},
        memory=_memory(body),
        pods=tuple(sorted(_pods(job, snapshot.children.get(POD.id, ())), key=_place)),
        group=_current(job, groups),
        groups=groups,
        attached={ref_of(kind, one): one for kind in ATTACHED for one in _bodies(snapshot.children.get(kind.id, ()))},
        commands=tuple(commands.in_order(snapshot)),
        queue=snapshot.relatives.get(queue_of(body)),
        relatives=snapshot.relatives,
        failures=snapshot.failures,
        error=snapshot.last_error,
    )


def queue_of(body: Object) -> Ref:
    """Returns the queue of a job."""
    return Ref(QUEUE, "", (body.get("spec") or {}).get("queue") or DEFAULT_QUEUE)


def _memory(body: Object) -> JobStatus:
    try:
        return JobStatus.model_validate(body.get("status") or {})
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        raise UserError(f"Job {body['metadata']['name']}: its status cannot be read: {fields}") from error


def _bodies(entries: Iterable[CachedObject]) -> Iterator[Object]:
    return (entry.body for entry in entries if entry.body is not None)


def _current(job: Job, groups: Iterable[Object]) -> Object | None:
    """Returns the job's PodGroup. Early versions of Volcano named it like the job; its pods keep that name."""
    there = {one["metadata"]["name"]: one for one in groups if not one["metadata"].get("deletionTimestamp")}
    return there.get(names.group(job)) or there.get(job.metadata.name)


def _pods(job: Job, entries: Iterable[CachedObject]) -> Iterator[ObservedPod]:
    """Yields the pods with the annotations of a task and version of this job; other pods are ignored."""
    for body in _bodies(entries):
        metadata = body["metadata"]
        annotations = metadata.get("annotations") or {}
        task, version = annotations.get(TASK_NAME), _number(annotations.get(names.VERSION))
        if annotations.get(names.JOB_NAME) == job.metadata.name and task and version is not None:
            index = _number(metadata["name"].removeprefix(f"{job.metadata.name}-{task}-"))
            yield ObservedPod(body, metadata["name"], metadata["uid"], task, index, version)


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None


def _place(pod: ObservedPod) -> tuple[str, int, str]:
    return pod.task, -1 if pod.index is None else pod.index, pod.name
