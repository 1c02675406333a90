"""`bus.volcano.sh/v1alpha1` Command as a typed model: a request to a Job or a Queue, consumed once.

It has no spec: what is wished stands beside the metadata. An action that the target does not know is reported there.
"""

from workers.api.model import Model


class CommandTarget(Model):
    """The object of the request, as an owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class CommandFields(Model):
    """The fields beside the metadata."""

    action: str | None = None
    """Of a Job: AbortJob, ResumeJob, RestartJob, RestartTask, TerminateJob or CompleteJob. Of a Queue: OpenQueue,
    CloseQueue or SyncQueue."""
    target: CommandTarget | None = None
    reason: str | None = None
    message: str | None = None
