"""Jobs that name the object as their controller and were not made by us, as `kubectl create job --from` makes them.

As in Kubernetes they run beside everything else: no policy looks at them, but history clean-up does.
"""

from workers.api.kinds import Object, ref_of
from workers.controllers.batch.cronjob import ending
from workers.reconcile.plan import Patch, RecordEvent, Together

#: Put on a Job that was told of, so that it is not told of again.
TOLD = "penstock.dev/unexpected"


def tell(others: tuple[Object, ...], reason: str) -> list[Together]:
    """Tell of each that is at work, once. The next decision is early enough for one that changed meanwhile."""
    return [_told(job, reason) for job in others if not ending.finished(job) and TOLD not in _annotations(job)]


def _told(job: Object, reason: str) -> Together:
    metadata, ref = job["metadata"], ref_of(ending.kind_of(job), job)
    return Together(
        (Patch(ref, {"metadata": {"annotations": {TOLD: "true"}}}, metadata["resourceVersion"]),),
        then=RecordEvent("Warning", reason, f"Saw a job that the controller did not create: {metadata['name']}"),
        vital=False,
    )


def _annotations(job: Object) -> Object:
    return job["metadata"].get("annotations") or {}
