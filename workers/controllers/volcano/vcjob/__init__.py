"""Volcano's Job: tasks of pods that start together and share one fate. One module per rule, and `decide`."""

from workers.controllers.volcano.vcjob.controlling import controller
from workers.controllers.volcano.vcjob.decide import decide

__all__ = ["controller", "decide"]
