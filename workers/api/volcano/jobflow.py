"""`flow.volcano.sh/v1alpha1` JobFlow as a typed model: Volcano's fields, and what its users have wished for.

Volcano's own are `flows` with name, dependsOn and patch, and `jobRetainPolicy`. All others are optional, and a flow
that has none of them means what it means to Volcano.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from workers.api import model
from workers.api.kinds import JOB_FLOW, Object
from workers.api.model import Items, Model, Natural, Positive
from workers.api.penstock_dev.scheduledjob import ConcurrencyPolicy, Duration, Instant, Seconds, StatusCondition
from workers.api.volcano.job import TaskStatus

#: Jobs that one entry may fan out to.
WIDEST = 1000
#: Entries and items of one flow: the status of more would not fit into what an API server stores (1.5 MiB).
LARGEST = 2500
#: Label and annotation of a flow's Jobs: ``<namespace>.<flow>``.
CREATED_BY_FLOW = "volcano.sh/createdByJobFlow"
#: Annotation of a flow: a new text in it runs again what failed.
RETRY = "penstock.dev/retry"

#: How an entry may end.
Ending = Literal["Completed", "Failed", "Terminated", "Skipped"]

Name = Annotated[str, StringConstraints(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Header(Model):
    """A header of a request."""

    name: str
    """Name of the header."""
    value: str = ""
    """Value of the header."""


class HttpGet(Model):
    """A server in every pod of a task that answers with success."""

    task_name: str
    """The task whose pods are asked."""
    path: str = "/"
    """Path of the request."""
    port: Port
    """Port of the pods."""
    http_header: Header | None = None
    """A header of the request."""


class TcpSocket(Model):
    """A port that every pod of a task listens on."""

    task_name: str
    """The task whose pods are asked."""
    port: Port
    """Port of the pods."""


class TaskPhase(Model):
    """A task whose pods have got to a phase."""

    task_name: str
    """The task."""
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    """The phase of its pods."""


class FlowProbe(Model):
    """Conditions on running targets that stand for their completion. All of them must hold."""

    http_get_list: Items[HttpGet] = ()
    """Requests that must be answered."""
    tcp_socket_list: Items[TcpSocket] = ()
    """Ports that must listen."""
    task_status_list: Items[TaskPhase] = ()
    """Tasks that must be in a phase."""

    @property
    def asked(self) -> tuple[HttpGet | TcpSocket, ...]:
        """The probes over the network."""
        return (*self.http_get_list, *self.tcp_socket_list)

    @property
    def tasks(self) -> frozenset[str]:
        """The probed tasks."""
        return frozenset(each.task_name for each in self.asked) | {each.task_name for each in self.task_status_list}


class EntryDependsOn(Model):
    """The entries that an entry waits for."""

    targets: Items[str] | None = None
    """Entries of this flow."""
    probe: FlowProbe | None = None
    """What must hold of the targets while they run, instead of their end."""


class TemplatePatch(Model):
    """The differences of this entry's Job from its template."""

    job_spec: dict[str, Any] | None = None
    """Merged into the template's spec: objects field by field, lists of named objects by name, other lists replaced."""


class FlowRetry(Model):
    """Further Jobs of an entry whose Job failed or took too long."""

    limit: Annotated[int, Field(ge=0, le=100)]
    """Number of further Jobs."""
    backoff_seconds: Seconds = 10
    """Wait before the first."""
    factor: Annotated[float, Field(ge=1, le=100)] = 2
    """Multiplies every further wait."""
    max_backoff_seconds: Seconds = 600
    """Longest wait."""


class When(Model):
    """The ends of the targets that let an entry start; without it, all of them must have completed."""

    phases: Annotated[Items[Ending], Field(min_length=1)] = ("Completed",)
    """Phases of the targets that count."""
    match: Literal["all", "any"] = "all"
    """all or any of the targets."""


class Switch(Model):
    """Entries with the same `of` are branches of one choice: those whose case fits start, the others are skipped."""

    of: str
    """An expression."""
    case: Annotated[Items[str] | None, Field(min_length=1)] = None
    """Values that make this branch the one. None: the branch for every other value."""


