"""batch/v1 Job: one module per rule, and `decide`, which puts them in order."""

from workers.controllers.batch.job.decide import controller, decide
from workers.controllers.batch.job.orphans import controller as orphans
from workers.controllers.batch.job.ownership import BUILT_IN, MANAGER

__all__ = ["BUILT_IN", "MANAGER", "controller", "decide", "orphans"]
