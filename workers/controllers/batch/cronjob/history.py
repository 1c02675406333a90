"""Which finished Jobs to remove."""

from collections.abc import Iterable

from workers.api.kinds import Object, ref_of
from workers.controllers.batch.cronjob import ending
from workers.reconcile.plan import Delete, RecordEvent, Together


def clean_up(finished: Iterable[Object], succeeded: int | None, failed: int | None) -> Together | None:
    """Delete the oldest finished Jobs beyond the limits, succeeded ones first; None when there are none.

    succeeded, failed: how many to keep, None for all of them.
    """
    # Volcano's Jobs that were terminated are history, and stay.
    kept: dict[str | None, list[Object]] = {"Complete": [], "Failed": [], "Terminated": []}
    for job in finished:
        if not job["metadata"].get("deletionTimestamp"):
            kept[ending.finished(job)].append(job)
    doomed = [*_oldest(kept["Complete"], succeeded), *_oldest(kept["Failed"], failed)]
    return deletion(doomed, vital=False) if doomed else None


def deletion(jobs: list[Object], *, vital: bool) -> Together:
    """Delete these Jobs and tell of it. vital: nothing else may be done when that fails."""
    said = f"job {jobs[0]['metadata']['name']}" if len(jobs) == 1 else "{done} jobs"
    return Together(
        tuple(Delete(ref_of(ending.kind_of(job), job), job["metadata"]["uid"]) for job in jobs),
        then=RecordEvent("Normal", "SuccessfulDelete", f"Deleted {said}"),
        otherwise=RecordEvent("Warning", "FailedDelete", "Deleting a job failed: {error}"),
        vital=vital,
    )


def _oldest(jobs: list[Object], limit: int | None) -> list[Object]:
    surplus = 0 if limit is None else max(0, len(jobs) - limit)
    return sorted(jobs, key=_age)[:surplus]


def _age(job: Object) -> tuple[bool, str, str]:
    """Kubernetes' order: by start, those that never started last, then by name. RFC 3339 in UTC sorts by time."""
    started = ending.started(job)
    return (started is None, started or "", job["metadata"]["name"])
