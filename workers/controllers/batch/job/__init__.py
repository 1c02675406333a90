"""The controller of batch/v1 Jobs: `decide` orders the stages, one module per rule.

The registry imports the controllers; Volcano's Jobs use `indexes`, apps/v1 uses `pods.rank`.
"""

from workers.controllers.batch.job.decide import controller, decide
from workers.controllers.batch.job.orphans import controller as orphans
from workers.controllers.batch.job.spec import BUILT_IN, MANAGER

__all__ = ["BUILT_IN", "MANAGER", "controller", "decide", "orphans"]
