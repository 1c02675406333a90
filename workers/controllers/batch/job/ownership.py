"""Which batch/v1 Jobs are ours."""

from collections.abc import Callable
from typing import Literal

from workers.api.kinds import Object

#: The value of `spec.managedBy` that gives a Job to this controller.
MANAGER = "penstock.dev/job-controller"
#: The value that gives it to the cluster's own controller, the same as none at all.
BUILT_IN = "kubernetes.io/job-controller"

#: ``managed``: only Jobs whose `spec.managedBy` names us. ``all``: also those that name nobody or the cluster's
#: built-in controller. A Job that names another manager is never ours.
Jobs = Literal["managed", "all"]


def ours(jobs: Jobs) -> Callable[[Object], bool]:
    """Whether a Job is ours to manage."""
    managers = {MANAGER} if jobs == "managed" else {MANAGER, BUILT_IN, None}

    def accepts(body: Object) -> bool:
        return body["spec"].get("managedBy") in managers

    return accepts
