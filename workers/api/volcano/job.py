"""`batch.volcano.sh/v1alpha1` Job as a typed model: all fields of Volcano 1.8 and later.

Limits are those of today's schema; workers/admission/volcano/job.py checks what a schema cannot express. Pod templates
and claims are not typed. Fields that Volcano does not have are optional, and say so.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from scheduler.cron.durations import duration
from workers.api import model
from workers.api.keda import scaledjob
from workers.api.kinds import VC_JOB, Object
from workers.api.model import Items, Model, Natural, Positive
from workers.api.references import DEFAULT_QUEUE
from workers.api.volcano.podtemplate import readable

#: Restarts of a job, and of a task's containers, where the manifest says nothing.
MAX_RETRY = 3
#: Pods that one job may have: Kubernetes is made for clusters of so many.
LARGEST = 150_000

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_INT32 = {"ge": -(2**31), "le": 2**31 - 1}


def _go_duration(text: str) -> str:
    duration(text)
    return text


#: A name of one part (RFC 1123 label); the empty text counts as absent.
Label = Annotated[str, StringConstraints(pattern=rf"^({_LABEL})?$", max_length=63)]
#: A name that may have dots (RFC 1123 subdomain); the empty text counts as absent.
Name = Annotated[str, StringConstraints(pattern=rf"^({_LABEL}(\.{_LABEL})*)?$", max_length=253)]
#: A duration as Go writes it: ``10m``, ``1h30m``.
Duration = Annotated[str, AfterValidator(_go_duration)]
Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
#: Small enough for every counter of an API server.
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]

Phase = Literal[
    "Pending",
    "Running",
    "Restarting",
    "Aborting",
    "Aborted",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
]


class NetworkTopology(Model):
    """The required distance between pods in the network, for schedulers that know it."""

    mode: Literal["hard", "soft"] = "hard"
    """hard is required, soft preferred."""
    highest_tier_allowed: Natural | None = None
    """How far apart pods may be: the number of a label in the setting `gang_topology`."""
    highest_tier_name: Annotated[str, Field(max_length=253)] | None = None
    """Excludes highestTierAllowed."""


class LifecyclePolicy(Model):
    """The action that answers an event of the pods of a job or of one of its tasks."""

    action: str | None = None
    """AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or ResumeJob."""
    event: str | None = None
    """What happened; `*` for everything."""
    events: Items[str] | None = None
    """Further events; `*` stands for all of them."""
    exit_code: Annotated[int, Field(**_INT32)] | None = None
    """Instead of an event: a pod failed with this code."""
    timeout: Duration | None = None
    """The action waits so long, and is dropped if the pod recovers meanwhile."""

    @property
    def all_events(self) -> frozenset[str]:
        """`event` and `events` together."""
        return frozenset(name for name in (self.event, *(self.events or ())) if name)

    @property
    def delay(self) -> timedelta | None:
        """The timeout, None for an action that is taken at once."""
        return duration(self.timeout) if self.timeout else None


class TaskDependsOn(Model):
    """The tasks whose pods must be there before this task's pods are made."""

    name: Items[str] | None = None
    """The tasks to wait for."""
    iteration: str | None = None
    """any: one of them is enough. Everything else: all of them."""


class PartitionPolicy(Model):
    """A task in parts of equal size that succeed or fail, and are placed, together."""

    total_partitions: Positive
    """Number of partitions."""
    partition_size: Positive
    """Pods per partition."""
    min_partitions: Natural = 0
    """Partitions that must start together."""
    network_topology: NetworkTopology | None = None
    """How close the pods of one partition must be."""


class Task(Model):
    """Pods of one role."""

    name: Label = ""
    """Unique in the job; default `default` and the task's index."""
    replicas: Count = 0
    """Number of pods."""
    min_available: Count | None = None
    """Of these pods, so many belong to the gang and must succeed; default all."""
    template: Annotated[dict[str, Any], AfterValidator(readable), Field(default_factory=dict)]
    """A pod template."""
    policies: Items[LifecyclePolicy] | None = None
    """They win over the job's."""
    topology_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] | None = None
    """NUMA policy; kept for Volcano's scheduler."""
    max_retry: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    """Container restarts after which the task counts as failed; default 3, -1 for never."""
    depends_on: TaskDependsOn | None = None
    """Tasks that must be ready before."""
    partition_policy: PartitionPolicy | None = None
    """Partitions of the task's pods."""

    @property
    def gang(self) -> int:
        """Pods of this task that belong to the gang."""
        parts = self.partition_policy
        if self.min_available is not None:
            return self.min_available
        return parts.min_partitions * parts.partition_size if parts and parts.min_partitions else self.replicas

    @property
    def retries(self) -> int | None:
        """Container restarts after which the task counts as failed; None for never."""
        return None if self.max_retry == -1 else self.max_retry or MAX_RETRY

    @property
    def metadata(self) -> Object:
        """The metadata of the template."""
        return dict(self.template.get("metadata") or {})

    @property
    def pod_spec(self) -> Object:
        """The pod spec of the template."""
        return dict(self.template.get("spec") or {})


