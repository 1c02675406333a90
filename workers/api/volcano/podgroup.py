"""`scheduling.volcano.sh/v1beta1` PodGroup as a typed model: pods that start together or not at all.

Its status is no subresource: it is written with the rest of the object. What Volcano does not have says so.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from workers.api import model
from workers.api.kinds import POD_GROUP, Object
from workers.api.model import Items, Model, Natural, Positive
from workers.api.references import DEFAULT_QUEUE
from workers.api.volcano.job import Count, Instant, JobMetadata, NetworkTopology
from workers.api.volcano.resources import Resources

#: The reason of the condition Unschedulable of a group whose waiting limit is over.
GIVEN_UP = "WaitingLimitExceeded"


class SubGroup(Model):
    """A gang within the gang. Kept for schedulers that know about it."""

    name: str | None = None
    """Name of the group of partitions."""
    label_selector: dict[str, Any] | None = None
    """Its pods, by labels."""
    match_label_keys: Items[str] | None = None
    """Labels whose values tell its groups apart."""
    sub_group_size: Positive | None = None
    """Pods of one group."""
    min_sub_groups: Natural | None = None
    """Groups that must start together."""
    network_topology: NetworkTopology | None = None
    """How close the pods of one group must be."""


class PodGroupSpec(Model):
    """The number of pods that must start together, and their resources."""

    min_member: Count = 0
    """Pods that must start together."""
    min_task_member: dict[str, Count] | None = None
    """By task, how many of its pods."""
    min_task_pods: dict[str, Count] | None = None
    """By task, how many of its pods make up the least gang; default minTaskMember. Not Volcano's."""
    min_task_resources: dict[str, Resources] | None = None
    """By task, what one of its pods asks for: with it the pods are fitted to nodes one by one. Not Volcano's."""
    min_task_placement: dict[str, dict[str, Any]] | None = None
    """By task, the part of its pods' spec that says where they may go. Not Volcano's."""
    queue: Annotated[str, Field(max_length=253)] = DEFAULT_QUEUE
    """The queue that admits it; default `default`."""
    priority_class_name: str | None = None
    """Priority among gangs of its queue."""
    min_resources: Resources | None = None
    """The resources of the least number of pods; the group waits for them. Default: no wait."""
    network_topology: NetworkTopology | None = None
    """How close its pods must be."""
    sub_group_policy: Items[SubGroup] | None = None
    """Groups among its pods."""


class PodGroupCondition(Model):
    """The reason why the group waits, or that it is whole."""

    type: str | None = None
    """Unschedulable or Scheduled."""
    status: str | None = None
    """Unknown is neither: it could not be found out."""
    transition_id: str | None = Field(None, alias="transitionID")
    """Id of the decision."""
    last_transition_time: Instant | None = None
    """When its status changed last."""
    reason: str | None = None
    """One word for programs."""
    message: str | None = None
    """A sentence for people."""


class AdmissionBackOff(Model):
    """The last admission after which the pods got no nodes. Not Volcano's."""

    count: int
    """Number in a row."""
    since: Instant
    """When it backed out."""
    until: Instant
    """Not before this instant is it admitted again."""
    reclaimed: bool | None = None
    """The gang made room for one of another queue."""


class AdmissionGrant(Model):
    """The admitted part of the group's demand. Not Volcano's."""

    min_member: Count = 0
    """Pods that it was admitted with."""
    min_resources: Resources | None = None
    """Resources that it was admitted with."""


class PodGroupStatus(Model):
    """The observed state of the group. Not Volcano's: allocated, admitted, admittedFor, backOff."""

    phase: Literal["", "Pending", "Inqueue", "Running", "Unknown", "Completed"] | None = None
    """Pending, Inqueue, Running, Completed or Unknown."""
    conditions: Items[PodGroupCondition] | None = None
    """Scheduled, Unschedulable, Enforced."""
    running: int | None = None
    """Pods that run."""
    succeeded: int | None = None
    """Pods that succeeded."""
    failed: int | None = None
    """Pods that failed."""
    allocated: Resources | None = None
    """The resources that its pods take of nodes."""
    admitted: Instant | None = None
    """The time of its admission."""
    admitted_for: AdmissionGrant | None = None
    """The admitted demand, until the gang is whole; a larger demand is checked again."""
    back_off: AdmissionBackOff | None = None
    """Why it waits before it is checked again."""


class PodGroup(Model):
    """One PodGroup. Its status is not read through this model: decisions compare it as it was written."""

    metadata: JobMetadata
    spec: PodGroupSpec = PodGroupSpec()


def parse(body: Object) -> PodGroup:
    """Returns the typed PodGroup. Raises UserError that names the object and every wrong field."""
    return model.parse(PodGroup, POD_GROUP, body)
