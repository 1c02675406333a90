"""`bus.volcano.sh/v1alpha1` Command as a typed model: a request to a Job or a Queue, consumed once.

It has no spec: what is wished stands beside the metadata. An action that the target does not know is reported there.
"""

from workers.api.model import Model


class CommandTarget(Model):
    """The object of the request, as an owner reference."""

    api_version: str
    """API version of the target."""
    kind: str
    """Kind of the target."""
    name: str
    """Name of the target."""
    uid: str
    """UID of the target; a Command for an earlier object of its name has no effect."""
    controller: bool | None = None
    """Kept."""
    block_owner_deletion: bool | None = None
    """Kept."""


class CommandFields(Model):
    """The fields beside the metadata."""

    action: str | None = None
    """Of a Job: AbortJob, ResumeJob, RestartJob, RestartTask, TerminateJob or CompleteJob. Of a Queue: OpenQueue,
    CloseQueue or SyncQueue."""
    target: CommandTarget | None = None
    """The object that the Command is for."""
    reason: str | None = None
    """Why, for people."""
    message: str | None = None
    """The same in a sentence."""
