"""Volcano's Job: tasks of pods that start together and share one fate. One module per rule, and `decide`."""

from workers.controllers.volcano.job.controlling import controller
from workers.controllers.volcano.job.decide import decide

__all__ = ["controller", "decide"]
