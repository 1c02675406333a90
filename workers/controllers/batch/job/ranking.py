"""Which active pods go first when there are too many."""

from collections.abc import Iterable
from datetime import UTC, datetime

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.batch.job import containers
from workers.controllers.batch.job.pods import phase_of

_LATEST = datetime.max.replace(tzinfo=UTC)
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def rank(pod: Object) -> tuple[object, ...]:
    """Kubernetes' order, as a sort key; the lowest goes first.

    Without a node, then by phase, then not ready, then ready for a shorter time, then more restarts (of one regular
    container, then of one that runs beside them), then younger.
    """
    ready = conditions.find(pod, "Ready") or {}
    is_ready = ready.get("status") == "True"
    since = _instant(ready.get("lastTransitionTime")) if is_ready else _LATEST
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.get(phase_of(pod), 1),
        is_ready,
        -since.timestamp(),
        -_most_restarts(containers.regular(pod)),
        -_most_restarts(containers.restartable(pod)),
        -_instant(pod["metadata"].get("creationTimestamp")).timestamp(),
        pod["metadata"]["name"],
    )


def _most_restarts(statuses: Iterable[Object]) -> int:
    return max((each.get("restartCount") or 0 for each in statuses), default=0)


def _instant(text: str | None) -> datetime:
    return times.parse(text) if text else _LATEST
