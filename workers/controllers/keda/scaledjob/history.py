"""Which finished Jobs to remove."""

from collections.abc import Iterable

from workers.api.keda.scaledjob import ScaledJobSpec
from workers.api.kinds import Object, Ref
from workers.controllers import conditions
from workers.reconcile.plan import Delete, Together
from workers.reconcile.snapshot import CachedObject

#: Finished Jobs of either kind that KEDA keeps when the manifest says nothing.
LIMIT = 100


def clean_up(spec: ScaledJobSpec, jobs: Iterable[CachedObject]) -> Together | None:
    """Delete the oldest finished Jobs beyond the limits, or None when there are none.

    Failed ones go by the time they failed; in KEDA their order is left to chance.
    """
    finished: dict[str, list[tuple[Ref, Object]]] = {"Complete": [], "Failed": []}
    for entry in jobs:
        if entry.body is not None and (how := conditions.finished(entry.body)):
            finished[how].append((entry.ref, entry.body))
    doomed = (
        *_oldest(finished["Complete"], "Complete", spec.successful_jobs_history_limit),
        *_oldest(finished["Failed"], "Failed", spec.failed_jobs_history_limit),
    )
    return Together(doomed) if doomed else None


def _oldest(jobs: list[tuple[Ref, Object]], how: str, limit: int | None) -> list[Delete]:
    """The deletes that leave `limit` Jobs, counting none that are being deleted already."""
    staying = [(ref, body) for ref, body in jobs if not body["metadata"].get("deletionTimestamp")]
    surplus = len(staying) - (LIMIT if limit is None else limit)
    if surplus <= 0:
        return []
    staying.sort(key=lambda job: (_ended(job[1], how), job[0].name))
    return [Delete(ref, body["metadata"]["uid"]) for ref, body in staying[:surplus]]


def _ended(job: Object, how: str) -> str:
    """When a finished Job ended: RFC 3339 in UTC, so that the text sorts by time."""
    condition = conditions.find(job, how) or {}
    completed = job["status"].get("completionTime") if how == "Complete" else None
    return str(completed or condition.get("lastTransitionTime") or "")
