"""Volcano's Job: tasks of pods that start together and share one fate. One module per rule, and `decide`."""

from workers.controllers.volcano.job.decide import controller, decide

__all__ = ["controller", "decide"]
