"""batch/v1 Job: one module per rule, and `decide`, which puts them in order."""

from workers.controllers.job.decide import BUILT_IN, MANAGER, controller, decide

__all__ = ["BUILT_IN", "MANAGER", "controller", "decide"]
