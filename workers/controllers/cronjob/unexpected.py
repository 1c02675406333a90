"""Jobs that name the object as their controller and were not made by us, as `kubectl create job --from` makes them.

As in Kubernetes they run beside everything else: no policy looks at them, but history clean-up does.
"""

from workers.api.kinds import JOB, Object, ref_of
from workers.controllers import conditions
from workers.plan import Patch, Record, Together

#: Put on a Job that was told of, so that it is not told of again.
TOLD = "penstock.dev/unexpected"


def tell(others: tuple[Object, ...]) -> list[Together]:
    """Tell of each that is at work, once. The next decision is early enough for one that changed meanwhile."""
    return [
        Together(
            (Patch(ref_of(JOB, job), {"metadata": {"annotations": {TOLD: "true"}}}, metadata["resourceVersion"]),),
            then=Record(
                "Warning", "UnexpectedJob", f"Saw a job that the controller did not create: {metadata['name']}"
            ),
            vital=False,
        )
        for job in others
        if not conditions.finished(job) and TOLD not in ((metadata := job["metadata"]).get("annotations") or {})
    ]
