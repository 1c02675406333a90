"""What becomes of steps that are carried out side by side when some of them fail."""

from collections.abc import Iterable, Sequence

from workers.errors import ClusterError, Conflict, Forbidden
from workers.reconcile.plan import Together


def stop(stage: Together, errors: Iterable[Exception]) -> bool:
    """Whether no further step of the stage is tried: a refusal says something of the others, or nobody answers."""
    if stage.meanwhile is None:
        return True
    return any(not (isinstance(error, ClusterError) and error.status) or is_terminating(error) for error in errors)


def worst(errors: Sequence[Exception]) -> Exception | None:
    """What a stage fails with, if anything: a lost lease or what nobody foresaw, before what the API server refused.

    Of refusals it is the first, and waits for as long as any of them has to.
    """
    refused = [error for error in errors if isinstance(error, ClusterError)]
    if len(refused) < len(errors) or not refused:
        return next((error for error in errors if not isinstance(error, ClusterError)), None)
    refused[0].retry_after = longest(refused)
    return refused[0]


def longest(errors: Iterable[ClusterError]) -> float | None:
    """The seconds after which all of these may be tried again, if any of them says so."""
    return max((error.retry_after for error in errors if error.retry_after is not None), default=None)


def is_everyday(error: ClusterError) -> bool:
    """Whether nobody need be told: somebody else wrote at the same time, and it is decided on afresh."""
    return isinstance(error, Conflict) or is_terminating(error)


def is_terminating(error: Exception) -> bool:
    """Nothing can be made in a namespace that is being deleted."""
    return isinstance(error, Forbidden) and error.namespace_terminating
