"""History clean-up: the oldest finished Jobs beyond the limits are deleted."""

from collections.abc import Iterable

from workers.api.kinds import Object, ref_of
from workers.controllers.batch.cronjob import ending
from workers.decision.plan import Delete, RecordEvent, Together


def clean_up(finished: Iterable[Object], succeeded: int | None, failed: int | None) -> Together | None:
    """Deletes the oldest finished Jobs beyond the limits; None if there are none. A limit of None keeps all."""
    # No limit applies to Volcano's terminated Jobs.
    kept: dict[str | None, list[Object]] = {"Complete": [], "Failed": [], "Terminated": []}
    for job in finished:
        if not job["metadata"].get("deletionTimestamp"):
            kept[ending.finished(job)].append(job)
    surplus = [*_oldest(kept["Complete"], succeeded), *_oldest(kept["Failed"], failed)]
    return deletion(surplus, vital=False) if surplus else None


def deletion(jobs: list[Object], *, vital: bool) -> Together:
    """Deletes these Jobs with one Event. vital: a failure stops the plan."""
    subject = f"job {jobs[0]['metadata']['name']}" if len(jobs) == 1 else "{done} jobs"
    return Together(
        tuple(Delete(ref_of(ending.kind_of(job), job), job["metadata"]["uid"]) for job in jobs),
        then=RecordEvent("Normal", "SuccessfulDelete", f"Deleted {subject}"),
        otherwise=RecordEvent("Warning", "FailedDelete", "Deleted job: {error}"),
        vital=vital,
    )


def _oldest(jobs: list[Object], limit: int | None) -> list[Object]:
    surplus = 0 if limit is None else max(0, len(jobs) - limit)
    return sorted(jobs, key=_age)[:surplus]


def _age(job: Object) -> tuple[bool, str, str]:
    """Returns Kubernetes' order: by start, unstarted ones last, then by name. RFC 3339 in UTC sorts by time."""
    started = ending.started(job)
    return (started is None, started or "", job["metadata"]["name"])