class ForEach(Model):
    """One Job per item, or per number from 0 on."""

    items: Annotated[Items[str] | None, Field(max_length=WIDEST)] = None
    """The values, one Job for each."""
    parameter: str | None = None
    """Instead: a parameter that lists the items, separated by commas."""
    count: Annotated[int, Field(ge=0, le=WIDEST)] | None = None
    """Instead: so many Jobs that only their index tells apart."""
    parallelism: Positive | None = None
    """Most of them at once."""


class FlowEntry(Model):
    """One step of a flow."""

    name: Name
    """The Job's name is the flow's and this; the template's name, too, unless `template` says another."""
    depends_on: EntryDependsOn | None = None
    """What must happen before it starts."""
    patch: TemplatePatch | None = None
    """Changes of the template for this entry."""
    template: str | None = None
    """The JobTemplate. Not Volcano's."""
    when: When | None = None
    """Not Volcano's."""
    if_: Annotated[str | None, Field(alias="if")] = None
    """An expression that must hold when the entry could start; otherwise it is skipped. Not Volcano's."""
    switch: Switch | None = None
    """Not Volcano's."""
    for_each: ForEach | None = None
    """Not Volcano's."""
    retry: FlowRetry | None = None
    """Not Volcano's."""
    timeout_seconds: Duration | None = None
    """A Job of the entry that takes longer is terminated, and counts as failed. Not Volcano's."""
    allow_failure: bool = False
    """The flow may succeed although this entry failed. Not Volcano's."""

    @property
    def source(self) -> str:
        """The name of its JobTemplate."""
        return self.template or self.name

    @property
    def targets(self) -> tuple[str, ...]:
        """The entries it depends on."""
        return (self.depends_on.targets or ()) if self.depends_on else ()

    @property
    def probe(self) -> FlowProbe | None:
        """The probe of its targets, None without one."""
        probe = self.depends_on.probe if self.depends_on else None
        return probe if probe and probe.tasks else None


class JobFlowSpec(Model):
    """Jobs, and in which order they run."""

    flows: Items[FlowEntry] = ()
    """The entries."""
    job_retain_policy: Literal["retain", "delete"] | None = None
    """delete: the Jobs of a flow that succeeded are deleted."""
    parameters: dict[str, str] | None = None
    """Variables of every container, and values for expressions and patches. Not Volcano's."""
    parallelism: Positive | None = None
    """Most Jobs at once. Not Volcano's."""
    suspend: bool | None = None
    """Nothing new starts; Jobs that run go on. Not Volcano's."""
    cancel: bool | None = None
    """Nothing new starts, and Jobs that run are terminated. Not Volcano's."""
    ttl_seconds_after_finished: Seconds | None = None
    """The flow and its Jobs are deleted so long after its end. Not Volcano's."""
    schedule: str | None = None
    """The flow itself runs nothing, but makes a flow without a schedule whenever this cron schedule fires."""
    time_zone: str | None = None
    """IANA name; default UTC."""
    starting_deadline_seconds: Natural | None = None
    """A run that could not start for so long is missed."""
    concurrency_policy: ConcurrencyPolicy = "Allow"
    """The handling of a run that is due while another is at work."""
    successful_flows_history_limit: Natural = 3
    """Flows that succeeded to keep, of a flow with a schedule."""
    failed_flows_history_limit: Natural = 1
    """Flows that failed to keep, of a flow with a schedule."""


class FlowState(Model):
    """The phase of the flow."""

    phase: str | None = None
    """Pending, Running, Succeed, Failed, Terminating, Terminated; of a flow with a schedule Scheduled."""
    reason: str | None = None
    """One word for the cause."""
    message: str | None = None
    """The cause in a sentence."""


class RunHistoryEntry(Model):
    """A Job in one phase."""

    start_timestamp: Instant | None = None
    """When the phase began."""
    end_timestamp: Instant | None = None
    """When it ended."""
    state: str | None = None
    """The phase of the Job."""


