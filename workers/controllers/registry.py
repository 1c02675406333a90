"""Which controllers there are."""

from collections.abc import Mapping
from typing import Literal

from workers.controller import Controller
from workers.controllers import job, scaledjob


def controllers(jobs: Literal["managed", "all"]) -> Mapping[str, Controller]:
    """All controllers by the id of their kind. jobs: which batch/v1 Jobs are ours, see `job.controller`."""
    known = (scaledjob.CONTROLLER, job.controller(jobs))
    return {controller.kind.id: controller for controller in known}
