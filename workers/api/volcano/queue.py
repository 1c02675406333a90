"""`scheduling.volcano.sh/v1beta1` Queue as a typed model: everything Volcano 1.8 and today's accept.

What a schema cannot say is checked in workers/admission/volcano/queue.py. Fields that Volcano does not have say so.
"""

from typing import Annotated, Literal

from pydantic import Field

from workers.api import model
from workers.api.kinds import QUEUE, Object
from workers.api.model import Items, Model, Natural
from workers.api.volcano.job import Count, JobMetadata
from workers.api.volcano.resources import Resources


class Guarantee(Model):
    """Resources that stay free for a queue even while it does not need them."""

    resource: Resources | None = None
    """Amounts that are kept for it."""


class Extended(Model):
    """Another cluster that jobs of the queue may be forwarded to. Kept for those who forward."""

    name: str | None = None
    """Name of the cluster."""
    weight: int | None = None
    """Kept, without effect here."""
    capacity: Resources | None = None
    """Kept, without effect here."""


class NodeGroups(Model):
    """Groups of nodes, by name."""

    required_during_scheduling_ignored_during_execution: Items[str] | None = None
    """Kept, without effect here."""
    preferred_during_scheduling_ignored_during_execution: Items[str] | None = None
    """Kept, without effect here."""


class Affinity(Model):
    """The node groups for the queue's pods, for schedulers that know node groups."""

    node_group_affinity: NodeGroups | None = None
    """Kept, without effect here."""
    node_group_anti_affinity: NodeGroups | None = None
    """Kept, without effect here."""


class QueueSpec(Model):
    """The part of the cluster that the work of a queue may take."""

    weight: Annotated[int, Field(ge=1, le=65535)] = 1
    """The queue's share, in proportion to its siblings' weights."""
    capability: Resources | None = None
    """The most it may ever take; 0 of cpu or memory is no limit, as in Volcano."""
    reclaimable: bool | None = None
    """With the setting `gang_reclaim`: what it has above its share can be taken back."""
    guarantee: Guarantee | None = None
    """Amounts that are kept for it."""
    extend_clusters: Items[Extended] | None = None
    """Kept, without effect here."""
    type: str | None = None
    """Kept, without effect here."""
    affinity: Affinity | None = None
    """Kept, without effect here."""
    parent: Annotated[str, Field(max_length=253)] | None = None
    """The queue that this one is a part of; default `root`."""
    deserved: Resources | None = None
    """The resources it is owed while others wait; instead of the weight."""
    priority: Natural | None = None
    """Queues of higher priority are served first."""
    dequeue_strategy: Literal["traverse", "fifo"] | None = None
    """fifo: no group overtakes the first that waits. traverse: any group that fits may."""
    max_running_jobs: Count | None = None
    """Most PodGroups that are admitted and not completed at once; default any number. Not Volcano's."""


class QueueReservation(Model):
    """Nodes that a scheduler has set aside for the queue."""

    nodes: Items[str] | None = None
    """Kept, without effect here."""
    resource: Resources | None = None
    """Kept, without effect here."""


class QueueStatus(Model):
    """The state, and the queue's PodGroups by phase."""

    state: Literal["", "Open", "Closed", "Closing", "Unknown"] | None = None
    """Open, Closing, Closed or Unknown."""
    pending: int | None = None
    """PodGroups that wait."""
    running: int | None = None
    """PodGroups that run."""
    unknown: int | None = None
    """PodGroups in an unknown phase."""
    inqueue: int | None = None
    """PodGroups that are admitted."""
    completed: int | None = None
    """PodGroups that have completed."""
    allocated: Resources | None = None
    """The resources taken by the pods of this queue and the queues below it."""
    levels: int | None = None
    """Levels of queues from this one down, where there are any below it. Not Volcano's."""
    reservation: QueueReservation | None = None
    """Kept, without effect here."""
    handled: Items[str] | None = None
    """Uids of Commands that have taken effect. Not Volcano's."""
    observed_generation: int | None = None
    """The generation of the spec that other keys were last notified of. Not Volcano's."""


class Queue(Model):
    """One Queue. Its status is not read through this model: decisions compare it as it was written."""

    metadata: JobMetadata
    spec: QueueSpec = QueueSpec()


def parse(body: Object) -> Queue:
    """Returns the typed Queue. Raises UserError that names the object and every wrong field."""
    return model.parse(Queue, QUEUE, body)