class FlowJobStatus(Model):
    """The history of one Job of the flow."""

    name: str
    """Name of the Job."""
    state: str | None = None
    """Phase of the Job."""
    start_timestamp: Instant | None = None
    """When the Job was created."""
    end_timestamp: Instant | None = None
    """When it ended."""
    restart_count: int | None = None
    """How often it restarted."""
    running_histories: Items[RunHistoryEntry] | None = None
    """Its phases, the newest 50."""


class FlowJobCondition(Model):
    """The present state of one Job of the flow."""

    phase: str | None = None
    """Phase of the Job."""
    create_time: Instant | None = None
    """When it was created."""
    running_duration: str | None = None
    """How long it ran."""
    task_status_count: dict[str, TaskStatus] | None = None
    """Pods by task and phase."""


class EntryStatus(Model):
    """The track of one entry or item; it outlives its Job."""

    phase: str | None = None
    """The Job's phase, Retrying between two Jobs, Skipped."""
    job: str | None = None
    """Name of its Job."""
    attempts: int | None = None
    """Number of Jobs created for it."""
    before: int | None = None
    """Number of those created before the last retry request."""
    start_time: Instant | None = None
    """When its first Job was created."""
    completion_time: Instant | None = None
    """When it ended."""
    retry_time: Instant | None = None
    """When its next attempt starts."""
    reason: str | None = None
    """One word for the cause."""
    message: str | None = None
    """The cause in a sentence."""
    stale: bool | None = None
    """Its Job's input is replaced by a retry: the entry starts over when that Job ends."""


class JobFlowStatus(Model):
    """The observed state of the flow. `state` and everything after it is not Volcano's."""

    pending_jobs: Items[str] | None = None
    """Jobs that wait."""
    running_jobs: Items[str] | None = None
    """Jobs that run."""
    failed_jobs: Items[str] | None = None
    """Jobs that failed."""
    completed_jobs: Items[str] | None = None
    """Jobs that completed."""
    terminated_jobs: Items[str] | None = None
    """Jobs that were terminated."""
    un_know_jobs: Annotated[Items[str] | None, Field(alias="unKnowJobs")] = None
    """Jobs in an unknown phase; Volcano's spelling."""
    job_status_list: Items[FlowJobStatus] | None = None
    """The history of the newest 1000 Jobs."""
    conditions: dict[str, FlowJobCondition] | None = None
    """By Job."""
    state: FlowState | None = None
    """The phase, and its cause."""
    entries: dict[str, EntryStatus] | None = None
    """By entry, or by entry and item."""
    flow_conditions: Items[StatusCondition] | None = None
    """Ready: everything that could start has started, or the reason why not."""
    start_time: Instant | None = None
    """When the first Job was created."""
    completion_time: Instant | None = None
    """When the flow ended."""
    retried: str | None = None
    """The last handled value of the annotation penstock.dev/retry."""
    active: Items[str] | None = None
    """Of a flow with a schedule: the flows that are at work."""
    last_schedule_time: Instant | None = None
    """The newest run of a flow with a schedule."""
    next_schedule_time: Instant | None = None
    """Its next run."""
    observed_schedule: str | None = None
    """The schedule of the last decision, with its zone."""
    schedule_edit_time: Instant | None = None
    """When the schedule was last edited: slots before it were never due."""
    observed_generation: int | None = None
    """The generation of the spec that this status is about."""


class JobFlow(Model):
    """One JobFlow."""

    spec: JobFlowSpec


def parse(body: Object) -> JobFlow:
    """Returns the typed JobFlow. Raises UserError that names the object and every wrong field."""
    return model.parse(JobFlow, JOB_FLOW, body)


def probed(probe: HttpGet | TcpSocket, job: str) -> str:
    """Returns the name of a probe's sample for a Job's pods."""
    if isinstance(probe, TcpSocket):
        return f"tcp://{job}/{probe.task_name}:{probe.port}"
    header = f" {probe.http_header.name}={probe.http_header.value}" if probe.http_header else ""
    return f"http://{job}/{probe.task_name}:{probe.port}{probe.path}{header}"
