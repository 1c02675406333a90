"""Which finished Jobs to remove."""

from collections.abc import Iterable

from workers.api.kinds import Object
from workers.api.scaledjob import Spec
from workers.controllers import conditions
from workers.plan import Delete, Together
from workers.snapshot import Entry

#: Finished Jobs of either kind that KEDA keeps when the manifest says nothing.
LIMIT = 100


def clean_up(spec: Spec, jobs: Iterable[Entry]) -> Together | None:
    """Delete the oldest finished Jobs beyond the limits, or None when there are none.

    Failed ones go by the time they failed; in KEDA their order is left to chance.
    """
    finished: dict[str, list[tuple[str, Entry, Object]]] = {"Complete": [], "Failed": []}
    for entry in jobs:
        if entry.body is None or entry.body["metadata"].get("deletionTimestamp"):
            continue
        if how := conditions.finished(entry.body):
            finished[how].append((_ended(entry.body, how), entry, entry.body))
    limits = {"Complete": spec.successful_jobs_history_limit, "Failed": spec.failed_jobs_history_limit}
    doomed: list[Delete] = []
    for how, entries in finished.items():
        limit = limits[how]
        surplus = len(entries) - (LIMIT if limit is None else limit)
        entries.sort(key=lambda each: (each[0], each[1].ref.name))
        doomed += [Delete(entry.ref, body["metadata"]["uid"]) for _, entry, body in entries[: max(0, surplus)]]
    return Together(tuple(doomed)) if doomed else None


def _ended(job: Object, how: str) -> str:
    """When a finished Job ended: RFC 3339 in UTC, so that the text sorts by time."""
    condition = conditions.find(job, how) or {}
    completed = job["status"].get("completionTime") if how == "Complete" else None
    return str(completed or condition.get("lastTransitionTime") or "")