class Volume(Model):
    """A claim that is mounted into every container of every pod."""

    mount_path: Annotated[str, StringConstraints(pattern="^[^:]*$")]
    """Where every container sees it."""
    volume_claim_name: Annotated[str, Field(max_length=253)] | None = None
    """A claim that is there; excludes volumeClaim."""
    volume_claim: dict[str, Any] | None = None
    """The spec of a PersistentVolumeClaim to make."""


class RestartBackoff(Model):
    """The wait before a restart."""

    seconds: Annotated[int, Field(ge=0, le=86400)]
    """Before the first restart."""
    factor: Annotated[float, Field(ge=1, le=100)] = 2
    """Every further wait is so many times the one before."""
    max_seconds: Annotated[int, Field(ge=0, le=86400)] = 600
    """The longest wait."""


class JobSpec(Model):
    """The tasks of a job and the rules of its life cycle."""

    scheduler_name: Annotated[str, Field(max_length=63)] | None = None
    """Whose gang it is; one of the setting `scheduler_names`."""
    min_available: Count | None = None
    """Pods that must be able to run before any is started, and must succeed; default all tasks' minAvailable."""
    min_success: Positive | None = None
    """The job is complete as soon as so many pods succeeded."""
    volumes: Items[Volume] | None = None
    """Volumes of every pod."""
    tasks: Annotated[Items[Task], Field(min_length=1)]
    """The roles of the Job."""
    policies: Items[LifecyclePolicy] | None = None
    """What follows on an event, for all tasks."""
    plugins: dict[str, Items[str] | None] | None = None
    """By name, a plugin's arguments."""
    running_estimate: Duration | None = None
    """Read by schedulers only."""
    queue: Name = DEFAULT_QUEUE
    """The queue that admits it; default `default`."""
    max_retry: Count = MAX_RETRY
    """Restarts of the job and of its parts, all together, before it fails."""
    ttl_seconds_after_finished: Count | None = None
    """The job is deleted so long after it ended; default never."""
    priority_class_name: Name | None = None
    """Priority among gangs of its queue."""
    network_topology: NetworkTopology | None = None
    """How close its pods must be."""
    suspend: bool | None = None
    """Aborts the job while true, resumes it afterwards. Not Volcano's."""
    active_deadline_seconds: Positive | None = None
    """The job is terminated when it has been at work for so long. Not Volcano's."""
    restart_backoff: RestartBackoff | None = None
    """Default: restarts do not wait. Not Volcano's."""
    ttl_seconds_after_aborted: Count | None = None
    """An aborted job is deleted after so long unless it is resumed. Not Volcano's."""

    @field_validator("queue")
    @classmethod
    def _is_named(cls, queue: str) -> str:
        return queue or DEFAULT_QUEUE

    @field_validator("tasks")
    @classmethod
    def _are_not_too_many(cls, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        """Checked wherever a job is read: every list of hosts is as long as this."""
        if (total := sum(task.replicas for task in tasks)) > LARGEST:
            raise ValueError(f"{total} replicas are more than the {LARGEST} that a job may have")
        return tasks

    @field_validator("tasks")
    @classmethod
    def _have_names(cls, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        return tuple(
            task if task.name else task.model_copy(update={"name": f"default{index}"})
            for index, task in enumerate(tasks)
        )

    @property
    def total(self) -> int:
        """Pods of all tasks."""
        return sum(task.replicas for task in self.tasks)

    @property
    def gang(self) -> int:
        """Pods that must be able to run before any is started."""
        if self.min_available is not None:
            return self.min_available
        return sum(task.gang for task in self.tasks)

    def task(self, name: str) -> Task | None:
        """The task of this name."""
        return next((task for task in self.tasks if task.name == name), None)


class JobState(Model):
    """The phase of the job."""

    phase: Phase | None = None
    """Pending, Running, Completed, Failed and so on."""
    reason: str | None = None
    """The reason of the phase. Volcano never sets it."""
    message: str | None = None
    """The cause in a sentence."""
    last_transition_time: Instant | None = None
    """When the phase began."""


class TaskStatus(Model):
    """Pods of one task."""

    phase: dict[str, int] | None = None
    """By phase, how many there are."""


class JobCondition(Model):
    """One phase of the job's history."""

    status: str
    """The phase."""
    last_transition_time: Instant | None = None
    """When it began."""


class Killing(Model):
    """Pods to delete, stored before the first deletion. Not Volcano's."""

    retain: Literal["soft", "none"]
    """soft: pods that succeeded or failed stay."""
    task: str | None = None
    """Only pods of this task."""
    pod: str | None = None
    """Only this pod."""
    indexes: str | None = None
    """Only the pods of these indexes (``0-2,5``)."""
    partition: int | None = None
    """Only this partition of the task."""
    version: int | None = None
    """Pods of this version and of older ones."""


class Delayed(Model):
    """An action that waits for its policy's timeout. Not Volcano's."""

    action: str
    """The action to take."""
    event: str
    """The event that it answers."""
    due: Instant
    """When it is taken."""
    task: str | None = None
    """The task that it is about."""
    pod: str | None = None
    """The pod that it is about."""
    uid: str | None = None
    """Of the pod."""
    partition: int | None = None
    """Of the task."""
    level: Literal["job", "task", "pod", "partition"] | None = None
    """Job, task, pod or partition."""


class Failure(Model):
    """The pod that made the job fail. Not Volcano's."""

    pod: str
    """The pod that failed."""
    task: str | None = None
    """Its task."""
    container: str | None = None
    """The container that failed first."""
    exit_code: int | None = None
    """That container's exit code."""
    reason: str | None = None
    """The reason that the pod shows."""
    message: str | None = None
    """The same in a sentence."""
    time: Instant | None = None
    """When it was seen."""


class JobStatus(Model):
    """The observed state of a job."""

    state: JobState | None = None
    """The phase, and its cause."""
    min_available: int | None = None
    """The gang's least size, as decided on last."""
    pending: int | None = None
    """Pods that wait."""
    running: int | None = None
    """Pods that run."""
    succeeded: int | None = None
    """Pods that succeeded."""
    failed: int | None = None
    """Pods that failed."""
    terminating: int | None = None
    """Pods that are being deleted."""
    unknown: int | None = None
    """Pods whose phase is unknown."""
    task_status_count: dict[str, TaskStatus] | None = None
    """Pods by task and phase."""
    version: int | None = None
    """Rises whenever all pods of the job are killed."""
    retry_count: int | None = None
    """Restarts so far."""
    running_duration: str | None = None
    """How long it ran."""
    controlled_resources: dict[str, str] | None = None
    """The objects created by plugins and volumes."""
    conditions: Items[JobCondition] | None = None
    """The phases so far, the newest last."""
    killing: Items[Killing] | None = None
    """Pods whose deletion is decided."""
    delayed: Items[Delayed] | None = None
    """Actions that wait for their time."""
    failures: Items[Failure] | None = None
    """Why pods failed, the newest last."""
    handled: Items[str] | None = None
    """Uids of Commands that have taken effect. Not Volcano's."""
    restart_time: Instant | None = None
    """Not before this instant does the job start again. Not Volcano's."""
    start_time: Instant | None = None
    """The start of the job's work, also after it was aborted. Not Volcano's."""
    present: dict[str, str] | None = None
    """By task, the indexes (``0-2,5``) of the pods of this version that were there. Not Volcano's."""
    group_phase: str | None = None
    """Unknown while the PodGroup is, so that its policies act once. Not Volcano's."""
    admitted_members: int | None = None
    """Pods of the admitted gang, while a larger one waits for its admission. Not Volcano's."""
    observed_generation: int | None = None
    """The generation of the spec that was decided on last. Not Volcano's."""


class JobMetadata(scaledjob.ScaledJobMetadata):
    """The part of the metadata that decisions use."""

    creation_timestamp: str | None = None


class Job(Model):
    """One Job of Volcano. Decisions compare the status as stored, so the model leaves it out."""

    metadata: JobMetadata
    spec: JobSpec


def parse(body: Object) -> Job:
    """Returns the typed Job. Raises UserError that names the object and every wrong field."""
    return model.parse(Job, VC_JOB, body)
